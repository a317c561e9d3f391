"""The first paragraph of a report: what was measured, what changes, its worth, how sure, what next.

Figures of what was confirmed, of what is predicted, and of held-out decisions never share a number.
Those of decisions on shapes that the models learned are left out: they flatter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import numpy as np

from colltune.decisions import Status
from colltune.domain import Configuration
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.mpi import LIBRARIES
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.openmpi.han_setups import is_setup
from colltune.plot_data.decisions import REASONS, Flags, Why
from colltune.plot_data.measured import PROMISED
from colltune.report.figures import CollectiveFigures, Figures, Judged, Sample
from colltune.text import bytes_text, counted

_MOST_NAMES = 4


def summary(found: Figures) -> dict[str, str]:
    """Return the sentences of the paragraph, by what they tell."""
    parts = {
        "Measured": _measured(found),
        "What changes": _changes(found),
        "What it is worth": _worth(found),
        "How sure": _sure(found),
        "Next": _next(found),
    }
    return {lead: " ".join(sentences) for lead, sentences in parts.items()}


def _measured(found: Figures) -> Iterator[str]:
    bundle = found.bundle
    shapes, nodes = sorted(bundle.training_shapes), {s.nodes for s in bundle.training_shapes}
    sizes = [size for f in found.collectives for size in bundle.model(f.collective).coverage.sizes]
    span = f" from {shapes[0]} to {shapes[-1]}" if len(shapes) > 1 else f", {shapes[0]}"
    of_sizes = _bytes(min(sizes))
    if max(sizes) > min(sizes):
        of_sizes += f" to {_bytes(max(sizes))}"
    yield (
        f"{counted(len(bundle.collectives), 'collective')} of {bundle.context}, on"
        f" {counted(len(shapes), 'shape')} (nodes x processes per node){span}, with messages of"
        f" {of_sizes}."
    )
    if nodes == {1}:
        yield "All of it ran on one node, so that it says nothing of a network."
    data = found.data
    if data is None:
        yield "Launches and days are in the measurements alone: give them with --data."
    else:
        launches = counted(data.launches, "launch", "es") if data.launches else "unnamed launches"
        days = _days(data.days) if data.days else "on days that they do not tell"
        yield f"The data of this report are {counted(data.rows, 'row')} from {launches} {days}."


def _days(days: Sequence[str]) -> str:
    if len(days) == 1:
        return f"on {days[0]}"
    return f"on {len(days)} days from {days[0]} to {days[-1]}"


def _bytes(n: int) -> str:
    text = bytes_text(int(n))
    return f"{text} B" if text.isdigit() else text


def _changes(found: Figures) -> Iterator[str]:
    decisions = sum(int(f.decisions.inside.sum()) for f in found.collectives)
    changed = {f.collective.mpi_name: _count(f) for f in found.collectives}
    total = sum(changed.values())
    if not total:
        yield f"Nothing. All {decisions} decisions keep the library's default."
        return
    most = sorted((name for name in changed if changed[name]), key=lambda n: (-changed[n], n))
    kept = [name for name, count in changed.items() if not count]
    yield (
        f"{total} of {decisions} decisions (one for each measured shape and message"
        f" size), {total / decisions:.0%}, differ from the library's default:"
        f" {_listed(f'{name} {changed[name]}' for name in most)}."
    )
    if kept:
        yield f"{_listed(kept)} {'keeps' if len(kept) == 1 else 'keep'} the default."
    chosen = [c for f in found.collectives for c in _changed_configurations(f)]
    if ours := sum(map(is_libcolltune, chosen)):
        yield f"{ours} of them run algorithms of libcolltune, which `colltune env` preloads."
    if han := sum(map(is_setup, chosen)):
        yield f"{han} of them set up coll/han, which works across nodes only."


def _count(found: CollectiveFigures) -> int:
    return int((found.decisions.replaced & found.decisions.inside).sum())


def _changed_configurations(found: CollectiveFigures) -> list[Configuration]:
    decisions = found.decisions
    pairs = np.argwhere(decisions.replaced & decisions.inside).tolist()
    return [decisions.configuration(shape, size) for shape, size in pairs]


def _worth(found: Figures) -> Iterator[str]:
    records = found.bundle.confirmations
    won = [one for one in records if one.status is Status.CONFIRMED]
    if won:
        gain, lower, upper = (_mean(_logs(won, name)) for name in ("gain", "lower", "upper"))
        shapes = _listed(str(shape) for shape in sorted({one.shape for one in won}))
        yield (
            f"Confirmed: {gain:.2f}x [{lower:.2f}, {upper:.2f}] in"
            f" {counted(len(won), 'range')} of message sizes, for jobs on {shapes}, measured in"
            " turns with the default (geometric means of the gains and of their 95 % bounds)."
        )
    elif not records:
        yield "Nothing is confirmed yet: no decision was measured again in turns with the default."
    if lost := len(records) - len(won):
        yield f"{counted(lost, 'range')} did not prove faster and {_keep(lost)} the default."
    yield from _predicted(found, bool(won))


def _keep(n: int) -> str:
    return "keeps" if n == 1 else "keep"


def _logs(records: Iterable[Confirmation], name: str) -> list[float]:
    return [math.log(getattr(one, name)) for one in records]


def _mean(logs: Iterable[float]) -> float:
    return float(np.exp(np.mean(list(logs))))


def _predicted(found: Figures, confirmed: bool) -> Iterator[str]:
    gains: list[float] = []
    bounds: list[float] = []
    largest, where = 1.0, ""
    unknown = 0
    for one in found.collectives:
        decisions = one.decisions
        unknown += int((_is(one, Why.NO_DEFAULT) & decisions.inside).sum())
        rows = _is(one, Why.GAIN) & decisions.inside
        gains += np.log(decisions.gain[rows]).tolist()
        bounds += np.log(decisions.bound[rows]).tolist()
        for shape, size in np.argwhere(rows).tolist():
            if decisions.gain[shape, size] > largest:
                largest = float(decisions.gain[shape, size])
                bytes_ = _bytes(decisions.grid.msize_bytes[size])
                where = f"{one.collective.mpi_name} of {bytes_} on {decisions.grid.shapes[shape]}"
    if unknown:
        yield (
            f"For {counted(unknown, 'decision')} no gain is known, because the library's default"
            " was not measured."
        )
    if gains:
        bound = _mean(bounds)
        least = f", at least {bound:.2f}x by their lower bounds" if math.isfinite(bound) else ""
        yield (
            f"Only predicted: {_mean(gains):.2f}x in the geometric mean of"
            f" {counted(len(gains), 'changed decision')}{least}; the largest is {largest:.2f}x, for"
            f" {where}."
        )
    elif confirmed:
        yield "Nothing rests on a prediction alone."


def _is(found: CollectiveFigures, why: Why) -> Flags:
    return np.asarray(found.decisions.why == REASONS.index(why))


def _sure(found: Figures) -> Iterator[str]:
    judged = _pooled(found, Sample.HELD_OUT) or _pooled(found, Sample.UNSEEN)
    if judged:
        yield from _judged(judged, len(found.collectives))
    else:
        yield from _evidence(found.bundle)
        if found.with_data:
            yield "Figures on the data are in-sample: the bundle learned these shapes."
    doubted = sum(int((_is(f, Why.ERROR) & f.decisions.inside).sum()) for f in found.collectives)
    if doubted:
        yield f"For {counted(doubted, 'decision')} the guard kept the default: the gain is unsure."
    withheld = [f.collective.mpi_name for f in found.collectives if _is(f, Why.WITHHELD).any()]
    if withheld:
        yield f"The guard leaves {_listed(withheld)} to the library: held-out decisions did harm."


def _pooled(found: Figures, sample: Sample) -> list[Judged]:
    return [judged for f in found.collectives if (judged := f.of(sample))]


def _judged(parts: Sequence[Judged], collectives: int) -> Iterator[str]:
    told = f"Held-out decisions, on {parts[0].sample.partition(': ')[2]}"
    if len(parts) < collectives:
        told += f", for {len(parts)} of {collectives} collectives"
    figures = [one for part in parts if (one := part.comparison.summary()).compared]
    n = sum(one.compared for one in figures)
    if n:
        gained, possible = (
            math.exp(sum(one.compared * math.log(getattr(one, name) or 1) for one in figures) / n)
            for name in ("speedup", "oracle_speedup")
        )
        slower = sum(one.compared * (one.slower_share or 0.0) for one in figures) / n
        yield (
            f"{told}: {counted(n, 'decision')} gained {gained:.2f}x over the default where"
            f" {possible:.2f}x was possible, and {slower:.1%} of them were more than 5% slower."
        )
    else:
        yield f"{told}: nothing can be compared with the default."
    inside = reduce(lambda a, b: a.merged(b), (part.errors for part in parts)).all().inside
    if inside is not None:
        yield f"There {inside:.0%} of the times lie in the interval that promises {PROMISED:.0%}."


def _evidence(bundle: Bundle) -> Iterator[str]:
    rows = {}
    for model in bundle.models:
        own = bundle.held_out(model.collective)
        if isinstance(own.get("share"), float) and own.get("instances"):
            rows[model.collective.mpi_name] = own
    if not rows:
        yield "Nobody knows: the bundle states no held-out decisions."
        return
    least, most = (pick(rows, key=lambda name: rows[name]["share"]) for pick in (min, max))
    harm, worst = max((row.get("harm") or 0.0, name) for name, row in rows.items())
    harmed = f"at most {harm:.1%} of a collective's did harm ({worst})" if harm else "none did harm"
    n = sum(row["instances"] for row in rows.values())
    shares = {name: f"{round(rows[name]['share'], 2) + 0.0:.0%} ({name})" for name in rows}
    span = shares[least] if least == most else f"from {shares[least]} to {shares[most]}"
    yield (
        f"Held out when it was fitted: {n} decisions reached {span} of the possible"
        f" logarithmic gain, and {harmed}."
    )


def _next(found: Figures) -> Iterator[str]:
    bundle = found.bundle
    changed = sum(map(_count, found.collectives))
    unknown = any(bundle.model(f.collective).default_column is None for f in found.collectives)
    if unknown:
        yield "Measure the algorithm `default` too, and fit again."
    elif not changed:
        yield "There is nothing to deploy. Measure more configurations or shapes, or leave it so."
    elif bundle.context.library not in LIBRARIES:
        yield f"colltune writes no files for {bundle.context.library}; use it to compare."
    elif not bundle.confirmations:
        yield "Run `colltune confirm` on a job's nodes, then `colltune select --format`."
    elif any((_is(f, Why.GAIN) & f.decisions.inside).any() for f in found.collectives):
        yield (
            "Deploy with `colltune select --format`, or run `colltune confirm` first for the"
            " shapes that are only predicted."
        )
    else:
        yield "Deploy it with `colltune select --format` or `colltune env`."


def _listed(names: Iterable[str]) -> str:
    """Return up to four names as a sentence has them, and how many more there are."""
    all_names = list(names)
    more = len(all_names) - _MOST_NAMES
    kept = all_names if more <= 1 else [*all_names[:_MOST_NAMES], f"{more} more"]
    return " and ".join(filter(None, (", ".join(kept[:-1]), kept[-1])))
