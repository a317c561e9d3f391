"""What values a real MPICH takes for its control variables, and that the lint says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import process
from colltune.mpi.formats import FORMATS
from colltune.mpi.mpich.functions import functions_of
from colltune.mpi.rules import Fault
from tests.integration.real import RealMpich

pytestmark = pytest.mark.mpi
LISTS = FORMATS["mpich-cvars"]
# a word, a number, a yes, and two numbers: which of them each kind takes
PROBES = ("zq", "12345", "yes", "1:2")
KINDS = {
    "number": (False, True, False, False),
    "switch": (False, False, True, False),
    "choice": (False, False, False, False),
    "text": (True, True, True, True),
    "range": (False, True, False, True),
}
VALUES = (
    *("0", "1", "12", "-3", "+4", " 5", "5 ", "8k", "0x1", "1.5", "-", "99999999999"),
    *("yes", "no", "YES", "NO", "Yes", "No", "true", "TRUE", "True", "false", "False", "on", "ON"),
    *("On", "off", "OFF", "y", "t", "enable", "1 # why", " 0", "1:2", "1:", ":2", "a:b"),
)


def taken(mpich: RealMpich, settings: list[tuple[str, str]], folder: Path) -> list[bool]:
    """Tell of each variable and value whether MPICH takes it."""
    asked = folder / "asked"
    asked.write_text("".join(f"MPIR_CVAR_{name} {value}\n" for name, value in settings))
    with asked.open("rb") as stream:
        program = mpich.compiled("control_variables.c")
        found = process.run([program], timeout_s=300, stdin=stream, env=mpich.environment())
    process.check(found, "asking MPICH")
    return [line == "1" for line in found.stdout.split()]


def test_the_kinds_of_the_catalogue_are_the_librarys(mpich: RealMpich, tmp_path: Path) -> None:
    """Every variable takes what its kind takes, and nothing else."""
    known = functions_of(mpich.release).variables
    settings = [(name, probe) for name in known for probe in PROBES]
    answers = taken(mpich, settings, tmp_path)
    found = {
        name: tuple(answers[k * len(PROBES) : (k + 1) * len(PROBES)])
        for k, name in enumerate(known)
    }
    assert found == {name: KINDS[kind.partition(":")[0]] for name, kind in known.items()}


def test_the_lint_refuses_what_mpich_refuses(mpich: RealMpich, tmp_path: Path) -> None:
    """Values of all shapes, for one variable of each other kind and for all choices."""
    known = functions_of(mpich.release).variables
    names = ["BCAST_DEVICE_COLLECTIVE", "BCAST_SHORT_MSG_SIZE", "PORT_RANGE"]
    assert [known[name] for name in names] == ["switch", "number", "range"]
    settings = [(name, value) for name in names for value in VALUES]
    choices = {name: kind for name, kind in known.items() if kind.startswith("choice")}
    words = {word for kind in choices.values() for word in kind.partition(":")[2].split(",")}
    words |= {"nosuch", "AUTO", "nb", "sched_auto", "binomial", "brucks", "inverse", "tsp_linear"}
    settings += [(name, word) for name in choices for word in sorted(words - {""})]
    answers = taken(mpich, settings, tmp_path)
    wrong = []
    for (name, value), runs in zip(settings, answers, strict=True):
        text = f"export MPIR_CVAR_{name}='{value}'\n"
        found = LISTS.lint(LISTS.parse(text, "f", mpich.release))
        refused = any(finding.fault is Fault.ENDS_PROGRAM for finding in found)
        if refused is runs:
            wrong.append((name, value, runs))
    assert not wrong


def test_errors_in_place_of_falling_back_end_no_program_by_themselves(mpich: RealMpich) -> None:
    """Only a forced choice that cannot serve a call does."""
    environment = {"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"}
    assert mpich.call(2, ["bcast:8", "allreduce:8"], environment).ok
    text = "export MPIR_CVAR_COLLECTIVE_FALLBACK=error\n"
    assert LISTS.lint(LISTS.parse(text, "f", mpich.release)) == ()
    forced = "export MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=recursive_doubling\n"
    found = LISTS.lint(LISTS.parse(text + forced, "f", mpich.release))
    assert Fault.ENDS_PROGRAM in {finding.fault for finding in found}
