"""What became of a retraining, and the exit status that says so."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from colltune import errors


class Outcome(StrEnum):
    """What became of the slot of a library, or of a run.

    ``shadow``: compared only; ``kept``: the bundle in force stays, since the new one was not shown
    to be as good; ``failed``: there is no new one.
    """

    PROMOTED = "promoted"
    SHADOW = "shadow"
    NOTHING_NEW = "nothing_new"
    KEPT = "kept"
    DRIFT = "drift"
    FAILED = "failed"


def exit_status(outcomes: Collection[Outcome], *, drift: bool, failure: int = 1) -> int:
    """Return the status of a run from the `outcomes` of its slots.

    What someone should look at goes first: a failure (its own status), drift, a candidate that was
    kept back; then what was done; then that nothing was to be done.
    """
    if Outcome.FAILED in outcomes:
        return failure
    if drift:
        return errors.DRIFT
    if Outcome.KEPT in outcomes:
        return errors.KEPT
    if outcomes and set(outcomes) == {Outcome.NOTHING_NEW}:
        return errors.NOTHING_NEW
    return 0
