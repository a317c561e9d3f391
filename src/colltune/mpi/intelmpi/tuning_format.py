"""The format ``intelmpi-json``: the file that I_MPI_TUNING names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import dumps

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.mpi.file_format import Format, ParsedFile, Written
from colltune.mpi.intelmpi import activation, choices, conversion, presets
from colltune.mpi.intelmpi.choices import Choice, Sizes
from colltune.mpi.intelmpi.grid import CommPart, Grid, PpnPart, SizePart, merged
from colltune.mpi.intelmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.intelmpi.tuning_file import NAME, TuningFile

OTHER_SIZES = (
    "communicators that the table does not have run the library's built-in logic (preset 0) for the"
    " collectives that are written, without the tuning data that the library ships"
)
_KEY = re.compile(r"""["'](?:coll=[A-Za-z_]+|(?:ppn|comm_size|comm_id|msg_size)=-?\d+)["']\s*:""")
_EMPTY = re.compile(r"\s*\{\s*\}\s*")
_BUILT_IN: Sizes = (SizePart(None, presets.BUILT_IN),)


class TuningFormat(Format):
    name = NAME
    library = LIBRARY
    title = "Intel MPI's tuning file (I_MPI_TUNING)"
    catalogue_of = staticmethod(catalogue_of)
    knows_layout = True
    allows_partial_collective = False
    remarks = (OTHER_SIZES,)

    def recognises(self, text: str) -> bool:
        """Tell whether a key is one of a tuning file, or there is none at all."""
        return bool(_KEY.search(text) or _EMPTY.fullmatch(text))

    def parse(self, text: str, source: str, release: str) -> TuningFile:
        catalogue_of(release)
        return TuningFile(text, source, release)

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
        grid, notes = conversion.converted(parsed, release)
        return Written(NAME, release, {"": render(grid)}, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        return activation.tuning_environment(release, paths)


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
