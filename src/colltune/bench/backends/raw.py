"""The native benchmark's files: writes its plan, reads its raw output (see collbench.c)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune.bench.backends.protocol import LaunchPlan
from colltune.bench.schedule import Cell
from colltune.domain import (
    Collective,
    Configuration,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError

_SALVAGE_VERSION = 1


@dataclass(frozen=True)
class RawOutput:
    """Raw output as read: times and problems by cell index.

    ``last_step`` is the index of the cell last begun, ``ended`` the reason of the ``end`` line, or
    empty if it is missing.
    """

    times_s: Mapping[int, tuple[float, ...]]
    problems: Mapping[int, tuple[RunStatus, str]]
    last_step: int | None
    ended: str
    timed_s: float
    wall_s: float


def plan_text(plan: LaunchPlan, settings: Sequence[Mapping[str, int | str]]) -> str:
    """Return the plan file; ``settings[i]`` are the control variables of ``plan.cells[i]``."""
    distinct: dict[str, int] = {}
    words = [" ".join(f"{k}={v}" for k, v in sorted(s.items())) for s in settings]
    for word in words:
        distinct.setdefault(word, len(distinct))
    lines = ["colltune-plan 1", f"budget {plan.budget_s:.3f}"]
    lines += [f"config {word}".rstrip() for word in distinct]
    for cell, word in zip(plan.cells, words, strict=True):
        instance = cell.instance
        lines.append(
            f"cell {distinct[word]} {instance.collective} {instance.msize_bytes}"
            f" {instance.shape.nprocs}"
        )
    lines += [f"step {s.cell} {s.max_reps} {s.max_seconds:.6f}" for s in plan.steps]
    return "\n".join(lines) + "\n"


def read_raw(path: Path) -> RawOutput:
    """Read raw output, whole or cut off by a kill: an unfinished last line is left out."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    times: dict[int, list[float]] = {}
    problems: dict[int, tuple[RunStatus, str]] = {}
    last_step, ended, timed_s, wall_s = None, "", math.nan, math.nan
    for line in text.split("\n")[:-1]:
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind == "s":
            last_step = int(words[0])
        elif kind == "r":
            times.setdefault(int(words[0]), []).extend(float(word) for word in words[1:])
        elif kind == "x":
            problems[int(words[0])] = (RunStatus(words[1]), " ".join(words[2:]))
        elif kind == "end":
            ended, timed_s, wall_s = words[0], float(words[1]), float(words[2])
    return RawOutput(
        {k: tuple(v) for k, v in times.items()}, problems, last_step, ended, timed_s, wall_s
    )


def measurements(
    raw: RawOutput,
    cells: Sequence[Cell],
    launch: str,
    blamed: Mapping[int, RunStatus] | None = None,
) -> tuple[Measurement, ...]:
    """Return one measurement per cell that was timed, refused, wrong, or `blamed`."""
    found = []
    for index, cell in enumerate(cells):
        status = (blamed or {}).get(index) or raw.problems.get(index, (RunStatus.OK, ""))[0]
        times = raw.times_s.get(index, ()) if status is RunStatus.OK else ()
        if status is not RunStatus.OK or times:
            found.append(Measurement(cell.instance, cell.configuration, launch, status, times))
    return tuple(found)


def save_cells(path: Path, cells: Sequence[Cell], launch: str) -> None:
    """Store which cells a launch measures, so that a killed one can be salvaged."""
    rows = [
        [c.configuration.id, c.instance.shape.nodes, c.instance.shape.ppn, c.instance.msize_bytes]
        for c in cells
    ]
    path.write_text(json.dumps({"version": _SALVAGE_VERSION, "launch": launch, "cells": rows}))


def load_cells(path: Path) -> tuple[tuple[Cell, ...], str]:
    """Return the cells and the launch name that `save_cells` stored.

    Raises
    ------
    DataError
        If the file is missing, cut, or of another version.
    """
    try:
        stored = json.loads(path.read_text())
        if stored["version"] != _SALVAGE_VERSION:
            raise DataError(f"{path}: version {stored['version']} is unknown; upgrade colltune")
        cells = tuple(_cell(*row) for row in stored["cells"])
        return cells, str(stored["launch"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a launch's list of cells ({error})") from error


def _cell(configuration_id: str, nodes: int, ppn: int, msize_bytes: int) -> Cell:
    configuration = Configuration.parse(configuration_id)
    collective = Collective(configuration.collective)
    return Cell(configuration, Instance(collective, Shape(nodes, ppn), msize_bytes))
