"""The format ``intelmpi-json``: the file that I_MPI_TUNING names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from json import dumps

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.file_format import (
    Call,
    Finding,
    Format,
    Outcome,
    ParsedFile,
    Rule,
    Written,
    absolute_path,
)
from colltune.mpi.intelmpi import (
    adjust_value,
    choices,
    lint,
    tuning_reader,
    tuning_tree,
)
from colltune.mpi.intelmpi.choices import Choice, Sizes
from colltune.mpi.intelmpi.grid import (
    CommPart,
    Grid,
    Laid,
    Leaf,
    PpnPart,
    SizePart,
    converted,
    merged,
    shown,
)
from colltune.mpi.intelmpi.library import BUILT_IN, INTEL_MPI, variable
from colltune.mpi.intelmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.intelmpi.tuning_reader import Document
from colltune.mpi.intelmpi.tuning_tree import COMM_SIZE, MSG_SIZE, PPN, Branch, Point, Preset

TUNING = "I_MPI_TUNING"
NAME = "intelmpi-json"


@dataclass(frozen=True)
class TuningFile(Laid):
    """A tuning file as one release reads it; see `file_format.ParsedFile` and `grid.Laid`."""

    text: str
    source: str
    release: str
    format: str = NAME

    @cached_property
    def document(self) -> Document:
        return tuning_reader.read(self.text)

    @property
    def dropped(self) -> str:
        return self.document.dropped

    @property
    def ends_program(self) -> str:
        return self.document.ends_program

    @property
    def collectives(self) -> tuple[Collective, ...]:
        return tuple(self.document.trees)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(sorted(self._rules.values(), key=lambda rule: rule.line))

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
        number = BUILT_IN if leaf.number is None else leaf.number
        named = INTEL_MPI.presets(self.release).preset(collective, number)
        return Rule(leaf.line, leaf.text, collective, named)

    def leaf(self, collective: Collective, ppn: int, comm_size: int, msize: int) -> Leaf | None:
        tree = self.document.trees.get(collective)
        if tree is None:
            return None
        point = Point({PPN: ppn, COMM_SIZE: comm_size, MSG_SIZE: msize})
        found, way = tuning_tree.leaf_at(tree.root, point)
        if found is not None:
            number = BUILT_IN if found.number is None else found.number
            return Leaf(self._rules[id(found)], number)
        line, text = (way[-1].line, way[-1].text) if way else (tree.line, f"coll={collective}")
        own = Configuration.default(LIBRARY, collective)
        return Leaf(Rule(line, text, collective, own), BUILT_IN)

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
        if in_effect and self.ends_program:
            why = self.ends_program
            return Outcome(own, None, (why,), own, ends_program=why)
        name = variable(call.collective)
        if name in given:
            value = adjust_value.parse(given[name], call.collective, self.release)
            if in_effect and not given[name].strip():
                why = f"{name} is empty, which crashes a program that has {TUNING}, too"
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
        return INTEL_MPI.presets(self.release).chosen(call.collective, found.number)

    def _decided(self, call: Call) -> Outcome:
        found = self.leaf(call.collective, ppn_of(call), call.comm_size, call.msize_bytes)
        if found is None:
            own = Configuration.default(LIBRARY, call.collective)
            why = f"the file does not name {call.collective}: the tuning of the library holds"
            return Outcome(own, None, (why,), own)
        first = (
            f"line {found.rule.line} ({shown(found.rule.text)}) holds for"
            f" {call.comm_size} processes, {ppn_of(call)} on a node, and {call.msize_bytes} bytes"
        )
        return adjust_value.ran(self.release, call, found, (first,))

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        tree = self.document.trees.get(collective)
        if tree is None:
            return ()
        found = tuning_tree.ends(tree.root, COMM_SIZE, Point({}))
        return tuple(sorted({2, *(end + 1 for end in found if end >= 2)}))


def ppn_of(call: Call) -> int:
    """Return how many processes of a call lie on its fullest node."""
    return -(-call.comm_size // max(1, call.nodes))


OTHER_SIZES = (
    "communicators that the table does not have run the library's built-in logic (preset 0) for the"
    " collectives that are written, without the tuning data that the library ships"
)
_KEY = re.compile(r"""["'](?:coll=[A-Za-z_]+|(?:ppn|comm_size|comm_id|msg_size)=-?\d+)["']\s*:""")
_EMPTY = re.compile(r"\s*\{\s*\}\s*")
_BUILT_IN: Sizes = (SizePart(None, BUILT_IN),)


class TuningFormat(Format):
    name = NAME
    library = LIBRARY
    title = "Intel MPI's tuning file (I_MPI_TUNING)"
    knows_layout = True
    allows_partial_collective = False
    remarks = (OTHER_SIZES,)

    def recognises(self, text: str) -> bool:
        """Tell whether a key is one of a tuning file, or there is none at all."""
        return bool(_KEY.search(text) or _EMPTY.fullmatch(text))

    def parse(self, text: str, source: str, release: str) -> TuningFile:
        catalogue_of(release)
        return TuningFile(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        assert isinstance(parsed, TuningFile)
        found = lint.tuning_findings(parsed.document, parsed.release)
        return tuple(sorted({*parsed.document.findings, *found}))

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Return `table` as a tuning file.

        A collective is written as a whole or not at all: the notes tell which is left to the
        library because a part of it is, or had to be.
        """
        chosen, notes = choices.chosen(
            table, release, builtin_operations_only=builtin_operations_only
        )
        grid = {collective: _laid_out(choice) for collective, choice in chosen.items()}
        remarks = self.remarks if grid else ()
        return Written(NAME, release, {"": render(grid)}, (*notes, *remarks))

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """Return what another file of Intel MPI means, as a tuning file."""
        catalogue_of(release)
        grid, notes = converted(parsed, release)
        return Written(NAME, release, {"": render(grid)}, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        catalogue_of(release)
        return {TUNING: absolute_path(paths[""], "a configuration file")}


def _laid_out(choice: Choice) -> tuple[PpnPart, ...]:
    """Return exactly the communicators that were chosen for; all others get the built-in logic."""
    by_ppn: dict[int, dict[int, Sizes]] = {}
    for shape, sizes in choice.by_layout.items():
        by_ppn.setdefault(shape.ppn, {})[shape.nprocs] = sizes
    everywhere = _exactly(choice.everywhere)
    found: dict[int | None, tuple[CommPart, ...]] = {}
    for ppn in sorted(by_ppn):
        if ppn > 1:
            found.setdefault(ppn - 1, everywhere)
        found[ppn] = _exactly(choice.everywhere | by_ppn[ppn])
    found[None] = everywhere
    return merged(PpnPart(last, comms) for last, comms in found.items())


def _exactly(by_size: Mapping[int, Sizes]) -> tuple[CommPart, ...]:
    found: dict[int | None, Sizes] = {}
    for comm_size in sorted(by_size):
        if comm_size - 1 > 1:
            found.setdefault(comm_size - 1, _BUILT_IN)
        found[comm_size] = by_size[comm_size]
    found[None] = _BUILT_IN
    # equal neighbours stay apart, so that each size can be told from those that are left
    return tuple(CommPart(last, sizes) for last, sizes in found.items())


def render(grid: Grid) -> str:
    """Return the text of a tuning file: every level, whatever it is about."""
    collectives = [
        f"  {dumps(f'coll={collective.capitalize()}')}: {{\n{_ppn_lines(collective, parts)}\n  }}"
        for collective, parts in sorted(grid.items())
    ]
    return "{\n" + ",\n".join(collectives) + "\n}\n" if collectives else "{}\n"


def _ppn_lines(collective: Collective, parts: tuple[PpnPart, ...]) -> str:
    return ",\n".join(
        f'    "ppn={_end(part.last)}": {{\n{_comm_lines(collective, part.comms)}\n    }}'
        for part in parts
    )


def _comm_lines(collective: Collective, parts: tuple[CommPart, ...]) -> str:
    return ",\n".join(
        f'      "comm_size={_end(part.last)}": {{"comm_id=-1": {{\n'
        f"{_size_lines(collective, part.sizes)}\n      }}}}"
        for part in parts
    )


def _size_lines(collective: Collective, parts: Sizes) -> str:
    return ",\n".join(
        f'        "msg_size={_end(part.last)}": {{"{collective.upper()}={part.preset}": {{}}}}'
        for part in parts
    )


def _end(last: int | None) -> int:
    return -1 if last is None else last
