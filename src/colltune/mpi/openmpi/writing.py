"""What writers of rules share: what may be written, conversion, the file that steers coll/han."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.catalogue import Algorithm, Catalogue, Limit
from colltune.mpi.choosing import ELEMENT_BYTES, Chooser
from colltune.mpi.file_format import Format, Note
from colltune.mpi.openmpi.decide.components import HAN, TUNED
from colltune.mpi.openmpi.decide.han_calls import HanLevel
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of, reads_version_header
from colltune.mpi.openmpi.tuned_format import DISPATCH
from colltune.mpi.programs import MOST_PROMISED, Programs
from colltune.mpi.rules import Entry, Rule
from colltune.mpi.running import Promises
from colltune.text import counted


def chooser_of(form: Format, release: str, table: DecisionTable, programs: Programs) -> Chooser:
    """Return what decides what of a table may be written in a format of Open MPI's."""
    why = ", because only one algorithm for all message sizes is safe for this collective"
    promises = Promises(programs, form, ELEMENT_BYTES, one_node=table.shape.nodes == 1)
    return Chooser(OPENMPI.at(release), why, promises)


class Part(Protocol):
    """A part of a file: its line, and whose rules it has."""

    @property
    def line(self) -> int: ...
    @property
    def collective(self) -> Collective: ...


class Converter:
    """Tells what rules of a file mean in another release, and notes what is left out and why."""

    def __init__(self, release: str, *, requests: bool = True) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.defaults = OPENMPI.at(release).space.defaults
        self.requests = requests or reads_version_header(release)
        self.notes: list[Note] = []

    def note(self, of: Part, what: str) -> None:
        self.notes.append(Note(of.line, of.collective, what))

    def known(self, rules: Iterable[Rule]) -> Iterator[Rule]:
        """Yield the rules that name an algorithm, or the library's own decision."""
        for rule in rules:
            if rule.configuration is None:
                self.note(rule, f"{rule.text}: left out, because there is no such algorithm")
            else:
                yield rule

    def target(self, rule: Rule, first_size: int, last_size: int | None) -> Configuration:
        """Return what a rule means for these communicators; the default where that may not be."""
        given = rule.configuration
        default = Configuration.default(LIBRARY, rule.collective)
        if given is None or given.is_default:
            return default
        algorithm = self.catalogue.collectives[rule.collective].named(given.algorithm)
        if algorithm is None:
            self.note(rule, f"left to the library: {self.release} has no {given.id}")
            return default
        for name, least in algorithm.minimums:
            if name not in given.numbers:
                what = f"{given.algorithm} becomes {algorithm.name} with a fan-out of {least}"
                self.note(rule, what)
        unsaid = dict(self.defaults) | dict(algorithm.defaults) | dict(algorithm.minimums)
        values = unsaid | given.numbers
        found = {name: values[name] for name in algorithm.parameters if name in values}
        chosen = Configuration(LIBRARY, rule.collective, algorithm.name, tuple(found.items()))
        why = self._refusal(algorithm, found, first_size, last_size)
        why = why or OPENMPI.at(self.release).harms(chosen).sentence(MOST_PROMISED)
        if why:
            self.note(rule, f"left to the library: {why}")
            return default
        return chosen

    def _refusal(
        self,
        algorithm: Algorithm,
        values: Mapping[str, int],
        first_size: int,
        last_size: int | None,
    ) -> str:
        if algorithm.wrong:
            return f"{algorithm.name}: {algorithm.wrong}"
        if Limit.TWO_PROCESSES in algorithm.limits and (max(2, first_size), last_size) != (2, 2):
            return f"{algorithm.name} ends the program unless there are 2 processes"
        for name, least in algorithm.minimums:
            if values[name] < least:
                return f"{algorithm.name} never ends with a fan-out below {least}"
        if "requests" in values and not self.requests:
            return f"{self.release} has no file that can set the limit of requests"
        return ""


# ---- coll/han's rules, which also stand beside those for coll/tuned ----

Lines = Sequence[tuple[int, str]]
"""A component from each message size on."""
Levels = Mapping[HanLevel, Sequence[tuple[int, Lines]]]
"""For each level, from which communicator size on which lines hold."""


def han_text(
    content: Mapping[Collective, Levels], heading: Sequence[str], *, names_levels: bool
) -> str:
    """Return a file for coll/han; levels are numbers unless the release reads their names."""
    lines = [*(f"# {line}" for line in heading), f"{len(content)}"]
    for collective, levels in sorted(content.items()):
        lines += [f"{collective}", f"{len(levels)}"]
        for level, entries in levels.items():
            number = list(HanLevel).index(level)
            lines += [str(level) if names_levels else str(number), f"{len(entries)}"]
            for comm_size, rules in entries:
                lines.append(f"{comm_size} {len(rules)}")
                lines += [f"{first_bytes} {component}" for first_bytes, component in rules]
    return "\n".join(lines) + "\n"


def exactly(by_size: Mapping[int, Lines], otherwise: str) -> Levels:
    """Return what holds for exactly these communicator sizes; `otherwise` for all others."""
    nothing = [(0, otherwise)]
    found: list[tuple[int, Lines]] = [(1, nothing)]
    for comm_size, lines in sorted(by_size.items()):
        found.append((comm_size, lines))
        if comm_size + 1 not in by_size:
            found.append((comm_size + 1, nothing))
    return {HanLevel.GLOBAL_COMMUNICATOR: found}


def steering(
    catalogue: Catalogue, job: Shape, chosen: Iterable[Entry]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the second file that 5.0 and later need on communicators that span nodes, and notes.

    There coll/han outranks coll/tuned and would never look at the rules. Its own rules send exactly
    the chosen message sizes of exactly the listed communicator sizes to coll/tuned; everything else
    stays with coll/han, the library's real default (``coll_han_dynamic_file.c``). Sizes are those
    of the caller, without the factor n of the classic rules file.
    """
    served = catalogue.han_collectives
    steered = [e for e in chosen if job.nodes > 1 and e.collective in served]
    if not steered:
        return {}, ()
    by_collective: dict[Collective, dict[int, Lines]] = {}
    for entry in steered:
        own = by_collective.setdefault(entry.collective, {})
        own[entry.first_size] = _components(entry.rules)
    heading = (
        f"Open MPI coll_han dynamic rules for {job}, to be used together with the coll_tuned rules",
        "Written by colltune. All ranks must read the same file.",
    )
    content = {c: exactly(by_size, HAN) for c, by_size in by_collective.items()}
    notes = tuple(
        f"{entry.collective} on {entry.first_size} processes: these rules also apply to coll/han's "
        f"inner communicators, which have {counted(entry.first_size, 'process', 'es')} on {job}"
        for entry in steered
        if entry.first_size in (job.nodes, job.ppn)
    )
    return {DISPATCH: han_text(content, heading, names_levels=True)}, notes


def _components(rules: Iterable[Rule]) -> Lines:
    components: list[tuple[int, str]] = []
    for rule in rules:
        left = rule.configuration is None or rule.configuration.is_default
        component = HAN if left else TUNED
        if not components or component != components[-1][1]:
            components.append((rule.first, component))
    return components
