"""Profiles of real jobs: what libcolltune counts of a program whose calls are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune.dataset.profile import Profile, read_profiles
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
    """Return the bed on one MPI of this machine."""
    return Bed(each, each.compiled("interposed/profiled.c"))


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


def test_a_killed_job_leaves_nothing(bed: Bed, tmp_path: Path) -> None:
    """Of a job that aborts there is no file, whole or in part."""
    wanted = {"COLLTUNE_PROFILE": str(tmp_path)}
    outcome = bed.mpi.run(2, [bed.program, "abort"], wanted)
    assert not outcome.ok
    assert list(tmp_path.iterdir()) == []
