"""Share of the log gain over the default that is left to configurations safe for legal programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import read
from colltune.domain import Collective, Configuration
from colltune.errors import DataError, LibraryError
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.mpi import LIBRARIES, Release
from colltune.mpi.programs import ANY_LEGAL, SAME_TYPES, Programs
from colltune.mpi.running import Promises
from figures.figure import Figure
from figures.quality_rows import EXTRA, FOLDER

_SUFFIX = ".csv.gz"
_PROMISES = {"any_legal": ANY_LEGAL, "same_types": SAME_TYPES}


@dataclass
class Gains:
    """Log gains over the default, summed over instances: of the best of all, by promise."""

    instances: int = 0
    possible: float = 0.0
    kept: dict[str, float] | None = None

    def add(self, other: Gains) -> None:
        """Add what another part of the data has."""
        self.instances += other.instances
        self.possible += other.possible
        before, more = self.kept or {}, other.kept or {}
        self.kept = {name: before.get(name, 0.0) + more.get(name, 0.0) for name in _PROMISES}

    def as_dict(self) -> dict[str, object]:
        """Return the shares, JSON-able; None where there is nothing to gain."""
        shares: dict[str, object] = {
            name: round(kept / self.possible, 4) if self.possible else None
            for name, kept in (self.kept or {}).items()
        }
        return {"instances": self.instances, "possible": round(self.possible, 3)} | shares


def run() -> Figure:
    """Return the share of the log gain that `any-legal` keeps on recorded machines.

    The best of the configurations that the promise allows is compared with the best of all that a
    file can name, both per instance and never slower than the default. Datasets of libraries
    without a catalogue are left out: nobody knows what their algorithms do. COLLTUNE_SHARED names
    the folder that has ``data``, COLLTUNE_EXTRA further folders with tidy files.
    """
    total = Gains()
    machines: dict[str, Gains] = {}
    collectives: dict[Collective, Gains] = {}
    for path in _files():
        try:
            dataset = read([path])
        except DataError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        context = dataset.context
        if context.library not in LIBRARIES:
            print(f"{path.name}: no catalogue of {context.library}", file=sys.stderr)
            continue
        bound = LIBRARIES[context.library].at(context.library_version)
        of_machine = machines.setdefault(f"{context.machine} {context.library}", Gains())
        for collective, cells in cell_matrices(dataset).items():
            found = _gains(cells, bound)
            for part in (total, of_machine, collectives.setdefault(collective, Gains())):
                part.add(found)
    if not machines:
        print(f"no recorded machine in {FOLDER}: set COLLTUNE_SHARED", file=sys.stderr)
    kept = total.kept or {}
    share = kept.get("any_legal", 0.0) / total.possible if total.possible else 1.0
    facts = {
        "same_types": round(kept.get("same_types", 0.0) / total.possible, 4)
        if total.possible
        else 1.0,
        "instances": total.instances,
        "by_collective": {c.value: gains.as_dict() for c, gains in sorted(collectives.items())},
        "by_machine": {name: gains.as_dict() for name, gains in machines.items()},
    }
    unit = "share of log gain under any-legal"
    return Figure("promise_cost", share, unit, kept.get("any_legal", 0.0), total.possible, facts)


def _files() -> Iterator[Path]:
    for folder in (FOLDER, *map(Path, EXTRA)):
        yield from sorted(folder.glob(f"*{_SUFFIX}"))


def _gains(cells: CellMatrix, bound: Release) -> Gains:
    """Return the gains of one collective of one machine."""
    if cells.default_column is None:
        return Gains()
    default_s = cells.time_s[:, cells.default_column]
    known = [_is_known(one, bound) for one in cells.configurations]
    allowed = {
        name: [_is_safe(one, bound, programs) for one in cells.configurations]
        for name, programs in _PROMISES.items()
    }
    rows = np.isfinite(default_s)
    possible = _log_gain(cells.time_s[rows], default_s[rows], known)
    kept = {
        name: _log_gain(cells.time_s[rows], default_s[rows], columns)
        for name, columns in allowed.items()
    }
    return Gains(int(rows.sum()), possible, kept)


def _log_gain(time_s: NDArray[np.float64], default_s: NDArray[np.float64], of: list[bool]) -> float:
    best_s = np.where(np.array(of) & np.isfinite(time_s), time_s, np.inf).min(axis=1)
    return float(np.log(default_s / np.minimum(best_s, default_s)).sum())


def _is_known(one: Configuration, bound: Release) -> bool:
    """Tell whether the library has it, and a file can name it."""
    try:
        bound.canonical(one)
    except LibraryError:
        return one.is_default
    return True


def _is_safe(one: Configuration, bound: Release, programs: Programs) -> bool:
    return (
        _is_known(one, bound)
        and not bound.runs(bound.canonical(one), 2, Promises(programs)).refusal
    )
