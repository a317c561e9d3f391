"""Reading a page's file back."""

from __future__ import annotations

import json
import re
from typing import Any


def facts_of(page: str) -> dict[str, Any]:
    """Return the facts that a page holds; JSON has no NaN and no end of an element in it."""
    (text,) = re.findall(r'<script type="application/json" id="inside">(.*?)</script>', page, re.S)

    def refuse(name: str) -> Any:
        raise AssertionError(name)

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found
