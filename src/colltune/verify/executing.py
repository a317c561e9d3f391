"""Has calls made in as few launches as possible, and goes on after one that ends the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.verify.canary import CallSeen, Canary, CanaryCall, Ending, Run

_MOST_LAUNCHES = 6
_MOST_HANGS = 1
_CALLS_PER_LAUNCH = 200


@dataclass(frozen=True)
class Executed:
    """What became of the calls; ``first`` is the first launch, None if there was nothing to do.

    ``broken`` tells why launches under these settings bring nothing at all; empty if they do.
    """

    calls: Mapping[CanaryCall, CallSeen] = field(default_factory=dict)
    first: Run | None = None
    broken: str = ""


def execute(
    canary: Canary,
    calls: Sequence[CanaryCall],
    wanted: Mapping[str, str],
    tracer: Path | None,
) -> Executed:
    """Return what became of each of `calls`.

    A call in which the program ends or hangs is to blame for it; those behind it are made in
    another launch, as long as there are not too many.
    """
    left = sorted(dict.fromkeys(calls), key=lambda call: (-call.comm_size, -call.nodes, call))
    seen: dict[CanaryCall, CallSeen] = {}
    first: Run | None = None
    broken = ""
    allowed = _MOST_LAUNCHES + len(left) // _CALLS_PER_LAUNCH
    hangs = 0
    while left and allowed and hangs <= _MOST_HANGS and not broken:
        allowed -= 1
        run = canary.run(left[:_CALLS_PER_LAUNCH], wanted, tracer)
        first = first or run
        made = {call: s for call, s in run.calls.items() if s.ending is not Ending.NOT_RUN}
        hangs += run.outcome.timed_out
        if not made:
            broken = _why_nothing(run)
        seen |= made
        left = [call for call in left if call not in made]
    return Executed(seen | dict.fromkeys(left, CallSeen(Ending.NOT_RUN)), first, broken)


def _why_nothing(run: Run) -> str:
    what = "MPI_Init does not come back" if run.outcome.timed_out else "MPI_Init fails"
    if run.nprocs:
        what = "the program does not get as far as its first call"
    return f"{what}\n{run.outcome.explain()}"
