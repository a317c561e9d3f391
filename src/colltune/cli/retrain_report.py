"""What `colltune retrain` tells people, on the terminal and through hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from colltune.cli.console import printable

if TYPE_CHECKING:
    from colltune.retraining.contest import Contest
    from colltune.retraining.nightly import Night
    from colltune.retraining.slot_run import SlotResult

_SHOWN_CHANGES = 5
_WORDS = {
    "promoted": "promoted",
    "shadow": "shadow",
    "nothing_new": "nothing new",
    "kept": "kept",
    "failed": "failed",
}


def lines(night: Night) -> Iterator[str]:
    """Yield what happened, line by line."""
    if night.took_over:
        yield printable(f"took over from {night.took_over}, which ended midway")
    for result in night.results:
        for line in _of_slot(result):
            yield printable(line)
    for why in night.left_out:
        yield printable(f"left out: {why}")


def _of_slot(result: SlotResult) -> Iterator[str]:
    yield (
        f"{result.slot}: {_WORDS[result.outcome]}: {result.reason}"
        f" ({len(result.arrived.dataset)} measurements, {result.new} new)"
    )
    before, after = (_short(i) for i in (result.judged_bundle, result.in_force))
    candidate = f", candidate {_short(result.candidate)}" if result.candidate else ""
    moved = f"was {before}, now {after}" if before != after else after
    yield f"  in force: {moved}{candidate}"
    if result.contest is not None:
        yield from _of_contest(result.contest)
    if result.changes:
        yield from _of_changes(result.changes)
    if result.drift is not None:
        for shift in result.drift.alarms:
            yield f"  drift: {shift}"
    if "problem" in result.confirmed:
        yield f"  nothing was confirmed: {result.confirmed['problem']}"
    elif result.confirmed:
        counts = (f"{result.confirmed[status]} {status}" for status in ("confirmed", "withdrawn"))
        yield f"  measured beside the default: {', '.join(counts)}"
    yield from _of_campaign(result.campaign)


def _of_contest(contest: Contest) -> Iterator[str]:
    sides = {"candidate": contest.candidate_scores, "in force": contest.in_force_scores}
    for name, scores in sides.items():
        if scores:
            score = scores["all"]
            share = score.log_gain_share
            yield (
                f"  {name}: {score.geometric_mean_speedup:.3f}x the default on"
                f" {score.instances} held-out instances,"
                f" {'no' if share is None else f'{share:.1%}'} of the possible gain,"
                f" regret {score.mean_regret - 1:.1%}, harm {score.slower_share:.1%}"
            )
    yield f"  (the bundle in force: {contest.how})"


def _of_changes(changes: dict[str, Any]) -> Iterator[str]:
    ratio = changes["predicted_ratio"]
    effect = "" if ratio is None else f", predicted {ratio:.3f}x as fast in the mean"
    shares = ", ".join(f"{name} {share:.0%}" for name, share in changes["changed"].items())
    yield f"  decisions that change: {changes['changes']} ranges ({shares}){effect}"
    for change in changes["largest"][:_SHOWN_CHANGES]:
        last = change["last_bytes"]
        sizes = f"{change['first_bytes']}..{'' if last is None else last}"
        yield (
            f"    {change['collective']} {change['shape']} {sizes} bytes: {change['old']} ->"
            f" {change['new']}, predicted {change['predicted_ratio']:.2f}x"
        )


def _of_campaign(campaign: dict[str, Any]) -> Iterator[str]:
    if "problem" in campaign:
        yield f"  no next campaign: {campaign['problem']}"
    elif "path" in campaign:
        yield (
            f"  next campaign: {campaign['path']}, {campaign['covered']:.0%} of what jobs asked"
            " for and was not well answered"
        )


def _short(bundle_id: str | None) -> str:
    return "nothing" if bundle_id is None else bundle_id[:12]
