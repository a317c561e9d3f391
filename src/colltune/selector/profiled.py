"""What a bundle would change for an application, by its profile.

A call that the MPI library decided itself would take as long as the default is predicted to; with
the bundle it would take what is predicted for the selection. The difference, times the calls, is
what is saved. It never exceeds what the calls took. Its lower bound is by the bound that the guard
judged the gain by, its upper bound by the ends of both predictions' intervals.

Where the layout of a communicator is not known, nothing was measured of the collective, or the
default's time cannot be told, what would be saved is not known; calls that another configuration
than the library's own ran already are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from colltune.dataset.profile import Profile, Use
from colltune.decisions import Selection
from colltune.domain import Instance
from colltune.errors import DataError, say
from colltune.selector.argmin import ModelSelector
from colltune.text import UNPRINTED, computed

NO_LAYOUT = "the layout of the communicator is unknown"
NOT_MEASURED = "the bundle has no models of it"
NO_DEFAULT = "the default was not measured"
NOT_DEFAULT = "the MPI library does not decide it"


class Saving(NamedTuple):
    """Time saved, summed over processes."""

    expected_s: float
    """time that is expected to be saved"""
    least_s: float
    """the least"""
    most_s: float
    """the most"""

    def __add__(self, other: object) -> Saving:
        if not isinstance(other, Saving):
            return NotImplemented
        return Saving(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Saving(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class CallSaving:
    """What would become of one kind of calls."""

    use: Use = field(metadata=UNPRINTED)
    selection: Selection | None
    """what the bundle would choose; null: nothing is known of it"""
    saving: Saving | None
    """what it saves; null: not known"""
    unknown: str = ""
    """why nothing is known, else empty"""


@dataclass(frozen=True)
class Outlook:
    """What would become of all kinds of calls of a profile, in its order."""

    profile: Profile = field(metadata=UNPRINTED)
    rows: tuple[CallSaving, ...]
    """what becomes of each kind of calls, in the order of the profile's uses"""

    @computed
    def saving(self) -> Saving:
        """What all of them save."""
        return sum((row.saving for row in self.rows if row.saving is not None), NOTHING)

    @computed
    def unknown_s(self) -> float:
        """Time in collectives, summed over processes, of which nothing is known."""
        return math.fsum(row.use.process_s for row in self.rows if row.saving is None)


def outlook(profile: Profile, selector: ModelSelector) -> Outlook:
    known, ran = selector.bundle.context.library, profile.library
    if ran != known:
        what = "the profile's application ran"
        raise say("says-nothing-about", DataError, what=what, library=ran, other=known)
    asked = [use for use in profile.uses if not _unanswerable(use, selector)]
    instances = [
        Instance(use.kind.collective, use.kind.shape, use.msize_bytes)
        for use in asked
        if use.kind.shape is not None
    ]
    kinds = (use.kind for use in asked)
    selections = dict(zip(kinds, selector.select_many(instances), strict=True))
    return Outlook(
        profile, tuple(_changed(use, selections.get(use.kind), selector) for use in profile.uses)
    )


def _unanswerable(use: Use, selector: ModelSelector) -> str:
    """Return why nothing can be selected; empty if it can."""
    if use.kind.collective not in selector.bundle.collectives:
        return NOT_MEASURED
    return NO_LAYOUT if use.kind.shape is None else ""


def _changed(use: Use, selection: Selection | None, selector: ModelSelector) -> CallSaving:
    if selection is None:
        return CallSaving(use, None, None, _unanswerable(use, selector))
    if use.default_share == 0:
        return CallSaving(use, selection, None, NOT_DEFAULT)
    if selection.configuration.is_default:
        return CallSaving(use, selection, NOTHING)
    saving = _saving(use, selection)
    return CallSaving(use, selection, saving, "" if saving else NO_DEFAULT)


def _saving(use: Use, selection: Selection) -> Saving | None:
    chosen, default = selection.prediction, selection.default
    if chosen is None or default is None:
        return None
    calls = use.process_calls * use.default_share
    bound = max(1.0, selection.gain_bound or 1.0)
    # neither more than the time that was spent, nor less than nothing
    least, expected, most = (
        min(max(0.0, saving_s), use.process_s * use.default_share)
        for saving_s in (
            calls * default.time_s * (1.0 - 1.0 / bound),
            calls * (default.time_s - chosen.time_s),
            calls * (default.upper_s - chosen.lower_s),
        )
    )
    return Saving(expected, min(least, expected), max(most, expected))
