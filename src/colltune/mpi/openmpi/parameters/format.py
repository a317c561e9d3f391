"""The format ``openmpi-parameters``: parameters that are in effect at once, in files of all kinds.

Read are ``mca-params.conf`` (``name = value``), files for ``mpirun --tune`` and
``mca_base_envar_file_prefix`` (``--mca name value``), and listings of an environment
(``OMPI_MCA_name=value``). What is written is one of the second kind, with forced single choices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.catalogue import CollectiveEntry, Limit
from colltune.mpi.file_format import (
    Format,
    Listed,
    Note,
    Written,
    absolute_path,
    refuse_dropped,
    text_at,
)
from colltune.mpi.job_variables import is_surely_script, mentions
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.decide.components import TUNED, han_serves
from colltune.mpi.openmpi.decide.han_calls import COMPONENTS
from colltune.mpi.openmpi.decide.tuned import number_of
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.mca import forcing_name
from colltune.mpi.openmpi.parameters import reading
from colltune.mpi.openmpi.parameters.reading import Setting
from colltune.mpi.openmpi.parameters.rules import NAME, ParameterFile, lint
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.openmpi.writing import Converter, chooser_of
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Entry,
    Fault,
    Finding,
    Layout,
    Rules,
    Severity,
)
from colltune.text import counted, printable

_FIRST_BYTES = 65536
_OPTION = re.compile(
    r"(?m)^[ \t]*+(?:--?o?mca[ \t]+[A-Za-z]"
    r"|(?:[^#{\n]*[ \t])?--?g?mca[ \t]+[a-z]\w+[ \t]+\S)"
)
_OWN = re.compile(
    r"(?m)^[ \t]*(?:coll|mca|pml|btl|mtl|osc|io|opal|ompi|orte|mpi|rmaps|plm|oob|hwloc|pmix|prte"
    r"|topo|op)(?:_[a-z0-9_]+)?[ \t]*="
)


class OpenMpiParameters(Format):
    name = NAME
    library = LIBRARY
    title = "Open MPI's parameters (mca-params.conf, --tune, environment)"
    single_algorithm = True
    lists_variables = True

    def recognises(self, text: str) -> bool:
        begin = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if _OPTION.search(begin) is not None or mentions(text, "OMPI_MCA_"):
            return True
        return _OWN.search(begin) is not None and not is_surely_script(begin)

    def parse(self, text: str, source: str, release: str) -> Rules:
        catalogue_of(release)
        settings = reading.read(text)
        if settings.script is not None and not settings.script.sets and settings.script.others:
            line = settings.script.others[0]
            told = printable(text.split("\n")[line - 1].strip()[:60])
            raise say("sets-no-parameter", file=source, line=line, told=told)
        if settings.others and not settings.found:
            line, other = settings.others[0]
            raise say("sets-no-parameter", file=source, line=line, told=other[:60])
        return ParameterFile(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParameterFile)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        return write(table, release, self, programs=programs)

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        """Return the parameters but those that switch rules on, which no file of rules needs."""
        assert isinstance(parsed, ParameterFile)
        switches = (mca.USE_RULES, mca.RULES_FILE)
        by_name = {mca.forcing_name(collective): collective for collective in Collective}
        found = []
        for each in parsed.read.found:
            stem = f"{each.name.partition('_algorithm')[0]}_algorithm"
            if each.name not in switches:
                found.append(Listed(each.line, each.text, by_name.get(stem)))
        unknown = parsed.read.script.found if parsed.read.script else []
        found += [
            Listed(each.line, f"{each.name} (which depends on {each.unknown})")
            for each in unknown
            if each.unknown and each.name.startswith(mca.PREFIX)
        ]
        return tuple(found)

    def convert(self, parsed: Rules, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed)
        return convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; the users' and the system's parameter files stay in effect.

        The variables of a script have to be set by themselves.
        """
        catalogue_of(release)
        path = absolute_path(paths[""], "a parameter file")
        if (text := text_at(path)) is not None and (read := reading.read(text)).script is not None:
            return mca.environment({setting.name: setting.value for setting in read.found})
        return mca.environment({"mca_base_envar_file_prefix": path})


