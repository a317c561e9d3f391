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

from colltune.dataset.importers.assembly import reads_lines
from colltune.dataset.importers.protocol import LineReader, Reading, Row, TimeKind, real, whole
from colltune.domain import Collective, RunStatus, Summary, parse_collective
from colltune.errors import DataError

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
    reader = _Reader(name).read(lines)
    if not reader.blocks:
        raise DataError(f"{name}: not IMB output (no line like '# Benchmarking Bcast')")
    reader.remarks = list(dict.fromkeys(reader.remarks))
    if not reader.complete:
        reader.remarks.append("the run did not finish; its measurements so far are kept")
    return reader.reading()


IMPORTER = reads_lines(
    "Intel MPI Benchmarks", r"#\s*(?:Intel\(R\) MPI Benchmarks|Benchmarking\s+\S)", parse
)


@dataclass
class _Reader(LineReader):
    """`header` has the facts of the current run, `collective` is None in a foreign block."""

    header: dict[str, str] = field(default_factory=dict)
    blocks: int = 0
    complete: bool = False
    collective: Collective | None = None
    nprocs: int | None = None
    columns: list[str] = field(default_factory=list)

    def feed(self, line: str) -> None:
        text = line.strip()
        if text.startswith(("#bytes", "#repetitions")):
            self.columns = text.split() if self.collective else []
        elif text.startswith("#"):
            self._comment(text)
        elif not text:
            self.columns = []
        elif self.columns and self.collective:
            self._row(self.collective, text.split(), line)

    def _comment(self, text: str) -> None:
        if program := _PROGRAM.match(text):
            self.header, self.complete = {}, False
            self._fact("version", program["version"].strip())
        elif block := _BLOCK.match(text):
            self._block(block["name"])
        elif processes := _PROCESSES.match(text):
            self.nprocs = int(processes["n"])
        elif "All processes entering MPI_Finalize" in text:
            self.complete = True
        elif (fact := _FACT.match(text)) and fact["key"] in _FACTS:
            self._fact(fact["key"], fact["value"])

    def _fact(self, key: str, value: str) -> None:
        self.header[key] = value
        known = self.facts.setdefault(key, {})
        if key in ("Machine", "System") and known and value not in known:
            raise self.wrong(
                f"a run on another machine ({key} {value}, before {next(iter(known))}); "
                "measurements of different machines cannot be joined"
            )
        known[value] = None

    def _block(self, benchmark: str) -> None:
        self.blocks += 1
        self.nprocs, self.columns = None, []
        try:
            self.collective = parse_collective(benchmark)
        except DataError:
            self.collective = None
            why = "runs several groups at once" if "Multi-" in benchmark else "is not a collective"
            self.remarks.append(f"{benchmark} {why} and is left out")

    def _row(self, collective: Collective, words: list[str], line: str) -> None:
        given_up = (s for mark, s in _GIVEN_UP.items() if words[1:2] and mark in words[1])
        status = next(given_up, None)
        if (status is None and self.is_cut_off(line)) or real(words[0]) is None:
            return  # cut, or mpirun's
        row = dict(zip(self.columns, words, strict=False))
        numbers = {name: real(word) for name, word in row.items()}
        size = whole(words[0]) if "#bytes" in row else 0
        complete = len(words) == len(self.columns) and None not in numbers.values()
        complete = complete and whole(row.get("#repetitions", "")) is not None
        if size is None or (status is None and not complete):
            raise self.wrong(
                f"malformed row {' '.join(words)!r}; expected {' '.join(self.columns)}"
            )
        if self.nprocs is None:
            raise self.wrong("its block has no line '# #processes = N'")
        if collective is Collective.REDUCE_SCATTER and self._counts_blocks():
            size *= self.nprocs
        if status is None and (numbers.get("defects") or 0.0) > _WORST_DEFECT:
            status = RunStatus.WRONG_RESULT
        key = "MPI_Datatype for reductions" if collective in _REDUCING else "MPI_Datatype"
        self.rows.append(
            Row(
                collective,
                size,
                self.nprocs,
                TimeKind.MAXIMUM_OF_MEANS,
                self.number,
                status or RunStatus.OK,
                summary=self._summary(numbers) if status is None else None,
                convention=self.header.get(key, ""),
            )
        )

    def _summary(self, numbers: dict[str, float | None]) -> Summary:
        time_us, n_reps = numbers.get("t_max[usec]"), numbers["#repetitions"]
        if time_us is None or n_reps is None:
            raise self.wrong(f"no column t_max[usec], only {' '.join(numbers)}")
        time_s = time_us * 1e-6
        return Summary(int(n_reps), time_s, time_s, *[math.nan] * 3)

    def _counts_blocks(self) -> bool:
        """Whether this release's Reduce_scatter counts blocks: from 2019 Update 1 on."""
        release = _RELEASE.match(self.header.get("version", ""))
        if release is None:
            raise self.wrong(
                "the meaning of Reduce_scatter's sizes depends on IMB's release, which the "
                "missing first lines name"
            )
        year = int(release["year"])
        return year > 2019 or (year == 2019 and release["update"] is not None)
