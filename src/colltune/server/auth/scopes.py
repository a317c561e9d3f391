"""What a caller may do, and who he is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a caller may be allowed to do; reading needs none."""

    MEASUREMENTS = "measurements"
    PROMOTE = "promote"


@dataclass(frozen=True)
class Principal:
    """Who asks, as logs and the registry's history name him: ``ci (token)``, ``alice (munge)``."""

    name: str

    def __str__(self) -> str:
        return self.name
