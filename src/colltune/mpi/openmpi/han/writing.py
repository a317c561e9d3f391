"""Writes files for coll/han: tables of components, rules of other files, dispatch to coll/tuned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.choosing import check_intervals, check_library
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.decide.components import HAN, han_serves
from colltune.mpi.openmpi.decide.han_calls import HanLevel
from colltune.mpi.openmpi.decide.tuned import NO_SIZE
from colltune.mpi.openmpi.han import parameters
from colltune.mpi.openmpi.han.lint import hiding, why_unreached
from colltune.mpi.openmpi.han.rules import (
    CommunicatorRules,
    LevelRules,
    SizeRule,
    algorithms,
    component_of,
    crashes,
    default_component,
    known_components,
    names_algorithms,
    rules_of,
)
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.mca import parameter_file
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.writing import Levels, Lines, exactly, han_text

_BY_RULES = ("coll_han_priority", "coll_han_use_")
_NO_BLANKS = "Written by colltune. All ranks must read the same file."


def write(table: DecisionTable, release: str) -> tuple[str, tuple[str, ...]]:
    """Return the components that `table` names, for communicators of exactly its sizes."""
    check_library(table, OPENMPI.at(release))
    writer = _Writer(release)
    content = writer.content(table)
    heading = (
        f"Open MPI coll_han dynamic rules for {table.shape} (nodes x processes per node),"
        f" release {release}",
        _NO_BLANKS,
        *writer.caveats(),
    )
    text = han_text(content, heading, names_levels=names_algorithms(writer.catalogue))
    return text, tuple(writer.notes)


def convert(
    levels: tuple[LevelRules, ...], of_release: str, release: str
) -> tuple[str, tuple[str, ...]]:
    """Return what the rules of a file for `of_release` say for another one, level by level."""
    writer = _Writer(release)
    content = writer.converted(levels, of_release)
    heading = (f"Open MPI coll_han dynamic rules, converted for release {release}", _NO_BLANKS)
    text = han_text(content, heading, names_levels=names_algorithms(writer.catalogue))
    return text, tuple(dict.fromkeys(writer.notes))


class _Writer:
    def __init__(self, release: str) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.notes: list[str] = []
        self._setups: dict[Collective, set[Configuration]] = {}

    def caveats(self) -> Iterator[str]:
        """Yield what the file changes beside what is chosen in it."""
        if self._default(Collective.ALLREDUCE) != self._default(Collective.BCAST):
            yield (
                f"coll/han serves every allreduce across nodes: {self.release} crashes where it"
                " hands one on."
            )

    def content(self, table: DecisionTable) -> dict[Collective, Levels]:
        """Return what is to be written of a table.

        The library counts what the file does not name as coll/han's; where that is not its own
        choice, all collectives are named. Without any, the reader would not take the file.
        """
        found: dict[Collective, dict[int, Lines]] = {}
        for (collective, _), intervals in table.rules.items():
            chosen = {i.configuration for i in intervals if han_setups.is_setup(i.configuration)}
            self._setups[collective] = self._setups.get(collective, set()) | chosen
        for (collective, comm_size), intervals in sorted(table.rules.items(), key=lambda i: i[0]):
            where = f"{collective} on {comm_size} processes"
            check_intervals(where, collective, intervals)
            lines = self._lines(where, collective, intervals)
            if comm_size < 2:
                self.notes.append(f"{where}: needs no algorithm")
            elif any(component != self._default(collective) for _, component in lines):
                found.setdefault(collective, {})[comm_size] = lines
        for collective, shape in sorted(table.by_layout):
            self.notes.append(
                f"{collective} on {shape} processes: a file for coll/han tells no layouts apart"
            )
        for collective in self._named(found):
            found.setdefault(collective, {})
        return {
            collective: exactly(by_size, self._default(collective))
            for collective, by_size in found.items()
        }

    def _named(self, found: Collection[Collective]) -> list[Collective]:
        """Return the collectives that a file has to name in any case."""
        served = [c for c in sorted(Collective) if han_serves(self.catalogue, c)]
        if any(self._default(collective) != HAN for collective in served):
            return served
        return [] if found else served[:1]

    def _lines(self, where: str, collective: Collective, intervals: Sequence[Interval]) -> Lines:
        lines: list[tuple[int, str]] = []
        for interval in intervals:
            word = self._word(where, collective, interval)
            if not lines or word != lines[-1][1]:
                lines.append((interval.first_bytes, word))
        if collective in NO_SIZE and len(lines) > 1:
            self.notes.append(
                f"{where}: left to the library, which always looks it up with 0 bytes, and the"
                f" table has {len(lines)} ranges"
            )
            return [(0, self._default(collective))]
        return lines

    def _default(self, collective: Collective) -> str:
        return default_component(self.catalogue, collective)

    def _word(self, where: str, collective: Collective, interval: Interval) -> str:
        configuration = interval.configuration
        if han_setups.is_setup(configuration) and configuration.parameters:
            return self._word_of_setup(where, collective, interval)
        try:
            component, algorithm = component_of(self.catalogue, configuration)
        except KeyError:
            if han_serves(self.catalogue, collective):
                why = f"{interval.configuration.id} is no component that a file for coll/han names"
            else:
                why = f"coll/han of {self.release} does not serve {collective}"
            self.notes.append(
                f"{where}, from {interval.first_bytes} on: left to the library: {why}"
            )
            return self._default(collective)
        return f"{component} @{algorithm}" if algorithm else component

    def _word_of_setup(self, where: str, collective: Collective, interval: Interval) -> str:
        """Return the algorithm of a setup, whose parameters hold for the whole job."""
        setups = self._setups[collective]
        if len(setups) > 1 or not names_algorithms(self.catalogue):
            why = (
                f"a job has one setup of coll/han, and the table has {len(setups)}"
                if len(setups) > 1
                else f"coll/han of {self.release} has no such setups"
            )
            self.notes.append(
                f"{where}, from {interval.first_bytes} on: left to the library: {why}"
            )
            return self._default(collective)
        wanted = OPENMPI.han_setups(self.release).parameters(interval.configuration)
        told = " ".join(f"--mca {n} {v}" for n, v in wanted.items() if not n.startswith(_BY_RULES))
        note = f"{collective}: the rules need these parameters beside them: {told}"
        if note not in self.notes:
            self.notes.append(note)
        component, algorithm = component_of(self.catalogue, _intra(collective))
        return f"{component} @{algorithm}"

    def converted(self, found: tuple[LevelRules, ...], of_release: str) -> dict[Collective, Levels]:
        other, own = (
            default_component(c, Collective.BCAST)
            for c in (catalogue_of(of_release), self.catalogue)
        )
        if other != own:
            self.notes.append(
                f"line 0: coll/{other} decides across nodes in {of_release} without a file, and"
                f" coll/{own} in {self.release}; communicators and collectives that the"
                " file does not name differ"
            )
        content: dict[Collective, Levels] = {}
        for collective in dict.fromkeys(rules.collective for rules in found):
            levels = {}
            for level in HanLevel:
                rules = rules_of(found, collective, level)
                if rules is not None and self._serves(rules):
                    levels[level] = list(self._entries(rules))
            kept = {level: entries for level, entries in levels.items() if entries}
            if kept:
                content[collective] = kept
        if not content:
            content = {c: exactly({}, self._default(c)) for c in self._named(())}
        return content

    def _serves(self, rules: LevelRules) -> bool:
        served = han_serves(self.catalogue, rules.collective)
        if not served:
            self._note(rules.line, f"coll/han does not serve {rules.collective}, left out")
        return served

    def _entries(self, rules: LevelRules) -> Iterator[tuple[int, Lines]]:
        for at, entry in enumerate(rules.communicators):
            if hiding(entry, rules.communicators[at + 1 :]) is not None:
                self._note(entry.line, "never reached, left out")
                continue
            # the library keeps sizes in 32 bits: one below 1 is for all communicators
            yield max(1, entry.first_size), list(self._kept(rules, entry))

    def _kept(self, rules: LevelRules, entry: CommunicatorRules) -> Iterator[tuple[int, str]]:
        dropped = 0
        for at, rule in enumerate(entry.rules):
            if why_unreached(rules, entry, at)[1]:
                dropped += 1
            else:
                yield rule.first_bytes, self._component(rules.level, rules.collective, rule)
        if dropped:
            self._note(entry.line, f"{dropped} rules are never reached, left out")

    def _component(self, level: HanLevel, collective: Collective, rule: SizeRule) -> str:
        whole = level is HanLevel.GLOBAL_COMMUNICATOR
        if whole and crashes(self.catalogue, rule.component, collective):
            self._note(rule.rule.line, f"{self.release} crashes with coll/{rule.component} there")
            return self._default(collective)
        if rule.component not in known_components(self.catalogue):
            self._note(rule.rule.line, f"{self.release} knows no coll/{rule.component}")
            return self._default(collective)
        if not rule.algorithm:
            return rule.component
        known = rule.algorithm in algorithms(self.catalogue, collective)
        if not known or not names_algorithms(self.catalogue):
            self._note(rule.rule.line, f"a file of {self.release} cannot say @{rule.algorithm}")
            return rule.component
        return f"{rule.component} @{rule.algorithm}"

    def _note(self, line: int, what: str) -> None:
        self.notes.append(f"line {line}: {what}")


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
        """The parameters as ``mpirun --tune`` reads them."""
        return parameter_file(self.parameters)


def job_files(
    release: str, shape: Shape, setups: Mapping[Collective, Configuration], rules_path: Path
) -> JobFiles:
    """Return the files for jobs of `shape`, whose rules will lie at `rules_path`."""
    if not rules_path.is_absolute():
        raise LibraryError(f"{rules_path}: the path of a rules file must be absolute")
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
                raise LibraryError(
                    f"{setup.id}: {name} would have to be {value} and {found[name]} in one job"
                )
    return JobFiles(rules, found)
