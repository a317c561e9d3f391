"""Profiles of real jobs: what libcolltune counts of a program whose calls are known."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from colltune.dataset.profile import Profile, bucket, fnv1a, read_profiles
from colltune.domain import Collective, Shape
from tests.integration.real import Real

pytestmark = pytest.mark.mpi
FIRST_CALLS = 16
"""Of each kind on each communicator; they are timed at any rate."""


@dataclass(frozen=True)
class Bed:
    """The program and the library, compiled for one MPI."""

    mpi: Real
    program: Path

    def run(
        self, folder: Path, *words: str, nprocs: int = 4, log: str = "", **settings: str
    ) -> Profile:
        """Run the program with a profile in `folder`; `log` must stand on standard error."""
        wanted = {"COLLTUNE_PROFILE": str(folder), "COLLTUNE_NODES": "by-rank:2"}
        outcome = self.mpi.run(nprocs, [self.program, *words], wanted | settings)
        assert outcome.ok, outcome.explain()
        assert log in outcome.stderr
        assert outcome.stderr.count("colltune:") == bool(log), outcome.stderr
        return read_profiles([folder])


@pytest.fixture(scope="module")
def bed(each: Real) -> Bed:
    """Return the bed on one MPI of this machine, with the library that sites preload."""
    preloading = replace(each, preload=str(build.unlinked_library(each.installation)))
    return Bed(preloading, each.compiled("profiled.c"))


def _counts(profile: Profile) -> Mapping[tuple[str, str, int], float]:
    return {
        (u.kind.collective.value, str(u.kind.shape), u.msize_bytes): u.operations
        for u in profile.uses
    }


def test_counts_are_exact(bed: Bed, tmp_path: Path) -> None:
    """Calls per collective, communicator and size are the program's, freed communicators too."""
    folder = tmp_path / "made by the library"
    found = bed.run(folder, COLLTUNE_PROFILE_RATE="3")
    assert _counts(found) == {
        ("bcast", "2x2", 1000): 20,
        ("bcast", "2x2", 100000): 5,
        ("bcast", "2x2", 0): 3,
        ("barrier", "2x2", 0): 7,
        ("allreduce", "2x1", 8): 60,
        ("alltoallv", "2x2", 24): 4,
    }
    (job,) = found.jobs
    installed = bed.mpi.installation
    assert (job.library, job.release) == (installed.library, installed.release)
    assert (job.shape, job.nprocs, job.rate) == (Shape(2, 2), 4, 3)
    assert job.program == bed.program.name
    assert all(use.default_share == 1.0 for use in found.uses)
    for use in found.uses:
        assert min(use.process_calls, FIRST_CALLS) <= use.timed <= use.process_calls
        assert 0 < use.least_s <= use.call_s <= use.most_s
        assert use.process_s >= use.timed_s * (1 - 1e-6)
    assert [file.suffix for file in folder.iterdir()] == [".profile"]


def test_one_in_so_many_is_timed(bed: Bed, tmp_path: Path) -> None:
    """Beyond the first calls of a process about one in RATE is timed, and all are counted."""
    calls, rate = 2000, 20
    found = bed.run(tmp_path, "many", str(calls), nprocs=2, COLLTUNE_PROFILE_RATE=str(rate))
    (use,) = found.uses
    assert use.process_calls == 2 * calls
    sampled = use.timed - 2 * FIRST_CALLS
    expected = 2 * (calls - FIRST_CALLS) / rate
    assert 0.75 * expected < sampled < 1.25 * expected


def test_the_site_records_beside_the_user(bed: Bed, tmp_path: Path) -> None:
    """Both get a file of the same calls; the site's tells the arm, no host and no program."""
    users, sites = tmp_path / "users", tmp_path / "sites"
    found = bed.run(users, COLLTUNE_RECORD=str(sites), COLLTUNE_ARM="control")
    recorded = read_profiles([sites])
    assert _counts(recorded) == _counts(found)
    assert [use.times for use in recorded.uses] == [use.times for use in found.uses]
    assert all(sum(use.times.values()) == use.timed for use in found.uses)
    (job,), (own,) = recorded.jobs, found.jobs
    assert (job.arm, job.host, own.program) == ("control", "-", bed.program.name)
    assert job.program == f"#{fnv1a(str(bed.program.resolve()).encode()):016x}"
    (file,) = sites.iterdir()
    assert file.stat().st_mode & 0o777 == 0o644
    assert sites.stat().st_mode & 0o777 == 0o755


