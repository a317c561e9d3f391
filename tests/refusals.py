"""What a refusal is compared by: its code and its values, never its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from colltune.errors import ColltuneError


@contextmanager
def refused(
    code: str, error: type[Exception] = ColltuneError, **values: object
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Insist on an error with this code, and with these among its values.

    In tables of cases values can stand behind the code: ``malformed-row line=3``.
    """
    code, *told = code.split(" ")
    wanted = dict(pair.split("=", 1) for pair in told) | {n: str(v) for n, v in values.items()}
    with pytest.raises(error) as raised:
        yield raised
    said: Any = getattr(raised.value, "why", raised.value)
    found = {name: str(said.values.get(name)) for name in wanted}
    assert (said.code, found) == (code, wanted), str(said)
