"""Which job it is that a decision is for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset
from colltune.decisions import ENOUGH_CORES
from colltune.domain import Shape
from colltune.errors import BundleError, ColltuneError, LibraryError
from colltune.models.fitting import fit
from colltune.server.slurm.job_decision import (
    JobRequest,
    cores_of,
    decide,
    folder_of,
    release_of,
    shape_of,
)
from tests.models.machines import measured
from tests.refusals import refused
from tests.server.slurm.fake_service import FakeService, good, with_arm


def test_the_shape_is_slurms_unless_given() -> None:
    """The options go before the variables; a list of equal numbers is a number."""
    slurm = {"SLURM_NNODES": "3", "SLURM_TASKS_PER_NODE": "8(x3)"}
    assert shape_of(JobRequest(), slurm) == Shape(3, 8)
    assert shape_of(JobRequest(ppn="2"), slurm) == Shape(3, 2)
    assert shape_of(JobRequest(nodes="2", ppn="8(x2)"), slurm) == Shape(2, 8)
    assert shape_of(JobRequest(), {"SLURM_NNODES": "2", "SLURM_NTASKS": "8"}) == Shape(2, 4)
    two = {"SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "5"}
    assert shape_of(JobRequest(), two) == Shape(2, 5)
    heterogeneous = {"SLURM_HET_SIZE": "2"}
    assert shape_of(JobRequest(nodes="2", ppn="4"), heterogeneous) == Shape(2, 4)
    for ppn in ("0", "-1", "4x", "4(x3)", "1e3", ""):
        with pytest.raises(ColltuneError):
            shape_of(JobRequest(nodes="2", ppn=ppn), {})


def test_the_release_is_the_modules_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options go before modules; without either, mpirun on PATH is asked, if there is one."""
    modules = {"LOADEDMODULES": "OpenMPI/4.1.4-GCC"}
    assert release_of(JobRequest(), modules) == ("openmpi", "4.1.4")
    assert release_of(JobRequest(release="4.1.6"), modules) == ("openmpi", "4.1.6")
    given = JobRequest(library="mpich", release="4.0.2")
    assert release_of(given, modules) == ("mpich", "4.0.2")
    monkeypatch.setenv("PATH", "/nowhere")
    with refused("missing", LibraryError, give="--library and --release"):
        release_of(JobRequest(), {})


@pytest.mark.parametrize(
    ("environment", "arm", "told", "asked"),
    [
        ({"SLURM_JOB_ID": "17"}, "tuned", True, ("17", "")),
        ({"SLURM_JOB_ID": "17"}, "control", False, ("17", "")),
        ({"SLURM_JOB_ID": "17", "COLLTUNE_BUNDLE": "abab"}, "", True, ("", "abab")),
        ({"SLURM_JOB_ID": "x;id"}, "", True, ("", "")),
        ({}, "", True, ("", "")),
    ],
)
def test_a_job_has_its_arm_by_hand_as_well(
    service: FakeService,
    tmp_path: Path,
    environment: dict[str, str],
    arm: str,
    told: bool,
    asked: tuple[str, str],
) -> None:
    """The service is told which job asks, unless a bundle is named, which insists on tuning."""
    service.answer = partial(with_arm, arm=arm) if arm else good
    request = JobRequest("4", "8", library="openmpi", release="4.1.4", folder=str(tmp_path / "f"))
    request = replace(request, url=f"unix:{service.path}", limit_s=30)
    recorded = environment | {"COLLTUNE_RECORD": "/shared/jobs/17/records"}
    variables, reason = decide(request, recorded, lambda *_: Path())
    assert ("control group" in reason, bool(variables)) == (not told, told)
    assert (service.asked[-1].job, service.asked[-1].bundle) == asked
    if told and "SLURM_JOB_ID" in environment:
        assert variables["COLLTUNE_ARM"] == "own"


def test_a_job_shares_cores_where_it_has_fewer_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm tells a job's cores; without it they are this machine's, for a job on one node."""
    monkeypatch.setattr("colltune.provenance.usable_cores", lambda: 2)
    slurm = {"SLURM_JOB_ID": "17"}
    assert cores_of(slurm | {"SLURM_JOB_CPUS_PER_NODE": "16(x2)"}, Shape(2, 8)) == 16
    assert cores_of(slurm | {"SLURM_CPUS_ON_NODE": "2"}, Shape(1, 4)) == 2
    assert cores_of(slurm, Shape(1, 4)) == ENOUGH_CORES
    assert cores_of({}, Shape(1, 4)) == 2
    assert cores_of({}, Shape(2, 4)) == ENOUGH_CORES


def test_a_bundle_of_shared_cores_is_not_for_other_jobs(tmp_path: Path) -> None:
    """The job runs with the default, and the line says why; a job that shares cores gets files."""
    own = measured()
    told = replace(own.context, cores_shared="4 processes on 2 cores per node")
    path = fit(PerformanceDataset(told, own.frame), "knn").save(tmp_path / "bundle")
    request = JobRequest("4", "4", library="openmpi", release="4.1.4", bundle=str(path))
    request = replace(request, folder=str(tmp_path / "job"))
    with refused("nothing-written", BundleError, shape="4x4"):
        decide(request, {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "4"}, lambda *_: Path())
    shared = {"SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "2"}
    assert decide(request, shared, lambda *_: Path())[0]


def test_without_a_job_the_folder_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Named after the shape; in a job after the job, where it was submitted."""
    monkeypatch.chdir(tmp_path)
    shape = Shape(4, 8)
    assert folder_of(JobRequest(), {}, shape) == tmp_path / ".colltune/4x8"
    there = {"SLURM_SUBMIT_DIR": "/home/me", "SLURM_JOB_ID": "17"}
    assert folder_of(JobRequest(), there, shape) == Path("/home/me/.colltune/17")
    assert folder_of(JobRequest(folder="f"), there, shape) == tmp_path / "f"


@pytest.mark.parametrize(
    ("said", "variable", "builtin", "asked"),
    [
        ("", "", False, ""),
        ("", "same-types", False, "same-types"),
        ("any-legal", "same-types", False, "any-legal"),
        ("", "same-types", True, "same-types,builtin-operations"),
        ("", "", True, "builtin-operations"),
    ],
)
def test_a_job_says_which_programs_it_has(
    service: FakeService, tmp_path: Path, said: str, variable: str, builtin: bool, asked: str
) -> None:
    """An option goes before the job's variable; where nobody says, the service does."""
    service.answer = good
    request = JobRequest("4", "8", library="openmpi", release="4.1.4", folder=str(tmp_path / "f"))
    request = replace(request, url=f"unix:{service.path}", limit_s=30, programs=said)
    request = replace(request, builtin_operations_only=builtin)
    decide(request, {"COLLTUNE_PROGRAMS": variable} if variable else {}, lambda *_: Path())
    assert service.asked[-1].programs == asked


@pytest.mark.parametrize(
    ("said", "variable", "asked"),
    [("", "", ""), ("", "any", "any"), ("same-bits", "any", "same-bits")],
)
def test_a_job_says_what_its_results_need(
    service: FakeService, tmp_path: Path, said: str, variable: str, asked: str
) -> None:
    """That says nothing of its programs, which are the service's then."""
    service.answer = good
    request = JobRequest("4", "8", library="openmpi", release="4.1.4", folder=str(tmp_path / "f"))
    request = replace(request, url=f"unix:{service.path}", limit_s=30, results=said)
    decide(request, {"COLLTUNE_RESULTS": variable} if variable else {}, lambda *_: Path())
    assert (service.asked[-1].programs, service.asked[-1].results) == ("", asked)
