"""Reads what ReproMPI's ``mpibenchmark`` prints: raw, verbose, window and summary tables.

A run's output is a header of ``#`` lines, one table, and the line ``# Execution time: …`` that only
a run that reached its end prints. Times are seconds; ReproMPI's ``count`` is elements, and its size
of ``MPI_Reduce_scatter`` is the block per process, where ours is the whole buffer.
"""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from colltune.dataset.importers.protocol import real, whole
from colltune.domain import Collective, Summary, parse_collective
from colltune.errors import DataError

Key = tuple[Collective, int]

_DATATYPE_BYTES = {"MPI_BYTE": 1, "MPI_CHAR": 1, "MPI_INT": 4, "MPI_FLOAT": 4, "MPI_DOUBLE": 8}
_NO_COLLECTIVES = {"Empty", "Send_Recv", "Sendrecv", "Isend_Recv", "Isend_Irecv", "Send_Irecv"}
# verbose output is gathered in chunks of so many repetitions; error codes and global times of all
# but the first chunk are those of the first (ReproMPI's print_measurement_results)
_CHUNK = 3000
_TABLES = (
    {"nrep", "runtime_sec"},
    {"process", "nrep", "loc_tstart_sec", "loc_tend_sec"},
    {"total_nrep", "valid_nrep"},
)


