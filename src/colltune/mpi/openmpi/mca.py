"""MCA parameters: their names, how a job is told them, and the values that the library reads.

``opal/mca/base/mca_base_var.c`` and ``mca_base_var_enum.c``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from colltune.domain import Collective
from colltune.errors import say

PREFIX = "OMPI_MCA_"
USE_RULES, RULES_FILE = "coll_tuned_use_dynamic_rules", "coll_tuned_dynamic_rules_filename"
USE_HAN_RULES = "coll_han_use_dynamic_file_rules"
HAN_RULES_FILE = "coll_han_dynamic_rules_filename"
PARAMETER_FILES = "mca_base_param_files", "mca_base_envar_file_prefix"
SYSTEM_FILE, OVERRIDE_FILE = "openmpi-mca-params.conf", "openmpi-mca-params-override.conf"
# hcoll outranks everything where it is installed; elsewhere the parameter has no effect
NO_HCOLL = {"coll_hcoll_enable": "0"}
_TRUE = frozenset({"true", "t", "enabled", "yes", "y"})
_FALSE = frozenset({"false", "f", "disabled", "no", "n"})
_BLANKS = " \t\n\v\f\r"
_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_SWITCH = re.compile(
    r"coll_\w+_(?:enable|reproducible|use_dynamic_rules|use_dynamic_file_rules|use_simple_\w+"
    r"|dump_dynamic_rules|synchronous_send)"
)
_DECIMAL = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_LONG_ENOUGH, _LARGEST, _HALF = 30, 2**64 - 1, 2**63
_FACTORS = {"g": 1 << 30, "m": 1 << 20, "k": 1 << 10}


def forcing_name(collective: Collective) -> str:
    """Return the name of the parameter that forces an algorithm of coll/tuned."""
    return f"coll_tuned_{collective}_algorithm"


@dataclass(frozen=True)
class Variables:
    """The parameters of a job: its environment, variables of other prefixes included."""

    environment: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return the value of a parameter (without prefix) as it was given; None if it was not."""
        return self.environment.get(PREFIX + name)

    def flag(self, name: str, default: bool) -> bool:
        """Return a switch; one that the library cannot read leaves the default."""
        text = self.text(name)
        value = None if text is None else flag_of(text)
        return default if value is None else value

    def integer(self, name: str, default: int) -> int:
        """Return a number, with K, M and G as the library reads them; 0 for no number."""
        text = self.text(name)
        value = None if text is None else integer_of(text)
        return default if value is None else value

    def shown(self, name: str) -> str:
        return f"{name}={self.text(name)}"


def environment(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that set `parameters`; mpirun and srun hand them on."""
    return {f"{PREFIX}{name}": value for name, value in parameters.items()}


def parameter_file(variables: Mapping[str, str]) -> str:
    """Return the text for ``mpirun --tune`` and ``OMPI_MCA_mca_base_envar_file_prefix``.

    `variables` are parameters, or the environment variables that set them.
    """
    lines = []
    for variable, value in variables.items():
        name = variable.removeprefix(PREFIX)
        if not value or any(c.isspace() or c in "\"'#" for c in value):
            raise say("not-in-a-parameter-file", name=name, value=value)
        lines.append(f"--mca {name} {value}\n")
    return "".join(lines)


def flag_of(text: str) -> bool | None:
    """Return what a switch's text means; None if the library refuses it."""
    word = text.lstrip(_BLANKS)
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    number = _DECIMAL.fullmatch(word)
    if number is not None:
        return number[1].lstrip("+-0") != ""
    return False if not word else None


def same(name: str, one: str, other: str) -> bool:
    """Tell whether the library reads the same in two values of the parameter `name`."""
    if _SWITCH.fullmatch(name):
        return flag_of(one) is not None and flag_of(one) == flag_of(other)
    if name == "coll":
        lists = [(text[:1] == "^", {*text.removeprefix("^").split(",")}) for text in (one, other)]
        return lists[0] == lists[1]
    both = _INTEGER.match(one) and _INTEGER.match(other)
    return both is not None and integer_of(one) == integer_of(other)


def integer_of(text: str) -> int | None:
    """Return what a number's text means to the library; None if it refuses more than 32 bits."""
    match = _INTEGER.match(text)
    if match is None:
        return 0
    sign, digits = match.groups()
    value = _digits(digits) * (-1 if sign == "-" else 1)
    value *= _FACTORS.get(text[match.end() : match.end() + 1].lower(), 1)
    kept = (value + _HALF) % (2 * _HALF) - _HALF
    return kept if as_int(kept) == kept else None


def is_integer(text: str) -> bool:
    """Tell whether all of `text` is a number that the library takes, with K, M or G behind it."""
    match = _INTEGER.match(text)
    whole = match is not None and text[match.end() :].strip(_BLANKS).lower() in ("", *_FACTORS)
    return whole and integer_of(text) is not None


def whole_number(text: str) -> int | None:
    """Return the number that is all of `text` (decimal, octal or hexadecimal); None for others."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    return _digits(match[2]) * (-1 if match[1] == "-" else 1)


def as_int(value: int) -> int:
    """Return `value` as a C int keeps it: its lowest 32 bits, signed."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def bounded(digits: str, base: int, limit: int) -> int:
    """Return the number, or `limit` where it is larger; digits may be thousands."""
    plain = digits.lstrip("0")
    return limit if len(plain) > _LONG_ENOUGH else min(int(plain or "0", base), limit)


def _digits(digits: str) -> int:
    if digits[:2].lower() == "0x":
        return bounded(digits[2:], 16, _LARGEST)
    return bounded(digits, 8 if digits.startswith("0") else 10, _LARGEST)
