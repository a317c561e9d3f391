"""Writes files for coll/han: tables of components, rules of other files, dispatch to coll/tuned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.choosing import Chooser
from colltune.mpi.file_format import Note
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.decide.components import HAN, han_serves
from colltune.mpi.openmpi.decide.han_calls import HanLevel
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.han.rules import (
    NAME,
    LevelRules,
    algorithms,
    crashes,
    default_component,
    hiding,
    known_components,
    named_by,
    names_algorithms,
    parameters,
    rules_of,
    why_unreached,
)
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.mca import parameter_file
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.writing import Converter, Levels, Lines, exactly, han_text
from colltune.mpi.release import Release
from colltune.mpi.rules import Rule
from colltune.mpi.running import EVERYWHERE, Promises, RunningRange
from colltune.text import counted

_BY_RULES = ("coll_han_priority", "coll_han_use_")
_ONE_FILE = "Written by colltune. All ranks must read the same file."


def write(table: DecisionTable, release: str) -> tuple[str, tuple[str, ...]]:
    """Return the components that `table` names, for communicators of exactly its sizes."""
    chooser = _HanChooser(table, release)
    catalogue = chooser.catalogue
    found: dict[Collective, dict[int, Lines]] = {}
    for entry in chooser.by_size(table):
        lines = [(rule.first, _word(catalogue, rule)) for rule in entry.rules]
        found.setdefault(entry.collective, {})[entry.first_size] = lines
    layouts = (
        f"{collective} on {shape} processes: a file for coll/han cannot tell layouts apart"
        for collective, shape in sorted(table.by_layout)
    )
    content = {
        collective: exactly(found.get(collective, {}), default_component(catalogue, collective))
        for collective in (*found, *_named(catalogue, found))
    }
    heading = [
        f"Open MPI coll_han dynamic rules for {table.shape} (nodes x processes per node),"
        f" release {release}",
        _ONE_FILE,
    ]
    by_default = {default_component(catalogue, c) for c in (Collective.ALLREDUCE, Collective.BCAST)}
    if len(by_default) > 1:
        crash = f"{release} crashes when coll/han passes one on"
        heading.append(f"coll/han serves every allreduce across nodes: {crash}.")
    text = han_text(content, heading, names_levels=names_algorithms(catalogue))
    return text, (*chooser.notes, *layouts)


def _named(catalogue: Catalogue, found: Collection[Collective]) -> list[Collective]:
    """Return the collectives that a file has to name in any case.

    The library counts what the file does not name as coll/han's; where that is not its own choice,
    all collectives are named. Without any, the reader would not take the file.
    """
    served = [c for c in sorted(Collective) if han_serves(catalogue, c)]
    if any(default_component(catalogue, collective) != HAN for collective in served):
        return served
    return [] if found else served[:1]


def _word(catalogue: Catalogue, rule: Rule) -> str:
    component, algorithm = named_by(catalogue, rule)
    return f"{component} @{algorithm}" if algorithm else component


class _HanChooser(Chooser):
    """Decides which components may be written; of coll/han's setups a job has one."""

    def __init__(self, table: DecisionTable, release: str) -> None:
        bound = OPENMPI.at(release)
        super().__init__(
            Release(OPENMPI, bound.space, bound.others, NO_SIZE),
            ", because coll/han always looks it up with 0 bytes,",
            Promises(form=FORMATS[NAME]),
        )
        self._setups: dict[Collective, set[Configuration]] = {}
        for (collective, _), intervals in table.rules.items():
            chosen = {i.configuration for i in intervals if han_setups.is_setup(i.configuration)}
            self._setups[collective] = self._setups.get(collective, set()) | chosen

    def spelled(self, configuration: Configuration) -> Configuration:
        if han_setups.is_setup(configuration):
            return _intra(configuration.collective)
        return configuration

    def runs(self, on: int | Shape, interval: Interval) -> RunningRange:
        configuration = interval.configuration
        why = FORMATS[NAME].limit(self.bound.name, configuration)
        if not why and han_setups.is_setup(configuration) and configuration.parameters:
            why = self._why_not_alone(configuration)
        return RunningRange(None, why) if why else EVERYWHERE

    def _why_not_alone(self, configuration: Configuration) -> str:
        """Return why a setup cannot be the one of the job; a note tells the parameters it needs."""
        setups = len(self._setups[configuration.collective])
        if setups > 1:
            return f"a job has one setup of coll/han, but the table has {setups}"
        wanted = OPENMPI.han_setups(self.bound.name).parameters(configuration)
        told = " ".join(f"--mca {n} {v}" for n, v in wanted.items() if not n.startswith(_BY_RULES))
        note = f"{configuration.collective}: the rules also need these parameters: {told}"
        if note not in self.notes:
            self.notes.append(note)
        return ""


