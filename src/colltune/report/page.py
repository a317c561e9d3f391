"""The page of `colltune report`: one HTML file without scripts that loads nothing.

It has a part for each collective: maps, runtimes, calibration, each with its tables.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np

from colltune import __version__
from colltune.models.bundle import Bundle
from colltune.plot_data.decisions import LETTERS, DecisionMap
from colltune.plot_data.maps import Maps, choice_map
from colltune.plot_data.measured import Errors, GainBin, MeasuredDecisions, gain_bins
from colltune.plot_data.runtimes import Curve
from colltune.plot_data.summaries import (
    DecisionRun,
    ShapeGain,
    decision_runs,
    predicted_gain,
    reason_counts,
    usages,
)
from colltune.plots import gains, maps, runtimes
from colltune.plots.saving import inline_svg
from colltune.report.figures import (
    LEAST_NODE_COUNTS,
    Child,
    CollectiveFigures,
    Figures,
    JudgedSample,
    Markup,
    Sample,
    beside,
    document,
    element,
    escaped,
    figure,
    folded,
    joined,
    table,
)
from colltune.report.summary import summary
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


_MEANINGS = {
    "regret": "mean of log(t_selected / t_best) on held-out instances",
    "share": "share of the log gain over the default that was to be had",
    "harm": "share of decisions slower than the default by more than 5 % and beyond noise",
    "trust": "how far predicted gains are trusted",
}
_MOST_COLUMNS = 16
_WORDS = ",".join(f".w{at} tr>:nth-child({at + 1})" for at in range(_MOST_COLUMNS))
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#5a5a5a;--line:#ccc;--band:#f4f4f4;
--link:#0069a6;--mark:#c25400}
@media (prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e8e8e8;--soft:#a8a8a8;--line:#444;
--band:#22252b;--link:#5fc1ff;--mark:#ff9f4a}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;
--band:#f4f4f4;--link:#0069a6;--mark:#c25400}}
body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:0 auto;
padding:1rem 1.5rem 4rem;max-width:76rem}
h1{font-size:1.7rem;margin:.4rem 0}h2{font-size:1.35rem;margin:2.6rem 0 .4rem;padding-top:.6rem;
border-top:2px solid var(--line)}h3{font-size:1.08rem;margin:1.6rem 0 .3rem}
p{max-width:52rem;margin:.4rem 0}a{color:var(--link)}nav{display:flex;flex-wrap:wrap;gap:0 .9rem}
.lead{font-size:1.05rem;margin:.8rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.8rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
figure{margin:.6rem 0 .4rem;overflow-x:auto}figcaption{color:var(--soft);max-width:52rem;
margin-bottom:.4rem}
figure.map svg{width:100%;min-width:24rem;max-width:48rem}
svg{max-width:100%;height:auto;vertical-align:middle;border-radius:3px}
svg *{stroke-linejoin:round;stroke-linecap:butt}
.table{overflow-x:auto;margin:.5rem 0}table{border-collapse:collapse;font-size:.87rem;
font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--soft);padding-bottom:.2rem;
max-width:52rem}th,td{padding:.12rem .6rem;border-bottom:1px solid var(--line);text-align:right;
vertical-align:top}thead th{border-bottom:2px solid var(--line);font-weight:600}
tbody th{font-weight:400}td,tbody th{white-space:nowrap}th:first-child{text-align:left}
WORDS{text-align:left;white-space:normal}
.beside{display:flex;flex-wrap:wrap;gap:0 2rem}.beside>div{max-width:100%;min-width:0}
.beside>div+div{flex:1 1 22rem}.beside figcaption{max-width:32rem}
tbody tr:nth-child(even){background:var(--band)}
details{margin:.4rem 0}pre{overflow-x:auto;font-size:.8rem}summary{cursor:pointer;color:var(--link)}
.note{border-left:4px solid var(--mark);padding:.1rem .8rem;background:var(--band)}
@media(max-width:30rem){body{padding:.5rem .75rem 3rem}}
@media print{body{max-width:none;padding:0;font-size:9.5pt}nav,summary,a{color:inherit}
figure,tr{break-inside:avoid}figure,.table{overflow:visible}.beside{display:block}
table{font-size:7.5pt}th,td{padding:.08rem .3rem}section h2{break-before:page}
h2,h3,caption{break-after:avoid}
.note,tbody tr:nth-child(even){print-color-adjust:exact}@page{margin:14mm}}
""".replace("WORDS", _WORDS)


def page(found: Figures) -> str:
    bundle = found.bundle
    title = f"colltune report: {bundle.context}"
    body = element(
        "body",
        element("h1", title),
        element("p", *_lead(found), class_="lead"),
        _facts(bundle, found.guard, found.programs.phrase),
        _notes(found),
        element("nav", *(_link(f) for f in found.collectives)),
        element(
            "h2",
            "Held out when it was fitted: how good decisions are on what the models had not seen",
        ),
        *_evidence(bundle),
        element("h2", "What is decided"),
        _overview(found),
        *(_measured(found, sample) for sample in Sample),
        joined(collective_section(bundle, f) for f in found.collectives),
    )
    return document(title, STYLE, body)


