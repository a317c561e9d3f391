"""What a site says of production in its site file, and which arm a job belongs to.

An arm is tuned, a candidate of a roll-out, or the control group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from colltune.errors import say
from colltune.files.settings import Key

FIRST_STEP = 0.05
"""Share of the jobs that get a bundle first, by default."""


def _rising(steps: list[float]) -> tuple[float, ...]:
    shares = [0.0, *steps]
    if shares[-1] != 1 or not all(type(b) in (int, float) and a < b for a, b in pairwise(shares)):
        raise say("not-rising", value=steps)
    return tuple(steps)


@dataclass(frozen=True)
class Production:
    """The table ``[production]`` of a site file."""

    record: Annotated[
        bool,
        Key(
            "With true, jobs are compared with a control group that keeps the library's default,"
            " and `colltune serve --site` judges bundles by what jobs report at their end."
        ),
    ] = False
    control: Annotated[float, Key("Share of jobs in the control group.", 0.001, 0.5)] = 0.05
    steps: Annotated[
        tuple[float, ...],
        Key(
            "Shares of jobs that a new bundle gets, one after the other.",
            read=_rising,
            takes=(list,),
            wanted="a list of rising shares that ends in 1.0",
        ),
    ] = (FIRST_STEP, 0.25, 1.0)
    jobs_per_step: Annotated[
        int, Key("Jobs that must have had it before the next step.", 1, 100_000)
    ] = 200
    harm: Annotated[float, Key("A ratio to the control group's times that is harm.", 1, 10)] = 1.02
    alpha: Annotated[
        float, Key("Chance that a good decision is ever withdrawn, for each by itself.", 1e-9, 0.5)
    ] = 0.01
    users: Annotated[
        Literal["none", "hash"],
        Key(
            "With hash, a hash of the user, with the site's secret, is kept for three days, so that"
            " no user outweighs the others. With none, only a person promotes a trial."
        ),
    ] = "hash"
    programs: Annotated[
        Literal["hash", "names"],
        Key("Whether the name of a program is kept, or a hash of its path."),
    ] = "hash"
    rate: Annotated[int, Key("One call in so many is timed.", 1, 1_000_000)] = 20
    store: Annotated[
        str,
        Key(
            "Database of what jobs reported: a file on a local disk (SQLite), or for several"
            " servers `postgresql+psycopg://user@host/database`, whose password stands in the file"
            " that PGPASSFILE names.",
            located=True,
        ),
    ] = "production/production.db"
    archive: Annotated[Path, Key("Folder of earlier days.")] = Path("production")
    months: Annotated[int, Key("How long they are kept.", 1, 1200)] = 12
    user_share: Annotated[
        float, Key("Most weight that one user has in what lets a trial go on.", 0.001, 1)
    ] = 0.2


class Arm(StrEnum):
    """What a job is given: the bundle in force, the one that is rolled out, or nothing."""

    TUNED = "tuned"
    CANDIDATE = "candidate"
    CONTROL = "control"


class ArmShares(NamedTuple):
    """Shares of jobs, from 0 to 1; the rest is tuned. Control goes before candidate."""

    control: float
    candidate: float = 0.0


def arm_of(machine: str, job: str, split: ArmShares) -> Arm:
    """Return the arm of a job.

    A hash of the job's id decides, so every part of a job gets the same answer. As a share grows,
    jobs that were in it stay in it.
    """
    digest = hashlib.sha256(f"{machine}\0{job}".encode()).digest()
    u = int.from_bytes(digest[:8], "big") / 2**64
    if u < split.control:
        return Arm.CONTROL
    return Arm.CANDIDATE if u >= 1 - split.candidate else Arm.TUNED


class Side(NamedTuple):
    """On which side of a comparison a job is, and with which probability it was drawn so."""

    is_in: bool
    probability: float


class Draw(NamedTuple):
    """How the arm of a job was drawn: the shares, and the bundles in force and on trial then."""

    split: ArmShares
    in_force: str | None
    trial: str | None

    @property
    def bundles(self) -> tuple[str, ...]:
        """The bundles that a job can have been given."""
        return tuple(filter(None, (self.in_force, self.trial)))

    def fits(self, arm: Arm, bundle_id: str) -> bool:
        """Tell whether a job with this arm and bundle was drawn so."""
        return bundle_id == (self.trial if arm is Arm.CANDIDATE else self.in_force)

    def share(self, arm: Arm) -> float:
        """Return the share of jobs that are drawn into an arm."""
        control, candidate = self.split.control, self.split.candidate if self.trial else 0.0
        rest = max(0.0, 1.0 - control - candidate)
        return {Arm.CONTROL: control, Arm.CANDIDATE: min(candidate, 1.0 - control)}.get(arm, rest)

    def decided(self, arm: Arm, deciding: Set[str]) -> Side | None:
        """Return the side of a job that got what `deciding` bundles decide, or is in the control.

        None for others.
        """
        arms = ((Arm.TUNED, self.in_force), (Arm.CANDIDATE, self.trial))
        with_it = {arm for arm, bundle_id in arms if bundle_id in deciding}
        return self._side(arm, with_it, Arm.CONTROL)

    def tried(self, arm: Arm) -> Side | None:
        """Return the side of a job of the trial, or with the bundle in force; None for others."""
        return self._side(arm, {Arm.CANDIDATE}, Arm.TUNED)

    def _side(self, arm: Arm, one: Set[Arm], other: Arm) -> Side | None:
        if arm is not other and arm not in one:
            return None
        share = sum(map(self.share, one))
        total = share + self.share(other)
        return Side(arm in one, share / total) if total else None
