"""Writes forced single choices, and parameters of another file again."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.catalogue import CollectiveEntry, Limit
from colltune.mpi.file_format import Fault, ParsedFile, Severity, Written
from colltune.mpi.openmpi import forced, han_setups, setup
from colltune.mpi.openmpi.choosing import TunedChooser, why_not_kept
from colltune.mpi.openmpi.components import han_serves
from colltune.mpi.openmpi.han_parts import COMPONENTS
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.parameters import lint
from colltune.mpi.openmpi.parameters.parsed import NAME, ParameterFile
from colltune.mpi.openmpi.parameters.reading import Setting
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    RangedFile,
)

_ENDS = {"segsize": "segmentsize", "requests": "max_requests"}


def write(table: DecisionTable, release: str, *, builtin_operations_only: bool = False) -> Written:
    """Return the choices of `table` for the whole job as forced ones (Fagg et al., sec. 5.4).

    One per collective holds for all its calls. Where the table has several, or says something of
    other communicators only, the collective is left to the library; the notes tell.
    """
    chooser = TunedChooser(release, builtin_operations_only=builtin_operations_only, setups=True)
    chosen = chooser.by_size(table)
    choices: dict[Collective, Configuration] = {}
    for (collective, comm_size), steps in chosen.items():
        where = f"{collective} on {comm_size} processes"
        if comm_size != table.shape.nprocs:
            chooser.notes.append(f"{where}: left out: what is forced holds for all communicators")
        elif len(steps) > 1:
            chooser.notes.append(
                f"{where}: left to the library: what is forced holds for all message sizes, and the"
                f" table has {len(steps)} ranges"
            )
        elif _only_for_two(release, steps[0].configuration):
            chooser.notes.append(
                f"{where}: left to the library: what is forced holds for all communicators, and"
                f" {steps[0].configuration.id} ends programs on more than 2 processes"
            )
        else:
            choices[collective] = steps[0].configuration
    _drop_contradictions(release, choices, chooser.notes)
    for collective, shape in sorted(table.by_layout):
        chooser.notes.append(
            f"{collective} on {shape} processes: left out: what is forced holds for all layouts"
        )
    title = f"# Open MPI parameters for {table.shape}, release {release}. Written by colltune.\n"
    lines = _lines(release, choices, spans_nodes=table.shape.nodes > 1)
    text = title + "".join(f"--mca {line}\n" for line in lines)
    return Written(NAME, release, {"": text}, tuple(chooser.notes))


def _only_for_two(release: str, choice: Configuration) -> bool:
    if han_setups.is_setup(choice):
        return False
    return Limit.TWO_PROCESSES in OPENMPI.at(release).space.algorithm_of(choice).limits


def convert(parsed: ParsedFile, release: str) -> Written:
    """Return what `parsed` says in all cases alike, or its parameters, for `release`."""
    if isinstance(parsed, ParameterFile):
        return _parameters(parsed, release)
    if not isinstance(parsed, RangedFile):
        raise LibraryError(
            f"{parsed.source}: what a file of {parsed.format} says cannot be said in {NAME}"
        )
    notes: list[str] = []
    choices: dict[Collective, Configuration] = {}
    for collective, entries in parsed.ranges.items():
        choice = _everywhere(release, collective, entries, notes)
        if choice is not None:
            choices[collective] = choice
    lines = _lines(release, choices, spans_nodes=False)
    return Written(NAME, release, {"": "".join(f"--mca {line}\n" for line in lines)}, tuple(notes))


def _lines(
    release: str, choices: dict[Collective, Configuration], *, spans_nodes: bool
) -> Iterator[str]:
    catalogue = catalogue_of(release)
    yield f"{setup.USE_RULES} 1"
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
        yield from forcing(catalogue.collectives[collective], choice)
        outranked = catalogue.han_priority is not None and han_serves(catalogue, collective)
        if spans_nodes and outranked:
            # coll/han hands on these calls only; without it others would change, too
            module = f"coll_han_{collective}_dynamic_global_communicator_module"
            yield f"{module} {COMPONENTS.index('tuned')}"


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
                f"{collective}: left to the library: {choice.id} wants coll/adapt, which is the"
                " same for all collectives, in another way than the setup of another one"
            )
            del choices[collective]
        else:
            told |= wanted


def forcing(entry: CollectiveEntry, choice: Configuration) -> Iterator[str]:
    """Yield ``name value`` of the parameters that force a canonical configuration."""
    algorithm = entry.named(choice.algorithm)
    assert algorithm is not None  # canonical configurations are in the catalogue
    stem = forced.stem(entry.collective)
    yield f"{stem} {algorithm.number}"
    ends = _ENDS | {"fanout": forced.fanout_name(entry.collective)}
    for name, value in choice.parameters:
        yield f"{stem}_{ends[name]} {value}"


def _everywhere(
    release: str,
    collective: Collective,
    entries: tuple[CommunicatorRange, ...],
    notes: list[str],
) -> Configuration | None:
    """Return the one choice of all rules of a collective; None, with notes, if there is none."""
    rules = [rule for entry in entries for rule in entry.rules if rule.known]
    chosen = {rule.rule.configuration for rule in rules}
    if all(c is None or c.is_default for c in chosen):
        return None
    whole = [
        entry
        for entry in entries
        if entry.first_size <= 2
        and entry.last_size >= LARGEST_COMM_SIZE
        and entry.distribution is Distribution.ANY
    ]
    everything = whole[:1] == list(entries[:1]) and len(whole[0].rules) == 1
    if not everything or whole[0].rules[0].first > 0 or whole[0].rules[0].last < LARGEST_SIZE:
        notes.append(
            f"line {entries[0].line}: {collective} is left to the library: what is forced holds for"
            " all communicators and message sizes"
        )
        return None
    rule = whole[0].rules[0].rule
    assert rule.configuration is not None  # it is known
    try:
        found = OPENMPI.at(release).space.canonical(rule.configuration)
        why = why_not_kept(OPENMPI.at(release).space.algorithm_of(found), 0, None)
    except LibraryError as error:
        why = str(error)
    if why:
        notes.append(f"line {rule.line}: {collective} is left to the library: {why}")
        return None
    return found


def _parameters(parsed: ParameterFile, release: str) -> Written:
    """Return the parameters of a file again, as far as `release` has them."""
    catalogue = catalogue_of(release)
    notes: list[str] = []
    kept: dict[str, Setting] = {}
    entries = {forced.stem(entry.collective): entry for entry in catalogue.collectives.values()}
    for setting in parsed.read.found:
        if not setting.name:
            notes.append(f"line {setting.line}: -x {setting.value} is left out")
            continue
        entry = entries.get(setting.name)
        why = _lost(parsed, release, entry, setting) if entry is not None else _blanks(setting)
        if why:
            notes.append(f"line {setting.line}: {setting.text[:80]} is left out: {why}")
        else:
            kept[setting.name] = setting
    _without_errors(parsed, release, kept, notes)
    notes += [
        f"line {kept[name].line}: convert {kept[name].value[:80]}, too"
        for name in (setup.RULES_FILE, setup.HAN_RULES_FILE)
        if name in kept
    ]
    return Written(NAME, release, {"": _text(kept)}, tuple(notes))


def _text(kept: dict[str, Setting]) -> str:
    return "".join(f"--mca {setting.name} {setting.value}\n" for setting in kept.values())


_USELESS = (Fault.UNKNOWN, Fault.NOT_ACTIVATED, Fault.MALFORMED)


def _without_errors(
    parsed: ParameterFile, release: str, kept: dict[str, Setting], notes: list[str]
) -> None:
    """Leave out what has no effect or breaks programs, as often as that reveals more of it."""
    while True:
        again = ParameterFile(_text(kept), parsed.source, release)
        settings = list(kept.values())
        wrong = {
            finding.line: finding.message
            for finding in lint.lint(again)
            if (finding.severity is Severity.ERROR or finding.fault in _USELESS) and finding.line
        }
        if not wrong:
            return
        for line, message in wrong.items():
            setting = settings[line - 1]
            notes.append(f"line {setting.line}: {setting.text[:80]} is left out: {message[:200]}")
            del kept[setting.name]


def _lost(parsed: ParameterFile, release: str, entry: CollectiveEntry, setting: Setting) -> str:
    """Return why a forced algorithm does not mean the same to `release`."""
    rule = parsed.forced.get(entry.collective)
    if rule is None or rule.configuration is None:
        return "" if forced.number_of(entry, setting.value) == 0 else "it forces nothing"
    number = forced.number_of(entry, setting.value)
    algorithm = entry.numbered(number) if number else None
    if algorithm is None:
        return f"{release} has no such algorithm"
    if algorithm.name != rule.configuration.algorithm:
        return f"to {release} it means {algorithm.name}, not {rule.configuration.algorithm}"
    return ""


def _blanks(setting: Setting) -> str:
    text = setting.name + setting.value
    broken = not setting.value or any(c.isspace() or c in "\"'=" for c in text)
    return "an empty value, or one with blanks or quotes, cannot be told" if broken else ""
