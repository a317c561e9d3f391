"""How algorithms, reasons and gains look: colours that the colour-blind can tell, with hatches.

The colours of algorithms are those of Okabe and Ito (*Color Universal Design*, 2008) without
vermilion and black, which stand for the default's and the chosen runtimes; those of gains are
viridis. A name has one look within a picture; two names of one collective never share one while
there are looks enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from colltune.domain import DEFAULT_ALGORITHM, Collective, Configuration
from colltune.plot_data.decisions import LETTERS, Why
from colltune.plots.scaffold import PanelGroup, shortened

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442")
_HATCHES = ("", "////", "....", "xxxx")
_MARKERS = ("o", "s", "^", "D")
_MOST_NAMED = 12
"""Algorithms of a collective that are told apart; the rest share one look."""


class Style(NamedTuple):
    """The fill, hatch and marker of an algorithm, and the colour of the hatch's lines."""

    colour: str
    hatch: str = ""
    marker: str = "o"
    hatch_colour: str = "white"


DEFAULT = Style("#d9d9d9", "//", "o", "#b0b0b0")
OTHER = Style("#4d4d4d", "", "P")
_STYLES = tuple(
    Style(colour, hatch, marker)
    for hatch, marker in zip(_HATCHES, _MARKERS, strict=True)
    for colour in _COLOURS
)


_REASONS = {
    Why.GAIN: ("predicted faster", Style("#0072b2")),
    Why.CONFIRMED: ("measured faster", Style("#009e73")),
    Why.NO_DEFAULT: ("default not measured", Style("#56b4e9")),
    Why.FASTEST: ("default fastest", Style("#d9d9d9")),
    Why.WITHDRAWN: ("withdrawn", Style("#cc79a7", "||||")),
    Why.ERROR: ("gain too small", Style("#e69f00", "////")),
    Why.OUTSIDE: ("gain outside, too small", Style("#f0e442", "xxxx", hatch_colour="#808080")),
    Why.NOTHING: ("nothing else known", Style("#f2f2f2", "----", hatch_colour="#b0b0b0")),
    Why.FAR: ("too far from all", Style("#888888", "\\\\\\\\")),
    Why.WITHHELD: ("held out: no gain", Style("#4d4d4d", "||||")),
}
REASONS = {why: (f"{LETTERS[why]}: {words}", style) for why, (words, style) in _REASONS.items()}
"""Reasons of decisions in few words, each with its look."""
GAINS = (1.0, 1.2, 1.5, 2.0, 4.0)
"""Where the bins of predicted gains begin."""
GAIN_STYLES = tuple(map(Style, ("#fde725", "#5ec962", "#21918c", "#3b528b", "#440154")))


class _Legend(NamedTuple):
    """The algorithms of one collective: named ones, most used first, and how many are not."""

    named: tuple[str, ...]
    others: int
    has_default: bool


class AlgorithmStyles:
    """The looks of all algorithms of a picture."""

    def __init__(self, used: Mapping[Collective, Iterable[Configuration]]) -> None:
        counts = {c: Counter(u.algorithm for u in uses) for c, uses in used.items()}
        self._legends = {c: _legend(count) for c, count in counts.items()}
        self._styles = _assigned([legend.named for legend in self._legends.values()], counts)

    def entries(self, collective: Collective) -> list[tuple[str, Style]]:
        """Return what a legend of `collective` lists, the algorithms used most first."""
        legend = self._legends[collective]
        found = [(shortened(name), self.style(collective, name)) for name in legend.named]
        if legend.others:
            found.append((f"{legend.others} others", OTHER))
        if legend.has_default:
            found.append(("default", DEFAULT))
        return found

    def style(self, collective: Collective, algorithm: str) -> Style:
        if algorithm == DEFAULT_ALGORITHM:
            return DEFAULT
        if algorithm not in self._legends[collective].named:
            return OTHER
        return self._styles[algorithm]


def _legend(count: Counter[str]) -> _Legend:
    names = sorted((n for n in count if n != DEFAULT_ALGORITHM), key=lambda n: (-count[n], n))
    # one alone needs no more room by its name than as one other
    most = _MOST_NAMED if len(names) > _MOST_NAMED + 1 else len(names)
    return _Legend(tuple(names[:most]), len(names) - most, DEFAULT_ALGORITHM in count)


def _assigned(
    groups: Sequence[Sequence[str]], counts: Mapping[Collective, Counter[str]]
) -> dict[str, Style]:
    """Give each name a look that no name of the same group has, the most used names first."""
    total: Counter[str] = Counter()
    for count in counts.values():
        total.update(count)
    names = sorted({name for group in groups for name in group}, key=lambda n: (-total[n], n))
    given: dict[str, int] = {}
    for name in names:
        taken = {given[other] for g in groups if name in g for other in g if other in given}
        uses = Counter(given.values())
        free = [k for k in range(len(_STYLES)) if k not in taken] or range(len(_STYLES))
        given[name] = min(free, key=lambda k: (k // len(_COLOURS), uses[k], k))
    return {name: _STYLES[at] for name, at in given.items()}


def legend(block: PanelGroup, named: Iterable[tuple[str, Style]], *, markers: bool = False) -> None:
    """Draw a legend of names and their looks beside a block's panels."""
    figure = block.panels[0].get_figure(root=True)
    assert figure is not None
    figure.legend(
        handles=[_marker(*one) if markers else patch(*one) for one in named],
        loc="center left",
        bbox_to_anchor=block.legend_at,
        frameon=False,
        fontsize="small",
        borderaxespad=0.0,
    )


def patch(name: str, style: Style) -> Patch:
    return Patch(
        facecolor=style.colour,
        edgecolor=style.hatch_colour,
        hatch=style.hatch,
        linewidth=0,
        label=name,
    )


def _marker(name: str, style: Style) -> Line2D:
    return Line2D(
        [],
        [],
        marker=style.marker,
        color=style.colour,
        markeredgecolor="black",
        markeredgewidth=0.6,
        markersize=5,
        linestyle="none",
        label=name,
    )
