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

from colltune.dataset.importers.assembly import assemble
from colltune.dataset.importers.protocol import (
    Imported,
    ImportedRow,
    Importer,
    ImportRequest,
    LineReader,
    ParsedOutput,
    SourceFile,
    TimeKind,
    real,
    whole,
)
from colltune.domain import DEFAULT_ALGORITHM, Collective, LaunchStatistics, parse_collective
from colltune.errors import say

_SIGNS = re.compile(r"#N(?:nodes|ranks)\s+Message_size\s")
_OWN_DECISION = ("0", "tuned", DEFAULT_ALGORITHM)
_VALUE = re.compile(r"No data|(?P<time>[^\s()]+)(?:\((?P<deviation>[^\s()]*)\))?")


def load(source: SourceFile, request: ImportRequest) -> Imported:
    """Read a table; its collective is told, or that of the folder's name."""
    told, folder = request.settings.get("collective", ""), source.path.absolute().parent.name
    if not told and folder not in list(Collective):
        raise say("collective-not-said", file=source.name, path=source.path.name)
    reading = parse(source.lines(), source.name, parse_collective(told or folder))
    return assemble(reading, source, request)


IMPORTER = Importer("ompi-collectives-tuning's detail.out", _SIGNS, load)


def parse(lines: Iterable[str], name: str, collective: Collective) -> ParsedOutput:
    reader = _DetailReader(name, collective=collective).read(lines)
    if not reader.algorithms:
        raise say("not-output", name=name, title=IMPORTER.title, like="#Nnodes Message_size …")
    facts = {"algorithms": " ".join(reader.algorithms), "collective": collective.value}
    return ParsedOutput(tuple(reader.rows), facts, tuple(reader.remarks))


@dataclass
class _DetailReader(LineReader):
    collective: Collective = Collective.BARRIER
    algorithms: list[str] = field(default_factory=list)

    def feed(self, line: str) -> None:
        text = line.strip()
        if _SIGNS.match(f"{text} "):
            self._header(text.split()[2:])
        elif text and not text.startswith("#") and not self.is_cut_off(line):
            self._row(text)

    def _header(self, algorithms: list[str]) -> None:
        if "Best_Algorithm" in algorithms:
            raise self.wrong(say("best-out"))
        if self.algorithms and algorithms != self.algorithms:
            raise self.wrong(say("other-algorithms"))
        if not algorithms or len(set(algorithms)) != len(algorithms):
            raise self.wrong(say("algorithms-listed-wrong"))
        self.algorithms = algorithms

    def _row(self, text: str) -> None:
        values = [(m[0], m["time"]) for m in _VALUE.finditer(text)]
        nprocs, size = ([whole(value) for value, _ in values[:2]] + [None, None])[:2]
        times = [math.nan if time is None else real(time) for _, time in values[2:]]
        n = len(self.algorithms)
        repeated = len(times) == n + 1 and n > 0 and values[-1] == values[2]
        if not nprocs or size is None or None in times or not (len(times) == n or repeated):
            named = " ".join(self.algorithms) or "algorithms, named in a first line"
            expected = f"processes, size and the times of {named}"
            raise self.wrong(say("malformed-row", row=text, expected=expected))
        self.rows += [
            ImportedRow(
                self.collective,
                0 if self.collective is Collective.BARRIER else size,
                nprocs,
                TimeKind.MEAN,
                self.number,
                summary=LaunchStatistics(1, time_us * 1e-6, *[math.nan] * 4),
                algorithm=DEFAULT_ALGORITHM if algorithm in _OWN_DECISION else algorithm,
            )
            for algorithm, time_us in zip(self.algorithms, times, strict=False)
            if time_us is not None and not math.isnan(time_us)
        ]
