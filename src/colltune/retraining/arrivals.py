"""The measurements that came in, grouped by the slot of the registry that they are for.

A launch is the unit: it is measured once and whole. Its token is a digest of its name and of all of
its measurements, whatever files they lie in and in whatever order; by their tokens a later run
knows which launches it has seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.frame import CELL_COLUMNS, TIME_COLUMNS, refuse_duplicates
from colltune.dataset.method import cells_by_method, in_cells, measured_by, method_of
from colltune.dataset.noise import allocations_of
from colltune.dataset.parquet import local_copy, read_parquet, read_provenance
from colltune.domain import Context
from colltune.errors import ColltuneError, say
from colltune.files.remote import url_of
from colltune.registry.names import slot_of

_FACTS = [*CELL_COLUMNS, "status", "n_reps", *TIME_COLUMNS]


@dataclass(frozen=True, eq=False)
class Arrived:
    """All measurements of one context; ``provenance`` is that of each launch where it is known."""

    dataset: PerformanceDataset
    provenance: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def tokens(self) -> dict[str, str]:
        """The token of each launch."""
        frame = self.dataset.frame
        hashes = pd.util.hash_pandas_object(frame[_FACTS], index=False).to_numpy(np.uint64)
        codes, launches = pd.factorize(frame["launch"].astype(str))
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(launches)))
        with np.errstate(over="ignore"):
            sums = np.add.reduceat(hashes[order], starts)
        counts = np.bincount(codes)
        return {
            str(launch): _digest(f"{launch}\n{count}\n{total:016x}")[:16]
            for launch, count, total in zip(launches, counts, sums.tolist(), strict=True)
        }

    @property
    def digest(self) -> str:
        """A digest of all measurements."""
        return _digest("\n".join(sorted(self.tokens.values())))

    @cached_property
    def allocation_of(self) -> Mapping[str, str]:
        """The allocation of each launch."""
        return allocations_of(self.tokens, self.provenance).by_launch

    @cached_property
    def cells_by_method(self) -> dict[str, int]:
        """How many cells were timed by each method, the most first."""
        return cells_by_method(self.dataset, self.provenance)

    @cached_property
    def fitted(self) -> PerformanceDataset:
        """What is fitted together: the measurements by the method with most cells."""
        if len(self.cells_by_method) < 2:
            return self.dataset
        return measured_by(self.dataset, self.provenance, next(iter(self.cells_by_method)))

    @property
    def fitted_tokens(self) -> tuple[str, ...]:
        """The tokens of the launches of `fitted`."""
        launches = self.fitted.frame["launch"].astype(str).unique()
        return tuple(self.tokens[launch] for launch in launches)

    def comparable(self, known: Collection[str]) -> PerformanceDataset:
        """Return what was measured by the methods of the launches `known`; unknown ones count."""
        ways = {launch: method_of(self.provenance.get(launch, {})) for launch in self.tokens}
        like = {ways[launch] for launch in known if ways.get(launch)}
        if not like:
            return self.dataset
        return self.of([launch for launch, way in ways.items() if not way or way in like])

    def without(self, tokens: Collection[str]) -> frozenset[str]:
        """Return the launches whose tokens are not among `tokens`."""
        return frozenset(launch for launch, token in self.tokens.items() if token not in tokens)

    def order(self, seen: Sequence[str]) -> tuple[str, ...]:
        """Return all launches as they came in: those of the tokens `seen`, in order, then others.

        Of what came in since, hosts' clocks tell, or else the names.
        """
        rank = {token: at for at, token in enumerate(seen)}

        def key(launch: str) -> tuple[int, str, str]:
            at_utc = self.provenance.get(launch, {}).get("time_utc", "")
            return rank.get(self.tokens[launch], len(rank)), at_utc, launch

        return tuple(sorted(self.tokens, key=key))

    def of(self, launches: Collection[str]) -> PerformanceDataset:
        """Return the measurements of `launches`."""
        return self.dataset.where(self.dataset.frame["launch"].astype(str).isin(list(launches)))


@dataclass(frozen=True)
class Arrivals:
    """What arrived, by slot, and what was left out and why."""

    by_slot: Mapping[str, Arrived]
    left_out: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Piece:
    """The content of one file."""

    source: str
    dataset: PerformanceDataset
    provenance: Mapping[str, str]


def arrivals(datasets: Iterable[str], machine: str, fabric: str | None = None) -> Arrivals:
    """Read all measurements of `machine` in `datasets`: folders, files, URLs of folders.

    Files of other machines or fabrics, those measured on shared cores, and damaged ones among a
    folder's, are left out and named: a file that was cut must not keep the others from being
    learned.
    """
    left_out: list[str] = []
    pieces: dict[Context, list[_Piece]] = {}
    for piece in _pieces(datasets, left_out):
        context = piece.dataset.context
        if context.machine != machine:
            left_out.append(f"{piece.source}: measured on {context.machine}, not on {machine}")
        elif fabric is not None and context.fabric != fabric:
            left_out.append(
                f"{piece.source}: measured over {context.fabric or 'an unknown fabric'}, not "
                f"{fabric}"
            )
        elif context.cores_shared:
            left_out.append(f"{piece.source}: measured on shared cores, {context.cores_shared}")
        else:
            pieces.setdefault(context, []).append(piece)
    if not pieces:
        why = f"; left out: {'; '.join(left_out[:3])}" if left_out else ""
        raise say("no-measurements-of", machine=machine, datasets=", ".join(datasets), why=why)
    by_slot = _by_slot(pieces)
    for slot, arrived in by_slot.items():
        if len(arrived.cells_by_method) > 1:
            first, *others = in_cells(arrived.cells_by_method)
            left_out.append(
                f"{slot}: measured by different methods; only what {first} measured is fitted, "
                f"not {', '.join(others)}. For another one, leave files out of data.datasets"
            )
    return Arrivals(by_slot, tuple(left_out))


def _by_slot(pieces: Mapping[Context, list[_Piece]]) -> dict[str, Arrived]:
    found: dict[str, Arrived] = {}
    for context in sorted(pieces, key=str):
        slot = slot_of(context)
        if slot in found:
            raise say("same-slot", context=found[slot].dataset.context, other=context)
        found[slot] = _arrived(context, pieces[context])
    return found


def _arrived(context: Context, pieces: list[_Piece]) -> Arrived:
    frame = pd.concat([piece.dataset.frame for piece in pieces], ignore_index=True)
    # a file that was handed in twice is no contradiction
    repeated = frame.duplicated(["launch", *_FACTS], keep="first")
    if repeated.any():
        frame = frame[~repeated].reset_index(drop=True)
    refuse_duplicates(frame, f"the measurements of {context}")
    provenance: dict[str, Mapping[str, str]] = {}
    for piece in pieces:
        for launch in piece.dataset.frame["launch"].astype(str).unique():
            if piece.provenance:
                provenance.setdefault(launch, piece.provenance)
    return Arrived(PerformanceDataset(context, frame), provenance)


def _pieces(datasets: Iterable[str], left_out: list[str]) -> Iterator[_Piece]:
    for place in datasets:
        url = url_of(place)
        if url is not None:
            with local_copy(url) as folder:
                yield from _of_folder(folder, url, left_out)
            continue
        path = Path(place)
        if path.is_dir():
            yield from _of_folder(path, place, left_out)
        else:
            known = read_provenance(path) if path.suffix == ".parquet" and path.exists() else {}
            yield _Piece(place, read([path]), known)


def _of_folder(folder: Path, place: str, left_out: list[str]) -> Iterator[_Piece]:
    try:
        files = sorted(folder.glob("*.parquet"))
    except OSError as error:
        raise say("cannot-read", place=place, why=error.strerror) from error
    for file in files:
        shown = f"{place.rstrip('/')}/{file.name}"
        try:
            piece = _Piece(shown, read_parquet(file), read_provenance(file))
        except (ColltuneError, ValueError, TypeError, KeyError) as error:
            left_out.append(f"{shown}: {error}".replace(f"{file}: ", "", 1))
            continue
        if len(piece.dataset):
            yield piece


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
