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
    """Insist on an error with this code, and with these among its values."""
    with pytest.raises(error) as raised:
        yield raised
    told = {name: raised.value.values.get(name) for name in values}
    assert (raised.value.code, told) == (code, values), str(raised.value)
