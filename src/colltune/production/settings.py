"""What a site says of production in its site file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from colltune.mpi.programs import FOR_EVERYBODY

FIRST_STEP = 0.05
"""Share of the jobs that get a bundle first, by default."""


@dataclass(frozen=True)
class Production:
    """The table ``[production]`` of a site file; `colltune.retraining.site_file` tells its keys.

    ``promise`` says which programs jobs are taken for, as ``[site] programs`` does.
    """

    record: bool = False
    control: float = 0.05
    steps: tuple[float, ...] = (FIRST_STEP, 0.25, 1.0)
    jobs_per_step: int = 200
    harm: float = 1.02
    alpha: float = 0.01
    users: Literal["none", "hash"] = "hash"
    programs: Literal["hash", "names"] = "hash"
    rate: int = 20
    store: str = "production/production.db"
    archive: Path = Path("production")
    months: int = 12
    user_share: float = 0.2
    promise: str = str(FOR_EVERYBODY)