@dataclass(frozen=True)
class ReproMpiCell:
    """What one run measured of one collective and size.

    ``times_s`` holds the valid repetitions, in order, each the maximum over ranks (or, with
    ``runtime_type=global``, last end minus first start). It is empty for summary output, which has
    a `summary` instead: its ``time_s`` is the median or else the mean, and NaN stands for what was
    not asked for. ``n_valid`` of ``n_total`` repetitions are valid; where none is, there is no time
    at all. ``visits`` are the places in ``times_s`` where a repeated job begins anew, and ``line``
    is where the first row stands.
    """

    collective: Collective
    msize_bytes: int
    n_valid: int
    n_total: int
    times_s: tuple[float, ...] = ()
    summary: Summary | None = None
    visits: tuple[int, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class ReproMpiOutput:
    """One run's output.

    ``facts`` are the header's ``#@key=value`` lines, the ``command_line`` and the table's
    ``columns``. ``complete`` tells
    that the run reached its end. ``rows`` maps collective and size, in our bytes, to what was
    measured; a requested cell without a row is in ``missing``. ``errors`` are the program's own
    error messages, ``remarks`` tell what was left out here and why.
    """

    facts: Mapping[str, str]
    nprocs: int | None
    complete: bool
    rows: Mapping[Key, ReproMpiCell]
    missing: tuple[Key, ...] = ()
    errors: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def clocksync(self) -> str:
        """How clocks were synchronised, ``HCA3O`` or ``None``; empty where the header is lost."""
        return self.facts.get("clocksync", "")

    @property
    def procsync(self) -> str:
        """How processes were synchronised, ``MPI_Barrier``, ``window``, ``roundtime``, …."""
        return self.facts.get("procsync", "")


def parse(text: str, source: str) -> ReproMpiOutput:
    runs = parse_runs(io.StringIO(text, newline=None), source)
    if len(runs) > 1:
        raise DataError(f"{source}: holds {len(runs)} runs of mpibenchmark, not one")
    return runs[0]


def parse_runs(lines: Iterable[str], source: str) -> tuple[ReproMpiOutput, ...]:
    """Read the output of one or more runs after each other, line by line; see `parse`."""
    reader = _Reader(source)
    for number, line in enumerate(lines, start=1):
        reader.feed(number, line)
    return reader.finish()


@dataclass
class _Pending:
    """One repetition of verbose output, as far as its processes have been read."""

    n_processes: int = 0
    longest_s: float = -math.inf
    first_start_s: float = math.inf
    last_end_s: float = -math.inf
    valid: bool = True


@dataclass
class _Cell:
    line: int
    times_s: array[float] = field(default_factory=lambda: array("d"))
    n_total: int = 0
    n_valid: int = 0
    summary: Summary | None = None
    pending: dict[int, _Pending] = field(default_factory=dict)
    visits: list[int] = field(default_factory=list)

    def add(self, time_s: float, *, valid: bool) -> None:
        self.n_total += 1
        if valid and math.isfinite(time_s) and time_s > 0:
            self.times_s.append(time_s)
            self.n_valid += 1


@dataclass
class _Run:
    """A run while it is being read.

    ``columns`` maps a column's name to its place, ``named`` a row's call and size to its cell.
    """

    facts: dict[str, str] = field(default_factory=dict)
    listed: dict[str, list[str]] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    complete: bool = False
    cells: dict[Key, _Cell] = field(default_factory=dict)
    named: dict[tuple[str, int], _Cell | None] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)

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


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._runs: list[_Run] = []
        self._list = ""
        self._line = 0

    def feed(self, number: int, line: str) -> None:
        self._line = number
        words = line.split()
        if line.startswith("#"):
            self._comment(line.strip())
        elif "test" in words[:2] and not {"count", "msize_bytes"}.isdisjoint(words):
            self._before_table().columns = self._columns(words)
        elif words and self._runs:
            self._words(self._runs[-1], words, ended=line.endswith("\n"))

    def finish(self) -> tuple[ReproMpiOutput, ...]:
        runs = [run for run in self._runs if run.facts or run.columns or run.listed]
        if not runs:
            raise DataError(
                f"{self._source}: not the output of ReproMPI's mpibenchmark (neither its #@ lines"
                " nor its table are there)"
            )
        return tuple(_output(run) for run in runs)

    def _fail(self, why: str) -> DataError:
        return DataError(f"{self._source}, line {self._line}: {why}")

    def _before_table(self) -> _Run:
        """Return the current run, or a new one if its table has begun."""
        if not self._runs or self._runs[-1].columns or self._runs[-1].complete:
            self._runs.append(_Run())
            self._list = ""
        return self._runs[-1]

    def _comment(self, text: str) -> None:
        key, _, value = text.lstrip("# ").partition(":")
        if text.startswith("#@"):
            name, _, value = text[2:].partition("=")
            self._before_table().facts[name.strip()] = value.strip()
        elif key.lower() == "command-line arguments":
            self._runs.append(_Run(facts={"command_line": value.strip()}))
            self._list = ""
        elif key in ("MPI calls", "Message sizes"):
            self._before_table().listed[key] = []
            self._list = key
        elif text.startswith("#\t") and self._list:
            self._runs[-1].listed[self._list].append(text[2:].strip())
        elif key == "Execution time" and self._runs:
            self._runs[-1].complete = True

    def _columns(self, words: list[str]) -> dict[str, int]:
        columns = {word: place for place, word in enumerate(words)}
        if len(columns) != len(words) or not any(table <= set(columns) for table in _TABLES):
            raise self._fail(f"no table of mpibenchmark has the columns {' '.join(words)}")
        return columns

    def _words(self, run: _Run, words: list[str], *, ended: bool) -> None:
        if words[0].startswith("ERROR"):
            run.errors.append(" ".join(words))
        at = run.columns.get("test", len(words))
        if at >= len(words) or not _is_call(words[at]):
            return  # mpirun's, or another program's
        if len(words) > 1 and real(words[1 - at]) is None:
            return  # prose that begins with a call's name
        if not ended:
            run.remarks[f"the last line ({self._line}) is cut off and left out"] = None
            return
        numbers = {
            name: value
            for name, place in run.columns.items()
            if place != at
            and place < len(words)
            and (value := (real if name.endswith("_sec") else whole)(words[place])) is not None
        }
        if len(words) != len(run.columns) or len(numbers) + 1 != len(words):
            raise self._fail(f"malformed row {' '.join(words)!r}; expected {' '.join(run.columns)}")
        self._row(run, words[at], numbers)

    def _row(self, run: _Run, call: str, numbers: Mapping[str, float]) -> None:
        named = (call, int(numbers.get("msize_bytes", numbers.get("count", 0))))
        if named not in run.named:
            run.named[named] = self._cell(run, *named)
        cell = run.named[named]
        if cell is None:
            run.remarks[f"{call} is no collective operation and left out"] = None
        elif "runtime_sec" in numbers:
            if numbers["nrep"] == 0:
                cell.visits.append(len(cell.times_s))
            cell.add(numbers["runtime_sec"], valid=not numbers.get("errorcode"))
        elif "process" in numbers:
            _add_process(run, cell, numbers)
        elif numbers["valid_nrep"] > numbers["total_nrep"]:
            raise self._fail("more valid repetitions than repetitions")
        elif cell.n_total or cell.summary:
            run.remarks[f"{call} is there several times for one size: the first is kept"] = None
        else:
            cell.n_total = int(numbers["total_nrep"])
            cell.summary = _summary(numbers)
            cell.n_valid = cell.summary.n_reps if cell.summary else 0

    def _cell(self, run: _Run, call: str, size: int) -> _Cell | None:
        """Return the cell that a row's call and size stand for, or None if it is none of ours."""
        collective = _collective(call)
        if collective is None:
            return None
        unit = 1 if "msize_bytes" in run.columns else run.datatype_bytes
        if unit is None:
            raise self._fail("sizes are elements, but no #@datatype_size_bytes tells their bytes")
        key = _key(collective, size * unit, run.nprocs)
        if key is None:
            raise self._fail("no #@nprocs, which the size of MPI_Reduce_scatter needs")
        if key[1] >= 1 << 63:
            raise self._fail(f"impossible message size {key[1]}")
        return run.cells.setdefault(key, _Cell(self._line))


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


