"""Gain over harm: what each way of deciding wins, and how often it is slower than the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from colltune.evaluation.evaluation import ALL, Score
from colltune.evaluation.guard_effect import GuardEffect
from colltune.plots.lettering import plain

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink")
_MARKERS = "x+1*2d3"
_NOTHING = "there is nothing to gain:\nthe default is the fastest everywhere"


def draw(
    effects: Sequence[GuardEffect],
    references: Mapping[str, Mapping[str, Score]] | None = None,
    title: str = "",
) -> Figure:
    """Draw share of the possible gain over share of harm; upper left is best.

    Parameters
    ----------
    effects
        Learners with and without guard; a line leads from the open to the filled marker.
    references
        Scores of others by name, in grey.
    title
        What was tested.
    """
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    panel = figure.subplots()
    for number, effect in enumerate(effects):
        colour = _COLOURS[number % len(_COLOURS)]
        pair = [effect.unguarded[ALL], effect.guarded[ALL]]
        way = [[_harm(score) for score in pair], [_share(score) for score in pair]]
        panel.plot(*way, color=colour, linewidth=1)
        panel.plot(way[0][0], way[1][0], "o", color=colour, markerfacecolor="white")
        panel.plot(way[0][1], way[1][1], "o", color=colour, label=plain(effect.learner))
    for number, (name, scores) in enumerate((references or {}).items()):
        marker = _MARKERS[number % len(_MARKERS)]
        x, y = _harm(scores[ALL]), _share(scores[ALL])
        panel.plot(x, y, marker, color="0.3", markersize=8, label=plain(name))
    panel.axhline(0, color="0.6", linewidth=0.8)
    panel.set_xlabel("decisions more than 5 % slower than the default [%]")
    panel.set_ylabel("share of the possible log gain [%]")
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.margins(0.12, 0.1)
    panel.set_xlim(left=min(0.0, panel.get_xlim()[0]))
    scored = [effect.guarded[ALL] for effect in effects]
    if any(score.log_gain_share is None for score in scored):
        panel.text(0.5, 0.5, _NOTHING, transform=panel.transAxes, ha="center", color="0.4")
    panel.set_title("filled: with guard, open: the same models without", fontsize="small")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    if title:
        figure.suptitle(plain(title))
    return figure


def _harm(score: Score) -> float:
    return 100 * score.slower_share


def _share(score: Score) -> float:
    return float("nan") if score.log_gain_share is None else 100 * score.log_gain_share
