"""Wall times as people write them: ``90``, ``90s``, ``30m``, ``1h30m``, ``4h``."""

from __future__ import annotations

import math
import re

from colltune.errors import CampaignError, say

_UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms]?)\s*")


def seconds(text: str | float) -> float:
    """Return the seconds that `text` stands for; a bare number is seconds."""
    if not isinstance(text, str):
        return _positive(float(text), repr(text))
    parts = _PART.findall(text.strip().lower())
    if not parts or "".join(map("".join, parts)) != re.sub(r"\s+", "", text.lower()):
        what, like = "a wall time", "90, 90s, 30m, 1h30m or 4h"
        raise say("malformed", CampaignError, value=text, what=what, like=like)
    return _positive(math.fsum(float(n) * _UNITS_S[unit] for n, unit in parts), repr(text))


def text(value_s: float) -> str:
    """Return a wall time for people: ``42 s``, ``7 min``, ``4 h 05 min``."""
    if value_s < 100:
        return f"{value_s:.3g} s"
    minutes = round(value_s / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _positive(value_s: float, shown: str) -> float:
    if not (math.isfinite(value_s) and value_s > 0):
        raise say("not-positive", value=shown)
    return value_s
