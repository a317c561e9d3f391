"""Reads the Intel MPI Benchmarks' blocks of blocking collectives.

Sizes are the block per process for allgather, alltoall, gather, scatter and their kind, and the
whole buffer for bcast, reduce and allreduce. Those of Reduce_scatter are the block per process from
2019 Update 1 on and the whole buffer before (``IMB_reduce_scatter.c``). ``t_max`` is the maximum
over ranks of each rank's mean over repetitions; it comes closest to our time. The root of rooted
collectives moves on with every repetition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

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
from colltune.domain import Collective, LaunchStatistics, RunStatus, parse_collective
from colltune.errors import ColltuneError, DataError, say

_TITLE = r"#\s*(?:Intel|PALLAS)\s?(?:\(R\))? MPI Benchmark(?:s| Suite)"
_PROGRAM = re.compile(_TITLE + r"\s+(?P<version>[^,]*)(?:,\s*(?P<part>.*))?")
_RELEASE = re.compile(r"V?(?P<year>[0-9]{1,4})\b(?P<update> Update)?")
_BLOCK = re.compile(r"#\s*Benchmarking\s+(?P<name>\S+)")
_PROCESSES = re.compile(r"#\s*#processes\s*=\s*(?P<n>[0-9]{1,9})\b")
_FACT = re.compile(r"#\s*(?P<key>[A-Z][\w ]*?)\s*:\s*(?P<value>.*\S)")
_FACTS = {"Date", "Machine", "System", "Release", "MPI Version", "MPI_Op", "MPI_Datatype"}
_FACTS |= {"MPI_Datatype for reductions"}
# options that change what is timed, and the condition that each one is
_OPTIONS = {
    "-off_cache": "cache",
    "-root_shift": "root",
    "-sync": "sync",
    "-imb_barrier": "barrier",
    "-mem_alloc_type": "memory",
}
_ON = {"on": "on", "1": "on", "enable": "on", "yes": "on"}
_ON |= {"off": "off", "0": "off", "disable": "off", "no": "off"}
_HOST = {"cpu": "host", "device": "device", "shared": "shared", "host": "host"}
_GIVEN_UP = {"time-out": RunStatus.TIMEOUT, "out-of-mem": RunStatus.NOT_APPLICABLE}
_GIVEN_UP["int-overflow"] = RunStatus.NOT_APPLICABLE
# IMB's own limit (IMB_declare.h, TOL)
_WORST_DEFECT = 1e-2


def parse(lines: Iterable[str], name: str) -> ParsedOutput:
    reader = _ImbReader(name).read(lines)
    if not reader.blocks:
        raise say("not-output", name=name, title=IMPORTER.title, like="# Benchmarking Bcast")
    reader.end_run()
    reader.remarks = list(dict.fromkeys(reader.remarks))
    return reader.reading()


IMPORTER = reads_lines("Intel MPI Benchmarks", rf"{_TITLE}|#\s*Benchmarking\s+\S", parse)


@dataclass
class _ImbReader(LineReader):
    """`header` has the facts of the current run, `collective` is None in a foreign block."""

    header: dict[str, str] = field(default_factory=dict)
    blocks: int = 0
    complete: bool = False
    collective: Collective | None = None
    nprocs: int | None = None
    columns: list[str] = field(default_factory=list)
    begun: int = 0
    calling: list[str] | None = None
    conditions: dict[str, str] = field(default_factory=dict)
    short: tuple[int, ColltuneError] | None = None
    """The line of a row that was cut short, and what is wrong with it if more follow."""

    def end_run(self) -> None:
        """Remark on the current run where it did not reach its end."""
        self._end_table()
        if self.blocks and not self.complete:
            which = f"the run that begins on line {self.begun}" if self.begun > 1 else "the run"
            self.remarks.append(f"{which} did not finish; its measurements so far are kept")

    def _end_table(self) -> None:
        if self.short:
            where, _ = self.short
            self.remarks.append(f"the row on line {where} is incomplete and is left out")
        self.columns, self.short = [], None

    def feed(self, line: str) -> None:
        text = line.strip()
        if text.startswith(("#bytes", "#repetitions")):
            self._end_table()
            self.columns = text.split() if self.collective else []
        elif text.startswith("#"):
            self._comment(text)
        elif not text:
            self._end_table()
        elif self.columns and self.collective:
            self._row(self.collective, text.split(), line)

    def _comment(self, text: str) -> None:
        words = text.strip("# ").split()
        if program := _PROGRAM.match(text):
            self.end_run()
            self.header, self.complete, self.begun, self.blocks = {}, False, self.number, 0
            on_gpu = "GPU" in (program["part"] or "")
            self.conditions = {"memory": "device" if on_gpu else "host"}
            self._fact("version", program["version"].strip())
        elif text.startswith("# Calling sequence was"):
            self.calling = []
            self.conditions = dict.fromkeys(_OPTIONS.values(), "default") | self.conditions
        elif self.calling is not None and words and not _FACT.match(text):
            self.calling += words
            self._options(self.calling)
        elif block := _BLOCK.match(text):
            self._block(block["name"])
        elif processes := _PROCESSES.match(text):
            self.nprocs = int(processes["n"])
        elif "All processes entering MPI_Finalize" in text:
            self.complete = True
        elif (fact := _FACT.match(text)) and fact["key"] in _FACTS:
            self.calling = None
            self._fact(fact["key"], fact["value"])

    def _options(self, words: list[str]) -> None:
        """Take from the program's command line what changes the times."""
        self.facts["command"] = {" ".join(words): None} | self.facts.get("command", {})
        for option, value in zip(words, [*words[1:], ""], strict=True):
            if name := _OPTIONS.get(option):
                known = _HOST if name == "memory" else _ON
                self.conditions[name] = known.get(value.lower(), value)

    def _fact(self, key: str, value: str) -> None:
        self.header[key] = value
        known = self.facts.setdefault(key, {})
        if key in ("Machine", "System") and known and value not in known:
            raise self.wrong(say("another-machine", key=key, value=value, before=next(iter(known))))
        known[value] = None

    def _block(self, benchmark: str) -> None:
        self.blocks += 1
        self._end_table()
        self.nprocs, self.calling = None, None
        try:
            self.collective = parse_collective(benchmark)
        except DataError:
            self.collective = None
            self.remarks.append(f"{benchmark} {why_left_out(benchmark)} and is left out")

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
            expected = " ".join(self.columns)
            wrong = self.wrong(say("malformed-row", row=" ".join(words), expected=expected))
            if len(words) >= len(self.columns) or self.short:
                raise wrong
            self.short = self.number, wrong  # unless more rows follow, the run broke off here
            return
        if self.short:
            raise self.short[1]
        if self.nprocs is None:
            raise self.wrong(say("no-processes-line"))
        if collective is Collective.REDUCE_SCATTER and self._counts_blocks():
            size *= self.nprocs
        if status is None and (numbers.get("defects") or 0.0) > _WORST_DEFECT:
            status = RunStatus.WRONG_RESULT
        reduces = collective.reduces
        key = "MPI_Datatype for reductions" if reduces else "MPI_Datatype"
        told = {"datatype": self.header.get(key, "")}
        told |= {"operation": self.header.get("MPI_Op", "")} if reduces else {}
        self.rows.append(
            ImportedRow(
                collective,
                size,
                self.nprocs,
                TimeKind.MAXIMUM_OF_MEANS,
                self.number,
                status or RunStatus.OK,
                summary=self._summary(numbers) if status is None else None,
                conditions=self.conditions | told,
            )
        )

    def _summary(self, numbers: dict[str, float | None]) -> LaunchStatistics:
        time_us, n_reps = numbers.get("t_max[usec]"), numbers["#repetitions"]
        if time_us is None or n_reps is None:
            raise self.wrong(say("no-t-max", numbers=" ".join(numbers)))
        others = (numbers.get(f"t_{name}[usec]") for name in ("avg", "min"))
        return over_ranks(int(n_reps), time_us, *others)

    def _counts_blocks(self) -> bool:
        """Whether this release's Reduce_scatter counts blocks: from 2019 Update 1 on."""
        release = _RELEASE.match(self.header.get("version", ""))
        if release is None:
            raise self.wrong(say("sizes-unclear"))
        year = int(release["year"])
        return year > 2019 or (year == 2019 and release["update"] is not None)