def write(
    table: DecisionTable, release: str, form: Format, *, programs: Programs = ANY_LEGAL
) -> Written:
    """Return the choices of `table` for the whole job as forced ones (Fagg et al., sec. 5.4)."""
    chooser = chooser_of(form, release, table, programs)
    chosen = chooser.by_size(table)
    choices: dict[Collective, Configuration] = {}
    for entry in chosen:
        collective, choice = entry.collective, entry.rules[0].configuration
        where = f"{collective} on {entry.first_size} processes"
        assert choice is not None  # a chooser knows what it chooses
        if entry.first_size != table.shape.nprocs:
            chooser.notes.append(
                f"{where}: left out, because a forced algorithm holds for all communicators"
            )
        elif len(entry.rules) > 1:
            chooser.notes.append(
                f"{where}: left to the library, because a forced algorithm holds for all "
                f"message sizes, and the table has {counted(len(entry.rules), 'range')}"
            )
        elif _only_for_two(release, choice):
            chooser.notes.append(
                f"{where}: left to the library, because a forced algorithm holds for all "
                f"communicators, and {choice.id} ends programs on more than 2 processes"
            )
        else:
            choices[collective] = choice
    _drop_contradictions(release, choices, chooser.notes)
    for collective, shape in sorted(table.by_layout):
        chooser.notes.append(
            f"{collective} on {shape} processes: left out, because a forced algorithm holds "
            "for all layouts"
        )
    title = (
        f"# Open MPI parameters for {table.shape}, release {release}. Written by colltune for"
        f" {programs.phrase}.\n"
    )
    lines = _lines(release, choices, spans_nodes=table.shape.nodes > 1)
    text = title + "".join(f"--mca {line}\n" for line in lines)
    return Written(NAME, release, {"": text}, tuple(chooser.notes))


def _only_for_two(release: str, choice: Configuration) -> bool:
    if han_setups.is_setup(choice):
        return False
    return Limit.TWO_PROCESSES in OPENMPI.at(release).space.algorithm_of(choice).limits


def convert(parsed: Rules, release: str) -> Written:
    """Return what `parsed` says in all cases alike, or its parameters, for `release`."""
    if isinstance(parsed, ParameterFile):
        return _parameters(parsed, release)
    if not isinstance(parsed, TunedRules):
        raise say("format-cannot-express", file=parsed.source, name=NAME, format=parsed.format)
    converter = Converter(release)
    every = {c: _everywhere(converter, entries) for c, entries in parsed.entries.items()}
    choices = {c: choice for c, choice in every.items() if choice is not None}
    text = "".join(f"--mca {line}\n" for line in _lines(release, choices, spans_nodes=False))
    return Written(NAME, release, {"": text}, tuple(converter.notes))


def _lines(
    release: str, choices: dict[Collective, Configuration], *, spans_nodes: bool
) -> Iterator[str]:
    catalogue = catalogue_of(release)
    yield f"{mca.USE_RULES} 1"
    if choices:
        yield "coll_hcoll_enable 0"
    setups = {c: choice for c, choice in choices.items() if han_setups.is_setup(choice)}
    shared = [
        OPENMPI.han_setups(release).parameters(setup).items() for _, setup in sorted(setups.items())
    ]
    yield from dict.fromkeys(f"{name} {value}" for items in shared for name, value in items)
    for collective, choice in sorted(choices.items()):
        if collective in setups:
            continue
        space = OPENMPI.at(release).space
        algorithm = space.algorithm_of(choice)
        names = space.parameter_variables(collective, algorithm)
        yield f"{forcing_name(collective)} {algorithm.number}"
        yield from (f"{names[name]} {value}" for name, value in choice.parameters)
        outranked = catalogue.han_priority is not None and han_serves(catalogue, collective)
        if spans_nodes and outranked:
            # coll/han hands on these calls only; without it others would change, too
            module = f"coll_han_{collective}_dynamic_global_communicator_module"
            yield f"{module} {COMPONENTS.index(TUNED)}"


