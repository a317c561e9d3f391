"""How algorithms look: colours that the colour-blind can tell, with hatches and markers.

The colours are those of Okabe and Ito (*Color Universal Design*, 2008) without vermilion and black,
which stand for the default's and the chosen runtimes. A name has one look within a picture; two
names of one collective never share one while there are looks enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from colltune.domain import DEFAULT_ALGORITHM, Collective, Configuration
from colltune.plots.lettering import shortened

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442")
_HATCHES = ("", "////", "....", "xxxx")
_MARKERS = ("o", "s", "^", "D")
MOST_NAMED = 12
"""Algorithms of a collective that are told apart; the rest share one look."""


class Style(NamedTuple):
    """The fill, hatch and marker of an algorithm, and the colour of the hatch's lines."""

    colour: str
    hatch: str
    marker: str
    hatch_colour: str = "white"


DEFAULT = Style("#d9d9d9", "//", "o", "#b0b0b0")
OTHER = Style("#4d4d4d", "", "P")
_STYLES = tuple(
    Style(colour, hatch, marker)
    for hatch, marker in zip(_HATCHES, _MARKERS, strict=True)
    for colour in _COLOURS
)


class Legend(NamedTuple):
    """The algorithms of one collective: named ones, most used first, and how many are not."""

    named: tuple[str, ...]
    others: int
    has_default: bool


class AlgorithmStyles:
    """The looks of all algorithms of a picture.

    Parameters
    ----------
    used
        Per collective the configurations that are drawn, one for each time.
    """

    def __init__(self, used: Mapping[Collective, Iterable[Configuration]]) -> None:
        counts = {c: Counter(u.algorithm for u in uses) for c, uses in used.items()}
        self._legends = {c: _legend(count) for c, count in counts.items()}
        self._styles = _assigned([legend.named for legend in self._legends.values()], counts)

    def legend(self, collective: Collective) -> Legend:
        """Return what a legend of `collective` lists."""
        return self._legends[collective]

    def style(self, collective: Collective, algorithm: str) -> Style:
        """Return the look of `algorithm` among those of `collective`."""
        if algorithm == DEFAULT_ALGORITHM:
            return DEFAULT
        if algorithm not in self._legends[collective].named:
            return OTHER
        return self._styles[algorithm]


def _legend(count: Counter[str]) -> Legend:
    names = sorted((n for n in count if n != DEFAULT_ALGORITHM), key=lambda n: (-count[n], n))
    # one alone needs no more room by its name than as one other
    most = MOST_NAMED if len(names) > MOST_NAMED + 1 else len(names)
    return Legend(tuple(names[:most]), len(names) - most, DEFAULT_ALGORITHM in count)


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


def algorithm_legend(
    place: Axes, collective: Collective, styles: AlgorithmStyles, *, markers: bool = False
) -> None:
    """Draw the legend of a collective into `place`, the algorithms used most first."""
    legend = styles.legend(collective)
    named = [(shortened(name), styles.style(collective, name)) for name in legend.named]
    if legend.others:
        named.append((f"{legend.others} others", OTHER))
    if legend.has_default:
        named.append(("default", DEFAULT))
    place.legend(
        handles=[_marker(*one) if markers else _patch(*one) for one in named],
        loc="center left",
        frameon=False,
        fontsize="small",
        borderaxespad=0.0,
    )


def _patch(name: str, style: Style) -> Patch:
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
