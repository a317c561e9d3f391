"""Share of the log gain over the default that is left to configurations that keep a promise."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import read
from colltune.domain import Collective, Configuration, Context
from colltune.errors import DataError, LibraryError
from colltune.evaluation.folds import legal_times
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.mpi import LIBRARIES, Release
from colltune.mpi.programs import ANY_LEGAL, SAME_TYPES, Programs
from figures.figure import Figure
from figures.quality_rows import EXTRA, FOLDER

_SUFFIX = ".csv.gz"
_PROMISES = {"any_legal": ANY_LEGAL, "same_types": SAME_TYPES}
Promised = Mapping[str, Programs]


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
        names = {**before, **more}
        self.kept = {name: before.get(name, 0.0) + more.get(name, 0.0) for name in names}

    def share(self, name: str) -> float:
        """Return what a promise keeps, 1 where there is nothing to gain."""
        return (self.kept or {}).get(name, 0.0) / self.possible if self.possible else 1.0

    def as_dict(self) -> dict[str, object]:
        """Return the shares, JSON-able; None where there is nothing to gain."""
        shares: dict[str, object] = {
            name: round(kept / self.possible, 4) if self.possible else None
            for name, kept in (self.kept or {}).items()
        }
        return {"instances": self.instances, "possible": round(self.possible, 3)} | shares


def run() -> Figure:
    """Return the share of the log gain that `any-legal` keeps on recorded machines."""
    return shares("promise_cost", _PROMISES, "any_legal", "share of log gain under any-legal")


def shares(name: str, promises: Promised, first: str, unit: str) -> Figure:
    """Return the figure `name`: the share that the promise `first` keeps, and the others beside.

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
            found = _gains(cells, context, bound, promises)
            for part in (total, of_machine, collectives.setdefault(collective, Gains())):
                part.add(found)
    if not machines:
        print(f"no recorded machine in {FOLDER}: set COLLTUNE_SHARED", file=sys.stderr)
    facts = {each: round(total.share(each), 4) for each in promises if each != first} | {
        "instances": total.instances,
        "by_collective": {c.value: gains.as_dict() for c, gains in sorted(collectives.items())},
        "by_machine": {name: gains.as_dict() for name, gains in machines.items()},
    }
    kept = (total.kept or {}).get(first, 0.0)
    return Figure(name, total.share(first), unit, kept, total.possible, facts)


def _files() -> Iterator[Path]:
    for folder in (FOLDER, *map(Path, EXTRA)):
        yield from sorted(folder.glob(f"*{_SUFFIX}"))


def _gains(cells: CellMatrix, context: Context, bound: Release, promises: Promised) -> Gains:
    """Return the gains of one collective of one machine."""
    if cells.default_column is None:
        return Gains()
    default_s = cells.time_s[:, cells.default_column]
    known = [_is_known(one, bound) for one in cells.configurations]
    cells = replace(cells, time_s=np.where(known, cells.time_s, np.nan))
    rows = np.isfinite(default_s)
    kept = {
        name: _log_gain(legal_times(cells, context, programs)[rows], default_s[rows])
        for name, programs in promises.items()
    }
    return Gains(int(rows.sum()), _log_gain(cells.time_s[rows], default_s[rows]), kept)


def _log_gain(time_s: NDArray[np.float64], default_s: NDArray[np.float64]) -> float:
    best_s = np.where(np.isfinite(time_s), time_s, np.inf).min(axis=1, initial=np.inf)
    return float(np.log(default_s / np.minimum(best_s, default_s)).sum())


def _is_known(one: Configuration, bound: Release) -> bool:
    """Tell whether the library has it, and a file can name it."""
    try:
        bound.canonical(one)
    except LibraryError:
        return one.is_default
    return True
