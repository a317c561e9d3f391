"""The first paragraph of a report: what was measured, what changes, its worth, how sure, what next.

Figures of what was confirmed, of what is predicted, and of held-out decisions never share a number.
Those of decisions on shapes that the models learned are left out: they flatter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from colltune.decisions import Status
from colltune.domain import Configuration
from colltune.models.bundle import Bundle
from colltune.models.guard import HARM
from colltune.mpi import LIBRARIES
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.openmpi.han_setups import is_setup
from colltune.plot_data.decisions import REASONS, Why
from colltune.plot_data.measured import PROMISED
from colltune.report.figures import CollectiveFigures, Figures, JudgedSample, Sample
from colltune.text import bytes_text, counted

_MOST_NAMES = 4


class _Decision(NamedTuple):
    """What is decided on a measured shape and size, ``gain`` and ``bound`` as predicted."""

    collective: str
    call: str
    configuration: Configuration
    why: Why
    gain: float
    bound: float


def summary(found: Figures) -> dict[str, str]:
    """Return the sentences of the paragraph, by what they tell."""
    decisions = [one for collective in found.collectives for one in _decisions(collective)]
    parts = {
        "Measured": _measured(found),
        "What changes": _changes(found.bundle, decisions),
        "What it is worth": _worth(found.bundle, decisions),
        "How sure": _sure(found, decisions),
        "Next": _next(found.bundle, decisions),
    }
    return {lead: " ".join(sentences) for lead, sentences in parts.items()}


def _decisions(found: CollectiveFigures) -> Iterator[_Decision]:
    name, decided = found.collective.mpi_name, found.decisions
    shapes, sizes, gain = decided.grid.shapes, decided.grid.msize_bytes, decided.gain
    for at in map(tuple, np.argwhere(decided.inside).tolist()):
        shape, size = at
        yield _Decision(
            name,
            f"{name} of {bytes_text(int(sizes[size]))} on {shapes[shape]}",
            decided.configuration(shape, size),
            REASONS[decided.why[at]],
            gain[at],
            decided.bound[at],
        )


def _measured(found: Figures) -> Iterator[str]:
    bundle, shapes = found.bundle, sorted(found.bundle.training_shapes)
    sizes = [size for model in bundle.models for size in model.coverage.sizes]
    span = f" from {shapes[0]} to {shapes[-1]}" if len(shapes) > 1 else f", {shapes[0]}"
    bytes_ = " to ".join(dict.fromkeys(map(bytes_text, (int(min(sizes)), int(max(sizes))))))
    yield (
        f"{counted(len(bundle.collectives), 'collective')} of {bundle.context}, on"
        f" {counted(len(shapes), 'shape')} (nodes x processes per node){span}, with messages of"
        f" {bytes_}."
    )
    if {shape.nodes for shape in shapes} == {1}:
        yield "All of it ran on one node, so that it says nothing of a network."
    data = found.data
    if data is None:
        yield "With `colltune report --data` it would tell launches and days, too."
        return
    launches = counted(data.launches, "launch", "es") if data.launches else "unnamed launches"
    days = "on days that they do not tell"
    if data.days:
        days = f"on {data.days[0]}"
        if len(data.days) > 1:
            days = f"on {len(data.days)} days from {data.days[0]} to {data.days[-1]}"
    yield f"The data of this report are {counted(data.rows, 'row')} from {launches} {days}."


def _changes(bundle: Bundle, decisions: Sequence[_Decision]) -> Iterator[str]:
    changed = [one for one in decisions if one.why.is_replaced]
    if not changed:
        yield f"Nothing. All {len(decisions)} decisions keep the library's default."
        return
    counts = Counter(one.collective for one in changed)
    yield (
        f"{len(changed)} of {len(decisions)} decisions (one for each measured shape and message"
        f" size), {len(changed) / len(decisions):.0%}, differ from the library's default:"
        f" {_listed(f'{name} {count}' for name, count in counts.most_common())}."
    )
    kept = [c.mpi_name for c in bundle.collectives if c.mpi_name not in counts]
    if kept:
        yield f"{_listed(kept)} {'keeps' if len(kept) == 1 else 'keep'} the default."
    if ours := sum(is_libcolltune(one.configuration) for one in changed):
        yield f"{ours} of them run algorithms of libcolltune, which `colltune env` preloads."
    if han := sum(is_setup(one.configuration) for one in changed):
        yield f"{han} of them set up coll/han, which works across nodes only."


def _worth(bundle: Bundle, decisions: Sequence[_Decision]) -> Iterator[str]:
    records = bundle.confirmations
    won = [one for one in records if one.status is Status.CONFIRMED]
    if won:
        gain, lower, upper = (
            _mean(getattr(one, name) for one in won) for name in ("gain", "lower", "upper")
        )
        yield (
            f"Confirmed: {gain:.2f}x [{lower:.2f}, {upper:.2f}] in {counted(len(won), 'range')} of"
            f" message sizes, for jobs on {_listed(sorted({one.shape for one in won}))}, measured"
            " in turns with the default (geometric means of the gains and of their 95% bounds)."
        )
    elif not records:
        yield "Nothing is confirmed yet: no decision was measured again in turns with the default."
    if lost := len(records) - len(won):
        keep = "keeps" if lost == 1 else "keep"
        yield f"{counted(lost, 'range')} did not prove faster and {keep} the default."
    if unknown := sum(one.why is Why.NO_DEFAULT for one in decisions):
        yield (
            f"For {counted(unknown, 'decision')} no gain is known, because the library's default"
            " was not measured."
        )
    predicted = [one for one in decisions if one.why is Why.GAIN]
    if predicted:
        bound, largest = _mean(one.bound for one in predicted), max(predicted, key=lambda d: d.gain)
        least = f", at least {bound:.2f}x by their lower bounds" if math.isfinite(bound) else ""
        yield (
            f"Only predicted: {_mean(one.gain for one in predicted):.2f}x in the geometric mean of"
            f" {counted(len(predicted), 'changed decision')}{least}; the largest is"
            f" {largest.gain:.2f}x, for {largest.call}."
        )
    elif won:
        yield "Nothing rests on a prediction alone."


def _sure(found: Figures, decisions: Sequence[_Decision]) -> Iterator[str]:
    judged = _pooled(found, Sample.HELD_OUT) or _pooled(found, Sample.UNSEEN)
    if judged:
        yield from _judged(judged, len(found.collectives))
    else:
        yield _evidence(found.bundle)
        if found.with_data:
            yield "Figures on the data are in-sample: the bundle learned these shapes."
    if doubted := sum(one.why is Why.ERROR for one in decisions):
        yield f"For {counted(doubted, 'decision')} the guard kept the default: the gain is unsure."
    withheld = dict.fromkeys(one.collective for one in decisions if one.why is Why.WITHHELD)
    if withheld:
        left = _listed(withheld)
        yield f"The guard leaves {left} to the library: held-out decisions gained nothing."


def _pooled(found: Figures, sample: Sample) -> list[JudgedSample]:
    return [judged for f in found.collectives if (judged := f.of(sample))]


def _judged(parts: Sequence[JudgedSample], collectives: int) -> Iterator[str]:
    told = f"Held-out decisions, on {parts[0].sample.partition(': ')[2]}"
    if len(parts) < collectives:
        told += f", for {len(parts)} of {collectives} collectives"
    default_s, selected_s, best_s = (
        np.concatenate([getattr(part.comparison, name) for part in parts])
        for name in ("default_s", "selected_s", "best_s")
    )
    known = np.isfinite(default_s) & np.isfinite(selected_s)
    if known.any():
        yield (
            f"{told}: {counted(int(known.sum()), 'decision')} gained"
            f" {_mean((default_s / selected_s)[known]):.2f}x over the default where"
            f" {_mean((default_s / best_s)[known]):.2f}x was possible, and"
            f" {(selected_s > HARM * default_s)[known].mean():.1%} were more than 5% slower."
        )
    else:
        yield f"{told}: nothing can be compared with the default."
    inside = reduce(lambda a, b: a.merged(b), (part.errors for part in parts)).all().inside
    if inside is not None:
        yield f"There {inside:.0%} of the times lie in the interval that promises {PROMISED:.0%}."


def _evidence(bundle: Bundle) -> str:
    rows = {m.collective.mpi_name: bundle.held_out(m.collective) for m in bundle.models}
    known = {k for k, row in rows.items() if row.get("instances") and row.get("share") is not None}
    rows = {name: row for name, row in rows.items() if name in known}
    if not rows:
        return "Nobody knows: the bundle states no held-out decisions."
    shares = sorted((round(row["share"], 2) + 0.0, name) for name, row in rows.items())
    ends = dict.fromkeys(f"{share:.0%} ({name})" for share, name in (shares[0], shares[-1]))
    harms = [(row["harm"], name) for name, row in rows.items() if row.get("harm") is not None]
    harm, worst = max(harms, default=(None, ""))
    harmed = f"at most {harm:.1%} of a collective's did harm ({worst})" if harm else "none did harm"
    if harm is None:
        harmed = "nobody knows which did harm"
    return (
        f"Held out when it was fitted: {sum(row['instances'] for row in rows.values())} decisions"
        f" reached {' to '.join(ends)} of the possible logarithmic gain, and {harmed}."
    )


def _next(bundle: Bundle, decisions: Sequence[_Decision]) -> Iterator[str]:
    if any(model.default_column is None for model in bundle.models):
        yield "Measure the algorithm `default` too, and fit again."
    elif not any(one.why.is_replaced for one in decisions):
        yield "There is nothing to deploy. Measure more configurations or shapes, or leave it so."
    elif bundle.context.library not in LIBRARIES:
        yield f"colltune writes no files for {bundle.context.library}; use it to compare."
    elif not bundle.confirmations:
        yield "Run `colltune confirm` on a job's nodes, then `colltune select --format`."
    elif any(one.why is Why.GAIN for one in decisions):
        yield (
            "Deploy with `colltune select --format`, or run `colltune confirm` first for the"
            " shapes that are only predicted."
        )
    else:
        yield "Deploy it with `colltune select --format` or `colltune env`."


def _mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def _listed(names: Iterable[object]) -> str:
    """Return up to four names as a sentence has them, and how many more there are."""
    all_names = list(map(str, names))
    more = len(all_names) - _MOST_NAMES
    kept = all_names if more <= 1 else [*all_names[:_MOST_NAMES], f"{more} more"]
    return " and ".join(filter(None, (", ".join(kept[:-1]), kept[-1])))
