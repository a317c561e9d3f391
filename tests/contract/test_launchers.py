"""What every launcher in the registry must fulfil."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.launchers import LAUNCHERS, KnownLauncher, Start, launcher_of
from colltune.domain import Shape
from colltune.errors import CampaignError
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation

WORDS = ("/opt/my bench/collbench", "plan; rm -rf $HOME", "--option=\n")
PAIRS = [
    (name, library)
    for name, launcher in LAUNCHERS.items()
    for library, mpi in LIBRARIES.items()
    if launcher.starts(mpi.toolchain)
]
SHAPES = [Shape(1, 1), Shape(1, 8), Shape(3, 2), Shape(36, 32)]


def installation(library: str) -> Installation:
    """Return an installation that is nowhere."""
    here = Path("/opt/mpi/bin/mpirun")
    return Installation(library, "5.0.11", here, here, here, "cc")


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every launcher that is looked for on PATH be found."""
    for name in LAUNCHERS:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def built(name: str, library: str) -> KnownLauncher:
    """Return the launcher `name` for programs of `library`."""
    return launcher_of(installation(library), name)


@pytest.mark.parametrize(("name", "library"), PAIRS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_program_comes_last_and_whole(name: str, library: str, shape: Shape) -> None:
    """The program's words stand at the end as they are, the number of processes before them."""
    launcher = built(name, library)
    command = launcher.command(Start(shape, WORDS, cores=4, options=("--theirs", "x y")))
    assert command[-5:] == ("--theirs", "x y", *WORDS)
    before = " ".join(command[:-5]).replace("=", " ").split()
    assert str(shape.nprocs) in before
    assert Path(command[0]).is_absolute()


@pytest.mark.parametrize(("name", "library"), PAIRS)
def test_several_nodes_are_told_how_many_processes_each_gets(name: str, library: str) -> None:
    """2x8 and 8x2 have as many processes and must not look alike."""
    launcher = built(name, library)
    wide, tall = (launcher.command(Start(s, ("p",), cores=8)) for s in (Shape(8, 2), Shape(2, 8)))
    assert wide != tall


@pytest.mark.parametrize(("name", "library"), PAIRS)
def test_a_hostfile_is_handed_on_and_nothing_else_changes(name: str, library: str) -> None:
    """The file is in the command line only where there is one."""
    launcher, file = built(name, library), Path("/somewhere/hosts")
    without = launcher.command(Start(Shape(2, 2), ("p",), cores=2))
    with_file = launcher.command(Start(Shape(2, 2), ("p",), cores=2, hostfile=file))
    added = [word for word in with_file if word not in without]
    assert added[-1].endswith("/somewhere/hosts")
    assert [word for word in with_file if word not in added] == list(without)


@pytest.mark.parametrize(("name", "library"), PAIRS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_users_variables_are_never_replaced(name: str, library: str, shape: Shape) -> None:
    """Whatever the launcher sets for itself, and whatever is wanted, yields to the user's own."""
    launcher = built(name, library)
    wanted = {"OMPI_MCA_x": "ours", "MPIR_CVAR_y": "ours"}
    free = launcher.environment({}, wanted, shape)
    assert free.items() >= wanted.items()
    user = dict.fromkeys(free, "mine") | {"HOME": "/home/her"}
    assert launcher.environment(user, wanted, shape) == user


@pytest.mark.parametrize(("name", "library"), PAIRS)
def test_wanted_wins_over_the_launchers_own(name: str, library: str) -> None:
    """What a backend asks for is not undone by what the launcher would like."""
    launcher = built(name, library)
    for shape in SHAPES:
        wanted = dict.fromkeys(launcher.environment({}, {}, shape), "wanted")
        assert launcher.environment({}, wanted, shape) == wanted


@pytest.mark.parametrize(("name", "library"), PAIRS)
def test_nothing_is_remembered(name: str, library: str) -> None:
    """The same start gives the same words, and what it was given is left as it was."""
    launcher = built(name, library)
    user, wanted = {"A": "1"}, {"B": "2"}
    start = Start(Shape(2, 4), WORDS, cores=2, exported=wanted)
    assert launcher.command(start) == launcher.command(start)
    launcher.environment(user, wanted, start.shape)
    assert (user, wanted) == ({"A": "1"}, {"B": "2"})


@pytest.mark.parametrize("library", sorted({library for _, library in PAIRS}))
def test_every_library_has_a_launcher_of_its_own(library: str) -> None:
    """Without a name the library's own launcher is taken, which is never Slurm's."""
    launcher = launcher_of(installation(library))
    assert launcher.starts(LIBRARIES[library].toolchain)
    assert launcher != built("srun", library)


def test_an_unknown_launcher_is_refused() -> None:
    """The message names those that are known."""
    with pytest.raises(CampaignError, match=r"'aprun'; known: mpirun, mpiexec, srun"):
        launcher_of(installation("openmpi"), "aprun")


@pytest.mark.parametrize(
    ("name", "library"),
    [(n, lib) for n in LAUNCHERS for lib in LIBRARIES if (n, lib) not in PAIRS],
)
def test_a_launcher_of_another_library_is_refused(name: str, library: str) -> None:
    """Each process would believe to be alone; the message names launchers that can."""
    with pytest.raises(CampaignError, match=rf"cannot start programs of {library}\. Use .*srun"):
        built(name, library)
