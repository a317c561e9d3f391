"""One collective's part of a report: maps, runtimes, calibration, each with its tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colltune.models.bundle import Bundle
from colltune.plot_data.decisions import DecisionMap
from colltune.plot_data.runtimes import Curve
from colltune.plot_data.summaries import (
    DecisionRun,
    ShapeGain,
    decision_runs,
    reason_counts,
    usages,
)
from colltune.report.figures import CollectiveFigures
from colltune.report.html.calibration import calibration_part, percent
from colltune.report.html.lines import gain_ranges, line_key, runtime_panel
from colltune.report.html.maps import (
    decision_picture,
    gain_picture,
    guard_picture,
    ranks,
    short,
)
from colltune.report.html.style import (
    GAINS,
    algorithm_style,
    gain_style,
    swatch,
    why_letter,
    why_style,
)
from colltune.report.markup import (
    Child,
    Markup,
    beside,
    element,
    figure,
    folded,
    joined,
    table,
)
from colltune.text import bytes_text, time_text

_MOST_PANELS = 9
_OPEN_UP_TO = 16
_UNKNOWN = "–"
_MAP_TEXT = (
    "Columns are shapes: nodes below, grouped by processes per node; bold node counts were"
    " measured, those in italics were not. Upwards the message size; ticks mark measured sizes."
    " Veiled and dashed: outside the measured range."
)

_COLOUR_TEXT = (
    "Colour, pattern and number stand for the algorithm (0: the library's own decision); a line"
    " inside a colour separates parameter values."
)


def collective_section(bundle: Bundle, found: CollectiveFigures) -> Markup:
    """Return the section of one collective."""
    name = found.collective.value
    return element(
        "section",
        element("h2", found.collective.mpi_name, id=name),
        _introduction(bundle, found),
        _decisions(found.decisions),
        _guard(found.decisions),
        _gains(found),
        _runtimes(found.curves, _judged_on(found)),
        calibration_part(found),
    )


def _introduction(bundle: Bundle, found: CollectiveFigures) -> Markup:
    model, decisions = bundle.model(found.collective), found.decisions
    grid, inside = decisions.grid, decisions.inside
    sizes = grid.msize_bytes[grid.known_size]
    low, high = bytes_text(int(sizes[0])), bytes_text(int(sizes[-1]))
    parts = [
        element(
            "p",
            f"Learner {model.learner} on the features {model.feature_set!r};"
            f" {len(model.configurations)} configurations, {int(grid.known.sum())} shapes measured,"
            f" {len(sizes)} message sizes from {low} to {high}. On"
            f" {decisions.replaced[inside].mean():.0%} of the {int(inside.sum())} pairs of a"
            " measured shape and a measured size something else than the default is used.",
        )
    ]
    if model.default_column is None:
        parts.append(
            element(
                "p",
                "The library's default was not measured: what is predicted fastest is used, and"
                " whether that is any faster than the default nobody knows. Measure the algorithm"
                " 'default' and fit again.",
                class_="note",
            )
        )
    if grid.left_out:
        text = f"{grid.left_out} measured shapes are not shown, for want of room."
        parts.append(element("p", text, class_="note"))
    return joined(parts)


def _decisions(decisions: DecisionMap) -> Markup:
    rank = ranks(decisions)
    rows: list[list[Child]] = []
    for usage in usages(decisions):
        number = rank[usage.configuration.algorithm]
        rows.append(
            [
                swatch(algorithm_style(number), str(number)),
                short(usage.configuration),
                f"{usage.share:.1%}",
                str(usage.fields),
                _range(*map(bytes_text, usage.msize_bytes)),
                _range(*usage.nodes),
            ]
        )
    keys = [
        element("span", swatch(algorithm_style(number), str(number)), f" {name}")
        for name, number in rank.items()
    ]
    caption = "What is used on the measured shapes and sizes"
    header = ["map", "configuration", "share", "fields", "message sizes", "nodes"]
    runs = list(decision_runs(decisions))
    return joined(
        [
            element("h3", "What is used where"),
            element("p", f"{_MAP_TEXT} {_COLOUR_TEXT}"),
            beside(
                figure("", decision_picture(decisions), element("div", *keys, class_="keys")),
                table(caption, header, rows, ["configuration"]),
            ),
            folded(f"All {len(runs)} decisions of the map as a table", _run_table(runs)),
        ]
    )


def _run_table(runs: list[DecisionRun]) -> Markup:
    header = ["shape", "configuration", "from", "to", "predicted gain", "at least", "why"]
    return table(
        "Decisions by shape and message size: from the first to the last size looked at (two per"
        " octave and all measured ones). The predicted gain is that at the middle of the range, of"
        " what is used or, where that is the default, of the fastest candidate; at least: the"
        " lowest of its lower bounds.",
        header,
        (
            [
                f"{run.shape.nodes} x {run.shape.ppn}{'' if run.measured else ' (not measured)'}",
                short(run.configuration),
                bytes_text(run.first_bytes),
                bytes_text(run.last_bytes),
                _factor(run.gain),
                _factor(run.bound),
                f"{run.why}{' (outside the measured range)' if run.extrapolated else ''}",
            ]
            for run in runs
        ),
        ["configuration", "why"],
    )


def _guard(decisions: DecisionMap) -> Markup:
    counts = reason_counts(decisions)
    inside = max(int(decisions.inside.sum()), 1)
    header = ["map", "reason", "measured fields", "share", "other fields"]
    rows: list[list[Child]] = [
        [swatch(why_style(why), why_letter(why)), why.value, str(a), f"{a / inside:.1%}", str(b)]
        for why, (a, b) in counts.items()
    ]
    return joined(
        [
            element("h3", "Where the guard keeps the default, and why"),
            beside(
                figure("The same map, by reason.", guard_picture(decisions)),
                table("How often each reason holds", header, rows, ["reason"]),
            ),
        ]
    )


def _gains(found: CollectiveFigures) -> Markup:
    rows = found.gains
    measured = [row for row in rows if row.measured or row.outcome]
    bins = [*GAINS[1:], None]
    keys = [element("span", swatch(gain_style(-1)), " default kept")]
    for at, (low, high) in enumerate(zip(GAINS, bins, strict=True)):
        text = f" {low:g} to {high:g}" if high else f" {low:g} and more"
        keys.append(element("span", swatch(gain_style(at), f"{low:g}"), text))
    told = (
        f"; a cross is the gain measured on {_judged_on(found)}, and dot and bar then stand for the"
        " same instances and models"
        if found.judged
        else ""
    )
    return joined(
        [
            element("h3", "Predicted gain over the default"),
            beside(
                figure(
                    "Runtime of the default over that of what is used, as predicted; the number is"
                    " the lower end of the colour's range.",
                    gain_picture(found.decisions),
                    element("div", *keys, class_="keys"),
                ),
                figure(
                    "The dot is the mean gain of a shape (nodes x ppn), the bar reaches down to its"
                    f" lower bound (no bar: none is stated){told}.",
                    gain_ranges(measured),
                ),
            ),
            folded(
                f"Gains of {len(rows)} shapes as a table",
                _gain_table(rows, _judged_on(found)),
                opened=len(rows) <= _OPEN_UP_TO,
            ),
        ]
    )


def _judged_on(found: CollectiveFigures) -> str:
    return "node counts left out of the fit, one at a time" if found.held_out else "the data"


def _gain_table(rows: tuple[ShapeGain, ...], where: str) -> Markup:
    compared = any(row.outcome for row in rows)
    header = ["shape", "replaced", "predicted gain", "at least", "largest", "at"]
    header += (
        ["predicted there", "measured gain", "possible", "of possible", "slower > 5 %"]
        if compared
        else []
    )
    return table(
        "Per shape, over the measured message sizes: how often the default is replaced, geometric"
        " means of the predicted gain and of its lower bound, the largest predicted gain"
        + (
            f"; on {where}: geometric means of the predicted and the measured gain"
            " and of what the best would gain, the share of that in logarithms, and how many"
            " decisions are more than 5 % slower than the default"
            if compared
            else ""
        ),
        header,
        (_gain_row(row, compared) for row in rows),
    )


def _gain_row(row: ShapeGain, compared: bool) -> list[Child]:
    name = f"{row.shape.nodes} x {row.shape.ppn}{'' if row.measured else ' (not measured)'}"
    cells: list[Child] = [
        name,
        f"{row.replaced_share:.0%}",
        _factor(row.gain),
        _factor(row.bound),
        _factor(row.largest),
        bytes_text(row.largest_bytes) if row.largest > 1 else _UNKNOWN,
    ]
    if compared:
        cells += _outcome_cells(row)
    return cells


def _outcome_cells(row: ShapeGain) -> list[Child]:
    """Return predicted, measured and possible gain, share of it, share of slower decisions."""
    outcome = row.outcome
    if outcome is None:
        return [_UNKNOWN] * 5
    return [
        _factor(outcome.predicted),
        _factor(outcome.speedup),
        _factor(outcome.oracle_speedup),
        percent(outcome.log_gain_share),
        percent(outcome.slower_share),
    ]


def _factor(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}"


def _range(first: object, last: object) -> str:
    return str(first) if first == last else f"{first} .. {last}"


def _runtimes(found: tuple[Curve, ...], where: str) -> Markup:
    at = np.unique(np.linspace(0, len(found) - 1, min(len(found), _MOST_PANELS)).round())
    shown = [found[int(i)] for i in at]
    source = (
        f"measured runtimes over the fastest measured one, on {where}; a line is broken where"
        " nothing was measured"
        if shown[0].measured
        else "PREDICTED runtimes over the fastest predicted one: the models' own opinion, no"
        " evidence; give data to see measured ones"
    )
    hidden = len(found) - len(shown)
    more = f" {hidden} further shapes are in the table only." if hidden else ""
    return joined(
        [
            element("h3", "Normalised runtimes"),
            figure(
                f"Message size against {source}. 1 is the best; lower is better.{more}",
                line_key(),
                element("div", *map(runtime_panel, shown), class_="panels"),
            ),
            folded("Runtimes as a table", _runtime_table(found)),
        ]
    )


def _runtime_table(found: tuple[Curve, ...]) -> Markup:
    kind = "Measured" if found[0].measured else "Predicted"
    header = ["shape", "selected", "bytes", "default", "time", "best", "default / best",
              "selected / best"]  # fmt: skip
    return table(
        f"{kind} runtimes of the default, of what is selected (time) and of the best",
        header,
        (row for curve in found for row in _curve_rows(curve)),
        ["selected"],
    )


def _curve_rows(curve: Curve) -> Iterator[list[Child]]:
    ratios = zip(curve.default_ratio.tolist(), curve.selected_ratio.tolist(), strict=True)
    for at, (default, selected) in enumerate(ratios):
        times = [float(t[at]) for t in (curve.default_s, curve.selected_s, curve.best_s)]
        yield [
            f"{curve.shape.nodes} x {curve.shape.ppn}",
            short(curve.configurations[at]),
            bytes_text(int(curve.msize_bytes[at])),
            *(time_text(t) if np.isfinite(t) else _UNKNOWN for t in times),
            *(f"{r:.3f}" if np.isfinite(r) else _UNKNOWN for r in (default, selected)),
        ]
