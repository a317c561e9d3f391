"""The format ``intelmpi-adjust``: a list of I_MPI_ADJUST_* variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Format, ParsedFile, Written
from colltune.mpi.intelmpi import activation, choices, conversion, presets
from colltune.mpi.intelmpi.adjust_file import NAME, AdjustFile
from colltune.mpi.intelmpi.choices import Choice, Sizes
from colltune.mpi.intelmpi.grid import CommPart, Grid, PpnPart
from colltune.mpi.intelmpi.releases import LIBRARY, catalogue_of

EVERYWHERE = (
    "a variable holds for communicators of all sizes, not only for those of the whole job, for"
    " which it was chosen"
)
_HEADER = "# Intel MPI: export these variables before the program is started (I_MPI_ADJUST_*).\n"
_NAMED = re.compile(
    r"(?m)^[ \t]*+(?:#.*\(I_MPI_ADJUST_\*\)|(?:export[ \t]++)?I_MPI_ADJUST_[A-Za-z_]+=)"
)


class AdjustFormat(Format):
    name = NAME
    library = LIBRARY
    title = "Intel MPI's variables I_MPI_ADJUST_*"
    catalogue_of = staticmethod(catalogue_of)
    allows_partial_collective = False
    knows_comm_size = False
    remarks = (EVERYWHERE,)

    def recognises(self, text: str) -> bool:
        """Tell whether a line sets one of the variables, or is the first of a written list."""
        return bool(_NAMED.search(text))

    def parse(self, text: str, source: str, release: str) -> AdjustFile:
        catalogue_of(release)
        return AdjustFile(text, source, release)

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Return what `table` says for the whole job's communicator, as variables.

        A collective is written as a whole or not at all, see `choices`.
        """
        chosen, notes = choices.chosen(
            _whole_job(table), release, builtin_operations_only=builtin_operations_only
        )
        grid = {collective: _laid_out(choice) for collective, choice in chosen.items()}
        dropped = sorted({c for c, s in _all_keys(table) if s != table.shape.nprocs})
        notes += tuple(
            f"{c}: what the table has for communicators of other sizes than"
            f" {table.shape.nprocs} cannot be told apart"
            for c in dropped
        )
        return _written(grid, release, (*notes, *(self.remarks if grid else ())))

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """Return what another file of Intel MPI means, as far as all communicators have it."""
        catalogue_of(release)
        grid, notes = conversion.converted(parsed, release)
        kept: dict[Collective, tuple[PpnPart, ...]] = {}
        for collective, parts in grid.items():
            if len(parts) == 1 and len(parts[0].comms) == 1:
                kept[collective] = parts
                continue
            line = next(r.line for r in parsed.rules if r.collective is collective)
            notes.append(
                f"line {line}: {collective} is left to the library: variables cannot tell"
                " communicators apart"
            )
        return _written(kept, release, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables of the written list; nothing as long as it is not there."""
        path = activation.absolute(paths[""])
        try:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            catalogue_of(release)
            return {}
        settings = self.parse(text, str(path), release).listing.settings
        return {presets.variable(c): s.value.text for c, s in settings.items()}


def _whole_job(table: DecisionTable) -> DecisionTable:
    """Return the table's part for the communicator of the whole job."""
    job = table.shape
    rules = {key: found for key, found in table.rules.items() if key[1] == job.nprocs}
    for (collective, shape), found in table.by_layout.items():
        if shape == job:
            rules[collective, job.nprocs] = found
    return DecisionTable(table.library, job, rules)


def _all_keys(table: DecisionTable) -> set[tuple[Collective, int]]:
    return {*table.rules, *((c, shape.nprocs) for c, shape in table.by_layout)}


def _laid_out(choice: Choice) -> tuple[PpnPart, ...]:
    (sizes,) = choice.everywhere.values()
    return (PpnPart(None, (CommPart(None, sizes),)),)


def _written(grid: Grid, release: str, notes: tuple[str, ...]) -> Written:
    lines = [
        f"export {presets.variable(collective)}='{value(parts[0].comms[0].sizes)}'\n"
        for collective, parts in sorted(grid.items())
    ]
    return Written(NAME, release, {"": _HEADER + "".join(lines)}, notes)


def value(sizes: Sizes) -> str:
    """Return the value of a variable: ascending ends, the last entry without a range."""
    words, first = [], 0
    for part in sizes:
        if part.last is None:
            words.append(str(part.preset))
            break
        if part.last > choices.LARGEST_BYTES:
            raise LibraryError(f"{part.last} bytes: no end beyond {choices.LARGEST_BYTES} is read")
        words.append(f"{part.preset}:{first}-{part.last}")
        first = part.last + 1
    return ";".join(words)