def _summary(numbers: Mapping[str, float]) -> Summary | None:
    n_valid = int(numbers["valid_nrep"])
    known = {k: v for k, v in numbers.items() if math.isfinite(v) and v > 0}
    median_s, mean_s, min_s, max_s = (
        known.get(f"{name}_sec", math.nan) for name in ("median", "mean", "min", "max")
    )
    if n_valid == 0 or all(map(math.isnan, (median_s, mean_s, min_s, max_s))):
        return None
    best_s = mean_s if math.isnan(median_s) else median_s
    return Summary(n_valid, best_s, mean_s, min_s, math.nan, max_s)


def _add_process(run: _Run, cell: _Cell, numbers: Mapping[str, float]) -> None:
    """Add one process's row of verbose output, which comes process by process."""
    repetition = int(numbers["nrep"])
    if numbers["process"] == 0 and repetition == 0:
        _flush(run, cell)
    entry = cell.pending.setdefault(repetition, _Pending())
    entry.n_processes += 1
    entry.longest_s = max(entry.longest_s, numbers["loc_tend_sec"] - numbers["loc_tstart_sec"])
    start_s = numbers.get("gl_tstart_sec", numbers["loc_tstart_sec"])
    end_s = numbers.get("gl_tend_sec", numbers["loc_tend_sec"])
    entry.first_start_s = min(entry.first_start_s, start_s)
    entry.last_end_s = max(entry.last_end_s, end_s)
    entry.valid = entry.valid and not numbers.get("errorcode")


def _flush(run: _Run, cell: _Cell) -> None:
    """Turn the repetitions of verbose output that all processes have told of into times."""
    globally = run.facts.get("runtime_type") == "global"
    for repetition, entry in sorted(cell.pending.items()):
        if entry.n_processes != run.nprocs:
            run.remarks["repetitions that not all processes told of are left out"] = None
            continue
        known = repetition < _CHUNK or not (globally or "errorcode" in run.columns)
        time_s = entry.last_end_s - entry.first_start_s if globally else entry.longest_s
        cell.add(time_s, valid=entry.valid and known)
    cell.pending.clear()


def _output(run: _Run) -> ReproMpiOutput:
    for cell in run.cells.values():
        _flush(run, cell)
    rows = {
        key: ReproMpiCell(
            *key, c.n_valid, c.n_total, tuple(c.times_s), c.summary, tuple(c.visits), c.line
        )
        for key, c in run.cells.items()
    }
    sizes = [whole(text) for text in run.listed.get("Message sizes", [])]
    calls = [_collective(call) for call in run.listed.get("MPI calls", [])]
    requested = [_key(c, m, run.nprocs) for m in sizes if m is not None for c in calls if c]
    missing = dict.fromkeys(key for key in requested if key is not None and key not in rows)
    return ReproMpiOutput(
        run.facts | {"columns": " ".join(run.columns)},
        run.nprocs,
        run.complete,
        rows,
        tuple(missing),
        tuple(run.errors),
        tuple(run.remarks),
    )
