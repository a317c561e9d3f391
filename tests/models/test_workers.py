"""Where fits are computed: whatever computes them, the bundle is the same."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from colltune.errors import ProgramError, ResourceError
from colltune.evaluation import LeaveNodesOut, evaluate_split
from colltune.interrupts import handlers_kept
from colltune.models import workers
from colltune.models.fitting import fit
from colltune.models.workers import Slurm, Workers, at_work, cluster, slurm_options, spread
from tests.models.machines import measured
from tests.refusals import refused

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Return the address of a Dask cluster of two workers in this process."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        protocol="tcp",
        host="127.0.0.1",
    ) as found:
        yield found.scheduler_address


def test_a_cluster_fits_the_same_bundle(scheduler: str) -> None:
    """Fitted by two workers of Dask, a bundle has the id that it has when fitted here."""
    data = measured(nodes=(2, 4, 8), ppn=(1, 4), msizes=(64, 4096), noise=0.05)
    here = fit(data, "regret_trees", jobs=1)
    with at_work(Workers("dask", scheduler=scheduler)):
        assert cluster()
        there = fit(data, "regret_trees")
    assert not cluster()
    assert there.id == here.id


def test_a_cluster_evaluates_the_same_decisions(scheduler: str) -> None:
    """Folds that are decided by workers of Dask come to the figures that they come to here."""
    data = measured(nodes=(2, 4, 8), ppn=(1, 4), msizes=(64, 4096), noise=0.05)

    def scored() -> object:
        found = evaluate_split(data, LeaveNodesOut(), learners=["knn"], with_references=False)
        return found.decided["knn"].configuration

    here = scored()
    with at_work(Workers("dask", scheduler=scheduler)):
        assert scored() == here


def test_an_error_in_a_worker_is_the_error_here(scheduler: str) -> None:
    """What a call raises on a worker is raised where its result was wanted."""
    with at_work(Workers("dask", scheduler=scheduler)), pytest.raises(ZeroDivisionError):
        list(spread([(divmod, (1, 0), {})], 2))


def test_a_process_that_the_system_ended_is_told() -> None:
    """As where memory is short; with what ended it, and the mend."""
    with refused("process-ended", ResourceError):
        list(spread([(signal.raise_signal, (signal.SIGKILL,), {})] * 2, 2))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a scheduler at the address the error names it, soon, and says what to do."""
    monkeypatch.setattr(workers, "_CONNECT_S", 0.2)
    with (
        refused("no-scheduler", ProgramError, where="tcp://127.0.0.1:9"),
        at_work(Workers("dask", scheduler="tcp://127.0.0.1:9")),
    ):
        pass


def test_a_worker_with_another_colltune_is_refused(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that would fit other bundles take no part."""
    monkeypatch.setattr(workers, "_version", lambda: "0.0.0")
    with (
        refused("worker-of-another-release", ProgramError, found="0.0.0"),
        at_work(Workers("dask", scheduler=scheduler)),
    ):
        pass


@pytest.mark.parametrize("missing", ["distributed", "dask_jobqueue"])
def test_a_missing_package_names_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Dask is not installed the error names the extra that installs it."""
    monkeypatch.setitem(sys.modules, missing, None)
    with (
        refused("extra-missing", ProgramError, packages=missing, extra="dask"),
        at_work(Workers("dask", slurm=Slurm(1, "1GB"))),
    ):
        pass


def test_batch_jobs_ask_for_what_the_site_says() -> None:
    """dask-jobqueue writes a job script that asks for the cores, memory, time and queue given."""
    with handlers_kept():
        job = pytest.importorskip("dask_jobqueue.slurm").SLURMJob
    asked = Slurm(4, "8GB", 2, "00:30:00", "short", "project", directives=("--exclusive",))
    options = {k: v for k, v in slurm_options(asked).items() if k != "scheduler_options"}
    script = job("tcp://127.0.0.1:9", name="worker", **options).job_script()
    for line in ("-p short", "-A project", "--cpus-per-task=4", "-t 00:30:00", "--exclusive"):
        assert f"#SBATCH {line}\n" in script