def _drop_contradictions(
    release: str, choices: dict[Collective, Configuration], notes: list[str]
) -> None:
    """Leave out setups of coll/han that want coll/adapt in another way than an earlier one."""
    told: dict[str, str] = {}
    for collective, choice in sorted(choices.items()):
        if not han_setups.is_setup(choice):
            continue
        wanted = OPENMPI.han_setups(release).parameters(choice)
        if any(told.get(name, value) != value for name, value in wanted.items()):
            notes.append(
                f"{collective}: left to the library, because {choice.id} and the setup of "
                "another collective need different settings of coll/adapt"
            )
            del choices[collective]
        else:
            told |= wanted


def _everywhere(converter: Converter, entries: tuple[Entry, ...]) -> Configuration | None:
    """Return the one choice of all rules of a collective; None, with notes, if there is none."""
    chosen = {rule.configuration for entry in entries for rule in entry.rules}
    if all(c is None or c.is_default for c in chosen):
        return None
    first = entries[0]
    everywhere = first.first_size <= 2 and first.last_size >= LARGEST_COMM_SIZE
    everything = everywhere and first.layout is Layout.ANY and len(first.rules) == 1
    if not everything or first.rules[0].first > 0 or first.rules[0].last < LARGEST_SIZE:
        converter.note(
            first,
            f"{first.collective} is left to the library, because a forced algorithm holds for "
            "all communicators and message sizes",
        )
        return None
    found = converter.target(first.rules[0], 0, None)
    return None if found.is_default else found


def _parameters(parsed: ParameterFile, release: str) -> Written:
    """Return the parameters of a file again, as far as `release` has them."""
    catalogue = catalogue_of(release)
    notes: list[Note] = []
    kept: dict[str, Setting] = {}
    entries = {forcing_name(entry.collective): entry for entry in catalogue.collectives.values()}
    for setting in parsed.read.found:
        if not setting.name:
            what = f"-x {setting.foreign or setting.value} is left out"
            notes.append(Note(setting.line, setting.foreign, what))
            continue
        entry = entries.get(setting.name)
        why = _lost(parsed, release, entry, setting) if entry is not None else _blanks(setting)
        if why:
            notes.append(_left_out(setting, why))
        else:
            kept[setting.name] = setting
    _without_errors(parsed, release, kept, notes)
    notes += [
        Note(kept[name].line, name, f"also convert {kept[name].value[:80]}")
        for name in (mca.RULES_FILE, mca.HAN_RULES_FILE)
        if name in kept
    ]
    return Written(NAME, release, {"": _text(kept)}, tuple(notes))


def _left_out(setting: Setting, why: str) -> Note:
    return Note(setting.line, setting.name, f"{setting.text[:80]} is left out: {why}")


def _text(kept: dict[str, Setting]) -> str:
    return "".join(f"--mca {setting.name} {setting.value}\n" for setting in kept.values())


_USELESS = (Fault.UNKNOWN, Fault.NOT_ACTIVATED, Fault.MALFORMED)


def _without_errors(
    parsed: ParameterFile, release: str, kept: dict[str, Setting], notes: list[Note]
) -> None:
    """Leave out what has no effect or breaks programs, as often as that reveals more of it."""
    while True:
        again = ParameterFile(_text(kept), parsed.source, release)
        settings = list(kept.values())
        wrong = {
            finding.line: finding.message
            for finding in lint(again)
            if (finding.severity is Severity.ERROR or finding.fault in _USELESS) and finding.line
        }
        if not wrong:
            return
        for line, message in wrong.items():
            setting = settings[line - 1]
            notes.append(_left_out(setting, message[:200]))
            del kept[setting.name]


def _lost(parsed: ParameterFile, release: str, entry: CollectiveEntry, setting: Setting) -> str:
    """Return why a forced algorithm does not mean the same to `release`."""
    rule = parsed.forced.get(entry.collective)
    if rule is None or rule.configuration is None:
        return "" if number_of(entry, setting.value) == 0 else "it forces nothing"
    number = number_of(entry, setting.value)
    algorithm = entry.numbered(number) if number else None
    if algorithm is None:
        return f"{release} has no such algorithm"
    if algorithm.name != rule.configuration.algorithm:
        return f"{release} takes it for {algorithm.name}, not {rule.configuration.algorithm}"
    return ""


def _blanks(setting: Setting) -> str:
    text = setting.name + setting.value
    broken = not setting.value or any(c.isspace() or c in "\"'=" for c in text)
    return "an empty value, or one with blanks or quotes, cannot be written" if broken else ""
