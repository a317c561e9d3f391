"""Reads what ReproMPI's ``mpibenchmark`` prints: raw, verbose, window and summary tables.

A run's output is a header of ``#`` lines, one table, and the line ``# Execution time: …`` that only
a run that reached its end prints. Times are seconds; ReproMPI's ``count`` is elements, and its size
of ``MPI_Reduce_scatter`` is the block per process, where ours is the whole buffer.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from colltune.dataset.importers.assembly import reads_lines
from colltune.dataset.importers.protocol import (
    ImportedRow,
    LineReader,
    ParsedOutput,
    TimeKind,
    real,
    whole,
    why_left_out,
)
from colltune.domain import Collective, LaunchStatistics, RunStatus, parse_collective
from colltune.errors import DataError, say
from colltune.text import counted

Key = tuple[Collective, int]
_DATATYPE_BYTES = {"MPI_BYTE": 1, "MPI_CHAR": 1, "MPI_INT": 4, "MPI_FLOAT": 4, "MPI_DOUBLE": 8}
_PINGPONG = "Send_Recv"
_SMALL = 64
_NO_COLLECTIVES = {"Empty", "Send_Recv", "Sendrecv", "Isend_Recv", "Isend_Irecv", "Send_Irecv"}
# verbose output is gathered in chunks of so many repetitions; error codes and global times of all
# but the first chunk are those of the first (ReproMPI's print_measurement_results)
_CHUNK = 3000
_TABLES = (
    {"nrep", "runtime_sec"},
    {"process", "nrep", "loc_tstart_sec", "loc_tend_sec"},
    {"total_nrep", "valid_nrep"},
)


@dataclass
class ReproMpiCell:
    """What one run measured of one collective and size.

    ``times_s`` holds the valid repetitions, in order, each the maximum over ranks (or, with
    ``runtime_type=global``, last end minus first start). It is empty for summary output, which has
    a `summary` instead: its ``time_s`` is the median or else the mean, and NaN stands for what was
    not asked for. ``visits`` are the places in ``times_s`` where a repeated job begins anew.
    """

    collective: Collective
    msize_bytes: int
    n_valid: int = 0
    n_total: int = 0
    times_s: list[float] = field(default_factory=list)
    summary: LaunchStatistics | None = None
    visits: list[int] = field(default_factory=list)
    line: int = 0

    def add(self, time_s: float, *, valid: bool) -> None:
        self.n_total += 1
        if valid and 0 < time_s < math.inf:
            self.times_s.append(time_s)
            self.n_valid += 1


@dataclass(frozen=True)
class ReproMpiOutput:
    """One run's output.

    ``facts`` are the header's ``#@key=value`` lines, the ``command_line`` and the table's
    ``columns``. A requested cell without a row is in ``missing``. ``errors`` are the program's own
    error messages, ``remarks`` tell what was left out here and why. ``round_trip_s`` is the
    shortest one of small messages, where ``Send_Recv`` was measured.
    """

    facts: Mapping[str, str]
    nprocs: int | None
    complete: bool
    rows: Mapping[Key, ReproMpiCell]
    missing: tuple[Key, ...] = ()
    errors: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    round_trip_s: float | None = None


def parse_output(text: str, source: str) -> ReproMpiOutput:
    """Read the output of one run."""
    runs = parse_runs(io.StringIO(text, newline=None), source)
    if len(runs) > 1:
        raise say("several-runs", file=source, runs=counted(len(runs), "run"))
    return runs[0]


def parse_runs(lines: Iterable[str], source: str) -> tuple[ReproMpiOutput, ...]:
    """Read the output of one or more runs after each other."""
    runs = [run.output() for run in _ReproMpiReader(source).read(lines).runs if not run.is_empty]
    if not runs:
        raise say("not-output", name=source, title=IMPORTER.title, like="#@nprocs=8")
    return tuple(runs)


def parse(lines: Iterable[str], name: str) -> ParsedOutput:
    """Return what all runs in a file measured.

    A cell without a valid repetition has the status timeout: it did not get one within its window
    or time.
    """
    runs = parse_runs(lines, name)
    columns = {column for run in runs for column in run.facts["columns"].split()}
    if {"count", "msize_bytes"} <= columns:
        raise say("sizes-mixed", name=name)
    facts: dict[str, dict[str, None]] = {}
    for run in runs:
        for key, value in run.facts.items():
            facts.setdefault(key, {})[value] = None
    round_trips_s = [run.round_trip_s for run in runs if run.round_trip_s]
    if round_trips_s:
        facts["round_trip_s"] = {f"{min(round_trips_s):.3g}": None}
    return ParsedOutput(
        tuple(row for run in runs for row in _rows(run)),
        {key: "; ".join(values) for key, values in facts.items()},
        tuple(dict.fromkeys(remark for run in runs for remark in _remarks(run))),
    )


IMPORTER = reads_lines(
    "ReproMPI", r"#@\w+=|#MPI calls:|#Command-[Ll]ine [Aa]rguments:.*mpibenchmark", parse
)


def _rows(run: ReproMpiOutput) -> Iterator[ImportedRow]:
    cells = list(run.rows.values())
    if run.complete and not run.errors:
        cells += [ReproMpiCell(*key) for key in run.missing]
    for cell in cells:
        summary = LaunchStatistics.of(cell.times_s) if cell.times_s else cell.summary
        yield ImportedRow(
            cell.collective,
            cell.msize_bytes,
            run.nprocs,
            _kind(run),
            cell.line,
            RunStatus.OK if summary else RunStatus.TIMEOUT,
            tuple(cell.times_s),
            summary,
            conditions=_conditions(run, cell.collective),
        )


def _conditions(run: ReproMpiOutput, collective: Collective) -> dict[str, str]:
    """Return what the times of a run hang on: datatype, operation, how processes start together."""
    facts = run.facts
    told = {"datatype": facts.get("datatype", ""), "sync": facts.get("procsync", "")}
    if told["sync"] and "barrier" not in told["sync"].lower():
        told["sync"] += f" by {facts.get('clocksync', 'unknown')} clocks"
    return told | ({"operation": facts.get("operation", "")} if collective.reduces else {})


def _kind(run: ReproMpiOutput) -> TimeKind:
    columns = run.facts["columns"].split()
    mean = "mean_sec" in columns and "median_sec" not in columns
    if run.facts.get("runtime_type") == "global":
        return TimeKind.MEAN_OF_SPANS if mean else TimeKind.MEDIAN_OF_SPANS
    return TimeKind.MEAN_OF_MAXIMA if mean else TimeKind.MEDIAN_OF_MAXIMA


def _remarks(run: ReproMpiOutput) -> Iterator[str]:
    yield from run.remarks
    yield from run.errors
    if not run.facts["columns"]:
        yield "a run ended before it measured anything"
    elif "nprocs" not in run.facts:
        yield "a table has neither header nor end of its run; they may be in an --output-file"
    elif not run.complete:
        yield (
            "a run was aborted (no line '# Execution time'); its measurements so far are "
            f"kept, {counted(len(run.missing), 'requested cell')} missing"
        )


@dataclass
class _Repetition:
    """A repetition of verbose output, as far as its processes have been read."""

    n_processes: int = 0
    longest_s: float = -math.inf
    first_start_s: float = math.inf
    last_end_s: float = -math.inf
    valid: bool = True

    def add(self, numbers: Mapping[str, float]) -> None:
        start_s, end_s = numbers["loc_tstart_sec"], numbers["loc_tend_sec"]
        self.n_processes += 1
        self.longest_s = max(self.longest_s, end_s - start_s)
        self.first_start_s = min(self.first_start_s, numbers.get("gl_tstart_sec", start_s))
        self.last_end_s = max(self.last_end_s, numbers.get("gl_tend_sec", end_s))
        self.valid = self.valid and not numbers.get("errorcode")


@dataclass
class _Run:
    """A run while it is being read."""

    facts: dict[str, str] = field(default_factory=dict)
    listed: dict[str, list[str]] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    complete: bool = False
    cells: dict[Key, ReproMpiCell] = field(default_factory=dict)
    pending: dict[Key, dict[int, _Repetition]] = field(default_factory=dict)
    named: dict[tuple[str, int], ReproMpiCell | None] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)
    round_trips_s: list[float] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.facts or self.columns or self.listed)

    @property
    def nprocs(self) -> int | None:
        return whole(self.facts.get("nprocs", ""))

    @property
    def datatype_bytes(self) -> int | None:
        """Bytes per element: from the header, or from the options where there is no header."""
        options = self.facts.get("command_line", "").split()
        chosen = [word.partition("=")[2] for word in options if word.startswith("--datatype=")]
        assumed = _DATATYPE_BYTES.get(chosen[-1] if chosen else "MPI_BYTE") if options else None
        return whole(self.facts.get("datatype_size_bytes", "")) or assumed

    def flush(self, cell: ReproMpiCell) -> None:
        """Turn the repetitions of verbose output that all processes have told of into times."""
        globally = self.facts.get("runtime_type") == "global"
        pending = self.pending.pop((cell.collective, cell.msize_bytes), {})
        for number, found in sorted(pending.items()):
            if found.n_processes != self.nprocs:
                self.remarks["repetitions that some processes did not report are left out"] = None
                continue
            known = number < _CHUNK or not (globally or "errorcode" in self.columns)
            time_s = found.last_end_s - found.first_start_s if globally else found.longest_s
            cell.add(time_s, valid=found.valid and known)

    def output(self) -> ReproMpiOutput:
        for cell in self.cells.values():
            self.flush(cell)
        sizes = [whole(text) for text in self.listed.get("Message sizes", [])]
        calls = [_collective(call) for call in self.listed.get("MPI calls", [])]
        asked = [_key(c, m, self.nprocs) for m in sizes if m is not None for c in calls if c]
        missing = dict.fromkeys(key for key in asked if key is not None and key not in self.cells)
        return ReproMpiOutput(
            self.facts | {"columns": " ".join(self.columns)},
            self.nprocs,
            self.complete,
            self.cells,
            tuple(missing),
            tuple(self.errors),
            tuple(self.remarks),
            min(self.round_trips_s, default=None),
        )


@dataclass
class _ReproMpiReader(LineReader):
    runs: list[_Run] = field(default_factory=list)
    list_: str = ""

    def feed(self, line: str) -> None:
        words = line.split()
        if line.startswith("#"):
            self._comment(line.strip())
        elif "test" in words[:2] and not {"count", "msize_bytes"}.isdisjoint(words):
            run, columns = self._before_table(), {word: at for at, word in enumerate(words)}
            if len(columns) != len(words) or not any(table <= set(columns) for table in _TABLES):
                raise self.wrong(say("no-such-table", row=" ".join(words)))
            run.columns = columns
        elif words and self.runs:
            self._words(self.runs[-1], words, ended=line.endswith("\n"))

    def _before_table(self) -> _Run:
        """Return the current run, or a new one if its table has begun."""
        if not self.runs or self.runs[-1].columns or self.runs[-1].complete:
            self.runs.append(_Run())
            self.list_ = ""
        return self.runs[-1]

    def _comment(self, text: str) -> None:
        key, _, value = text.lstrip("# ").partition(":")
        if text.startswith("#@"):
            name, _, value = text[2:].partition("=")
            self._before_table().facts[name.strip()] = value.strip()
        elif key.lower() == "command-line arguments":
            self.runs.append(_Run(facts={"command_line": value.strip()}))
            self.list_ = ""
        elif key in ("MPI calls", "Message sizes"):
            self._before_table().listed[key] = []
            self.list_ = key
        elif text.startswith("#\t") and self.list_:
            self.runs[-1].listed[self.list_].append(text[2:].strip())
        elif key == "Execution time" and self.runs:
            self.runs[-1].complete = True

    def _words(self, run: _Run, words: list[str], *, ended: bool) -> None:
        if words[0].startswith("ERROR"):
            run.errors.append(" ".join(words))
        at = run.columns.get("test", len(words))
        if at >= len(words) or not _is_call(words[at]):
            return  # mpirun's, or another program's
        if len(words) > 1 and real(words[1 - at]) is None:
            return  # prose that begins with a call's name
        if not ended:
            run.remarks[f"the last line ({self.number}) is incomplete and is left out"] = None
            return
        named = {n: word for n, word in zip(run.columns, words, strict=False) if n != "test"}
        known = {n: (real if n.endswith("_sec") else whole)(word) for n, word in named.items()}
        numbers = {n: number for n, number in known.items() if number is not None}
        if len(words) != len(run.columns) or len(numbers) + 1 != len(words):
            raise self.wrong(
                say("malformed-row", row=" ".join(words), expected=" ".join(run.columns))
            )
        self._row(run, words[at], numbers)

    def _row(self, run: _Run, call: str, numbers: Mapping[str, float]) -> None:
        named = (call, int(numbers.get("msize_bytes", numbers.get("count", 0))))
        if named not in run.named:
            run.named[named] = self._cell(run, *named)
        cell = run.named[named]
        if cell is None:
            time_s = numbers.get("runtime_sec", numbers.get("min_sec", 0.0))
            if call == _PINGPONG and named[1] <= _SMALL and time_s > 0:
                run.round_trips_s.append(time_s)
            run.remarks[f"{call} {why_left_out(call)} and is left out"] = None
        elif "runtime_sec" in numbers:
            if numbers["nrep"] == 0:
                cell.visits.append(len(cell.times_s))
            cell.add(numbers["runtime_sec"], valid=not numbers.get("errorcode"))
        elif "process" in numbers:
            # verbose output comes process by process, chunk by chunk
            if numbers["process"] == 0 and numbers["nrep"] == 0:
                run.flush(cell)
            pending = run.pending.setdefault((cell.collective, cell.msize_bytes), {})
            pending.setdefault(int(numbers["nrep"]), _Repetition()).add(numbers)
        elif numbers["valid_nrep"] > numbers["total_nrep"]:
            raise self.wrong(say("too-many-valid"))
        elif cell.n_total or cell.summary:
            run.remarks[f"{call} appears several times for one size; the first is kept"] = None
        else:
            cell.n_total = int(numbers["total_nrep"])
            cell.summary = _summary(numbers)
            cell.n_valid = cell.summary.n_reps if cell.summary else 0

    def _cell(self, run: _Run, call: str, size: int) -> ReproMpiCell | None:
        """Return the cell that a row's call and size stand for, or None if it is none of ours."""
        collective = _collective(call)
        if collective is None:
            return None
        unit = 1 if "msize_bytes" in run.columns else run.datatype_bytes
        if unit is None:
            raise self.wrong(say("element-size-missing"))
        key = _key(collective, size * unit, run.nprocs)
        if key is None:
            raise self.wrong(say("nprocs-missing"))
        if key[1] >= 1 << 63:
            raise self.wrong(say("impossible-size", value=key[1]))
        return run.cells.setdefault(key, ReproMpiCell(*key, line=self.number))


