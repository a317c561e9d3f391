"""The format ``intelmpi-json``: the file that I_MPI_TUNING names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.file_format import (
    Call,
    Finding,
    Format,
    Outcome,
    ParsedFile,
    Written,
    absolute_path,
)
from colltune.mpi.intelmpi import adjust_value, tuning_reader
from colltune.mpi.intelmpi.library import BUILT_IN, LIBRARY, variable
from colltune.mpi.intelmpi.presets import PresetFile, Tree, ppn_of, ran, shown
from colltune.mpi.intelmpi.tuning_reader import Document
from colltune.mpi.intelmpi.writing import Grid, Part, Parts, chosen, converted, merged
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.text import counted

TUNING = "I_MPI_TUNING"
NAME = "intelmpi-json"


class TuningFile(PresetFile):
    """A tuning file as one release reads it."""

    format = NAME

    @cached_property
    def document(self) -> Document:
        return tuning_reader.read(self.text)

    @property
    def dropped(self) -> str:  # type: ignore[override]
        return self.document.dropped

    @property
    def ends_program(self) -> str:  # type: ignore[override]
        return self.document.ends_program

    @property
    def trees(self) -> dict[Collective, Tree]:
        return self.document.trees

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs; I_MPI_ADJUST_<COLLECTIVE> goes before the file."""
        own = Configuration.default(LIBRARY, call.collective)
        given = {TUNING: self.source} if environment is None else environment
        in_effect = bool(given.get(TUNING)) and not self.dropped
        name = variable(call.collective)
        ends = self.ends_program if in_effect else ""
        if in_effect and not ends and name in given and not given[name].strip():
            ends = f"{name} is empty, which also crashes a program that sets {TUNING}"
        if ends:
            return Outcome(own, None, (ends,), own, ends_program=ends)
        value = adjust_value.parse(given[name], call.collective) if name in given else None
        if value is not None and not value.rejected:
            said = self.said(call) if in_effect else own
            return adjust_value.outcome(value, self.release, call, instead_of=said)
        if not given.get(TUNING):
            why = f"{TUNING} is not set, so the library does not read the file"
        elif self.dropped:
            why = f"the library ignores the file: {self.dropped}"
        elif call.collective not in self.trees:
            why = f"the file has no {call.collective}, so the library's own tuning applies"
        else:
            return self._decided(call)
        return Outcome(own, None, (why,), own)

    def _decided(self, call: Call) -> Outcome:
        leaf = self.leaf_for(call)
        why = (
            f"line {leaf.line} ({shown(leaf.text)}) holds for "
            f"{counted(call.comm_size, 'process', 'es')}, {ppn_of(call)} per node, and "
            f"{counted(call.msize_bytes, 'byte')}"
        )
        return ran(self.release, call, self.rule(call.collective, leaf), leaf.number, why)


OTHER_SIZES = (
    "for the collectives in this file, communicators that the table does not cover run the "
    "library's built-in logic (preset 0), without the tuning data that Intel ships"
)
_KEY = re.compile(r"""["'](?:coll=[A-Za-z_]+|(?:ppn|comm_size|comm_id|msg_size)=-?\d+)["']\s*:""")
_EMPTY = re.compile(r"\s*\{\s*\}\s*")
_BUILT_IN: Parts = (Part(None, BUILT_IN),)


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
        self.catalogue_of(release)
        return TuningFile(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        assert isinstance(parsed, TuningFile)
        return tuple(sorted(set(tuning_reader.findings(parsed.document, parsed.release))))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return `table` as a tuning file.

        A collective is written as a whole or not at all: the notes tell which is left to the
        library because a part of it is, or had to be.
        """
        found, notes = chosen(table, release, programs=programs)
        grid = {collective: _laid_out(sizes) for collective, sizes in found.items()}
        remarks = self.remarks if grid else ()
        return Written(NAME, release, {"": rendered(grid)}, (*notes, *remarks))

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """Return what another file of Intel MPI means, as a tuning file."""
        self.catalogue_of(release)
        grid, notes = converted(parsed, release)
        return Written(NAME, release, {"": rendered(grid)}, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        self.catalogue_of(release)
        return {TUNING: absolute_path(paths[""], "a configuration file")}


def _laid_out(chosen: Mapping[int | Shape, Parts]) -> Parts:
    """Return exactly the communicators that were chosen for; all others get the built-in logic."""
    everywhere = {on: sizes for on, sizes in chosen.items() if isinstance(on, int)}
    by_ppn: dict[int, dict[int, Parts]] = {}
    for on, sizes in chosen.items():
        if isinstance(on, Shape):
            by_ppn.setdefault(on.ppn, {})[on.nprocs] = sizes
    found: dict[int | None, Parts] = {}
    for ppn in sorted(by_ppn):
        if ppn > 1:
            found.setdefault(ppn - 1, _exactly(everywhere))
        found[ppn] = _exactly(everywhere | by_ppn[ppn])
    found[None] = _exactly(everywhere)
    return merged(Part(last, comms) for last, comms in found.items())


def _exactly(by_size: Mapping[int, Parts]) -> Parts:
    found: dict[int | None, Parts] = {}
    for comm_size in sorted(by_size):
        if comm_size - 1 > 1:
            found.setdefault(comm_size - 1, _BUILT_IN)
        found[comm_size] = by_size[comm_size]
    found[None] = _BUILT_IN
    # equal neighbours stay apart, so that each size can be told from those that are left
    return tuple(Part(last, sizes) for last, sizes in found.items())


def rendered(grid: Grid) -> str:
    """Return the text of a tuning file: every level, whatever it is about."""
    collectives = [
        f'  "coll={collective.capitalize()}": {{\n{_lines(collective, parts)}\n  }}'
        for collective, parts in sorted(grid.items())
    ]
    return "{\n" + ",\n".join(collectives) + "\n}\n" if collectives else "{}\n"


def _lines(collective: Collective, parts: Parts, depth: int = 0) -> str:
    """Return the keys of a level, with those below."""
    blank, level = " " * (4 + 2 * depth), ("ppn", "comm_size", "msg_size")[depth]
    lines = []
    for part in parts:
        key = f'{blank}"{level}={-1 if part.last is None else part.last}"'
        if not isinstance(part.below, tuple):
            lines.append(f'{key}: {{"{collective.upper()}={part.below}": {{}}}}')
            continue
        below = _lines(collective, part.below, depth + 1)
        opened, closed = ('{"comm_id=-1": {', "}}") if level == "comm_size" else ("{", "}")
        lines.append(f"{key}: {opened}\n{below}\n{blank}{closed}")
    return ",\n".join(lines)
