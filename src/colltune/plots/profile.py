"""The picture of `colltune app profile`: an application's time by collective and message size."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.dataset.profile import Profile
from colltune.domain import Collective
from colltune.plots.scaffold import plain
from colltune.selector.profiled import Outlook
from colltune.text import bytes_text

_MOST_TICKS = 12


def times(profile: Profile, foreseen: Outlook | None = None) -> Figure:
    """Return the share of the run that is spent per bin of message sizes, stacked by collective.

    With what is `foreseen` of a bundle, what it would save is hatched.
    """
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    panel = figure.subplots()
    bins = sorted({use.kind.first_bytes for use in profile.uses})
    total_s = max(profile.process_s, 1e-300)
    heights = _heights(profile)
    below = dict.fromkeys(bins, 0.0)
    for number, collective in enumerate(profile.collectives):
        shares = [100 * heights.get((collective, b), 0.0) / total_s for b in bins]
        bottoms = [below[b] for b in bins]
        panel.bar(
            range(len(bins)), shares, bottom=bottoms, color=f"C{number % 10}", label=collective
        )
        below = {b: below[b] + share for b, share in zip(bins, shares, strict=True)}
    if foreseen is not None:
        _hatch(panel, foreseen, bins, total_s)
    _letter(panel, profile, bins)
    return figure


def _heights(profile: Profile) -> dict[tuple[Collective, int], float]:
    """Return seconds, summed over processes, by collective and bin."""
    found: dict[tuple[Collective, int], float] = {}
    for use in profile.uses:
        at = use.kind.collective, use.kind.first_bytes
        found[at] = found.get(at, 0.0) + use.process_s
    return found


def _hatch(panel: Axes, foreseen: Outlook, bins: list[int], total_s: float) -> None:
    saved = dict.fromkeys(bins, 0.0)
    for row in foreseen.rows:
        if row.saving is not None:
            saved[row.use.kind.first_bytes] += 100 * row.saving.expected_s / total_s
    panel.bar(
        range(len(bins)),
        [saved[b] for b in bins],
        color="none",
        edgecolor="black",
        hatch="///",
        label="the bundle would save",
    )


def _letter(panel: Axes, profile: Profile, bins: list[int]) -> None:
    step = max(1, -(-len(bins) // _MOST_TICKS))
    ticks = list(range(0, len(bins), step))
    panel.set_xticks(ticks, [bytes_text(bins[k]) for k in ticks])
    panel.set(xlabel="message size, from", ylabel="share of the run [%]")
    share = 100 * profile.collectives_s / max(profile.process_s, 1e-300)
    names = plain(", ".join(profile.programs))
    runs = len(profile.jobs)
    panel.set_title(f"{names}: {share:.3g} % of the run in collectives; runs: {runs}")
    panel.set_ylim(top=1.05 * panel.get_ylim()[1])
    panel.grid(axis="y", color="0.88")
    panel.set_axisbelow(True)
    if bins:
        panel.legend(frameon=False)
