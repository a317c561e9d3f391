"""All figures of a report, gathered collective by collective, and for machines; its HTML.

Every text in it is escaped by construction.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.models.learners import learner_entry
from colltune.mpi.programs import FOR_A_PROGRAM, Programs
from colltune.plot_data.decisions import DecisionMap, decision_map
from colltune.plot_data.measured import (
    Errors,
    MeasuredDecisions,
    comparable_cells,
    compare,
    gain_bins,
)
from colltune.plot_data.runtimes import Curve, curves
from colltune.plot_data.summaries import (
    ShapeGain,
    decision_runs,
    reason_counts,
    shape_gains,
    usages,
)
from colltune.selector.argmin import ModelSelector, legal_selector
from colltune.text import printable

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.models.fitting import Progress


LEAST_NODE_COUNTS = 3
_DAY = re.compile(r"(20\d\d)[-_]?([01]\d)[-_]?([0-3]\d)(?!\d)")


class Sample(StrEnum):
    """Which instances figures are of: figures of different ones never share a table or picture."""

    HELD_OUT = "Held out: node counts left out of the fit, one at a time"
    UNSEEN = "Not learned: shapes that the bundle was not fitted to"
    IN_SAMPLE = "In-sample: shapes that the bundle was fitted to"


@dataclass(frozen=True, eq=False)
class JudgedSample:
    """Decisions and errors on measured instances."""

    sample: Sample
    comparison: MeasuredDecisions
    errors: Errors

    def merged(self, other: JudgedSample) -> JudgedSample:
        comparison = self.comparison.merged(other.comparison)
        return JudgedSample(self.sample, comparison, self.errors.merged(other.errors))


@dataclass(frozen=True, eq=False)
class CollectiveFigures:
    """What one collective's part of a report shows.

    ``judged`` is empty without data of the collective; the most honest comes first. ``gains`` and
    ``curves`` hold the decisions of that one.
    """

    collective: Collective
    decisions: DecisionMap
    gains: tuple[ShapeGain, ...]
    curves: tuple[Curve, ...]
    judged: tuple[JudgedSample, ...]

    @property
    def data(self) -> JudgedSample | None:
        """Return the bundle's own decisions on all data."""
        parts = [one for one in self.judged if one.sample is not Sample.HELD_OUT]
        return reduce(JudgedSample.merged, parts) if parts else None

    def of(self, sample: Sample) -> JudgedSample | None:
        return next((one for one in self.judged if one.sample is sample), None)


@dataclass(frozen=True)
class Data:
    """How much was measured: rows, launches, and the days as far as names of launches tell them."""

    rows: int
    launches: int
    days: tuple[str, ...]

    @classmethod
    def of(cls, dataset: PerformanceDataset) -> Data:
        launches = [name for name in dataset.frame["launch"].unique().tolist() if name]
        days = [match and "-".join(match.groups()) for match in map(_DAY.match, launches)]
        return cls(len(dataset), len(launches), tuple(sorted(set(filter(None, days)))))


@dataclass(frozen=True, eq=False)
class Figures:
    """What a report shows.

    ``guard`` holds the limits of the guard; ``programs`` are those that the decisions are for;
    ``not_in_bundle`` are collectives of the data that the bundle has no models of; ``with_data``
    and ``with_held_out`` tell what was asked for.
    """

    bundle: Bundle
    guard: str
    programs: Programs
    collectives: tuple[CollectiveFigures, ...]
    not_in_bundle: tuple[Collective, ...]
    with_data: bool
    with_held_out: bool
    data: Data | None = None


def figures(
    bundle: Bundle,
    dataset: PerformanceDataset | None = None,
    *,
    programs: Programs = FOR_A_PROGRAM,
    held_out: bool = False,
    jobs: int | None = None,
    progress: Progress = lambda _done, _total, _next: None,
) -> Figures:
    """Gather the figures of `bundle`, beside the measurements of `dataset` if there are any.

    What it decides is what may be written for `programs`.
    """
    matrices = {} if dataset is None else comparable_cells(bundle, dataset)
    measured = {c: m for c, m in matrices.items() if c in bundle.collectives}
    fits = sum(len(node_counts(m)) for m in measured.values()) if held_out else 0
    done, total = 0, len(bundle.models) + fits

    def step(what: str = "") -> None:
        nonlocal done
        done += 1
        progress(done, total, what)

    selector = legal_selector(bundle, programs)
    found = []
    for model in bundle.models:
        progress(done, total, model.collective.value)
        cells = measured.get(model.collective)
        left_out = None
        if held_out and cells is not None:
            left_out = leave_node_counts_out(
                bundle, cells, programs, jobs=jobs, step=partial(step, model.collective.value)
            )
        found.append(_of_collective(selector, model.collective, cells, left_out))
        step()
    missing = tuple(c for c in matrices if c not in measured)
    told = None if dataset is None else Data.of(dataset)
    limits, with_data = str(selector.guard), dataset is not None
    return Figures(bundle, limits, programs, tuple(found), missing, with_data, held_out, told)


