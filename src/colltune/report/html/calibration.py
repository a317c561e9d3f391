"""Whether intervals and gains hold what they promise: the last part of a collective's section."""

from __future__ import annotations

import math

from colltune.plot_data.measured import Calibration, Comparison, Errors, GainBin, Summary, gain_bins
from colltune.report.figures import LEAST_NODE_COUNTS, CollectiveFigures
from colltune.report.html.lines import MOST_POINTS, calibration_picture, gain_scatter
from colltune.report.markup import (
    Child,
    Markup,
    beside,
    element,
    figure,
    joined,
    table,
)

_UNKNOWN = "–"


def calibration_part(found: CollectiveFigures) -> Markup:
    """Return how far predictions of one collective are right, as far as that is known."""
    parts = [element("h3", "Calibration")]
    if found.comparison is None or found.errors is None:
        text = (
            "Not known: no measurements of this collective were given. Run the report with --data,"
            " and with --held-out to see it on node counts left out of the fit."
        )
        return joined([*parts, element("p", text)])
    parts += _held_out(found)
    trained = found.comparison.trained
    if trained.any():
        share = f"{trained.mean():.0%} of the data's instances lie"
        parts.append(
            element(
                "p",
                f"{share} on shapes that the models were fitted to. If these are the measurements"
                " they learned from, the figures flatter.",
                class_="note",
            )
        )
    parts += _beside_data(found.comparison, found.errors, "the data")
    return joined(parts)


def percent(share: float | None) -> str:
    """Return a share for people."""
    return _UNKNOWN if share is None else f"{share:.1%}"


def _held_out(found: CollectiveFigures) -> list[Markup]:
    if found.held_out is not None:
        comparison, errors = found.held_out.comparison, found.held_out.errors
        again = element("p", "And with the bundle as it is:")
        return [*_beside_data(comparison, errors, "node counts left out of the fit"), again]
    text = (
        "Not shown on node counts left out of the fit: that takes --held-out, data of at least"
        f" {LEAST_NODE_COUNTS} node counts, and a learner that can be fitted to the rest."
    )
    return [element("p", text)]


def _beside_data(comparison: Comparison, errors: Errors, where: str) -> list[Markup]:
    rows = (errors.all(), *errors.by_nodes())
    return [
        element("p", _sentence(comparison.summary())),
        beside(
            figure(
                f"On {where}: share of measured times inside the predicted interval, which promises"
                " 90 % (dashed line). Far below: too sure of itself; far above: too timid.",
                calibration_picture(rows),
            ),
            _calibration_table(rows, where),
        ),
        *_gains(comparison, where),
    ]


def _sentence(summary: Summary) -> str:
    start = (
        f"Of {summary.instances} measured instances, {summary.compared} have measured times of both"
        " the default and what is selected"
    )
    if summary.speedup is None or summary.slower_share is None:
        return f"{start}: nothing can be compared."
    share = summary.log_gain_share
    gained = f" ({share:.0%} of its log gain)" if share is not None else ""
    return (
        f"{start}. There the geometric mean gain over the default is {summary.speedup:.3f}, where"
        f" the best would gain {summary.oracle_speedup:.3f}{gained};"
        f" {summary.slower_share:.1%} of the decisions are more than 5 % slower than the default;"
        f" on average the selected is {summary.mean_regret:.3f} times as slow as the best."
    )


def _calibration_table(rows: tuple[Calibration, ...], where: str) -> Markup:
    header = ["nodes", "times", "inside", "faster", "slower", "typical error"]
    return table(
        f"On {where}: measured times inside the predicted 90 % interval, faster than all of it,"
        " slower than all of it; median factor between measured and predicted time",
        header,
        ([_nodes(row), str(row.times), *_shares(row)] for row in rows),
    )


def _nodes(row: Calibration) -> str:
    return "all" if row.nodes is None else str(row.nodes)


def _shares(row: Calibration) -> list[Child]:
    shares = [percent(share) for share in (row.inside, row.below, row.above)]
    typical = row.typical_factor
    return [*shares, _UNKNOWN if typical is None else f"{typical:.2f}"]


def _gains(comparison: Comparison, where: str) -> list[Markup]:
    picture = gain_scatter(comparison)
    if not picture:
        return [element("p", "No decision replaces the default where both were measured.")]
    known = int((comparison.replaced & (comparison.measured_gain > 0)).sum())
    thinned = f" {MOST_POINTS} of {known} points are drawn." if known > MOST_POINTS else ""
    return [
        beside(
            figure(
                f"On {where}, where the default is replaced: on the diagonal the gain is as"
                " predicted; in the shaded part the selected is more than 5 % slower than the"
                f" default. Rings lie outside the measured range.{thinned}",
                picture,
            ),
            _gain_table(gain_bins(comparison), where),
        )
    ]


def _bin(gains: GainBin) -> str:
    if not math.isfinite(gains.last):
        return f"{gains.first:g} and more"
    return f"{gains.first:g} to {gains.last:g}" if gains.first else f"up to {gains.last:g}"


def _gain_table(bins: tuple[GainBin, ...], where: str) -> Markup:
    header = ["predicted gain", "decisions", "median predicted", "median measured",
              "slower > 5 %", "reach the bound"]  # fmt: skip
    return table(
        f"On {where}: predicted beside measured gains, by predicted gain",
        header,
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
