"""The user's own launcher line."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.launchers import Start
from colltune.domain import Shape
from colltune.errors import CampaignError, ColltuneError, ProgramError
from colltune.verify.user_line import UserLine, check_line, installation_of
from tests.refusals import refused

SHAPE = Shape(2, 4)
WORDS = ("mpirun", "-np", "8", "--hostfile", "my hosts", "-x", "A=1")


def test_the_line_is_kept_and_the_program_appended() -> None:
    """Neither shape nor nodes nor options of a start change what the user wrote."""
    line = UserLine(WORDS, {})
    start = Start(SHAPE, ("/w/canary", "run"), cores=1, exported={"B": "2"}, options=("-x", "C"))
    assert line.command(start) == (*WORDS, "/w/canary", "run")
    assert line.text == "mpirun -np 8 --hostfile 'my hosts' -x A=1"


def test_the_users_settings_win() -> None:
    """What is wanted is added; what he has set stays, whatever is wanted."""
    line = UserLine(WORDS, {"OMPI_MCA_a": "his", "HOME": "/h"})
    wanted = {"OMPI_MCA_a": "ours", "OMPI_MCA_b": "ours"}
    expected = {"OMPI_MCA_a": "his", "OMPI_MCA_b": "ours", "HOME": "/h"}
    assert line.environment({}, wanted, SHAPE) == expected


def test_a_launch_without_the_file_leaves_out_what_activates_it() -> None:
    """Who has the file in effect already still gets a launch without it, and one with it."""
    activation = {"OMPI_MCA_file": "/f", "OMPI_MCA_use": "1"}
    line = UserLine(WORDS, {"OMPI_MCA_file": "/f", "OMPI_MCA_use": "0"}, ("OMPI_MCA_file",))
    assert line.environment({}, {}, SHAPE) == {"OMPI_MCA_use": "0"}
    with_file = {"OMPI_MCA_file": "/f", "OMPI_MCA_use": "0"}
    assert line.environment({}, activation, SHAPE) == with_file


@pytest.mark.parametrize(
    ("words", "error", "code"),
    [
        ((), CampaignError, "missing"),
        (("sh", "-n", "2", ":", "-n", "1"), CampaignError, "several-programs"),
        (("/no/such/mpirun", "-n", "2"), ProgramError, "program-missing"),
    ],
)
def test_a_line_that_cannot_work_is_refused(
    words: tuple[str, ...], error: type[ColltuneError], code: str
) -> None:
    """No words, several programs, or no such launcher: an error with the mend."""
    with refused(code, error):
        check_line(words)


def test_a_launcher_of_no_mpi_is_refused(tmp_path: Path) -> None:
    """A program that is no known launcher needs --mpi; one that is of no known MPI says so."""
    with refused("unknown-launcher", CampaignError, name="sh"):
        installation_of(("sh", "-n", "2"), None)
    fake = tmp_path / "mpirun"
    fake.write_text("#!/bin/sh\necho my own launcher\n")
    fake.chmod(0o755)
    with refused("mpirun-of-no-mpi", ProgramError, printed="my own launcher"):
        installation_of((str(fake), "-n", "2"), None)


def test_a_link_to_a_launcher_is_that_launcher(tmp_path: Path) -> None:
    """It is told by what the link leads to, and asked."""
    fake = tmp_path / "mpiexec.site"
    fake.write_text("#!/bin/sh\necho my own launcher\n")
    fake.chmod(0o755)
    link = tmp_path / "run"
    link.symlink_to(fake)
    with refused("mpirun-of-no-mpi", ProgramError, mpirun=link):
        installation_of((str(link), "-n", "2"), None)
