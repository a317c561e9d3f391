"""Whether a candidate comes into force: only if it is shown to be not worse.

Over all collectives the burden of proof is on the candidate, as in a trial of
non-inferiority (Piaggio et al., JAMA 308(24), 2012): the worse end of the 95 % bootstrap interval
of each paired difference must not be beyond its threshold. Of a single collective, which has fewer
instances, it must not be shown to be worse: there the better end counts. With fewer than three
shapes there are no intervals, and the differences themselves count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from colltune.evaluation.comparison import Difference
from colltune.evaluation.evaluation import ALL
from colltune.models.bundle import Bundle
from colltune.retraining.contest import Contest
from colltune.retraining.site_file import Thresholds


@dataclass(frozen=True)
class Verdict:
    """Whether the candidate may come into force; ``reasons`` say why not, or what it rests on."""

    promote: bool
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """The reasons as one text."""
        return "; ".join(self.reasons)


def judge(
    contest: Contest, thresholds: Thresholds, candidate: Bundle, in_force: Bundle | None
) -> Verdict:
    """Judge a candidate by its held-out decisions."""
    reasons = [_too_harmful(contest, thresholds)]
    if in_force is None:
        reasons.append(_worse_than_default(contest))
    else:
        lost = sorted(set(in_force.collectives) - set(candidate.collectives))
        if lost:
            reasons.append(f"it knows nothing of {', '.join(lost)}, which the one in force does")
        for difference in contest.differences:
            reasons += _worse(difference, thresholds)
    against = tuple(reason for reason in reasons if reason)
    if against:
        return Verdict(False, against)
    return Verdict(True, (_in_favour(contest),))


def _too_harmful(contest: Contest, thresholds: Thresholds) -> str:
    harm = contest.candidate_scores[ALL].slower_share
    if harm <= thresholds.harm_at_most:
        return ""
    return (
        f"{harm:.1%} of its held-out decisions are more than 5 % slower than the default; at most"
        f" {thresholds.harm_at_most:.1%} may be"
    )


def _worse_than_default(contest: Contest) -> str:
    speedup = contest.candidate_scores[ALL].geometric_mean_speedup
    if speedup >= 1.0:
        return ""
    return f"its held-out decisions are {1 / speedup:.3f} times as slow as the default"


def _worse(difference: Difference, thresholds: Thresholds) -> list[str]:
    """Return in what a candidate is worse, or not shown to be as good."""
    whole = difference.collective == ALL
    regret = _pessimistic(
        difference.speedup, difference.speedup_interval, whole, less_is_worse=True
    )
    harm = _pessimistic(difference.harm, difference.harm_interval, whole, less_is_worse=False)
    found = [
        ("regret", -math.log(regret), thresholds.regret_worse_by),
        ("harm", harm, thresholds.harm_worse_by),
    ]
    if difference.share is not None:
        share = _pessimistic(difference.share, difference.share_interval, whole, less_is_worse=True)
        found.append(("share of the possible gain", -share, thresholds.share_worse_by))
    where = "" if whole else f"{difference.collective}: "
    may_be = "may be" if whole and difference.speedup_interval else "is"
    return [
        f"{where}its {what} {may_be} worse by {by:.3f}; {limit:g} is allowed"
        for what, by, limit in found
        if by > limit
    ]


def _pessimistic(
    value: float, ends: tuple[float, float] | None, whole: bool, *, less_is_worse: bool
) -> float:
    """Return the end of an interval that counts: the worse for all, the better for a part."""
    if ends is None:
        return value
    return ends[0] if less_is_worse == whole else ends[1]


def _in_favour(contest: Contest) -> str:
    score = contest.candidate_scores[ALL]
    text = (
        f"{score.instances} held-out decisions on {score.shapes} shapes:"
        f" {score.geometric_mean_speedup:.3f}x the default, {score.slower_share:.1%} slower than it"
    )
    if contest.differences:
        text += f"; {contest.differences[-1].speedup:.3f}x the bundle in force"
    return text
