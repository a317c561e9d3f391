"""What every benchmark backend must fulfil."""

from __future__ import annotations

import inspect

import pytest

from colltune.bench.backends import BACKENDS, Backend

METHODS = [
    name
    for name, member in vars(Backend).items()
    if inspect.isfunction(member) and not name.startswith("_")
]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
def test_methods_take_what_the_protocol_says(name: str, method: str) -> None:
    """Callers may name the arguments; each backend documents the method."""
    found, wanted = getattr(BACKENDS[name], method), getattr(Backend, method)
    assert list(inspect.signature(found).parameters) == list(inspect.signature(wanted).parameters)
    assert found.__doc__


@pytest.mark.parametrize("name", BACKENDS)
def test_the_name_is_that_of_the_class(name: str) -> None:
    """The registry's key, as it stands in campaign files, names the class."""
    assert f"{name}backend" == BACKENDS[name].__name__.lower()
    assert isinstance(BACKENDS[name].measures_subshapes, bool)
