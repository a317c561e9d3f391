"""Which choices of `colltune tune` stay: what proved faster when it was measured again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from colltune.decisions import Interval, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.confirmations import Confirmation
from colltune.selector.confirming import cuts_between

_SAME_REASON = "the default runs this algorithm by itself"


def grid(
    collective: Collective, shape: Shape, interval: Interval, msizes_bytes: Sequence[int]
) -> list[Instance]:
    """Return the measured instances inside an interval, ascending."""
    inside = sorted(m for m in msizes_bytes if interval.holds(m))
    return [Instance(collective, shape, m) for m in inside]


def unproven(
    shape: Shape, intervals: Iterable[tuple[Collective, Interval]], now_utc: str
) -> list[Confirmation]:
    """Return that what no measurement proved is withdrawn: nothing shows that it is faster."""
    return [
        Confirmation(
            collective=collective,
            shape=shape,
            first_bytes=interval.first_bytes,
            last_bytes=interval.last_bytes,
            status=Status.WITHDRAWN,
            configuration=Configuration.default(interval.configuration.library, collective),
            proposed=interval.configuration,
            gain=None,
            lower=None,
            upper=None,
            launches=0,
            measured_utc=now_utc,
        )
        for collective, interval in intervals
        if interval.status is Status.PREDICTED and not interval.configuration.is_default
    ]


def without_same(
    default: Configuration,
    interval: Interval,
    instances: Sequence[Instance],
    same: Collection[Instance],
) -> list[Interval]:
    """Split a chosen interval into what changes anything and what the library does by itself.

    `same` are the instances for which the library itself runs the chosen algorithm; they are left
    to `default`.
    """
    if interval.configuration.is_default or not set(instances) & set(same):
        return [interval]
    parts: list[Interval] = []
    for instance, part in _parts(interval, instances):
        if instance in same:
            part = replace(  # noqa: PLW2901
                part, configuration=default, reason=_SAME_REASON, status=Status.PREDICTED
            )
        if parts and parts[-1].configuration == part.configuration:
            parts[-1] = replace(parts[-1], last_bytes=part.last_bytes)
        else:
            parts.append(part)
    return parts


def _parts(
    interval: Interval, instances: Sequence[Instance]
) -> Iterator[tuple[Instance, Interval]]:
    """Yield the part of an interval around each instance, cut at geometric means of the sizes."""
    cuts = cuts_between([i.msize_bytes for i in instances])
    firsts = [interval.first_bytes, *cuts]
    lasts = [*(cut - 1 for cut in cuts), interval.last_bytes]
    for instance, first, last in zip(instances, firsts, lasts, strict=True):
        yield instance, replace(interval, first_bytes=first, last_bytes=last)
