"""What a release makes of an I_MPI_TUNING file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Finding, Outcome, Rule
from colltune.mpi.intelmpi import adjust_value, presets, tuning_lint, tuning_reader, tuning_tree
from colltune.mpi.intelmpi.grid import Leaf
from colltune.mpi.intelmpi.releases import LIBRARY
from colltune.mpi.intelmpi.tuning_reader import Document
from colltune.mpi.intelmpi.tuning_tree import COMM_SIZE, MSG_SIZE, PPN, Branch, Point, Preset

TUNING = "I_MPI_TUNING"
NAME = "intelmpi-json"


@dataclass(frozen=True)
class TuningFile:
    """A tuning file as one release reads it; see `file_format.ParsedFile` and `grid.Laid`."""

    text: str
    source: str
    release: str
    format: str = NAME

    @cached_property
    def document(self) -> Document:
        """The file's trees."""
        return tuning_reader.read(self.text)

    @property
    def dropped(self) -> str:
        return self.document.dropped

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """All collectives that the file names."""
        return tuple(self.document.trees)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All presets in the order of the file."""
        return tuple(sorted(self._rules.values(), key=lambda rule: rule.line))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        found = [*self.document.findings, *tuning_lint.findings(self.document, self.release)]
        return tuple(sorted(set(found)))

    @cached_property
    def _rules(self) -> dict[int, Rule]:
        """The rules by the identity of their leaves, which live as long as the document."""
        found: dict[int, Rule] = {}

        def visit(collective: Collective, node: Branch | Preset | None) -> None:
            if isinstance(node, Preset):
                found[id(node)] = self._rule(collective, node)
            elif isinstance(node, Branch):
                for step in node.steps:
                    visit(collective, step.below)

        for collective, tree in self.document.trees.items():
            visit(collective, tree.root)
        return found

    def _rule(self, collective: Collective, leaf: Preset) -> Rule:
        number = presets.BUILT_IN if leaf.number is None else leaf.number
        named = presets.configuration_of(self.release, collective, number)
        return Rule(leaf.line, leaf.text, collective, named)

    def leaf(self, collective: Collective, ppn: int, comm_size: int, msize: int) -> Leaf | None:
        tree = self.document.trees.get(collective)
        if tree is None:
            return None
        point = Point({PPN: ppn, COMM_SIZE: comm_size, MSG_SIZE: msize})
        found, way = tuning_tree.leaf_at(tree.root, point)
        if found is not None:
            number = presets.BUILT_IN if found.number is None else found.number
            return Leaf(self._rules[id(found)], number)
        line, text = (way[-1].line, way[-1].text) if way else (tree.line, f"coll={collective}")
        own = Configuration.default(LIBRARY, collective)
        return Leaf(Rule(line, text, collective, own), presets.BUILT_IN)

    def ppn_ends(self, collective: Collective) -> tuple[int, ...]:
        return self._ends(collective, PPN, {})

    def comm_ends(self, collective: Collective, ppn: int) -> tuple[int, ...]:
        return self._ends(collective, COMM_SIZE, {PPN: ppn})

    def size_ends(self, collective: Collective, ppn: int, comm_size: int) -> tuple[int, ...]:
        return self._ends(collective, MSG_SIZE, {PPN: ppn, COMM_SIZE: comm_size})

    def _ends(
        self, collective: Collective, level: str, known: Mapping[str, int]
    ) -> tuple[int, ...]:
        tree = self.document.trees.get(collective)
        return () if tree is None else tuning_tree.ends(tree.root, level, Point(known))

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs; I_MPI_ADJUST_<COLLECTIVE> goes before the file."""
        own = Configuration.default(LIBRARY, call.collective)
        given = {TUNING: self.source} if environment is None else environment
        in_effect = bool(given.get(TUNING)) and not self.dropped
        if in_effect and self.document.ends_program:
            why = self.document.ends_program
            return Outcome(own, None, (why,), own, ends_program=why)
        variable = presets.variable(call.collective)
        if variable in given:
            value = adjust_value.parse(given[variable], call.collective, self.release)
            if in_effect and not given[variable].strip():
                why = f"{variable} is empty, which crashes a program that has {TUNING}, too"
                return Outcome(own, None, (why,), own, ends_program=why)
            if not value.rejected:
                chosen = self.leaf_chosen(call) if in_effect else own
                return adjust_value.outcome(value, call, None, chosen=chosen)
        reason = self._why_not(given)
        if reason:
            return Outcome(own, None, (reason,), own)
        return self._decided(call)

    def _why_not(self, given: Mapping[str, str]) -> str:
        if not given.get(TUNING):
            return f"{TUNING} is not set, so that the library does not read the file"
        return f"the library ignores the file: {self.dropped}" if self.dropped else ""

    def leaf_chosen(self, call: Call) -> Configuration:
        """Return what the file alone says for a call."""
        found = self.leaf(call.collective, ppn_of(call), call.comm_size, call.msize_bytes)
        if found is None:
            return Configuration.default(LIBRARY, call.collective)
        return presets.chosen(self.release, call.collective, found.number)

    def _decided(self, call: Call) -> Outcome:
        found = self.leaf(call.collective, ppn_of(call), call.comm_size, call.msize_bytes)
        if found is None:
            own = Configuration.default(LIBRARY, call.collective)
            why = f"the file does not name {call.collective}: the tuning of the library holds"
            return Outcome(own, None, (why,), own)
        first = (
            f"line {found.rule.line} ({presets.shown(found.rule.text)}) holds for"
            f" {call.comm_size} processes, {ppn_of(call)} on a node, and {call.msize_bytes} bytes"
        )
        return adjust_value.ran(self.release, call, found, (first,))

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        tree = self.document.trees.get(collective)
        if tree is None:
            return ()
        found = tuning_tree.ends(tree.root, COMM_SIZE, Point({}))
        return tuple(sorted({2, *(end + 1 for end in found if end >= 2)}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        ppn = -(-comm_size // nodes)
        return (0, *(end + 1 for end in self.size_ends(collective, ppn, comm_size)))


def ppn_of(call: Call) -> int:
    """Return how many processes of a call lie on its fullest node."""
    return -(-call.comm_size // max(1, call.nodes))
