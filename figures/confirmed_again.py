"""What ``colltune tune`` confirms, timed again by a program of its own on this machine.

``confirmed_again.c`` runs under the MPI's mpirun, with the file that was written and without, in
turns: a pair of launches for each round. It shares no code with colltune's benchmark.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from colltune.dataset import read_parquet
from figures.figure import Figure

BUDGET_S = os.environ.get("COLLTUNE_TUNE_S", "90")
ROUNDS = int(os.environ.get("COLLTUNE_ROUNDS", "9"))
_PROGRAM = Path(__file__).with_suffix(".c")
_TIMED_S, _MOST, _LEAST = 0.2, 400, 30
_USUAL_S = 1e-4
WAYS = ("slowest process", "mean of own times", "loop with a barrier")


class Row(NamedTuple):
    """A range that was confirmed, and where in it it is timed."""

    collective: str
    msize_bytes: int
    claimed: float
    name: str


def run() -> Figure:
    """Return the mean log gain that is found again, over that which was claimed.

    The mean is over ranges and over three ways to time them, each of which ``ways`` has, too.
    ``ranges`` were confirmed, ``gaining`` of them are faster in the second program, too, and
    ``surely_gaining`` by two standard errors. COLLTUNE_TUNE_S is what ``tune`` gets, 90 by default;
    COLLTUNE_ROUNDS how many pairs of launches follow, 9.
    """
    binaries = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        words = [str(binaries / "colltune"), "tune", "--budget", BUDGET_S]
        words += ["--out", folder, "--json"]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        report: dict[str, Any] = json.loads(done.stdout)
        rows = _confirmed(report["rows"], _measured(Path(report["dataset"])))
        program = Path(folder) / "again"
        subprocess.run([binaries / "mpicc", "-O2", "-o", program, _PROGRAM], check=True)
        launcher = [binaries / "mpirun", "-np", str(report["nodes"] * report["ppn"])]
        launcher += ["--oversubscribe"] if report["cores_shared"] else []
        launcher += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        logs = _again([*map(str, launcher), str(program)], rows, report["environment"])
    again = {row: fmean(map(fmean, pairs)) for row, pairs in logs.items()}
    scatter = {row: stdev(map(fmean, pairs)) for row, pairs in logs.items()}
    sure = sum(log > 2 * scatter[row] / ROUNDS**0.5 for row, log in again.items())
    each_way = zip(*(pair for pairs in logs.values() for pair in pairs), strict=True)
    claimed = fmean(math.log(row.claimed) for row in rows) if rows else math.nan
    found = fmean(again.values()) if again else math.nan
    facts = {
        "ranges": len(rows),
        "gaining": sum(log > 0 for log in again.values()),
        "surely_gaining": sure,
        "ways": dict(zip(WAYS, (round(fmean(way) / claimed, 3) for way in each_way), strict=False)),
        "rows": {row.name: [row.claimed, round(math.exp(again[row]), 3)] for row in rows},
    }
    return Figure("confirmed_again", found / claimed, "ratio of log gains", found, claimed, facts)


def _measured(dataset: Path) -> dict[str, set[int]]:
    """Return at which sizes each collective was measured."""
    sizes: dict[str, set[int]] = defaultdict(set)
    for measurement in read_parquet(dataset).measurements():
        instance = measurement.instance
        sizes[str(instance.collective)].add(instance.msize_bytes)
    return sizes


def _confirmed(rows: Sequence[Mapping[str, Any]], sizes: Mapping[str, set[int]]) -> list[Row]:
    """Return the ranges that were confirmed, each at the first size in it that was measured."""
    found = []
    for row in rows:
        if not str(row["verdict"]).startswith("confirmed") or row["measured_gain"] is None:
            continue
        first, last = row["first_bytes"], row["last_bytes"]
        last = math.inf if last is None else last
        for size in [size for size in sorted(sizes[row["collective"]]) if first <= size <= last][
            :1
        ]:
            name = f"{row['collective']}, {first} to {last} bytes: {row['configuration']}"
            found.append(Row(row["collective"], size, row["measured_gain"], name))
    return found


def _again(
    command: Sequence[str], rows: Sequence[Row], activation: Mapping[str, str]
) -> dict[Row, list[list[float]]]:
    """Return the log gains of each row in each pair of launches, by each way of `WAYS`."""
    logs: dict[Row, list[list[float]]] = {row: [] for row in rows}
    sizes: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        sizes[row.collective].append(row.msize_bytes)
    sides: dict[bool, dict[str, str]] = {False: {**os.environ}, True: {**os.environ, **activation}}
    for collective, of_one in sizes.items():
        reps, times = _LEAST, dict[bool, dict[int, list[float]]]()
        for number in range(ROUNDS + 1):
            for with_file in (False, True) if number % 2 else (True, False):
                words = [*command, collective, str(reps), *map(str, of_one)]
                times[with_file] = _times(words, sides[with_file])
            if not number:
                usual_s = (
                    median(at[0] for at in times[False].values()) if times[False] else _USUAL_S
                )
                reps = min(_MOST, max(_LEAST, round(_TIMED_S / usual_s)))
                continue
            for row in rows:
                if row.collective == collective:
                    both = zip(
                        *(times[side][row.msize_bytes] for side in (False, True)), strict=True
                    )
                    logs[row].append([math.log(default_s / file_s) for default_s, file_s in both])
    return logs


def _times(words: Sequence[str], environment: Mapping[str, str]) -> dict[int, list[float]]:
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True, env=dict(environment)
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {int(size): list(map(float, seconds)) for size, *seconds in lines}
