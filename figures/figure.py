"""A figure as it was measured."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """``value`` in ``unit`` is what is promised; ``ours`` and ``baseline`` what it is made of.

    ``facts`` are what else it found, by name.
    """

    name: str
    value: float
    unit: str
    ours: float
    baseline: float
    facts: Mapping[str, object] = field(default_factory=dict)

    def as_json(self) -> str:
        """Return the one line that measuring it ends with."""
        return json.dumps(
            {
                "name": self.name,
                "value": round(self.value, 4),
                "unit": self.unit,
                "ours": round(self.ours, 6),
                "baseline": round(self.baseline, 6),
                **self.facts,
            }
        )


def alternated_seconds(
    commands: Mapping[str, Sequence[str]], rounds: int
) -> dict[str, list[float]]:
    """Run the commands in turn, `rounds` times, and return the wall seconds of each run."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_number in range(rounds + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if round_number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def start_up_ratio(name: str, ours: Sequence[str], baseline: Sequence[str], rounds: int) -> Figure:
    """Return the ratio of the median wall times of two commands, run in alternation."""
    seconds = alternated_seconds({"ours": ours, "baseline": baseline}, rounds)
    medians = {side: statistics.median(times) for side, times in seconds.items()}
    ratio = statistics.median(
        o / b for o, b in zip(seconds["ours"], seconds["baseline"], strict=True)
    )
    return Figure(name, ratio, "ratio", medians["ours"], medians["baseline"])
