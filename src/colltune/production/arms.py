"""Which arm a job belongs to: tuned, a candidate of a roll-out, or the control group."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import NamedTuple


class Arm(StrEnum):
    """What a job is given: the bundle in force, the one that is rolled out, or nothing."""

    TUNED = "tuned"
    CANDIDATE = "candidate"
    CONTROL = "control"


class Split(NamedTuple):
    """Shares of jobs, from 0 to 1; the rest is tuned. Control goes before candidate."""

    control: float
    candidate: float = 0.0


def arm_of(machine: str, job: str, split: Split) -> Arm:
    """Return the arm of a job.

    A hash of the job's id decides, so every part of a job gets the same answer. As a share grows,
    jobs that were in it stay in it.
    """
    digest = hashlib.sha256(f"{machine}\0{job}".encode()).digest()
    u = int.from_bytes(digest[:8], "big") / 2**64
    if u < split.control:
        return Arm.CONTROL
    return Arm.CANDIDATE if u >= 1 - split.candidate else Arm.TUNED
