"""Writes forced single choices, and parameters of another file again."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration
from colltune.errors import say
from colltune.mpi.catalogue import CollectiveEntry, Limit
from colltune.mpi.file_format import Format, Note, Written
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.decide.components import TUNED, han_serves
from colltune.mpi.openmpi.decide.han_calls import COMPONENTS
from colltune.mpi.openmpi.decide.tuned import number_of
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.mca import forcing_name
from colltune.mpi.openmpi.parameters.lint import lint
from colltune.mpi.openmpi.parameters.parameter_file import NAME, ParameterFile
from colltune.mpi.openmpi.parameters.reading import Setting
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.openmpi.writing import Converter, chooser_of
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Entry,
    Fault,
    Layout,
    Rules,
    Severity,
)
from colltune.text import counted


def write(
    table: DecisionTable, release: str, form: Format, *, programs: Programs = ANY_LEGAL
) -> Written:
    """Return the choices of `table` for the whole job as forced ones (Fagg et al., sec. 5.4)."""
    chooser = chooser_of(form, release, programs)
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
