"""The ReproMPI backend with the real mpibenchmark, where COLLTUNE_REPROMPI or PATH has one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import Network, obstacle, virtual_cluster
from cluster.launching import OnCluster
from cluster.slurm import ClusterSlurm, cluster_slurm, missing
from colltune.bench import campaign_file, runner
from colltune.bench.backends import Ending, LaunchPlan
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.dataset import read_parquet
from colltune.dataset.method import method_of
from colltune.dataset.parquet import read_provenances
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape, Synchronisation
from colltune.errors import ProgramError
from colltune.mpi import LIBRARIES, installation

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def backend() -> ReproMpiBackend:
    """Return the backend for the MPI and the mpibenchmark of this environment."""
    try:
        return ReproMpiBackend(installation.find())
    except ProgramError as error:
        pytest.skip(str(error))


def _cells(backend: ReproMpiBackend, shape: Shape) -> tuple[Cell, ...]:
    """Return two configurations of every collective, of odd and whole sizes."""
    release = backend.context("m").library_version
    return tuple(
        cell
        for collective in Collective
        for configuration in LIBRARIES["openmpi"]
        .at(release)
        .portfolio(collective)
        .configurations[:2]
        for msize in ((0,) if collective is Collective.BARRIER else (0, 3, 4096))
        for cell in [Cell(configuration, Instance(collective, shape, msize))]
        if backend.feasible(cell)
    )


@pytest.mark.slow
def test_every_collective_is_measured(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """On more processes than cores, too, each cell of each launch has its repetitions."""
    cells = _cells(backend, Shape(1, 4))
    assert {cell.instance.collective for cell in cells} == set(Collective) - {
        Collective.ALLGATHERV,
        Collective.ALLTOALLV,
    }
    for number, group in enumerate(backend.together(cells)):
        steps = tuple(ScheduleStep(cells.index(cell), 5, 600.0) for cell in group for _ in range(2))
        folder = tmp_path / str(number)
        folder.mkdir()
        plan = LaunchPlan(Shape(1, 4), cells, steps, 600.0)
        result = backend.run(plan, "l", folder, lambda _: None)
        found = {Cell(m.configuration, m.instance): len(m.times_s) for m in result.measurements}
        assert (result.ending, found) == (Ending.PLAN, dict.fromkeys(group, 8))


def test_time_bounds_hold(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """A job of a million repetitions ends soon after its time, and keeps what it measured."""
    cell = Cell(
        Configuration.default("openmpi", Collective.ALLTOALL),
        Instance(Collective.ALLTOALL, Shape(1, 2), 1 << 16),
    )
    plan = LaunchPlan(Shape(1, 2), (cell,), (ScheduleStep(0, 10**6, 0.2),), 60.0)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert result.ending is Ending.PLAN
    assert 1 < len(result.measurements[0].times_s) < 10**6


def test_a_launch_on_synchronised_clocks(backend: ReproMpiBackend, tmp_path: Path) -> None:
    """Windows are kept by clocks that agree; where they cannot be kept, that is an error."""
    cell = Cell(
        Configuration.default("openmpi", Collective.BCAST),
        Instance(Collective.BCAST, Shape(1, 2), 1024),
    )
    window = Synchronisation.WINDOW
    plan = LaunchPlan(Shape(1, 2), (cell,), (ScheduleStep(0, 100, 600.0),), 600.0, window)
    if backend.cores < 2:
        with pytest.raises(ProgramError, match="windows cannot be kept"):
            backend.run(plan, "l", tmp_path, lambda _: None)
        return
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert [m.status for m in result.measurements] == [RunStatus.OK]
    assert "clocks" in result.facts["synchronisation"]
    assert result.facts["clock_synchronisation"] not in ("None", "unknown")


def test_a_campaign_has_a_launch_per_configuration(
    backend: ReproMpiBackend, tmp_path: Path
) -> None:
    """All of them are stored."""
    only = ("*.bcast.basic_linear", "*.bcast.binomial:segsize=0")
    collectives = (Collective.BCAST, Collective.BARRIER)
    campaign = Campaign(collectives, (8, 4096), ppn=(2,), only=only, total_s=20.0)
    report = runner.run_campaign(campaign, backend, tmp_path / "dataset", seed=1)
    assert report.problems == []
    found = read_parquet(tmp_path / "dataset")
    ids = {m.configuration.id for m in found.measurements()}
    assert {"openmpi.bcast.default", "openmpi.bcast.basic_linear", "openmpi.barrier.default"} <= ids


def test_the_wrong_program_is_refused(tmp_path: Path) -> None:
    """A program that is not mpibenchmark is found out before anything is measured."""
    try:
        wrong = ReproMpiBackend(installation.find(), program="/bin/ls")
    except ProgramError as error:
        pytest.skip(str(error))
    with pytest.raises(
        ProgramError, match=r"/bin/ls was not started, or is not ReproMPI's mpibenchmark"
    ):
        wrong.program()


@pytest.mark.parametrize("name", ["hydra", "jupiter", "supermuc-ng"])
def test_the_papers_campaigns_run_made_small_in_windows(
    name: str, backend: ReproMpiBackend, tmp_path: Path
) -> None:
    """On hosts of 2 ms no time is below one way, and all are by synchronised clocks."""
    if reason := obstacle():
        pytest.skip(reason)
    path = Path(__file__).parents[2] / "reprompi_configs" / f"{name}-reprompi.toml"
    whole = campaign_file.load(path)
    only = ("*.bcast.basic_linear",)
    small = whole.changed(nodes=(2,), ppn=(1,), msizes_bytes=(16, 16384), only=only, total_s=30.0)
    small = replace(small, skip=(), collectives=whole.collectives[:1], release=None)
    with virtual_cluster(Network(2, 1, latency_us=2000.0)) as cluster:
        launcher = OnCluster(launcher_of(backend.mpi), cluster, realtime=True)
        program = cluster.environment["COLLTUNE_REPROMPI"]
        there = ReproMpiBackend(backend.mpi, launcher, program, 1, small.synchronisation)
        report = runner.run_campaign(small, there, tmp_path / "dataset", seed=1)
    assert report.measurements
    found = read_parquet(tmp_path / "dataset").timed()
    assert (found["time_s"] > 0.0018).all()
    methods = {method_of(facts) for facts in read_provenances(tmp_path / "dataset").values()}
    assert len(methods) == 1
    method = methods.pop()
    assert "windows by" in method
    assert method.endswith(" clocks")


_THREE_HOSTS = """
[machine]
name = "three-hosts"
cores_per_node = 2
[library]
name = "openmpi"
[space]
collectives = ["bcast"]
nodes = [3]
ppn = [2]
msizes_bytes = [8, 4096]
segsizes_bytes = [0]
fanouts = [4]
[measure]
backend = "reprompi"
synchronisation = "window"
[budget]
total = "90s"
max_reps = 15
cell_s = 0.2
"""
_JOB = """#!/bin/bash
eval "$(colltune env --url http://{address}:8765 --mpi $(command -v mpirun) --folder {folder}/job)"
env | grep ^OMPI_MCA_coll
colltune verify $OMPI_MCA_coll_tuned_dynamic_rules_filename --no-measure \\
    -- mpirun -n 6 --map-by ppr:2:node
