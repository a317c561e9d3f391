"""Line, dot and scatter pictures of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colltune.models.guard import HARM
from colltune.plot_data.measured import PROMISED, Calibration, Comparison
from colltune.plot_data.runtimes import Curve
from colltune.plot_data.summaries import ShapeGain
from colltune.report.html.maps import octaves
from colltune.report.markup import Markup, element, svg
from colltune.text import bytes_text

Numbers = NDArray[np.float64]
MOST_POINTS = 600
_RATIOS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5, 1e6)
_MOST_RATIO_LABELS = 6


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis: values from ``low`` to ``high`` lie from ``start`` to ``end`` pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (np.log(value) - np.log(self.low)) / (np.log(self.high) - np.log(self.low))
        return float(self.start + share * (self.end - self.start))

    def ticks(self) -> list[float]:
        """Return round ratios, few enough to be read."""
        candidates = sorted({*_RATIOS, *(1 / r for r in (1.2, 1.5, 2, 3, 5, 10, 20, 50, 100))})
        found = [r for r in candidates if self.low * 0.999 <= r <= self.high * 1.001]
        step = -(-len(found) // _MOST_RATIO_LABELS)
        unit = found.index(1) if 1 in found else 0
        return found[unit % step :: step]


def runtime_panel(curve: Curve) -> Markup:
    """Draw one shape's normalised runtimes: default, selected and best."""
    width, height = 300.0, 205.0
    left, right, top, bottom = 42.0, width - 10, 24.0, height - 36
    ratios = np.concatenate([curve.default_ratio, curve.selected_ratio])
    known = ratios[np.isfinite(ratios)]
    high = max(1.25, float(known.max()) * 1.06) if len(known) else 1.25
    y = _Axis(0.97, high, bottom, top)
    at = octaves(curve.msize_bytes)
    span = max(float(at[-1] - at[0]), 1.0)
    scale = (right - left - 16) / span
    x = left + 8 + (at - at[0]) * scale
    state = "" if curve.trained else ", not trained on"
    title = f"{curve.shape.nodes} nodes x {curve.shape.ppn}{state}"
    return svg(
        width,
        height,
        f"normalised runtimes on {title}",
        element("text", title, x=left, y=14, class_="head"),
        *_ratio_grid(y, left, right),
        *_size_labels(at, left + 8, scale, bottom),
        element("path", d=f"M{left:g} {y(1):.1f}H{right:g}", class_="line best"),
        *_line(x, curve.default_ratio, y, "default"),
        *_line(x, curve.selected_ratio, y, "selected"),
        element("text", "message size [bytes]", x=(left + right) / 2, y=height - 4,
                class_="middle soft"),
    )  # fmt: skip


def _ratio_grid(y: _Axis, left: float, right: float) -> Iterator[Markup]:
    for ratio in y.ticks():
        yield element("path", d=f"M{left:g} {y(ratio):.1f}H{right:g}", class_="grid")
        yield element("text", f"{ratio:.3g}", x=left - 4, y=y(ratio) + 3.5, class_="end")


