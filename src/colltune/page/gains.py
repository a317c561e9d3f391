"""What a bundle brings: the gain over the default along the message size, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from math import isqrt
from statistics import geometric_mean

import numpy as np

from colltune.domain import Collective, Shape
from colltune.json_text import DescribedRecord, digits
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.mpi.programs import Programs
from colltune.page.facts import BundleFacts, slot_name
from colltune.plot_data.decisions import REASONS, DecisionMap, Grid, Why, decisions_on
from colltune.selector.argmin import ModelSelector
from colltune.text import counted


class Standing(StrEnum):
    """How sure the gain of a decision is."""

    CONFIRMED = "confirmed"
    PREDICTED = "predicted"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"
    KEPT = "kept"


_STANDINGS = {
    Why.CONFIRMED: Standing.CONFIRMED,
    Why.GAIN: Standing.PREDICTED,
    Why.WITHDRAWN: Standing.WITHDRAWN,
    Why.NO_DEFAULT: Standing.UNKNOWN,
}


@dataclass(frozen=True)
class GainRange(DescribedRecord):
    """Neighbouring message sizes with one decision, and what it gains over the default."""

    first: int
    """index of `CollectiveGains.msize_bytes`"""
    last: int
    """likewise"""
    standing: Standing
    """confirmed or withdrawn (measured beside the default), predicted, unknown (the default was not
    measured), or kept (the default is)"""
    name: str
    """algorithm and parameters: of what is used; of what was withdrawn, where it was"""
    gain: float | None
    """the default's time over that of ``name``: measured, or predicted (geometric mean)"""
    lower: float | None
    """of the 95 % interval of what was measured, or the least of the predicted lower bounds"""
    upper: float | None
    """of the 95 % interval of what was measured; null for predictions"""
    gains: tuple[float, ...]
    """predicted at each message size; empty where it is not predicted"""
    bounds: tuple[float | None, ...]
    """lower bounds of these"""
    reason: str
    """why it is used, or why the default is kept"""


@dataclass(frozen=True)
class ShapeGains(DescribedRecord):
    """The ranges of one shape, by message size."""

    nodes: int
    ppn: int
    ranges: tuple[GainRange, ...]
    """of the message size, ascending"""


@dataclass(frozen=True)
class CollectiveGains(DescribedRecord):
    """The gains of one collective on all shapes that were measured."""

    name: str
    """collective"""
    mpi_name: str
    """its MPI function"""
    block_per_rank: bool
    """whether a message size is that of the block per process"""
    default_measured: bool
    """whether the library's default was measured"""
    msize_bytes: tuple[int, ...]
    """the measured ones, ascending"""
    shapes: tuple[ShapeGains, ...]
    """shape by shape"""


@dataclass(frozen=True)
class GainSummary(DescribedRecord):
    """What a bundle brings, over all measured shapes and message sizes of all collectives."""

    faster_ranges: int
    """ranges of message sizes that were measured to be faster than the default"""
    mean_gain: float | None
    """geometric mean of their measured gains; null without any"""
    predicted_share: float
    """share of the message sizes at which models alone replace the default"""
    predicted_gain: float | None
    """geometric mean of the predicted gains there; null without any"""
    unknown_share: float
    """share at which the default is replaced, but was not measured, so that no gain is known"""
    unchanged_share: float
    """share at which the default is kept"""

    @property
    def sentence(self) -> str:
        """Return it in words."""
        parts = ["no range is confirmed to be faster"]
        if self.mean_gain is not None:
            are = "is" if self.faster_ranges == 1 else "are"
            ranges = counted(self.faster_ranges, "range")
            parts = [f"{ranges} {are} faster, by {self.mean_gain:.2f}x in the geometric mean"]
        if self.predicted_gain is not None:
            share = f"at {self.predicted_share:.0%} of the message sizes"
            parts.append(f"{share} a gain of {self.predicted_gain:.2f}x is only predicted")
        if self.unknown_share:
            parts.append(f"at {self.unknown_share:.0%} of them the gain is not known")
        parts.append(f"nothing changed at {self.unchanged_share:.0%} of the message sizes")
        return "; ".join(parts)


