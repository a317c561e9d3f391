"""Proof by timing, where which algorithm ran cannot be seen.

Default, file, and the rule's configuration forced by variables take turns. Where forcing changes
the runtime clearly, the file either does the same or it does not; where it does not, timing tells
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from colltune.domain import Collective, Configuration, Instance
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.interposed.beside import beside
from colltune.verify.alternating import Gain
from colltune.verify.judging import Judgement, Status

_MOST_SIDES = 3
_CLEARLY = 1.15
_SAME_PART = 0.35
_UNSEEN = "which algorithm ran cannot be seen in this library"


@dataclass(frozen=True)
class Timed:
    """One call under the default, the file, and the forced configuration, as ratios of runtimes."""

    default_to_file: Gain
    default_to_forced: Gain


@dataclass(frozen=True)
class Forced:
    """Environments that force configurations, and which of them shows which call."""

    environments: tuple[Mapping[str, str], ...] = ()
    side_of: Mapping[Instance, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, library: str, release: str, wanted: Sequence[tuple[Instance, Configuration]]
    ) -> Forced:
        """Spread the configurations over few environments: each forces one per collective.

        What does not fit into them, or cannot be forced, is left out.
        """
        chosen: list[dict[Collective, Configuration]] = []
        side_of: dict[Instance, int] = {}
        environments: list[dict[str, str]] = []
        for instance, configuration in wanted:
            try:
                forced = beside(LIBRARIES[library]).forced_environment(release, configuration)
            except LibraryError:
                continue
            for side in range(_MOST_SIDES):
                if side == len(chosen):
                    chosen.append({})
                    environments.append({})
                if chosen[side].setdefault(instance.collective, configuration) == configuration:
                    environments[side] |= forced
                    side_of[instance] = side
                    break
        return cls(tuple(environments), side_of)


def judged(timed: Timed) -> Judgement:
    """Return what the runtimes of one call prove of its rule."""
    file, forced = timed.default_to_file, timed.default_to_forced
    told = f"with the file it takes {1 / file.ratio:.2f} of the default's time, forced"
    told += f" {1 / forced.ratio:.2f}"
    if math.isnan(forced.lower) or math.isnan(file.lower):
        return Judgement(Status.UNOBSERVED, f"{_UNSEEN}, and timing it takes more launches")
    if not _differs(forced):
        return Judgement(
            Status.UNOBSERVED, f"{_UNSEEN}, and forcing it changes the time too little"
        )
    apart = abs(math.log(file.ratio / forced.ratio)) / abs(math.log(forced.ratio))
    if apart <= _SAME_PART and _is_certain(file):
        return Judgement(Status.APPLIED, f"by timing: {told}")
    if apart >= 1 - _SAME_PART and not _is_certain(file):
        return Judgement(Status.IGNORED, f"by timing: {told}")
    return Judgement(Status.UNOBSERVED, f"{_UNSEEN}, and its time proves nothing: {told}")


def _differs(gain: Gain) -> bool:
    return _is_certain(gain) and abs(math.log(gain.ratio)) >= math.log(_CLEARLY)


def _is_certain(gain: Gain) -> bool:
    """Tell whether 1 lies outside of the interval."""
    return not math.isnan(gain.lower) and (gain.lower > 1 or gain.upper < 1)