def test_a_quantile_is_between_shortest_and_longest(bed: Bed, tmp_path: Path) -> None:
    """The sketch's bounds are those of the seconds that were summed."""
    for use in bed.run(tmp_path).uses:
        assert min(use.times) == bucket(use.least_s)
        assert max(use.times) == bucket(use.most_s)


def test_a_site_may_keep_names(bed: Bed, tmp_path: Path) -> None:
    """Where the site says so, a program has its name; rate and arm are as they were told."""
    settings = {"COLLTUNE_RECORD_NAMES": "1", "COLLTUNE_RECORD_RATE": "3", "COLLTUNE_ARM": "else"}
    (job,) = _recorded(bed, tmp_path, "many", "5", nprocs=2, **settings).jobs
    assert (job.program, job.rate, job.arm, job.host) == (bed.program.name, 3, "-", "-")


def test_a_sites_file_is_short(bed: Bed, tmp_path: Path) -> None:
    """A file of more kinds than fit leaves out those of least time, and tells how many."""
    users = tmp_path / "users"
    found = _recorded(bed, tmp_path, "wide", nprocs=4, COLLTUNE_PROFILE=str(users))
    everything = read_profiles([users])
    (file,) = (tmp_path / "sites").iterdir()
    rows, seconds = found.jobs[0].left_out
    assert 50 << 10 < file.stat().st_size <= 60 << 10
    assert 0 < rows == len(everything.uses) - len(found.uses)
    assert seconds == pytest.approx(everything.collectives_s - found.collectives_s)
    assert found.uses == everything.uses[: len(found.uses)]


def _recorded(bed: Bed, folder: Path, *words: str, nprocs: int, **settings: str) -> Profile:
    """Run the program as a site's hooks do, say nothing, and return what it recorded."""
    wanted = {"COLLTUNE_NODES": "by-rank:2", "COLLTUNE_RECORD": str(folder / "sites")}
    outcome = bed.mpi.run(nprocs, [bed.program, *words], wanted | settings)
    assert outcome.ok, outcome.explain()
    assert "colltune" not in outcome.stderr
    return read_profiles([folder / "sites"])


def test_numbers_are_the_same_in_every_language(bed: Bed, tmp_path: Path) -> None:
    """A program that writes 0,5 for a half has a profile that can be read."""
    german = tmp_path / "comma"
    made = process.run(["localedef", "-i", "de_DE", "-f", "UTF-8", german], timeout_s=60.0)
    if not german.is_dir():
        pytest.skip(f"no German locale can be made: {made.explain()}")
    settings = {"LOCPATH": str(tmp_path), "PROFILED_LOCALE": "comma"}
    found = bed.run(tmp_path / "profiles", "time", "20", nprocs=2, **settings)
    assert found.jobs[0].wall_s > 0