def _is_call(word: str) -> bool:
    return word in _NO_COLLECTIVES or (word.startswith("MPI_") and word[4:5].isupper())


def _collective(call: str) -> Collective | None:
    try:
        return parse_collective(call) if call.startswith("MPI_") else None
    except DataError:
        return None


def _key(collective: Collective, msize_bytes: int, nprocs: int | None) -> Key | None:
    """Return the cell that ReproMPI's `msize_bytes` is, or None if `nprocs` is needed."""
    if collective is Collective.BARRIER:
        return collective, 0
    if collective is Collective.REDUCE_SCATTER:
        return (collective, msize_bytes * nprocs) if nprocs else None
    return collective, msize_bytes


def _summary(numbers: Mapping[str, float]) -> LaunchStatistics | None:
    n_valid = int(numbers["valid_nrep"])
    known = {k: v for k, v in numbers.items() if math.isfinite(v) and v > 0}
    median_s, mean_s, min_s, max_s = (
        known.get(f"{name}_sec", math.nan) for name in ("median", "mean", "min", "max")
    )
    if n_valid == 0 or all(map(math.isnan, (median_s, mean_s, min_s, max_s))):
        return None
    best_s = mean_s if math.isnan(median_s) else median_s
    return LaunchStatistics(n_valid, best_s, mean_s, min_s, math.nan, max_s)