@dataclass(frozen=True)
class DecisionGains(BundleFacts):
    """What a bundle brings, and to whom."""

    machine: str
    """that was measured"""
    sentence: str
    """what it brings, in one sentence"""
    summary: GainSummary
    """the same in figures"""
    cautions: tuple[str, ...]
    """what one must know before one believes the gains"""
    promise: str
    """the programs that its decisions are for, in words"""
    collectives: tuple[CollectiveGains, ...]
    """collective by collective"""


_BARS = "▁▂▃▄▅▆▇█"
_MARKS = {Standing.WITHDRAWN: "x", Standing.UNKNOWN: "?", Standing.KEPT: "·"}


def sketch(found: DecisionGains) -> list[tuple[str, str, str]]:
    """Return each collective's name with the shape that most changes on, bars, and largest gain.

    There is a mark for each measured message size, ascending: a bar for the logarithm of the gain,
    ``x`` for withdrawn, ``?`` for a gain that is not known, ``·`` where the default is kept.
    """
    rows = []
    for one in found.collectives:
        shape = max(one.shapes, key=lambda shape: len(_gains(shape)))
        gains = _gains(shape)
        most = max(gains.values(), default=1.0)
        bars = [
            _MARKS.get(r.standing, "x") for r in shape.ranges for _ in range(r.first, r.last + 1)
        ]
        for at, gain in gains.items():
            share = math.log(gain) / math.log(most) if most > 1 else 0.0
            bars[at] = _BARS[min(max(round(share * (len(_BARS) - 1)), 0), len(_BARS) - 1)]
        told = f"up to {most:.2f}x" if gains else ""
        rows.append((f"{one.mpi_name} {shape.nodes}x{shape.ppn}", "".join(bars), told))
    return rows


def _gains(shape: ShapeGains) -> dict[int, float]:
    """Return the gains of what replaces the default, confirmed or predicted, by size."""
    return {
        one.first + at: gain
        for one in shape.ranges
        if one.standing in (Standing.CONFIRMED, Standing.PREDICTED) and one.gain is not None
        for at, gain in enumerate(one.gains or (one.gain,) * (one.last - one.first + 1))
    }


def decision_gains(selector: ModelSelector, programs: Programs) -> DecisionGains:
    """Return the gains of what `selector` decides for `programs`, where anything was measured."""
    bundle = selector.bundle
    maps = [decisions_on(selector, c, _grid(bundle, c)) for c in bundle.collectives]
    summary = _summary(bundle.confirmations, maps)
    sentence = summary.sentence
    return DecisionGains(
        slot=slot_name(bundle.context),
        bundle=bundle.id,
        machine=bundle.context.machine,
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        summary=summary,
        cautions=tuple(_cautions(bundle)),
        promise=programs.phrase,
        collectives=tuple(_collective(bundle, found) for found in maps),
    )


def _grid(bundle: Bundle, collective: Collective) -> Grid:
    """Return all measured shapes and sizes, and those on which anything was confirmed."""
    coverage = bundle.model(collective).coverage
    records = [one for one in bundle.confirmations if one.collective is collective]
    measured = {(int(p), int(n)) for n, p in coverage.shapes}
    pairs = sorted(measured | {(one.shape.ppn, one.shape.nodes) for one in records})
    sizes = set(coverage.sizes.tolist())
    for one in records:
        if not one.holds(coverage.sizes).any():
            sizes.add(isqrt(max(one.first_bytes, 1) * (one.last_bytes or 2 * one.first_bytes + 1)))
    ascending = np.array(sorted(sizes), np.int64)
    nodes, ppn = (np.array([pair[at] for pair in pairs], np.int64) for at in (1, 0))
    known = np.array([pair in measured for pair in pairs], np.bool_)
    return Grid(nodes, ppn, known, ascending, np.ones(len(ascending), np.bool_), 0)