def _of_collective(
    selector: ModelSelector,
    collective: Collective,
    cells: CellMatrix | None,
    held_out: JudgedSample | None,
) -> CollectiveFigures:
    decisions = decision_map(selector, collective)
    judged = [held_out] if held_out else []
    if cells is not None:
        model = selector.bundle.model(collective)
        trained = compare(selector, cells).trained
        for sample, rows in ((Sample.UNSEEN, ~trained), (Sample.IN_SAMPLE, trained)):
            if rows.any():
                part = cells.rows(rows)
                judged.append(JudgedSample(sample, compare(selector, part), Errors.of(model, part)))
    best = judged[0].comparison if judged else None
    return CollectiveFigures(
        collective,
        decisions,
        shape_gains(decisions, best),
        curves(decisions, best),
        tuple(judged),
    )


def node_counts(cells: CellMatrix) -> tuple[int, ...]:
    """Return the node counts that can be left out one at a time: none if there are fewer than 3."""
    counts = tuple(np.unique(cells.nodes).tolist())
    return counts if len(counts) >= LEAST_NODE_COUNTS else ()


def leave_node_counts_out(
    bundle: Bundle,
    cells: CellMatrix,
    programs: Programs = FOR_A_PROGRAM,
    *,
    guard: bool = True,
    jobs: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> JudgedSample | None:
    """Fit the collective's learner again without each node count and look at that one."""
    parts = []
    for count in node_counts(cells):
        held_out = cells.nodes == count
        fitted = _fitted_without(bundle, cells, held_out, jobs)
        if fitted is not None:
            selector = legal_selector(fitted, programs, guard=guard)
            tested = cells.rows(held_out)
            model = selector.bundle.model(cells.collective)
            comparison = compare(selector, tested)
            parts.append(JudgedSample(Sample.HELD_OUT, comparison, Errors.of(model, tested)))
        step()
    return reduce(JudgedSample.merged, parts) if parts else None


def _fitted_without(
    bundle: Bundle, cells: CellMatrix, held_out: NDArray[np.bool_], jobs: int | None
) -> Bundle | None:
    # the service makes reports without fitting, where there is nothing to fit with
    from colltune.models.fitting import fit_cells  # noqa: PLC0415

    model = bundle.model(cells.collective)
    learner_entry(model.learner)
    part = {cells.collective: cells.rows(~held_out)}
    try:
        return fit_cells(
            bundle.context, part, model.learner, feature_set=model.feature_set, jobs=jobs
        )
    except DataError:
        return None


def as_json(found: Figures) -> dict[str, Any]:
    return {
        "bundle": _bundle(found.bundle),
        "guard": found.guard,
        "promise": str(found.programs),
        "with_data": found.with_data,
        "with_held_out": found.with_held_out,
        "not_in_bundle": [c.value for c in found.not_in_bundle],
        "collectives": {
            f.collective.value: _collective(found.bundle, f) for f in found.collectives
        },
    }


def _bundle(bundle: Bundle) -> dict[str, Any]:
    return {
        "id": bundle.id,
        "context": asdict(bundle.context),
        "objective": bundle.objective,
        "created_utc": bundle.created_utc,
        "colltune_version": bundle.colltune_version,
        "training_shapes": [str(shape) for shape in bundle.training_shapes],
        "evidence": _plain(bundle.evidence),
    }


def _collective(bundle: Bundle, found: CollectiveFigures) -> dict[str, Any]:
    model, decisions = bundle.model(found.collective), found.decisions
    return {
        "learner": model.learner,
        "feature_set": model.feature_set,
        "configurations": len(model.configurations),
        "default_measured": model.default_column is not None,
        "shapes_left_out": decisions.grid.left_out,
        "decisions": _rows(decision_runs(decisions)),
        "judged_on": _judged_on(found),
        "usage": _rows(usages(decisions)),
        "reasons": [
            {"why": why.value, "on_measured": inside, "elsewhere": outside}
            for why, (inside, outside) in reason_counts(decisions).items()
        ],
        "gains": _rows(found.gains),
        "runtimes": [_curve(curve) for curve in found.curves],
        "data": _evidence(found.data),
        "held_out": _evidence(found.of(Sample.HELD_OUT)),
        "unseen": _evidence(found.of(Sample.UNSEEN)),
        "in_sample": _evidence(found.of(Sample.IN_SAMPLE)),
    }


def _judged_on(found: CollectiveFigures) -> str | None:
    """Return what measured gains and runtimes are of, None if they are predicted."""
    if not found.judged:
        return None
    return "held_out" if found.judged[0].sample is Sample.HELD_OUT else "data"


def _evidence(judged: JudgedSample | None) -> dict[str, Any] | None:
    if judged is None:
        return None
    return {
        "decisions": _plain(asdict(judged.comparison.summary())),
        "calibration": _rows((judged.errors.all(), *judged.errors.by_nodes())),
        "gains": _rows(gain_bins(judged.comparison)),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "shape": str(curve.shape),
        "measured": curve.measured,
        "trained": curve.trained,
        "msize_bytes": curve.msize_bytes.tolist(),
        "configurations": [c.id for c in curve.configurations],
        "default_s": _plain(curve.default_s),
        "selected_s": _plain(curve.selected_s),
        "best_s": _plain(curve.best_s),
    }


def _rows(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in vars(row).items()} for row in rows]


