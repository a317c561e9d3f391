"""Values of MCA parameters as the library reads them."""

from __future__ import annotations

import pytest

from colltune.mpi.openmpi.mca import Variables, as_int, flag_of, integer_of, whole_number


def test_switches(subtests: pytest.Subtests) -> None:
    """Decimal numbers and a few small words; what else is refused."""
    for text, value in (
        *(("1", True), ("yes", True), (" true", True), ("y", True), ("-3", True), ("007", True)),
        *(("0", False), ("no", False), ("disabled", False), ("", False), ("00", False)),
        *(("True", None), ("on", None), ("1 ", None), ("0x1", None), ("9" * 5000, True)),
    ):
        with subtests.test(text=text, value=value):
            assert flag_of(text) is value


def test_numbers(subtests: pytest.Subtests) -> None:
    """In any base of C, with K, M and G; more than 32 bits are refused, unless 64 are too few."""
    for text, value in (
        *(("7", 7), ("0x10", 16), ("010", 8), ("-1", -1), (" 5", 5), ("x", 0), ("", 0)),
        *(("4k", 4096), ("1M", 1 << 20), ("1G", 1 << 30), ("3x", 3)),
        *((str(2**31), None), (str(2**32 + 4), None), ("3g", None), ("9" * 5000, -1)),
    ):
        with subtests.test(text=text, value=value):
            assert integer_of(text) == value


def test_whole_numbers_are_all_of_the_text() -> None:
    """What names an algorithm must be a number to its end."""
    assert [whole_number(text) for text in ("6", "0x6", "-1", "6 ", "6k", "six")] == [
        *(6, 6, -1),
        *(None, None, None),
    ]
    assert as_int(2**31) == -(2**31)


def test_what_is_not_set_has_its_default() -> None:
    """Names have the library's prefix in the environment."""
    variables = Variables({"OMPI_MCA_a": "no", "b": "1", "OMPI_MCA_c": "perhaps"})
    assert [variables.flag(name, True) for name in "abc"] == [False, True, True]
    assert (variables.text("a"), variables.text("b")) == ("no", None)
    assert (variables.integer("b", 3), variables.shown("a")) == (3, "a=no")
