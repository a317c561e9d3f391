"""The page of `colltune report`: one HTML file without scripts that loads nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from colltune import __version__
from colltune.domain import Collective
from colltune.models.bundle import Bundle
from colltune.plot_data.summaries import predicted_gain
from colltune.report.collective import UNKNOWN, collective_section, factor, percent
from colltune.report.figures import CollectiveFigures, Figures
from colltune.report.markup import Child, Markup, document, element, folded, joined, table

_LEARNERS = "learners"
_MEANINGS = {
    "regret": "mean of log(t_selected / t_best) on held-out instances",
    "share": "share of the log gain over the default that was to be had",
    "harm": "share of decisions slower than the default by more than 5 % and beyond noise",
}
_DEEPEST = 4
_MOST_ROWS = 400
_MOST_TEXT = 2000
_MOST_COLUMNS = 16
_WORDS = ",".join(f".w{at} tr>:nth-child({at + 1})" for at in range(_MOST_COLUMNS))
_STYLE = """
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
p{max-width:52rem;margin:.4rem 0}a{color:var(--link)}nav a{margin-right:.9rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.8rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
figure{margin:.6rem 0 .4rem;overflow-x:auto}figcaption{color:var(--soft);max-width:52rem;
margin-bottom:.4rem}
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
details{margin:.4rem 0}summary{cursor:pointer;color:var(--link)}
.note{border-left:4px solid var(--mark);padding:.1rem .8rem;background:var(--band)}
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
        _facts(bundle, found.guard),
        _notes(found),
        element("nav", *(_link(f) for f in found.collectives)),
        element("h2", "How good decisions are on what the models had not seen"),
        general_evidence(bundle),
        element("h2", "What is decided"),
        _overview(found),
        joined(collective_section(bundle, f) for f in found.collectives),
    )
    return document(title, _STYLE, body)


def _facts(bundle: Bundle, guard: str) -> Markup:
    context, shapes = bundle.context, bundle.training_shapes
    facts: list[tuple[str, Child]] = [
        ("machine", context.machine),
        ("library", f"{context.library} {context.library_version}"),
        ("fabric", context.fabric or "not stated"),
        ("objective", f"{bundle.objective} of the runtime"),
        ("guard", guard),
        ("fitted to", f"{len(shapes)} shapes (nodes x ppn)"),
        ("fitted", f"{bundle.created_utc}, by colltune {bundle.colltune_version}"),
        ("bundle", bundle.id),
        ("report", f"by colltune {__version__}"),
    ]
    items = [Markup(element("dt", k) + element("dd", v)) for k, v in facts]
    listed = element("p", ", ".join(map(str, shapes)))
    return joined([element("dl", *items), folded("The shapes it was fitted to", listed)])


def _notes(found: Figures) -> Markup:
    notes = []
    if found.not_in_bundle:
        names = ", ".join(c.mpi_name for c in found.not_in_bundle)
        notes.append(f"The data also have {names}, of which this bundle has no models.")
    if not found.with_data:
        notes.append(
            "No measurements were given (--data): all runtimes and gains below are predictions of"
            " the bundle's own models."
        )
    elif not found.with_held_out:
        notes.append(
            "Predictions are compared with the data as the bundle makes them. If it was fitted to"
            " the same data this flatters; --held-out fits again without each node count."
        )
    return joined(element("p", note, class_="note") for note in notes)


def _link(found: CollectiveFigures) -> Markup:
    return element("a", found.collective.mpi_name, href=f"#{found.collective.value}")


def _overview(found: Figures) -> Markup:
    header = [
        "collective",
        "learner",
        "configurations",
        "shapes",
        "replaced",
        "predicted gain",
        "at least",
    ]
    compared = found.with_data
    if compared:
        header += ["measured gain", "possible", "of possible", "slower > 5 %", "inside 90 %"]
    where = "node counts left out of the fit, if possible"
    if not found.with_held_out:
        where = "the data, which flatters where the models were fitted to them"
    told = (
        f" (predicted: over all of these; measured: on {where}, with what the best would gain there"
        " and the share of its logarithm). Slower: decisions more than 5 % slower than the default."
        " Inside 90 %: measured times inside the predicted 90 % interval"
    )
    return table(
        "Overview. Replaced: pairs of a measured shape and a measured size on which the default is"
        " not kept. Gains: geometric means over the default; at least: of their lower bounds"
        f"{told if compared else ''}.",
        header,
        (_overview_row(found.bundle, f, compared) for f in found.collectives),
        ["learner"],
    )