def _summary(records: Iterable[Confirmation], maps: Sequence[DecisionMap]) -> GainSummary:
    gains = [one.gain for one in records if one.confirmed is not None and one.gain is not None]
    why, gain = (
        np.concatenate([getattr(m, name).ravel() for m in maps]) for name in ("why", "gain")
    )
    standing = np.array([_standing(reason) for reason in REASONS])[why]
    predicted = gain[standing == Standing.PREDICTED]
    return GainSummary(
        faster_ranges=len(gains),
        mean_gain=geometric_mean(gains) if gains else None,
        predicted_share=len(predicted) / len(why),
        predicted_gain=float(np.exp(np.log(predicted).mean())) if len(predicted) else None,
        unknown_share=float((standing == Standing.UNKNOWN).mean()),
        unchanged_share=float(np.isin(standing, (Standing.KEPT, Standing.WITHDRAWN)).mean()),
    )


def _standing(why: Why) -> Standing:
    return _STANDINGS.get(why, Standing.KEPT)


def _cautions(bundle: Bundle) -> Iterator[str]:
    if shared := bundle.context.cores_shared:
        yield (
            f"Cores were shared, {shared}: the gains hold for jobs that share cores alike, not for"
            " those with a core for each process."
        )
    if unknown := [m.collective.mpi_name for m in bundle.models if m.default_column is None]:
        yield (
            f"NOT COMPARED: the library's default was not measured for {', '.join(unknown)}, so"
            " that no gain is known there."
        )
    if {shape.nodes for shape in bundle.training_shapes} == {1}:
        yield "All of it ran on one node: it says nothing of a network."
    if not bundle.confirmations:
        yield (
            "Nothing was measured beside the default yet. Run `colltune confirm` on a job's nodes."
        )


def _collective(bundle: Bundle, found: DecisionMap) -> CollectiveGains:
    collective = found.collective
    return CollectiveGains(
        name=collective.value,
        mpi_name=collective.mpi_name,
        block_per_rank=collective.has_block_per_rank,
        default_measured=bundle.model(collective).default_column is not None,
        msize_bytes=tuple(found.grid.msize_bytes.tolist()),
        shapes=tuple(
            ShapeGains(shape.nodes, shape.ppn, tuple(_ranges(bundle, found, at, shape)))
            for at, shape in enumerate(found.grid.shapes)
        ),
    )


def _ranges(bundle: Bundle, found: DecisionMap, at: int, shape: Shape) -> Iterator[GainRange]:
    records = [
        r for r in bundle.confirmations if (r.collective, r.shape) == (found.collective, shape)
    ]
    sizes = found.grid.msize_bytes

    def decided(size: int) -> tuple[int, int, int]:
        here = next((k for k, r in enumerate(records) if r.holds(sizes[size])), -1)
        return int(found.chosen[at, size]), int(found.why[at, size]), here

    for (_, why, record), run in groupby(range(len(sizes)), decided):
        places = list(run)
        measured = records[record] if record >= 0 else None
        yield _range(found, at, (places[0], places[-1]), REASONS[why], measured)


def _range(
    found: DecisionMap,
    shape: int,
    places: tuple[int, int],
    why: Why,
    record: Confirmation | None,
) -> GainRange:
    first, last = places
    standing, name = _standing(why), found.configuration(shape, first).short
    here = (shape, slice(first, last + 1))
    if standing in (Standing.CONFIRMED, Standing.WITHDRAWN) and record is not None:
        judged = record.confirmed or record.proposed
        told = (record.gain, record.lower, record.upper)
        return GainRange(first, last, standing, judged.short, *told, (), (), record.reason)
    if standing is not Standing.PREDICTED:
        return GainRange(first, last, standing, name, None, None, None, (), (), why.value)
    gains, bounds = found.gain[here], found.bound[here]
    known = bounds[np.isfinite(bounds)]
    return GainRange(
        first,
        last,
        standing,
        name,
        digits(float(np.exp(np.log(gains).mean()))),
        digits(float(known.min())) if len(known) else None,
        None,
        tuple(float(f"{gain:.4g}") for gain in gains.tolist()),
        tuple(map(digits, bounds.tolist())),
        why.value,
    )
