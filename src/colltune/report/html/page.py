"""The page of `colltune report`: one HTML file without scripts that loads nothing."""

from __future__ import annotations

from colltune import __version__
from colltune.models.bundle import Bundle
from colltune.plot_data.summaries import predicted_gain
from colltune.report.figures import CollectiveFigures, Figures
from colltune.report.html.calibration import percent
from colltune.report.html.collective import collective_section
from colltune.report.html.evidence import general_evidence
from colltune.report.html.style import STYLE, definitions
from colltune.report.markup import Child, Markup, element, folded, joined, table

_UNKNOWN = "–"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(found: Figures) -> str:
    """Return the whole page."""
    bundle = found.bundle
    title = f"colltune report: {bundle.context}"
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        definitions(),
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
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


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
        _UNKNOWN if bound is None else f"{bound:.2f}",
    ]
    if compared:
        row += _measured(found)
    return row


def _measured(found: CollectiveFigures) -> list[Child]:
    comparison, errors = found.comparison, found.errors
    if found.held_out is not None:
        comparison, errors = found.held_out.comparison, found.held_out.errors
    if comparison is None or errors is None:
        return [_UNKNOWN] * 5
    summary = comparison.summary()
    speedups = [
        _UNKNOWN if s is None else f"{s:.2f}" for s in (summary.speedup, summary.oracle_speedup)
    ]
    shares = [summary.log_gain_share, summary.slower_share, errors.all().inside]
    return [*speedups, *map(percent, shares)]
