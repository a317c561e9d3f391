"""What the statistics of repetitions choose: where they differ, what they promise and bring."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from colltune.dataset.noise.choices import Payoff

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple")
_DARK = 0.6


def disagreements(shares: pd.DataFrame) -> Figure:
    """Return a map of `colltune.dataset.noise.choices.disagreement`.

    `shares` has a row and a column for each statistic, and a share from 0 to 1 in each place.
    """
    names = list(shares.columns)
    figure = Figure(figsize=(5.2, 3.9), layout="constrained")
    panel = figure.subplots()
    most = max(float(shares.to_numpy().max()), 0.01)
    panel.imshow(shares, cmap="Oranges", vmin=0, vmax=most)
    for y, row in enumerate(shares.to_numpy()):
        for x, share in enumerate(row):
            colour = "white" if share > _DARK * most else "black"
            text = "" if x == y else f"{100 * share:.0f} %"
            panel.text(x, y, text, ha="center", va="center", color=colour)
    panel.set_xticks(range(len(names)), names, rotation=20, ha="right")
    panel.set_yticks(range(len(names)), names)
    panel.set_title("share of choices that differ")
    return figure


def payoffs(found: Sequence[Payoff]) -> Figure:
    """Return what each statistic promises and what it brings, over the launches chosen by.

    `found` has an entry for each statistic and number of launches chosen by.
    """
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    names = list(dict.fromkeys(one.statistic for one in found))
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name, colour in zip(panels, names, _COLOURS, strict=False):
        mine = sorted((one for one in found if one.statistic is name), key=lambda p: p.launches)
        x = [one.launches for one in mine]
        panel.fill_between(
            x, [p.low for p in mine], [p.high for p in mine], color=colour, alpha=0.2, lw=0
        )
        panel.plot(x, [p.promised for p in mine], "o--", color="0.35", label="promised")
        panel.plot(x, [p.gained for p in mine], "o-", color=colour, label="gained")
        panel.axhline(1, color="0.6", linewidth=0.8)
        panel.set(title=f"chosen by the {name}", xlabel="launches to choose by")
        panel.set_xticks(x)
        panel.grid(axis="y", color="0.92")
        panel.legend(frameon=False, loc="upper right")
    panels[0].set_ylabel("speed-up over the default (geo. mean)")
    return figure
