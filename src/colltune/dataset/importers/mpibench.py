"""Reads the rows of LLNL's mpiBench.

Every time is a rank's mean over iterations; ``Max`` is the largest over ranks. Sizes are the block
per process for allgather, alltoall, gather and scatter, and the whole buffer for all others
(``mpiBench.c``). Between two calls there is a barrier, which is timed as well, unless mpiBench was
built without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from colltune.dataset.importers.assembly import reads_lines
from colltune.dataset.importers.protocol import (
    ImportedRow,
    LineReader,
    ParsedOutput,
    TimeKind,
    over_ranks,
    why_left_out,
)
from colltune.domain import Collective, parse_collective
from colltune.errors import DataError, say

_START = r"START mpiBench"
_ROW_HAS = "the columns of mpiBench"
_ROW = re.compile(
    r"(?P<name>[A-Z]\w*)\s+Bytes:\s+(?P<size>\d{1,18})\s+Iters:\s+(?P<n>\d{1,9})"
    r"\s+Avg:\s+(?P<avg>\d+\.\d+)\s+Min:\s+(?P<min>\d+\.\d+)\s+Max:\s+(?P<max>\d+\.\d+)"
    r"\s+Comm:\s+(?P<comm>\S+)\s+Ranks:\s+(?P<nprocs>\d{1,9})\s*$"
)
_UNEVEN = ("Allgatherv", "Alltoallv")


def parse(lines: Iterable[str], name: str) -> ParsedOutput:
    reader = _MpibenchReader(name).read(lines)
    if not reader.facts:
        raise say("not-output", name=name, title=IMPORTER.title, like="START mpiBench v1.5")
    reader.remarks = list(dict.fromkeys(reader.remarks))
    return reader.reading()


IMPORTER = reads_lines("LLNL's mpiBench", _START, parse)


class _MpibenchReader(LineReader):
    def feed(self, line: str) -> None:
        if line.startswith(_START):
            self.facts.setdefault("version", {})[line.removeprefix(_START).strip()] = None
        elif (row := _ROW.match(line)) and not self.is_cut_off(line):
            self._row(row)
        elif "\tBytes:\t" in line and not row and not self.is_cut_off(line):
            raise self.wrong(say("malformed-row", row=" ".join(line.split()), expected=_ROW_HAS))

    def _row(self, row: re.Match[str]) -> None:
        name = row["name"]
        try:
            collective = parse_collective(name)
        except DataError:
            self.remarks.append(f"{name} {why_left_out(name)} and is left out")
            return
        if name in _UNEVEN:
            self.remarks.append(f"{name} has another count on each process and is left out")
        elif row["comm"] != "MPI_COMM_WORLD":
            self.remarks.append(f"{row['comm']} runs several groups at once and is left out")
        else:
            self.rows.append(self._measured(row, collective))

    def _measured(self, row: re.Match[str], collective: Collective) -> ImportedRow:
        conditions = {"memory": "host", "datatype": "MPI_BYTE"}
        if collective.reduces:
            conditions |= {"datatype": "MPI_DOUBLE", "operation": "MPI_SUM"}
        return ImportedRow(
            collective,
            int(row["size"]),
            int(row["nprocs"]),
            TimeKind.MAXIMUM_OF_MEANS,
            self.number,
            summary=over_ranks(int(row["n"]), *(float(row[k]) for k in ("max", "avg", "min"))),
            conditions=conditions,
        )
