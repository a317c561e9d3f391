"""What a real Open MPI reads in values of parameters, and that the lint says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Collective
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.decide.tuned import number_of
from colltune.mpi.openmpi.mca import Variables, flag_of
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.rules import Fault
from tests.integration.real import RealMpi

pytestmark = pytest.mark.mpi
LISTS = FORMATS["openmpi-parameters"]
SWITCH, NUMBER = "coll_tuned_use_dynamic_rules", "coll_tuned_priority"
SIZE, CHOICE = "coll_tuned_bcast_algorithm_segmentsize", "coll_tuned_bcast_algorithm"
WHOLE = {
    "9" * 40,
    "0",
    "1",
    "12",
    "-3",
    "+4",
    "5",
    "8k",
    "8K",
    "1m",
    "1G",
    "0x10",
    "010",
    "9",
    "10",
    "99",
}
VALUES = (
    *("0", "1", "12", "-3", "+4", " 5", "5 ", "8k", "8K", "1m", "1G", "8kb", "0x10", "010", "1.5"),
    *("-", "99999999999", "9" * 40, "3000000000", "-3000000000", "3g", "yes", "no", "YES", "True"),
    *("true", "false", "t", "f", "y", "on", "off", "enabled", "disabled", "enable", "1 # why"),
    *(" 0", "x", "ignore", "pipeline", "Pipeline", "binomial", "chain", "9", "10", "99"),
    *("knomial", '"3"'),
)


def test_values_are_read_as_the_library_reads_them(mpi: RealMpi, tmp_path: Path) -> None:
    """Switches, numbers, sizes and choices; what the library refuses or cuts is a finding."""
    settings = [(name, value) for name in (SWITCH, NUMBER, SIZE, CHOICE) for value in VALUES]
    asked = tmp_path / "asked"
    asked.write_text("".join(f"OMPI_MCA_{name} {value}\n" for name, value in settings))
    with asked.open("rb") as stream:
        program = mpi.compiled("control_variables.c")
        found = process.run([program], timeout_s=300, stdin=stream, env=mpi.environment())
    process.check(found, "asking Open MPI")
    answers = [int(line.split()[1]) for line in found.stdout.splitlines()]
    entry = catalogue_of(mpi.release).collectives[Collective.BCAST]
    wrong = []
    for (name, value), answer in zip(settings, answers, strict=True):
        if name == SWITCH:
            flag = flag_of(value)
            read, is_taken = int(bool(flag)), flag is not None
        elif name == CHOICE:
            number = number_of(entry, value)
            read, is_taken = number or 0, number is not None
        else:
            default = 30 if name == NUMBER else 0
            read = Variables({f"OMPI_MCA_{name}": value}).integer(name, default)
            is_taken = value.strip() in WHOLE
        text = f"export OMPI_MCA_{name}='{value}'\n"
        faults = {each.fault for each in LISTS.lint(LISTS.parse(text, "f", mpi.release))}
        told = bool(faults & {Fault.MALFORMED, Fault.RULE_DROPPED})
        if read != answer or told is is_taken:
            wrong.append((name, value, answer, read, told))
    assert not wrong