def _overview_row(bundle: Bundle, found: CollectiveFigures, compared: bool) -> list[Child]:
    model, decisions = bundle.model(found.collective), found.decisions
    gain, bound = predicted_gain(decisions)
    row: list[Child] = [
        _link(found),
        model.learner,
        str(len(model.configurations)),
        str(int(decisions.grid.known.sum()) + decisions.grid.left_out),
        f"{decisions.replaced[decisions.inside].mean():.0%}",
        f"{gain:.2f}",
        factor(bound),
    ]
    if compared:
        row += _measured(found)
    return row


def _measured(found: CollectiveFigures) -> list[Child]:
    comparison, errors = found.comparison, found.errors
    if found.held_out is not None:
        comparison, errors = found.held_out.comparison, found.held_out.errors
    if comparison is None or errors is None:
        return [UNKNOWN] * 5
    summary = comparison.summary()
    speedups = map(factor, (summary.speedup, summary.oracle_speedup))
    shares = [summary.log_gain_share, summary.slower_share, errors.all().inside]
    return [*speedups, *map(percent, shares)]


def number_text(value: float) -> str:
    if isinstance(value, bool) or not math.isfinite(value):
        return str(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def general_evidence(bundle: Bundle) -> Markup:
    """Return the learners with their held-out figures, and what belongs to no single collective."""
    rest = dict(bundle.evidence)
    if isinstance(rest.get(_LEARNERS), Mapping):
        del rest[_LEARNERS]
    if not bundle.evidence:
        return element(
            "p",
            "The bundle states none.",
            class_="note",
        )
    learners = {
        model.collective.mpi_name: {"learner": model.learner, **_figures(bundle, model.collective)}
        for model in bundle.models
    }
    caption = f"Decisions on instances that were left out of the fit{_meaning(learners)}"
    general = [rendered(rest, "Evidence stated by the bundle")] if rest else []
    return joined([rendered(learners, caption, first="collective"), *general])


def _figures(bundle: Bundle, collective: Collective) -> dict[str, Any]:
    learners = _mapping(_mapping(bundle.evidence.get(_LEARNERS)).get(collective.value))
    own = _mapping(learners.get(bundle.model(collective).learner))
    return {k: v for k, v in own.items() if not isinstance(v, Mapping)}


def _meaning(rows: Mapping[str, Any]) -> str:
    names = {name for row in rows.values() for name in _mapping(row)}
    told = [f"{name}: {text}" for name, text in _MEANINGS.items() if name in names]
    return f". {'; '.join(told)}" if told else ""


def rendered(value: Any, caption: str, *, first: str = "", depth: int = 0) -> Markup:
    """Return any JSON-able value as nested tables; `first` titles the column of names."""
    if not isinstance(value, Mapping) or depth >= _DEEPEST:
        return element("p", f"{caption}: {_leaf(value)}")
    flat = {k: v for k, v in value.items() if not isinstance(v, Mapping)}
    nested = {k: v for k, v in value.items() if isinstance(v, Mapping) and v}
    parts = []
    if flat:
        rows = [[str(k), _leaf(v)] for k, v in flat.items()][:_MOST_ROWS]
        parts.append(table(caption, [first, "value"], rows, ["value"]))
    if nested and all(_is_row(v) for v in nested.values()):
        parts.append(_rows(nested, caption, first))
    else:
        for name, inner in list(nested.items())[:_MOST_ROWS]:
            parts.append(rendered(inner, f"{caption}: {name}", depth=depth + 1))
    return joined(parts)


def _is_row(value: Mapping[str, Any]) -> bool:
    return not any(isinstance(v, Mapping) for v in value.values())


def _rows(nested: Mapping[str, Mapping[str, Any]], caption: str, first: str) -> Markup:
    columns = list(dict.fromkeys(str(key) for row in nested.values() for key in row))
    rows: list[list[Child]] = [
        [str(name), *(_leaf(row[c]) if c in row else "" for c in columns)]
        for name, row in list(nested.items())[:_MOST_ROWS]
    ]
    words = {c for row in nested.values() for c in row if not isinstance(row[c], int | float)}
    return table(caption, [first, *columns], rows, [c for c in columns if c in words])


def _leaf(value: Any) -> str:
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, str) or value is None:
        return "–" if value is None else value[:_MOST_TEXT]
    if isinstance(value, Sequence) and all(isinstance(v, str | int | float) for v in value):
        return ", ".join(_leaf(v) for v in value)[:_MOST_TEXT]
    return json.dumps(value, default=str)[:_MOST_TEXT]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
