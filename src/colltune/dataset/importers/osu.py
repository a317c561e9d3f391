"""Reads the OSU Micro-Benchmarks' tables of blocking collectives, releases 3 to 7, and OMB-Py's.

Sizes are the block per process for allgather, alltoall, gather and scatter, and the whole buffer
for all others (``osu_reduce_scatter.c`` and ``osu_reduce_scatter_block.c`` divide it among the
processes). Every time is an average of each rank over its iterations: ``Avg Latency`` is their mean
over ranks, ``Max Latency`` (option -f) their maximum, which comes closest to ours, and ``P50``
(option -z) the median over iterations of the mean over ranks. Of these the first available of
maximum, P50 and average is taken. OMB-Py prints averages alone, and not where its buffers lie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from colltune.dataset.importers.assembly import reads_lines
from colltune.dataset.importers.protocol import (
    ImportedRow,
    LineReader,
    ParsedOutput,
    TimeKind,
    over_ranks,
    real,
    whole,
    why_left_out,
)
from colltune.domain import Collective, RunStatus
from colltune.errors import say

_PROGRAM = r"#\s*(?:OSU|(?P<python>OMB Python|OMB-Py))\s+"
_TITLE = re.compile(_PROGRAM + r"(?P<name>\S.*?)\s+Test\b\s*v?(?P<version>[\w.]*)")
_DEVICE = re.compile(r"MPI(?:-(?P<device>[A-Z]+))?\s+")
_COLUMN = re.compile(
    r"Size|(?:Avg |Min |Max )?Latency ?\(us\)|Iterations|Validation|P\d+ Tail Lat\(us\)"
)
_TIMES = {
    "Max Latency(us)": TimeKind.MAXIMUM_OF_MEANS,
    "P50 Tail Lat(us)": TimeKind.MEDIAN_OF_RANK_MEANS,
    "Avg Latency(us)": TimeKind.MEAN,
    "Latency (us)": TimeKind.MEAN,
    "Latency(us)": TimeKind.MEAN,
}
_COLLECTIVES = {
    "broadcast": Collective.BCAST,
    "bcast": Collective.BCAST,
    "alltoall": Collective.ALLTOALL,
    "alltoallv": Collective.ALLTOALLV,
    "all-to-all personalized exchange": Collective.ALLTOALL,
    "all-to-allv personalized exchange": Collective.ALLTOALLV,
    "allgather": Collective.ALLGATHER,
    "allgatherv": Collective.ALLGATHERV,
    "allreduce": Collective.ALLREDUCE,
    "barrier": Collective.BARRIER,
    "gather": Collective.GATHER,
    "reduce": Collective.REDUCE,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "reduce_scatter_block": Collective.REDUCE_SCATTER_BLOCK,
    "scatter": Collective.SCATTER,
}
_ELEMENT_BYTES = {"MPI_CHAR": 1, "MPI_INT": 4, "MPI_FLOAT": 4}


def parse(lines: Iterable[str], name: str) -> ParsedOutput:
    reader = _OsuReader(name, facts={"benchmark": {}, "datatype": {}}).read(lines)
    if not reader.facts["benchmark"]:
        raise say("not-output", name=name, title=IMPORTER.title, like="# OSU MPI … Test")
    return reader.reading()


IMPORTER = reads_lines("OSU Micro-Benchmarks", _PROGRAM + r"\S.*\bTest\b", parse)


@dataclass
class _OsuReader(LineReader):
    """`collective` is that of the current table, None in a foreign one.

    What is no row and comes after an interruption is of another program.
    """

    collective: Collective | None = None
    columns: list[str] = field(default_factory=list)
    datatype: str = ""
    memory: str = ""
    interrupted: bool = False

    def feed(self, line: str) -> None:
        text = line.strip()
        if title := _TITLE.match(text):
            self._title(title)
        elif text.startswith("# Datatype:"):
            self.datatype = text.partition(":")[2].strip(" .")
            self.facts["datatype"][self.datatype] = None
        elif text.startswith("#"):
            if "Transmit Size" in text:
                raise self.wrong(say("derived-types"))
            found = _COLUMN.findall(text)
            if "Latency" in text and any(column in _TIMES for column in found):
                self.columns, self.interrupted = found, False
        elif self.collective is not None and self.columns:
            self._row(self.collective, text.split(), line)

    def _title(self, title: re.Match[str]) -> None:
        self.facts["benchmark"][f"{title['name']} {title['version']}".strip()] = None
        device = _DEVICE.match(f"{title['name']} ")
        benchmark = title["name"][device.end() if device else 0 :]
        self.memory = (device["device"] if device else None) or ("" if title["python"] else "host")
        name = benchmark.removesuffix("Latency").strip().lower()
        self.collective = _COLLECTIVES.get(name)
        self.columns, self.datatype = [], ""
        if self.collective is None:
            self.remarks.append(f"{title['name']} {why_left_out(title['name'])} and is left out")

    def _row(self, collective: Collective, words: list[str], line: str) -> None:
        numbers = [real(word) for word in words]
        fits = len(words) == len(self.columns)
        if not words or numbers[0] is None or not (fits or None not in numbers):
            self.interrupted = True  # by mpirun, the end of a validation error, another program
            return
        if self.is_cut_off(line):
            return
        row = dict(zip(self.columns, words, strict=False))
        size, n_reps = whole(row.get("Size", "0")), whole(row.get("Iterations", "1"))
        times = [real(row[c]) for c in row if c not in ("Size", "Validation")]
        if not fits or size is None or n_reps is None or None in times:
            if self.interrupted:
                self.remarks.append(f"the table before line {self.number} ended; more is not read")
                self.columns = []
                return
            raise self.wrong(
                say("malformed-row", row=" ".join(words), expected=", ".join(self.columns))
            )
        column, kind = next((c, k) for c, k in _TIMES.items() if c in row)
        others = (real(row.get(f"{name} Latency(us)", "")) for name in ("Avg", "Min"))
        summary = over_ranks(n_reps, float(row[column]), *others)
        if kind is not TimeKind.MAXIMUM_OF_MEANS:
            summary = replace(summary, time_mean_s=math.nan)
        wrong = row.get("Validation", "Pass") not in ("Pass", "-")
        block = collective is Collective.REDUCE_SCATTER_BLOCK
        self.rows.append(
            ImportedRow(
                collective,
                size,
                None,
                kind,
                self.number,
                RunStatus.WRONG_RESULT if wrong else RunStatus.OK,
                summary=None if wrong else summary,
                conditions={"memory": self.memory, "datatype": self.datatype},
                split_bytes=_ELEMENT_BYTES.get(self.datatype, 4) if block else 0,
            )
        )