def convert(
    levels: tuple[LevelRules, ...], of_release: str, release: str
) -> tuple[str, tuple[str, ...]]:
    """Return what the rules of a file for `of_release` say for another one, level by level."""
    converter = _ToHan(of_release, release)
    content = converter.content(levels)
    heading = (f"Open MPI coll_han dynamic rules, converted for release {release}", _ONE_FILE)
    text = han_text(content, heading, names_levels=names_algorithms(converter.catalogue))
    return text, tuple(dict.fromkeys(converter.notes))


class _ToHan(Converter):
    def __init__(self, of_release: str, release: str) -> None:
        super().__init__(release)
        self.of_release, self.source = of_release, catalogue_of(of_release)

    def content(self, found: tuple[LevelRules, ...]) -> dict[Collective, Levels]:
        other = default_component(self.source, Collective.BCAST)
        own = default_component(self.catalogue, Collective.BCAST)
        if other != own:
            what = (
                f"without a file coll/{other} decides across nodes in {self.of_release}, but "
                f"coll/{own} in {self.release}: communicators and collectives that the file "
                "does not name differ"
            )
            self.notes.append(Note(0, "", what))
        content: dict[Collective, dict[HanLevel, Sequence[tuple[int, Lines]]]] = {}
        for collective, level in product(dict.fromkeys(r.collective for r in found), HanLevel):
            rules = rules_of(found, collective, level)
            if rules is not None and (entries := list(self._entries(rules))):
                content.setdefault(collective, {})[level] = entries
        named = _named(self.catalogue, ()) if not content else ()
        nothing = {c: exactly({}, default_component(self.catalogue, c)) for c in named}
        return nothing | content

    def _entries(self, rules: LevelRules) -> Iterator[tuple[int, Lines]]:
        if not han_serves(self.catalogue, rules.collective):
            self.note(rules, f"{rules.collective} is left out, because coll/han does not serve it")
            return
        for at, entry in enumerate(rules.entries):
            if hiding(entry, rules.entries[at + 1 :]) is not None:
                self.note(entry, "left out, because it is never reached")
                continue
            dropped = [why_unreached(rules, entry, place)[1] for place in range(len(entry.rules))]
            kept = [rule for rule, why in zip(entry.rules, dropped, strict=True) if not why]
            lines = [(rule.first, self._component(rules, rule)) for rule in kept]
            if any(dropped):
                count = len(dropped) - len(kept)
                self.note(entry, f"{counted(count, 'rule')} left out, because never reached")
            # the library keeps sizes in 32 bits: one below 1 is for all communicators
            yield max(1, entry.first_size), lines

    def _component(self, rules: LevelRules, rule: Rule) -> str:
        component, algorithm = named_by(self.source, rule)
        whole = rules.level is HanLevel.GLOBAL_COMMUNICATOR
        if whole and crashes(self.catalogue, component, rules.collective):
            self.note(rule, f"{self.release} crashes with coll/{component} there")
            return default_component(self.catalogue, rules.collective)
        if component not in known_components(self.catalogue):
            self.note(rule, f"{self.release} has no coll/{component}")
            return default_component(self.catalogue, rules.collective)
        if not algorithm:
            return component
        known = algorithm in algorithms(self.catalogue, rules.collective)
        if known and names_algorithms(self.catalogue):
            return f"{component} @{algorithm}"
        self.note(rule, f"a file of {self.release} cannot express @{algorithm}")
        return component


def _intra(collective: Collective) -> Configuration:
    return Configuration(LIBRARY, collective, han_setups.ALGORITHM)


# ---- a job's coll/han with one setup per collective ----


@dataclass(frozen=True)
class JobFiles:
    """The text of the rules, and the parameters (name -> value) that belong to them.

    The rules can tell communicator and message sizes apart, but only whether coll/han runs, by
    which of its algorithms; its segment size and modules are parameters, of which there is one set
    per job.
    """

    rules: str
    parameters: Mapping[str, str]

    @property
    def parameter_file(self) -> str:
        return parameter_file(self.parameters)


def job_files(
    release: str, shape: Shape, setups: Mapping[Collective, Configuration], rules_path: Path
) -> JobFiles:
    """Return the files for jobs of `shape`, whose rules will lie at `rules_path`."""
    if not rules_path.is_absolute():
        raise say("path-not-absolute", path=rules_path, what="a rules file")
    chosen: dict[tuple[Collective, int], tuple[Interval, ...]] = {
        (collective, shape.nprocs): (Interval(0, None, _intra(collective)),)
        for collective in setups
    }
    rules, _ = write(DecisionTable(LIBRARY, shape, chosen), release)
    found = parameters(release, str(rules_path))
    for setup in setups.values():
        for name, value in OPENMPI.han_setups(release).parameters(setup).items():
            if name.startswith(_BY_RULES):
                continue
            if found.setdefault(name, value) != value:
                values = f"{value} and {found[name]}"
                raise say("setups-contradict", configuration=setup.id, name=name, values=values)
    return JobFiles(rules, found)
