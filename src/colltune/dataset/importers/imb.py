"""Reads the Intel MPI Benchmarks' blocks of blocking collectives.

Sizes are the block per process for allgather, alltoall, gather, scatter and their kind, and the
whole buffer for bcast, reduce and allreduce. Those of Reduce_scatter are the block per process from
2019 Update 1 on and the whole buffer before (``IMB_reduce_scatter.c``). ``t_max`` is the maximum
over ranks of each rank's mean over repetitions; it comes closest to our time. The root of rooted
collectives moves on with every repetition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from colltune.dataset.importers.assembly import assemble
from colltune.dataset.importers.protocol import (
    Imported,
    Importer,
    Reading,
    Request,
    Row,
    Source,
    TimeKind,
    real,
    whole,
)
from colltune.domain import Collective, RunStatus, Summary, parse_collective
from colltune.errors import DataError

SIGNS = re.compile(r"#\s*(?:Intel\(R\) MPI Benchmarks|Benchmarking\s+\S)")
_PROGRAM = re.compile(r"#\s*Intel\S* MPI Benchmarks (?P<version>[^,]*)")
_RELEASE = re.compile(r"(?P<year>[0-9]{1,4})\b(?P<update> Update)?")
_BLOCK = re.compile(r"#\s*Benchmarking\s+(?P<name>\S+)")
_PROCESSES = re.compile(r"#\s*#processes\s*=\s*(?P<n>[0-9]{1,9})\b")
_FACT = re.compile(r"#\s*(?P<key>[A-Z][\w ]*?)\s*:\s*(?P<value>.*\S)")
_FACTS = {"Date", "Machine", "System", "Release", "MPI Version", "MPI_Op", "MPI_Datatype"}
_FACTS |= {"MPI_Datatype for reductions"}
_REDUCING = {
    Collective.ALLREDUCE,
    Collective.REDUCE,
    Collective.REDUCE_SCATTER,
    Collective.REDUCE_SCATTER_BLOCK,
}
_GIVEN_UP = {"time-out": RunStatus.TIMEOUT, "out-of-mem": RunStatus.NOT_APPLICABLE}
_GIVEN_UP["int-overflow"] = RunStatus.NOT_APPLICABLE
# IMB's own limit (IMB_declare.h, TOL)
_WORST_DEFECT = 1e-2


def parse(lines: Iterable[str], name: str) -> Reading:
    reader = _Reader(name)
    for number, line in enumerate(lines, start=1):
        reader.feed(number, line)
    if not reader.blocks:
        raise DataError(f"{name}: no IMB output (no line like '# Benchmarking Bcast')")
    remarks = list(dict.fromkeys(reader.remarks))
    if not reader.complete:
        remarks.append("the run did not reach its end; what is there is kept")
    facts = {key: "; ".join(values) for key, values in reader.facts.items()}
    return Reading(tuple(reader.rows), facts, tuple(remarks))


def load(source: Source, request: Request) -> Imported:
    return assemble(parse(source.lines(), source.name), source, request)


IMPORTER = Importer("Intel MPI Benchmarks", SIGNS, load)


@dataclass
class _Reader:
    name: str
    rows: list[Row] = field(default_factory=list)
    facts: dict[str, dict[str, None]] = field(default_factory=dict)
    header: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    blocks: int = 0
    complete: bool = False
    collective: Collective | None = None
    nprocs: int | None = None
    columns: list[str] = field(default_factory=list)

    def feed(self, number: int, line: str) -> None:
        text = line.strip()
        if text.startswith(("#bytes", "#repetitions")):
            self.columns = text.split() if self.collective else []
        elif text.startswith("#"):
            self._comment(number, text)
        elif not text:
            self.columns = []
        elif self.columns and self.collective:
            self._row(number, text.split(), ended=line.endswith("\n"))

    def _comment(self, number: int, text: str) -> None:
        if program := _PROGRAM.match(text):
            self.header = {}
            self._fact(number, "version", program["version"].strip())
            self.complete = False
        elif block := _BLOCK.match(text):
            self._block(block["name"])
        elif processes := _PROCESSES.match(text):
            self.nprocs = int(processes["n"])
        elif "All processes entering MPI_Finalize" in text:
            self.complete = True
        elif (fact := _FACT.match(text)) and fact["key"] in _FACTS:
            self._fact(number, fact["key"], fact["value"])

    def _fact(self, number: int, key: str, value: str) -> None:
        self.header[key] = value
        known = self.facts.setdefault(key, {})
        if key in ("Machine", "System") and known and value not in known:
            raise DataError(
                f"{self.name}, line {number}: a run on another machine ({key} {value}, before"
                f" {next(iter(known))}); measurements of different machines are not joined"
            )
        known[value] = None

    def _block(self, benchmark: str) -> None:
        self.blocks += 1
        self.nprocs, self.columns = None, []
        try:
            self.collective = parse_collective(benchmark)
        except DataError:
            self.collective = None
            why = "runs several groups at once" if "Multi-" in benchmark else "is no collective"
            self.remarks.append(f"{benchmark} {why} and is left out")

    def _row(self, number: int, words: list[str], *, ended: bool) -> None:
        status = next((s for mark, s in _GIVEN_UP.items() if words[1:2] and mark in words[1]), None)
        if not ended and status is None:
            self.remarks.append(f"the last line ({number}) is cut off and left out")
            return
        if real(words[0]) is None:
            return  # mpirun's
        numbers = dict(zip(self.columns, [real(word) for word in words], strict=False))
        reps = whole(dict(zip(self.columns, words, strict=False)).get("#repetitions", ""))
        size = whole(words[0]) if "#bytes" in self.columns else 0
        complete = len(words) == len(self.columns) and None not in (reps, *numbers.values())
        if size is None or (status is None and not complete):
            raise DataError(
                f"{self.name}, line {number}: malformed row {' '.join(words)!r}; expected"
                f" {' '.join(self.columns)}"
            )
        found = {k: v for k, v in numbers.items() if v is not None}
        self.rows.append(self._measured(number, size, found, status))

    def _measured(
        self, number: int, size: int, found: dict[str, float], status: RunStatus | None
    ) -> Row:
        assert self.collective is not None
        if self.nprocs is None:
            raise DataError(f"{self.name}, line {number}: its block has no line '# #processes = N'")
        if self.collective is Collective.REDUCE_SCATTER and self._counts_blocks(number):
            size *= self.nprocs
        if status is None and found.get("defects", 0.0) > _WORST_DEFECT:
            status = RunStatus.WRONG_RESULT
        summary = None
        if status is None:
            if "t_max[usec]" not in found:
                raise DataError(
                    f"{self.name}, line {number}: no column t_max[usec] but {' '.join(found)}"
                )
            time_s = found["t_max[usec]"] * 1e-6
            n_reps = int(found["#repetitions"])
            summary = Summary(n_reps, time_s, time_s, *[math.nan] * 3)
        key = "MPI_Datatype for reductions" if self.collective in _REDUCING else "MPI_Datatype"
        return Row(
            self.collective,
            size,
            self.nprocs,
            TimeKind.MAXIMUM_OF_MEANS,
            number,
            status or RunStatus.OK,
            summary=summary,
            convention=self.header.get(key, ""),
        )

    def _counts_blocks(self, number: int) -> bool:
        """Whether this release's Reduce_scatter counts blocks: from 2019 Update 1 on."""
        release = _RELEASE.match(self.header.get("version", ""))
        if release is None:
            raise DataError(
                f"{self.name}, line {number}: what Reduce_scatter's sizes count depends on IMB's"
                " release, which only its first lines tell; they are missing"
            )
        year = int(release["year"])
        return year > 2019 or (year == 2019 and release["update"] is not None)