def _plain(value: Any) -> Any:  # noqa: PLR0911
    if isinstance(value, Shape):
        return str(value)
    if isinstance(value, Configuration):
        return value.id
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return _plain(vars(value)) if hasattr(value, "__dataclass_fields__") else value


_LONG = 20
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Markup(str):
    """Text that is HTML already; any other text is escaped where it is put in."""

    __slots__ = ()


Child = str | int | None


def escaped(child: Child) -> str:
    """Return what stands for `child` in HTML: nothing for None, `Markup` as it is."""
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    return html.escape(printable(str(child)))


def element(name: str, *children: Child, **attributes: str | float | None) -> Markup:
    opened = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{opened}>{''.join(map(escaped, children))}</{name}>")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return html.escape(printable(value))
    return f"{value:.1f}".removesuffix(".0")


def document(title: str, style: str, body: Markup) -> str:
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        element("title", title),
        element("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("\n".join(parts))


def table(
    caption: str,
    header: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    words: Sequence[str] = (),
) -> Markup:
    """Return a table; nothing at all without rows."""
    body = [
        Markup("<tr>" + "".join(_cell(i, cell) for i, cell in enumerate(row)) + "</tr>")
        for row in rows
    ]
    if not body:
        return Markup("")
    titles = [element("th", title, scope="col") for title in header]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *titles)),
            element("tbody", *body),
            class_=" ".join(f"w{header.index(title)}" for title in words) or None,
        ),
        class_="table",
    )


def _cell(at: int, cell: Child) -> str:
    text = escaped(cell)
    if not isinstance(cell, Markup) and len(text) > _LONG:
        # long names of algorithms may be broken
        text = text.replace("_", "_<wbr>")
    return f'<th scope="row">{text}</th>' if at == 0 else f"<td>{text}</td>"


def folded(summary: str, *children: Child, opened: bool = False) -> Markup:
    """Return children that unfold below a line of text; nothing if they are empty."""
    if not any(children):
        return Markup("")
    content = "".join(map(escaped, (element("summary", summary), *children)))
    return Markup(f"<details{' open' if opened else ''}>{content}</details>")


def beside(*parts: Markup) -> Markup:
    """Return parts that lie side by side where there is room."""
    return element("div", *(element("div", part) for part in parts if part), class_="beside")


def figure(caption: str, picture: Markup, kind: str | None = None) -> Markup:
    """Return a picture with the text that says what it shows."""
    return element("figure", element("figcaption", caption), picture, class_=kind)
