"""Reads the ``detail.out`` that ompi-collectives-tuning writes for each collective.

A row is a number of processes (though its title says nodes) and a message size; a column is an
algorithm, by its number in Open MPI (0 is Open MPI's own decision) or, in old files, its name
(``tuned`` is that decision). Times are microseconds, the mean over runs of what the OSU benchmark
(of reduce_scatter_block: IMB) reports as average latency, with the deviation over runs in brackets.
The last column may repeat that of the decision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

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
from colltune.domain import DEFAULT_ALGORITHM, Collective, Summary, parse_collective
from colltune.errors import DataError

SIGNS = re.compile(r"#N(?:nodes|ranks)\s+Message_size\s")
_OWN_DECISION = ("0", "tuned", DEFAULT_ALGORITHM)
_VALUE = re.compile(r"No data|(?P<time>[^\s()]+)(?:\((?P<deviation>[^\s()]*)\))?")


def load(source: Source, request: Request) -> Imported:
    """Read a table; its collective is told, or that of the folder's name."""
    collective = _collective(source, request)
    return assemble(parse(source.lines(), source.name, collective), source, request)


IMPORTER = Importer("ompi-collectives-tuning's detail.out", SIGNS, load)


def parse(lines: Iterable[str], name: str, collective: Collective) -> Reading:
    reader = _Reader(name, collective)
    for number, line in enumerate(lines, start=1):
        reader.feed(number, line)
    if not reader.algorithms:
        raise DataError(f"{name}: no detail.out (no line '#Nnodes Message_size …')")
    facts = {"algorithms": " ".join(reader.algorithms), "collective": collective.value}
    return Reading(tuple(reader.rows), facts, tuple(reader.remarks))


def _collective(source: Source, request: Request) -> Collective:
    told = request.settings.get("collective", "")
    folder = source.path.absolute().parent.name
    if told or folder in list(Collective):
        return parse_collective(told or folder)
    raise DataError(
        f"{source.name}: does not tell its collective; give --set collective=NAME, or keep it in a"
        f" folder of that name as in output/bcast/{Path(source.name).name}"
    )


@dataclass
class _Reader:
    name: str
    collective: Collective
    algorithms: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def feed(self, number: int, line: str) -> None:
        text = line.strip()
        if SIGNS.match(f"{text} "):
            self._header(number, text.split()[2:])
        elif text and not text.startswith("#"):
            if not line.endswith("\n"):
                self.remarks.append(f"the last line ({number}) is cut off and left out")
                return
            self._row(number, text)

    def _header(self, number: int, algorithms: list[str]) -> None:
        if "Best_Algorithm" in algorithms:
            raise DataError(
                f"{self.name}, line {number}: this is best.out, which has the best algorithms'"
                " times only; import detail.out beside it"
            )
        if self.algorithms and algorithms != self.algorithms:
            raise DataError(f"{self.name}, line {number}: a second table with other algorithms")
        if not algorithms or len(set(algorithms)) != len(algorithms):
            raise DataError(f"{self.name}, line {number}: no algorithms, or one twice")
        self.algorithms = algorithms

    def _row(self, number: int, text: str) -> None:
        values = [(m[0], m["time"]) for m in _VALUE.finditer(text)]
        nprocs, size = ([whole(value) for value, _ in values[:2]] + [None, None])[:2]
        times = [math.nan if time is None else real(time) for _, time in values[2:]]
        n = len(self.algorithms)
        repeated = len(times) == n + 1 and n > 0 and values[-1] == values[2]
        if not nprocs or size is None or None in times or not (len(times) == n or repeated):
            raise DataError(
                f"{self.name}, line {number}: malformed row {text!r}; expected processes, size and"
                f" the times of {' '.join(self.algorithms) or 'algorithms, named in a first line'}"
            )
        for algorithm, time_us in zip(self.algorithms, times, strict=False):
            if time_us is not None and not math.isnan(time_us):
                self.rows.append(self._measured(number, nprocs, size, algorithm, time_us))

    def _measured(self, number: int, nprocs: int, size: int, algorithm: str, time_us: float) -> Row:
        return Row(
            self.collective,
            0 if self.collective is Collective.BARRIER else size,
            nprocs,
            TimeKind.MEAN,
            number,
            summary=Summary(1, time_us * 1e-6, *[math.nan] * 4),
            algorithm=DEFAULT_ALGORITHM if algorithm in _OWN_DECISION else algorithm,
        )
