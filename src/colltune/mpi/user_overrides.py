"""The user's own variables, which always win over what colltune would set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property


@dataclass(frozen=True)
class UserOverrides:
    """Environment variables to set, without those that the user has set.

    ``reason`` is empty, or tells why `environment` was withheld as a whole.
    """

    environment: Mapping[str, str]
    reason: str = ""


@dataclass(frozen=True)
class UserPatterns:
    """By which variables users decide themselves which algorithms run.

    ``deciding`` and ``harmless`` are patterns of variables' names as the shell's ``case`` reads
    them, made of letters, digits, ``_``, ``*`` and ``?``. A variable decides if it matches one of
    `deciding` and none of `harmless`.
    """

    deciding: tuple[str, ...]
    harmless: tuple[str, ...] = ()

    def decides(self, variable: str) -> bool:
        """Tell whether a variable bears on which algorithms run."""
        deciding, harmless = self._expressions
        return deciding.match(variable) is not None and harmless.match(variable) is None

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        # an expression that never matches stands for no pattern
        deciding, harmless = (
            re.compile("|".join(map(translate, patterns)) or "(?!)")
            for patterns in (self.deciding, self.harmless)
        )
        return deciding, harmless


def user_overrides(
    environment: Mapping[str, str],
    os_environ: Mapping[str, str],
    decides: Callable[[str], bool],
    *,
    same_variable: Callable[[str], str] = str,
    same_value: Callable[[str], str] = str,
) -> UserOverrides:
    """Return what of `environment` may be set beside `os_environ`, the user's own environment.

    If a variable of the user `decides` which algorithms run, nothing is set at all: half of our
    settings with half of his would be a third configuration that nobody measured. `same_variable`
    and `same_value` return the one spelling of a name or value that the library takes in several.
    """
    ours = {same_variable(name): value for name, value in environment.items()}
    for name, value in sorted(os_environ.items()):
        if not decides(name):
            continue
        wanted = ours.get(same_variable(name))
        if wanted is None or same_value(value) != same_value(wanted):
            return UserOverrides({}, f"{name}={value} is set already, so nothing else was changed")
    users = {same_variable(name) for name in os_environ}
    return UserOverrides({n: v for n, v in environment.items() if same_variable(n) not in users})
