"""Which choices stay after they were measured again beside the default."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from colltune.bench.verify import Alternation
from colltune.decisions import Interval
from colltune.domain import Collective, Configuration, Instance, Shape

_UNPROVEN = "withdrawn: not proven faster when measured again"
_UNMEASURED = "withdrawn: not measured again, so that nothing proves it faster"
_SAME_REASON = "the default runs this algorithm by itself"


@dataclass(frozen=True)
class Verdict:
    """A message-size range and what is used there in the end.

    ``withdrawn`` is the choice that was taken back, None where nothing was.
    """

    collective: Collective
    interval: Interval
    withdrawn: Configuration | None = None


def grid(
    collective: Collective, shape: Shape, interval: Interval, msizes_bytes: Sequence[int]
) -> list[Instance]:
    """Return the measured instances inside an interval, ascending."""
    inside = sorted(m for m in msizes_bytes if interval.holds(m))
    return [Instance(collective, shape, m) for m in inside]


def judge(
    collective: Collective,
    interval: Interval,
    instances: Sequence[Instance],
    alternation: Alternation,
) -> list[Verdict]:
    """Split a chosen interval into what is proven faster and what is given back to the library.

    The neighbourhood of a size that was certainly slower (its whole interval below 1) is given
    back; so is each run of sizes between such that is not proven faster together, see
    `Gain.is_proven`, and each size that was not measured.
    """
    if interval.configuration.is_default:
        return [Verdict(collective, interval)]
    lost = set(instances)
    for run in alternation.runs(instances):
        gain = alternation.gain(run)
        if gain is not None and gain.is_proven:
            lost -= {i for i in run if alternation.log_ratios.get(i)}
    found = _verdicts(collective, interval, instances, lost)
    return [_with_reason(verdict, instances, alternation) for verdict in found]


def _with_reason(
    verdict: Verdict, instances: Sequence[Instance], alternation: Alternation
) -> Verdict:
    if verdict.withdrawn is None:
        return verdict
    inside = [i for i in instances if verdict.interval.holds(i.msize_bytes)]
    reason = _UNPROVEN if alternation.gain(inside) else _UNMEASURED
    return replace(verdict, interval=replace(verdict.interval, reason=reason))


def without_same(
    collective: Collective,
    interval: Interval,
    instances: Sequence[Instance],
    same: Collection[Instance],
) -> list[Interval]:
    """Split a chosen interval into what changes anything and what the library does by itself.

    `same` are the instances for which the library itself runs the chosen algorithm.
    """
    lost = set(instances) & set(same)
    if interval.configuration.is_default or not lost:
        return [interval]
    parts = _verdicts(collective, interval, instances, lost)
    return [replace(v.interval, reason=_SAME_REASON) if v.withdrawn else v.interval for v in parts]


def _verdicts(
    collective: Collective, interval: Interval, instances: Sequence[Instance], lost: set[Instance]
) -> list[Verdict]:
    """Return the parts of an interval, neighbours of one fate together."""
    default = Configuration.default(interval.configuration.library, collective)
    verdicts: list[Verdict] = []
    for instance, part in _parts(interval, instances):
        verdict = Verdict(collective, part)
        if instance is None or instance in lost:
            given_back = replace(part, configuration=default)
            verdict = Verdict(collective, given_back, interval.configuration)
        if verdicts and verdicts[-1].withdrawn == verdict.withdrawn:
            longer = replace(verdicts[-1].interval, last_bytes=part.last_bytes)
            verdicts[-1] = replace(verdicts[-1], interval=longer)
        else:
            verdicts.append(verdict)
    return verdicts


def _parts(
    interval: Interval, instances: Sequence[Instance]
) -> Iterator[tuple[Instance | None, Interval]]:
    """Yield the part of an interval around each instance, cut at geometric means of the sizes."""
    if not instances:
        yield None, interval
        return
    sizes = [i.msize_bytes for i in instances]
    cuts = [min(b, max(a + 1, math.isqrt(a * b))) for a, b in itertools.pairwise(sizes)]
    firsts = [interval.first_bytes, *cuts]
    lasts = [*(cut - 1 for cut in cuts), interval.last_bytes]
    for instance, first, last in zip(instances, firsts, lasts, strict=True):
        yield instance, replace(interval, first_bytes=first, last_bytes=last)