def _lead(found: Figures) -> Iterator[Child]:
    for lead, told in summary(found).items():
        yield element("strong", f"{lead}: ")
        for at, words in enumerate(f"{told} ".split("`")):
            yield element("code", words) if at % 2 else words


def _facts(bundle: Bundle, guard: str, programs: str) -> Markup:
    context, shapes = bundle.context, bundle.training_shapes
    facts: list[tuple[str, Child]] = [
        ("machine", context.machine),
        ("library", f"{context.library} {context.library_version}"),
        ("fabric", context.fabric or "not stated"),
        ("objective", f"{bundle.objective} of the runtime"),
        ("guard", guard),
        ("decisions are for", programs),
        ("fitted to", f"{len(shapes)} shapes (nodes x ppn)"),
        ("fitted", f"{bundle.created_utc}, by colltune {bundle.colltune_version}"),
        ("bundle", bundle.id),
        ("report", f"by colltune {__version__}"),
    ]
    items = [Markup(element("dt", k) + element("dd", v)) for k, v in facts]
    listed = element("p", ", ".join(map(str, shapes)))
    return joined([element("dl", *items), folded("The shapes it was fitted to", listed)])


def _notes(found: Figures) -> Markup:
    if not found.not_in_bundle:
        return Markup("")
    names = ", ".join(c.mpi_name for c in found.not_in_bundle)
    note = f"The data also have {names}, of which this bundle has no models."
    return element("p", note, class_="note")


def _link(found: CollectiveFigures) -> Markup:
    return element("a", found.collective.mpi_name, href=f"#{found.collective.value}")


def _overview(found: Figures) -> Markup:
    header = ["collective", "learner", "configurations", "shapes", "replaced"]
    return table(
        "Overview. Replaced: pairs of a measured shape and a measured size on which the default is"
        " not kept. Gains over the default are predicted: geometric means over these pairs; at"
        " least: of their lower bounds.",
        [*header, "predicted gain", "at least"],
        (_overview_row(found.bundle, f) for f in found.collectives),
        ["learner"],
    )


def _overview_row(bundle: Bundle, found: CollectiveFigures) -> list[Child]:
    model, decisions = bundle.model(found.collective), found.decisions
    gain, bound = predicted_gain(decisions)
    return [
        _link(found),
        model.learner,
        str(len(model.configurations)),
        str(int(decisions.grid.known.sum()) + decisions.grid.left_out),
        f"{decisions.replaced[decisions.inside].mean():.0%}",
        f"{gain:.2f}",
        factor(bound),
    ]


def _measured(found: Figures, sample: Sample) -> Markup:
    """Return the table of what was measured on one kind of instances."""
    header = ["collective", "compared", "measured gain", "possible", "of possible"]
    return table(
        f"{sample}. Gains over the default, as measured: geometric means of what is selected and of"
        " the best there (possible), and the share of the one in the other, in logarithms. Slower:"
        " more than 5 % slower than the default. Inside: measured times in the predicted interval.",
        [*header, "slower > 5 %", "inside 90 %"],
        ([_link(f), *_measured_row(one)] for f in found.collectives if (one := f.of(sample))),
    )


def _measured_row(judged: JudgedSample) -> list[Child]:
    one = judged.comparison.summary()
    gains = map(factor, (one.speedup, one.oracle_speedup))
    shares = (one.log_gain_share, one.slower_share, judged.errors.all().inside)
    return [str(one.compared), *gains, *map(percent, shares)]


def _evidence(bundle: Bundle) -> Iterator[Markup]:
    """Yield the held-out figures of each collective's learner, and what else the bundle states."""
    rows = [(model, bundle.held_out(model.collective)) for model in bundle.models]
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    if names:
        meanings = "".join(f" {name}: {told}." for name, told in _MEANINGS.items() if name in names)
        yield table(
            f"Decisions on instances that were left out of the fit.{meanings}",
            ["collective", "learner", *names],
            (
                [model.collective.mpi_name, model.learner, *(_number(row.get(n)) for n in names)]
                for model, row in rows
            ),
            ["learner"],
        )
    else:
        yield element("p", "The bundle states no held-out figures.", class_="note")
    rest = {name: told for name, told in bundle.evidence.items() if name != "learners"}
    if rest:
        lines = json.dumps(rest, indent=1).splitlines()
        text = element("pre", Markup("\n".join(map(escaped, lines))))
        yield folded("What else the bundle states", text)


def _number(value: object) -> str:
    if value is None:
        return ""
    # 0.0 makes 0 of -0
    return f"{value + 0.0:.4g}" if isinstance(value, float) else str(value)
