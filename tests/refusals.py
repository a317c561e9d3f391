"""What a refusal is compared by: its code and its values, never its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from colltune.errors import ColltuneError


@contextmanager
def refused(
    code: str, error: type[ColltuneError] = ColltuneError, **values: object
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Insist on an error with this code, and with these among its values.

    In tables of cases values can stand behind the code: ``malformed-row line=3``.
    """
    code, *told = code.split(" ")
    wanted = dict(pair.split("=", 1) for pair in told) | {n: str(v) for n, v in values.items()}
    with pytest.raises(error) as raised:
        yield raised
    found = {name: str(raised.value.values.get(name)) for name in wanted}
    assert (raised.value.code, found) == (code, wanted), str(raised.value)