"""


@pytest.fixture
def slurm(backend: ReproMpiBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSlurm]:
    """Return a Slurm on three hosts of 2 ms, whose jobs find this colltune and its MPI."""
    if reason := missing() or obstacle():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="ctslurm"))
    folder.chmod(0o755)
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    monkeypatch.setenv("PATH", f"{backend.mpi.mpirun.parent}:{os.environ['PATH']}")
    try:
        with cluster_slurm(Network(3, 2, latency_us=2000.0), folder, 2) as slurm:
            yield slurm
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _served(slurm: ClusterSlurm, registry: Path) -> Iterator[None]:
    """Let a service answer on the first host."""
    address = slurm.cluster.named.address(0)
    serve = ("colltune", "serve", "--registry", registry, "--host", address, "--port", "8765")
    with subprocess.Popen(slurm.enter(serve), env=slurm.environment) as service:
        ready = ("curl", "-sf", f"http://{address}:8765/health/ready")
        slurm.wait_until(lambda: slurm.run(*ready).ok, "the service", 120.0)
        yield
        service.terminate()


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.root
def test_what_windows_measured_reaches_a_slurm_job_through_the_service(slurm: ClusterSlurm) -> None:
    """Nothing is faster than one way; it is fitted, in force and served, and MPI obeys it."""
    folder = slurm.folder
    (folder / "campaign.toml").write_text(_THREE_HOSTS)
    dataset, bundle, registry = (folder / name for name in ("dataset", "bundle", "registry"))
    measure = ("colltune", "measure", folder / "campaign.toml", "--out", dataset)
    measured = slurm.cluster.run(measure, slurm.environment, timeout_s=600.0, realtime=True)
    assert measured.ok, measured.explain()
    times = read_parquet(dataset).timed()["time_s"]
    assert len(times)
    assert (times > 0.0018).all()
    slurm.ask("colltune", "fit", dataset, "--out", bundle, "--learner", "knn")
    added = slurm.ask("colltune", "site", "bundles", "add", bundle, "--registry", registry)
    promote = ("promote", added.split()[-1], "--registry", registry, "--note", "first")
    slurm.ask("colltune", "site", "bundles", *promote)
    address = slurm.cluster.named.address(0)
    (folder / "job.sh").write_text(_JOB.format(address=address, folder=folder))
    with _served(slurm, registry):
        job = ("sbatch", "--wait", "-N3", "--ntasks-per-node=2", f"--output={folder}/said")
        slurm.ask(*job, folder / "job.sh", environment=slurm.cluster.environment)
    said = (folder / "said").read_text()
    assert "OMPI_MCA_coll_tuned_use_dynamic_rules=1" in said
    assert "passed" in said