def test_what_a_site_cannot_record_is_not_told(
    bed: Bed, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """No folder, no permission, or off: the job runs on, and neither file nor word is left.

    Where the user asks for the log, it says so in a line.
    """
    (tmp_path / "file").write_text("")
    for settings in (
        {"COLLTUNE_RECORD": str(tmp_path / "file")},
        {"COLLTUNE_RECORD": str(tmp_path / "no" / "such" / "folder")},
        {"COLLTUNE_RECORD": "off"},
        {"COLLTUNE_RECORD": str(tmp_path), "COLLTUNE": "off"},
    ):
        with subtests.test(**settings):
            outcome = bed.mpi.run(2, [bed.program, "many", "5"], settings)
            assert outcome.ok, outcome.explain()
            assert "colltune" not in outcome.stderr
            assert [path.name for path in tmp_path.iterdir()] == ["file"]
    log = {"COLLTUNE_LOG": "1", "COLLTUNE_RECORD": str(tmp_path / "file")}
    asked = bed.mpi.run(2, [bed.program, "many", "5"], log)
    assert asked.ok, asked.explain()
    assert asked.stderr.count("colltune:") == asked.stderr.count("COLLTUNE_RECORD") == 1


def test_ranks_without_the_library_hang_nobody(bed: Bed, tmp_path: Path) -> None:
    """Where one of three processes lacks the library, the job runs on, and nothing is recorded."""
    mpi = bed.mpi
    program = [str(bed.program), "many", "50"]
    preloaded = ["env", f"LD_PRELOAD={mpi.preload}", *program]
    words = ["-n", "1", *preloaded, ":", "-n", "1", *program, ":", "-n", "1", *preloaded]
    wanted = {"COLLTUNE_RECORD": str(tmp_path)}
    command = [str(mpi.installation.mpirun), *mpi.crowded, *words]
    outcome = process.run(command, timeout_s=60.0, env=mpi.environment(wanted))
    assert outcome.ok, outcome.explain()
    assert "colltune" not in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_ran_is_told(bed: Bed, tmp_path: Path) -> None:
    """Calls that one of our own algorithms ran stand under its id."""
    name = "colltune.bcast.hierarchical:groups=2,inner=binomial"
    found = bed.run(tmp_path, "many", "30", COLLTUNE_FORCE=name)
    (use,) = found.uses
    ((ran, calls),) = use.ran.items()
    assert ran.startswith("colltune.bcast.hierarchical:")
    assert (calls, use.default_share) == (120, 0.0)


def test_threads_are_counted(bed: Bed, tmp_path: Path) -> None:
    """Eight threads on communicators of their own lose no call."""
    found = bed.run(tmp_path, "threads", nprocs=2)
    assert {u.kind.collective: u.operations for u in found.uses} == {Collective.ALLREDUCE: 400.0}


def test_an_unwritable_folder_is_one_line(bed: Bed, tmp_path: Path) -> None:
    """Where nothing can be written the job runs on, with one line in its log."""
    (tmp_path / "file").write_text("")
    wanted = {"COLLTUNE_PROFILE": str(tmp_path / "file")}
    outcome = bed.mpi.run(2, [bed.program, "many", "5"], wanted)
    assert outcome.ok, outcome.explain()
    told = outcome.stderr.count("no folder that can be written")
    assert outcome.stderr.count("colltune:") == told == 1


def test_a_wrong_rate_times_every_call(bed: Bed, tmp_path: Path) -> None:
    """A rate that is no number is told, and all calls are timed."""
    log = "COLLTUNE_PROFILE_RATE=often is no whole number"
    found = bed.run(tmp_path, "many", "40", nprocs=2, log=log, COLLTUNE_PROFILE_RATE="often")
    (use,) = found.uses
    assert use.timed == use.process_calls == 80


@pytest.mark.parametrize(
    "name", ["COLLTUNE_LOG", "COLLTUNE_SHM_MIB", "COLLTUNE_FIRST_CALLS", "COLLTUNE_RECORD_RATE"]
)
@pytest.mark.parametrize("value", ["many", "-1", "1x"])
def test_a_wrong_number_is_one_line(bed: Bed, tmp_path: Path, name: str, value: str) -> None:
    """A variable that is no number is told, and counts as not set."""
    bed.run(tmp_path, "many", "5", nprocs=2, log=f"{name}={value}", **{name: value})


@pytest.mark.parametrize("name", ["COLLTUNE_TABLE", "COLLTUNE_RULES"])
def test_a_pipe_is_no_table(bed: Bed, tmp_path: Path, name: str) -> None:
    """It is told, and nobody waits for what is never written into it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    bed.run(tmp_path / "made", "many", "5", nprocs=2, log=str(pipe), **{name: str(pipe)})


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("script.py",), "script.py"),
        (("-u", "-W", "ignore", "script.py", "more.py"), "script.py"),
        (("-um", "script"), "script"),
        (("-c", "import script"), Path(sys.executable).resolve().name),
    ],
)
def test_a_python_program_has_its_scripts_name(
    bed: Bed, tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    """Its script's or module's, and not the interpreter's."""
    library = bed.mpi.compiled("plugin.c", options=("-O2", "-fPIC", "-shared"))
    script = tmp_path / "script.py"
    script.write_text(f"import ctypes\nassert not ctypes.CDLL({str(library)!r}).run()\n")
    records = tmp_path / "records"
    wanted = {
        "COLLTUNE_RECORD": str(records),
        "COLLTUNE_RECORD_NAMES": "1",
        "PYTHONPATH": str(tmp_path),
    }
    places = [str(script) if word == "script.py" else word for word in words]
    outcome = bed.mpi.run(2, [sys.executable, *places], wanted)
    assert outcome.ok, outcome.explain()
    (job,) = read_profiles([records]).jobs
    assert job.program == name


def test_a_killed_job_leaves_nothing(bed: Bed, tmp_path: Path) -> None:
    """Of a job that aborts there is no file, whole or in part."""
    wanted = {"COLLTUNE_PROFILE": str(tmp_path)}
    outcome = bed.mpi.run(2, [bed.program, "abort"], wanted)
    assert not outcome.ok
    assert list(tmp_path.iterdir()) == []
