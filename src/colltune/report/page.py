"""The page of `colltune report`: one HTML file without scripts that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

from colltune import __version__
from colltune.models.bundle import Bundle
from colltune.plot_data.summaries import predicted_gain
from colltune.report.collective import collective_section, factor, percent
from colltune.report.figures import CollectiveFigures, Figures, JudgedSample, Sample
from colltune.report.markup import Child, Markup, document, element, escaped, folded, joined, table
from colltune.report.summary import summary

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
