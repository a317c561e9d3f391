"""One collective's part of a report: maps, runtimes, calibration, each with its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from colltune.models.bundle import Bundle
from colltune.plot_data.decisions import LETTERS, DecisionMap
from colltune.plot_data.maps import Maps, choice_map
from colltune.plot_data.measured import Errors, GainBin, MeasuredDecisions, gain_bins
from colltune.plot_data.runtimes import Curve
from colltune.plot_data.summaries import (
    DecisionRun,
    ShapeGain,
    decision_runs,
    reason_counts,
    usages,
)
from colltune.plots import gains, maps, runtimes
from colltune.plots.saving import inline_svg
from colltune.report.figures import LEAST_NODE_COUNTS, CollectiveFigures, Sample
from colltune.report.markup import (
    Child,
    Markup,
    beside,
    element,
    figure,
    folded,
    table,
)
from colltune.text import bytes_text, time_text

UNKNOWN = "–"
_MOST_PANELS = 6
_OPEN_UP_TO = 16


def collective_section(bundle: Bundle, found: CollectiveFigures) -> Markup:
    name = found.collective.mpi_name
    decisions = found.decisions
    drawn = Maps.of("", [choice_map(decisions)])
    pictures = {
        by: Markup(inline_svg(maps.draw(drawn, by), f"{name}: {what}"))
        for by, what in (
            (maps.By.ALGORITHM, "what is used where"),
            (maps.By.REASON, "why"),
            (maps.By.GAIN, "predicted gain"),
        )
    }
    notes = "".join(f" Not shown: {note}." for note in drawn.notes)
    return element(
        "section",
        element("h2", name, id=found.collective.value),
        *_introduction(bundle, found),
        *_decisions(decisions, pictures[maps.By.ALGORITHM], notes),
        *_guard(decisions, pictures[maps.By.REASON]),
        *_gains(found, pictures[maps.By.GAIN]),
        *_runtimes(found),
        element("h3", "Calibration"),
        *_calibration(found),
    )


def factor(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1%}"


def _introduction(bundle: Bundle, found: CollectiveFigures) -> Iterator[Markup]:
    model, decisions = bundle.model(found.collective), found.decisions
    grid, inside = decisions.grid, decisions.inside
    sizes = grid.msize_bytes[grid.known_size]
    low, high = bytes_text(int(sizes[0])), bytes_text(int(sizes[-1]))
    yield element(
        "p",
        f"Learner {model.learner} on the features {model.feature_set!r};"
        f" {len(model.configurations)} configurations, {int(grid.known.sum())} shapes measured,"
        f" {len(sizes)} message sizes from {low} to {high}. On"
        f" {decisions.replaced[inside].mean():.0%} of the {int(inside.sum())} pairs of a"
        " measured shape and a measured size something else than the default is used.",
    )
    if model.default_column is None:
        yield element(
            "p",
            "The library's default was not measured: what is predicted fastest is used, and"
            " whether that is any faster than the default nobody knows. Measure the algorithm"
            " 'default' and fit again.",
            class_="note",
        )


def _decisions(decisions: DecisionMap, picture: Markup, notes: str) -> Iterator[Markup]:
    yield element("h3", "What is used where")
    yield figure(
        "A row for each shape (nodes x ppn), those of one number of processes per node together."
        " Shapes in grey were not measured; the frame goes around what was, and outside the colours"
        f" are paler.{notes}",
        picture,
        "map",
    )
    yield table(
        "What is used on the measured shapes and sizes",
        ["configuration", "share", "fields", "message sizes", "nodes"],
        (
            [
                usage.configuration.short,
                f"{usage.share:.1%}",
                str(usage.fields),
                _range(*map(bytes_text, usage.msize_bytes)),
                _range(*usage.nodes),
            ]
            for usage in usages(decisions)
        ),
        ["configuration"],
    )
    runs = list(decision_runs(decisions))
    yield folded(f"All {len(runs)} decisions of the map as a table", _run_table(runs))


def _range(first: object, last: object) -> str:
    return str(first) if first == last else f"{first} .. {last}"


def _run_table(runs: list[DecisionRun]) -> Markup:
    return table(
        "Decisions by shape and message size: from the first to the last size looked at (two per"
        " octave and all measured ones). The predicted gain is that at the middle of the range, of"
        " what is used or, where that is the default, of the fastest candidate; at least: the"
        " lowest of its lower bounds.",
        ["shape", "configuration", "from", "to", "predicted gain", "at least", "why"],
        (
            [
                f"{run.shape.nodes} x {run.shape.ppn}{'' if run.measured else ' (not measured)'}",
                run.configuration.short,
                bytes_text(run.first_bytes),
                bytes_text(run.last_bytes),
                factor(run.gain),
                factor(run.bound),
                f"{run.why}{' (outside the measured range)' if run.extrapolated else ''}",
            ]
            for run in runs
        ),
        ["configuration", "why"],
    )


def _guard(decisions: DecisionMap, picture: Markup) -> Iterator[Markup]:
    inside = max(int(decisions.inside.sum()), 1)
    yield element("h3", "Where the guard keeps the default, and why")
    yield figure("The same map, by reason.", picture, "map")
    yield table(
        "How often each reason holds",
        ["letter", "reason", "measured fields", "share", "other fields"],
        (
            [LETTERS[why], why.value, str(a), f"{a / inside:.1%}", str(b)]
            for why, (a, b) in reason_counts(decisions).items()
        ),
        ["reason"],
    )


def _gains(found: CollectiveFigures, picture: Markup) -> Iterator[Markup]:
    yield element("h3", "Predicted gain over the default")
    yield figure(
        "Runtime of the default over that of what is used, as the bundle predicts it.",
        picture,
        "map",
    )
    title = f"Predicted gains of {len(found.gains)} shapes as a table"
    yield folded(title, _gain_table(found.gains), opened=len(found.gains) <= _OPEN_UP_TO)
    told = [row for row in found.gains if row.outcome]
    if found.judged:
        sample, drawn = found.judged[0].sample, told
        caption = (
            f"{sample}. The dot is the predicted gain of a shape (nodes x ppn), the bar reaches"
            " down to its lower bound (no bar: none is stated), and the cross is the gain that was"
            " measured: geometric means over the same message sizes and models."
        )
    else:
        drawn = [row for row in found.gains if row.measured]
        caption = (
            "The dot is the predicted gain of a shape (nodes x ppn), a geometric mean over its"
            " measured message sizes; the bar reaches down to its lower bound (no bar: none is"
            " stated)."
        )
    yield figure(caption, Markup(inline_svg(gains.of_shapes(drawn), "gain by shape")))
    if told:
        yield folded(f"The same of {len(told)} shapes as a table", _outcome_table(told, sample))


def _gain_table(rows: tuple[ShapeGain, ...]) -> Markup:
    return table(
        "Predicted, per shape over the measured message sizes: how often the default is replaced,"
        " geometric means of the gain and of its lower bound, and the largest gain",
        ["shape", "replaced", "predicted gain", "at least", "largest", "at"],
        (
            [
                f"{row.shape.nodes} x {row.shape.ppn}{'' if row.measured else ' (not measured)'}",
                f"{row.replaced_share:.0%}",
                factor(row.gain),
                factor(row.bound),
                factor(row.largest),
                bytes_text(row.largest_bytes) if row.largest > 1 else UNKNOWN,
            ]
            for row in rows
        ),
    )


def _outcome_table(rows: list[ShapeGain], sample: Sample) -> Markup:
    return table(
        f"{sample}. Geometric means of the predicted and of the measured gain, and of what the best"
        " would gain (possible); the share of that in logarithms; decisions more than 5 % slower"
        " than the default",
        ["shape", "predicted gain", "measured gain", "possible", "of possible", "slower > 5 %"],
        (
            [
                f"{row.shape.nodes} x {row.shape.ppn}",
                *map(factor, (one.predicted, one.speedup, one.oracle_speedup)),
                *map(percent, (one.log_gain_share, one.slower_share)),
            ]
            for row in rows
            if (one := row.outcome)
        ),
    )


def _runtimes(found: CollectiveFigures) -> Iterator[Markup]:
    curves = found.curves
    at = np.unique(np.linspace(0, len(curves) - 1, min(len(curves), _MOST_PANELS)).round())
    shown = [curves[int(i)] for i in at]
    source = (
        f"{found.judged[0].sample}. Measured runtimes over the fastest measured one. A line is"
        " broken where nothing was measured"
        if shown[0].measured
        else "PREDICTED runtimes over the fastest predicted one: the models' own opinion, no"
        " evidence; give data to see measured ones"
    )
    hidden = len(curves) - len(shown)
    more = f" {hidden} further shapes are in the table only." if hidden else ""
    yield element("h3", "Normalised runtimes")
    yield figure(
        f"{source}. 1 is the best; lower is better.{more}",
        Markup(inline_svg(runtimes.normalised(shown), "normalised runtimes")),
    )
    kind = "Measured" if curves[0].measured else "Predicted"
    listed = table(
        f"{kind} runtimes of the default, of what is selected (time) and of the best",
        [
            "shape",
            "selected",
            "bytes",
            "default",
            "time",
            "best",
            "default / best",
            "selected / best",
        ],
        (row for curve in curves for row in _curve_rows(curve)),
        ["selected"],
    )
    yield folded("Runtimes as a table", listed)


def _curve_rows(curve: Curve) -> Iterator[list[Child]]:
    ratios = zip(curve.default_ratio.tolist(), curve.selected_ratio.tolist(), strict=True)
    for at, (default, selected) in enumerate(ratios):
        times = [float(t[at]) for t in (curve.default_s, curve.selected_s, curve.best_s)]
        yield [
            f"{curve.shape.nodes} x {curve.shape.ppn}",
            curve.configurations[at].short,
            bytes_text(int(curve.msize_bytes[at])),
            *(time_text(t) if np.isfinite(t) else UNKNOWN for t in times),
            *(f"{r:.3f}" if np.isfinite(r) else UNKNOWN for r in (default, selected)),
        ]


def _calibration(found: CollectiveFigures) -> Iterator[Markup]:
    if not found.judged:
        yield element(
            "p",
            "Not known: no measurements of this collective were given. Run the report with --data,"
            " and with --held-out to see it on node counts left out of the fit.",
        )
        return
    if found.of(Sample.HELD_OUT) is None:
        yield element(
            "p",
            "Not shown on node counts left out of the fit: that takes --held-out, data of at least"
            f" {LEAST_NODE_COUNTS} node counts, and a learner that can be fitted to the rest.",
        )
    for judged in found.judged:
        yield element("h4", judged.sample)
        if judged.sample is Sample.IN_SAMPLE:
            yield element(
                "p",
                "If these are the measurements that the models learned from, the figures flatter.",
                class_="note",
            )
        yield from _judged(judged.comparison, judged.errors, judged.sample.partition(":")[0])


def _judged(comparison: MeasuredDecisions, errors: Errors, where: str) -> Iterator[Markup]:
    rows = (errors.all(), *errors.by_nodes())
    yield beside(
        figure(
            f"{where}. Share of measured times inside the predicted interval, which promises"
            " 90 % (dashed line). Far below: too sure of itself; far above: too timid.",
            Markup(inline_svg(gains.calibration(rows), "measured times inside the interval")),
        ),
        table(
            f"{where}. Measured times inside the predicted 90 % interval, faster than all of"
            " it, slower than all of it; median factor between measured and predicted time",
            ["nodes", "times", "inside", "faster", "slower", "typical error"],
            (
                [
                    "all" if row.nodes is None else str(row.nodes),
                    str(row.times),
                    *map(percent, (row.inside, row.below, row.above)),
                    factor(row.typical_factor),
                ]
                for row in rows
            ),
        ),
    )
    picture = gains.predicted_and_measured(comparison)
    if picture is None:
        yield element("p", "No decision replaces the default where both were measured.")
        return
    known = int((comparison.replaced & (comparison.measured_gain > 0)).sum())
    most = gains.MOST_POINTS
    thinned = f" {most} of {known} points are drawn." if known > most else ""
    yield beside(
        figure(
            f"{where}, where the default is replaced. On the diagonal the gain is as"
            " predicted; in the shaded part the selected is more than 5 % slower than the"
            f" default. Rings lie outside the measured range.{thinned}",
            Markup(inline_svg(picture, "predicted against measured gain")),
        ),
        _bin_table(gain_bins(comparison), where),
    )


def _bin_table(bins: tuple[GainBin, ...], where: str) -> Markup:
    return table(
        f"{where}. Predicted and measured gains, by predicted gain",
        [
            "predicted gain",
            "decisions",
            "median predicted",
            "median measured",
            "slower > 5 %",
            "reach the bound",
        ],
        (
            [
                _bin(b),
                str(b.decisions),
                f"{b.median_predicted:.2f}",
                f"{b.median_measured:.2f}",
                f"{b.slower_share:.1%}",
                percent(b.above_bound_share),
            ]
            for b in bins
        ),
    )


def _bin(gained: GainBin) -> str:
    if not math.isfinite(gained.last):
        return f"{gained.first:g} and more"
    return f"{gained.first:g} to {gained.last:g}" if gained.first else f"up to {gained.last:g}"