def _size_labels(at: Numbers, start: float, scale: float, bottom: float) -> Iterator[Markup]:
    """Label powers of 2 along an axis of log2 of the message size."""
    powers = range(int(np.ceil(at[0])), int(np.floor(at[-1])) + 1)
    step = -(-len(powers) // 5) or 1
    for power in powers[::step]:
        x = start + (power - at[0]) * scale
        yield element("path", d=f"M{x:.1f} {bottom:g}v4", class_="axis")
        text = bytes_text(1 << power) if power >= 0 else "0"
        yield element("text", text, x=x, y=bottom + 15, class_="middle")


def _line(x: Numbers, values: Numbers, y: _Axis, class_: str) -> Iterator[Markup]:
    """Draw a line with marks, broken where a value is not known."""
    path, pen = [], "M"
    for at, value in zip(x.tolist(), values.tolist(), strict=True):
        if not np.isfinite(value):
            pen = "M"
            continue
        path.append(f"{pen}{at:.1f} {y(value):.1f}")
        pen = "L"
        yield mark(at, y(value), class_)
    yield element("path", d="".join(path), class_=f"line {class_}")


def mark(x: float, y: float, class_: str) -> Markup:
    """Draw the mark of a line: a square for the default, else a dot."""
    if class_ == "default":
        return element("rect", x=x - 2.6, y=y - 2.6, width=5.2, height=5.2, class_="dot default")
    return element("circle", cx=x, cy=y, r=2.6, class_=f"dot {class_}")


def line_key() -> Markup:
    """Return the legend of the runtime panels."""
    names = {"default": "library's default", "selected": "selected", "best": "best"}
    keys = []
    for class_, name in names.items():
        line = element("path", d="M1 8H29", class_=f"line {class_}")
        dot = mark(15, 8, class_) if class_ != "best" else None
        picture = element("svg", line, dot, width=30, height=16, aria_hidden="true")
        keys.append(element("span", picture, f" {name}"))
    return element("div", *keys, class_="keys")


def gain_ranges(rows: Sequence[ShapeGain]) -> Markup:
    """Draw per shape the mean predicted gain down to its bound, and a cross for the measured."""
    if not rows:
        return Markup("")
    left, right, step, top = 74.0, 520.0, 17.0, 22.0
    triples = [_triple(row) for row in rows]
    values = [value for triple in triples for value in triple if value is not None]
    low, high = min(0.95, *values) * 0.98, max(1.25, *values) * 1.04
    x, bottom = _Axis(low, high, left, right), top + step * len(rows)
    parts = []
    for tick in x.ticks():
        parts.append(element("path", d=f"M{x(tick):.1f} {top:g}V{bottom:g}", class_="grid"))
        parts.append(element("text", f"{tick:.3g}", x=x(tick), y=bottom + 14, class_="middle"))
    parts.append(element("path", d=f"M{x(1):.1f} {top:g}V{bottom:g}", class_="axis"))
    for at, (row, (gain, bound, measured)) in enumerate(zip(rows, triples, strict=True)):
        y = top + step * (at + 0.5)
        name = f"{row.shape.nodes} x {row.shape.ppn}"
        parts.append(element("text", name, x=left - 8, y=y + 3.5, class_="end"))
        if bound is not None:
            parts.append(element("path", d=f"M{x(bound):.1f} {y:.1f}H{x(gain):.1f}",
                                 class_="range"))  # fmt: skip
        parts.append(mark(x(gain), y, "selected"))
        if measured is not None:
            parts.append(_cross(x(measured), y))
    label = "gain over the default, geometric mean over the measured sizes"
    parts.append(element("text", label, x=left, y=13, class_="soft"))
    return svg(right + 20, bottom + 22, label, *parts)


def _triple(row: ShapeGain) -> tuple[float, float | None, float | None]:
    """Return predicted gain, bound, and measured gain; all of the same instances if measured."""
    outcome = row.outcome
    if outcome is None or outcome.predicted is None:
        return row.gain, row.bound, None
    return outcome.predicted, outcome.predicted_bound, outcome.speedup


def _cross(x: float, y: float) -> Markup:
    return element("path", d=f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8", class_="cross")


def calibration_picture(rows: Sequence[Calibration]) -> Markup:
    """Draw the share of measured times inside the 90 % interval, by node count."""
    left, right, step, top = 74.0, 400.0, 19.0, 22.0
    bottom = top + step * len(rows)

    def x(share: float) -> float:
        return left + share * (right - left)

    label = "measured times inside the predicted 90 % interval, by nodes"
    parts = [element("text", label, x=left, y=13, class_="soft")]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(element("path", d=f"M{x(tick):.1f} {top:g}V{bottom:g}", class_="grid"))
        parts.append(element("text", f"{tick:.0%}", x=x(tick), y=bottom + 14, class_="middle"))
    for at, row in enumerate(rows):
        y = top + step * (at + 0.5)
        name = "all" if row.nodes is None else str(row.nodes)
        parts.append(element("text", name, x=left - 8, y=y + 3.5, class_="end"))
        if row.inside is not None:
            parts.append(element("path", d=f"M{left:g} {y:.1f}H{x(row.inside):.1f}",
                                 class_="range"))  # fmt: skip
            parts.append(mark(x(row.inside), y, "selected"))
            told = f"{row.inside:.0%} of {row.times}"
            parts.append(element("text", told, x=right + 8, y=y + 3.5))
    line = f"M{x(PROMISED):.1f} {top:g}V{bottom:g}"
    parts.append(element("path", d=line, class_="promise"))
    return svg(right + 90, bottom + 22, label, *parts)


def gain_scatter(comparison: Comparison) -> Markup:
    """Draw predicted against measured gains where the default is replaced."""
    measured, predicted = comparison.measured_gain, comparison.gain
    rows = np.flatnonzero(comparison.replaced & np.isfinite(measured) & np.isfinite(predicted))
    if not len(rows):
        return Markup("")
    shown = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(int))]
    both = np.concatenate([measured[rows], predicted[rows]])
    low, high = min(0.8, float(both.min()) * 0.95), max(1.5, float(both.max()) * 1.05)
    x, y = _Axis(low, high, 48, 328), _Axis(low, high, 300, 20)
    harmed = y(1 / HARM)
    parts = [element("rect", x=48, y=harmed, width=280, height=300 - harmed, class_="harm")]
    for tick in x.ticks():
        parts.append(element("path", d=f"M{x(tick):.1f} 20V300M48 {y(tick):.1f}H328",
                             class_="grid"))  # fmt: skip
        parts.append(element("text", f"{tick:.3g}", x=x(tick), y=314, class_="middle"))
        parts.append(element("text", f"{tick:.3g}", x=44, y=y(tick) + 3.5, class_="end"))
    parts.append(element("path", d="M48 300L328 20", class_="axis"))
    parts.append(element("path", d=f"M48 {y(1):.1f}H328", class_="axis"))
    parts += [_point(comparison, row, x, y) for row in shown.tolist()]
    parts.append(element("text", "predicted gain", x=188, y=330, class_="middle soft"))
    parts.append(element("text", "measured gain", x=48, y=13, class_="soft"))
    return svg(340, 336, "predicted against measured gain", *parts)


def _point(comparison: Comparison, row: int, x: _Axis, y: _Axis) -> Markup:
    gain, measured = float(comparison.gain[row]), float(comparison.measured_gain[row])
    where = f"{comparison.nodes[row]}x{comparison.ppn[row]}"
    size = bytes_text(int(comparison.msize_bytes[row]))
    title = element("title", f"{where}, {size}: predicted {gain:.2f}, measured {measured:.2f}")
    outside = bool(comparison.extrapolated[row])
    return element("circle", title, cx=x(gain), cy=y(measured), r=3.2,
                   class_="ring" if outside else "dot point")  # fmt: skip
