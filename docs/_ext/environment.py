"""The service's settings, as environment variables."""

from __future__ import annotations

from inspect import cleandoc

import annotated_types
from numpydoc.docscrape import NumpyDocString
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from colltune.server.settings import PREFIX, ConnectionLimits, ServiceSettings
from docs._ext.markdown import code, table, text

_DESCRIBED = (ServiceSettings, ConnectionLimits)


def markdown(_argument: str) -> str:
    """Return a table of the variables that a service reads."""
    meanings = _meanings()
    rows = (
        (code(f"{PREFIX}{name.upper()}"), code(_default(field)), _bounds(field), meanings[name])
        for described in _DESCRIBED
        for name, field in described.model_fields.items()
    )
    return table(("variable", "default", "bounds", "meaning"), rows)


def _meanings() -> dict[str, str]:
    found = {}
    for described in _DESCRIBED:
        for parameter in NumpyDocString(cleandoc(described.__doc__ or ""))["Parameters"]:
            # several that belong together stand in one line
            for name in parameter.name.split(", "):
                found[name] = text(" ".join(parameter.desc).replace("None:", "not set:"))
    return found


def _default(field: FieldInfo) -> str:
    default = field.default
    if default is None or default is PydanticUndefined:
        return ""
    return ",".join(default) if isinstance(default, tuple) else str(default).lower()


def _bounds(field: FieldInfo) -> str:
    """Return the limits of a number in words."""
    found = []
    for limit in field.metadata:
        if isinstance(limit, annotated_types.Ge):
            found.append(f"at least {limit.ge}")
        elif isinstance(limit, annotated_types.Gt):
            found.append(f"above {limit.gt}")
    return ", ".join(found)
