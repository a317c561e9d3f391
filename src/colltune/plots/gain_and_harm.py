"""Gain over harm: what each way of deciding wins, and how often it is slower than the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.selector.evaluation.figures import ALL, Score
from colltune.selector.evaluation.guard_effect import GuardEffect

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink")
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
        Scores of others by name, as crosses.
    title
        What was tested.
    """
    figure = Figure(figsize=(7.6, 4.6), layout="constrained")
    panel = figure.subplots()
    for name, scores in (references or {}).items():
        _point(panel, scores[ALL], "0.35", "x", name)
    for number, effect in enumerate(effects):
        colour = _COLOURS[number % len(_COLOURS)]
        pair = [effect.unguarded[ALL], effect.guarded[ALL]]
        panel.plot([_harm(s) for s in pair], [_share(s) for s in pair], color=colour, linewidth=1)
        _point(panel, pair[0], colour, "o", "", filled=False)
        _point(panel, pair[1], colour, "o", effect.learner)
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
    panel.set_title("filled: with guard, open: without; crosses: no guard", fontsize="small")
    if title:
        figure.suptitle(title.replace("$", r"\$"))
    return figure


def _point(
    panel: Axes, score: Score, colour: str, marker: str, name: str, *, filled: bool = True
) -> None:
    x, y = _harm(score), _share(score)
    panel.plot(x, y, marker, color=colour, markerfacecolor=colour if filled else "white")
    panel.annotate(name, (x, y), (5, 4), textcoords="offset points", fontsize="small", color=colour)


def _harm(score: Score) -> float:
    return 100 * score.slower_share


def _share(score: Score) -> float:
    return float("nan") if score.log_gain_share is None else 100 * score.log_gain_share
