"""A real Slurm: launchers within a job, and a campaign as a job array."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from colltune.bench.launchers import Srun, Start, launcher_of
from colltune.bench.slurm import BatchJob
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.domain import RunStatus, Shape
from tests.integration import real
from tests.integration.slurmbed import Slurmbed, slurmbed

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurmbed]:
    """Return a Slurm with four nodes of four processors."""
    with slurmbed(tmp_path_factory.mktemp("slurm"), nodes=4, cpus=4) as bed:
        yield bed


@pytest.fixture(autouse=True)
def nothing_is_left(slurm: Slurmbed) -> Iterator[None]:
    """Let no job of a failed test stand in the way of the next one."""
    yield
    slurm.ask("scancel", "--user=root")


def in_a_job(slurm: Slurmbed, folder: Path, *options: str, script: str) -> str:
    """Run a script as a batch job on three nodes; return what it printed."""
    (folder / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    submit = ("sbatch", "--parsable", "--nodes=3", "--ntasks-per-node=2", "--time=5", *options)
    job = slurm.ask(*submit, f"--output={folder}/out", folder / "job.sh").strip()
    ended = slurm.wait_for_state(job, "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL")
    output = (folder / "out").read_text()
    assert ended["JobState"] == "COMPLETED", output
    return output


@pytest.mark.mpi
@pytest.mark.parametrize("shape", [Shape(2, 2), Shape(3, 1)], ids=str)
@pytest.mark.parametrize(
    ("name", "library"),
    [("mpirun", "openmpi"), ("srun", "openmpi"), ("mpiexec", "mpich"), ("srun", "mpich")],
)
def test_a_launch_within_a_job_has_its_shape(
    name: str, library: str, shape: Shape, slurm: Slurmbed, tmp_path: Path
) -> None:
    """On three granted nodes each smaller shape starts, too: ranks by node, variables known."""
    mpi = real.Real(real.installed(library), tmp_path)
    launcher = launcher_of(mpi.installation, name)
    if isinstance(launcher, Srun):
        slurm.skip_without_plugin(launcher.mpi_type)
    user = mpi.installation.launch_environment() | real.TRANSPORT
    environment = launcher.environment(user, real.TOLD, shape)
    start = Start(shape, (mpi.compiled("where.c"),), cores=4, exported=real.TOLD)
    settings = [f"export {n}={shlex.quote(v)}" for n, v in environment.items()]
    script = "\n".join([*settings, shlex.join(launcher.command(start))])
    output = in_a_job(slurm, tmp_path, script=script)
    assert real.said(output) == real.expected(shape, slurm.nodes)


def test_what_a_job_was_granted_is_what_slurm_says(slurm: Slurmbed, tmp_path: Path) -> None:
    """Nodes, processes per node and the time that is left, within a real job."""
    ask = "from colltune.bench import slurm as a; g = a.allocation(); print(f'{g}|{g.left_s}')"
    output = in_a_job(slurm, tmp_path, script=shlex.join([sys.executable, "-c", ask]))
    told, left_s = output.splitlines()[-1].split("|")
    assert "nodes=3, tasks_per_node=(2, 2, 2)" in told
    assert 200 < float(left_s) <= 300


# what a task runs in these tests: leaves a file at once, goes on until it is told to stop, and has
# nothing left to do when it is started again after that
MEASURE = """
import pathlib, signal, sys, time

out, mode, task = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[4].replace("/", " of ")
(out / (task + " is complete")).exists() and sys.exit(0)
print("measuring", task, flush=True)
(out / f"{time.time_ns()}.parquet").touch()

def stop(*_):
    print("stopping", task, flush=True)
    if mode == "once":
        (out / (task + " is complete")).touch()
    sys.exit(130)

signal.signal(signal.SIGTERM, stop)
while True:
    time.sleep(0.1)
"""


class Array:
    """A submitted job array of two tasks whose measuring program is `MEASURE`."""

    def __init__(self, slurm: Slurmbed, folder: Path, mode: str) -> None:
        self.slurm = slurm
        self.out = folder / 'it\'s a 100% "data" set, #1 $HOME'
        program = folder / "measure.py"
        program.write_text(MEASURE)
        measure = (sys.executable, str(program), str(self.out), mode)
        job = BatchJob("a b", 2, Shape(2, 1), 100.0, 600.0, measure, self.out)
        job.folder.mkdir(parents=True)
        script = folder / "job.sh"
        script.write_text(job.script())
        self.job = slurm.ask("sbatch", "--parsable", script).strip()
        self.tasks = [f"{self.job}_1", f"{self.job}_2"]

    def log(self, task: str) -> str:
        """Return what a task has printed so far."""
        file = self.out / "slurm" / f"{task}.log"
        return file.read_text() if file.exists() else ""

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until both tasks have printed `text`, so many times."""
        for task in self.tasks:
            self._wait_for(task, text, times)

    def _wait_for(self, task: str, text: str, times: int) -> None:
        self.slurm.wait_until(lambda: self.log(task).count(text) >= times, f"{text!r} of {task}")

    def tell_to_stop(self) -> None:
        """Do what Slurm does when a job's time is nearly up."""
        self.slurm.ask("scancel", "--batch", "--signal=TERM", self.job)

    def state(self, *states: str) -> set[str]:
        """Wait until both tasks are in one of `states`; return these."""
        return {self.slurm.wait_for_state(task, *states)["JobState"] for task in self.tasks}


def test_a_task_that_is_told_to_stop_goes_on_later(slurm: Slurmbed, tmp_path: Path) -> None:
    """It stops in good order, puts itself into the queue, and is done the second time."""
    array = Array(slurm, tmp_path, "once")
    array.wait_for("measuring ")
    array.tell_to_stop()
    array.wait_for("out of time, starting again")
    array.wait_for(": done")
    assert array.state("COMPLETED", "FAILED") == {"COMPLETED"}
    for number, task in enumerate(array.tasks, start=1):
        log = array.log(task)
        assert log.count(f"measuring {number} of 2") == log.count("stopping") == 1
    assert sorted(p.name for p in (array.out / "slurm").iterdir() if p.suffix != ".log") == []


def test_a_task_that_never_gets_done_is_not_started_for_ever(
    slurm: Slurmbed, tmp_path: Path
) -> None:
    """After its own number of turns it gives up and says what to do."""
    array = Array(slurm, tmp_path, "endless")
    for turn in range(1, 5):
        array.wait_for("measuring ", turn)
        array.tell_to_stop()
        array.wait_for("stopping", turn)
    array.wait_for("started again 3 times and still not done; submit it again to go on")
    assert array.state("COMPLETED", "FAILED") == {"FAILED"}


def test_a_cancelled_array_stays_cancelled(slurm: Slurmbed, tmp_path: Path) -> None:
    """The signal that tells of the end comes to cancelled jobs, too, and starts nothing again."""
    array = Array(slurm, tmp_path, "endless")
    array.wait_for("measuring ")
    slurm.ask("scancel", array.job)
    array.wait_for("stopped; what was measured is kept")
    assert array.state("CANCELLED", "PENDING", "RUNNING") == {"CANCELLED"}


def test_a_preempted_task_goes_on_once(slurm: Slurmbed, tmp_path: Path) -> None:
    """Slurm starts it again by itself; the script does not do so a second time."""
    array = Array(slurm, tmp_path, "endless")
    array.wait_for("measuring ")
    for task in array.tasks:
        slurm.ask("scontrol", "requeue", task)
    array.wait_for("measuring ", 2)
    assert {slurm.job(task)["Restarts"] for task in array.tasks} == {"1"}
    assert not list((array.out / "slurm").glob("*.requeues"))
    slurm.ask("scancel", array.job)
    assert array.state("CANCELLED") == {"CANCELLED"}


COLLTUNE = (sys.executable, "-m", "colltune.cli")
BUDGET_S = 12
CAMPAIGN = """
[machine]
name = "bed"
[space]
collectives = ["bcast"]
nodes = {nodes}
ppn = {ppn}
msizes_bytes = [8, 4096]
only = ["*.basic_linear*", "*.binomial*"]
[budget]
total = "{budget_s}s"
max_reps = {max_reps}
"""


class Campaign:
    """A submitted campaign of all combinations of the nodes and ppn of `shapes`.

    With few repetitions it ends when all are there, and has time for launches that start slowly.
    """

    def __init__(
        self, slurm: Slurmbed, folder: Path, shapes: Sequence[Shape], tasks: int, *, few: bool
    ) -> None:
        self.slurm = slurm
        self.out = folder / "the data"
        file = folder / "the campaign.toml"
        nodes, ppn = sorted({s.nodes for s in shapes}), sorted({s.ppn for s in shapes})
        lasts = (
            {"budget_s": 300, "max_reps": 20} if few else {"budget_s": BUDGET_S, "max_reps": 50000}
        )
        file.write_text(CAMPAIGN.format(nodes=nodes, ppn=ppn, **lasts))
        words = (
            "--out",
            self.out,
            "--tasks",
            str(tasks),
            "--mpi",
            real.installed("openmpi").mpirun,
            "--json",
        )
        told = slurm.ask(
            *(*COLLTUNE, "submit", file, *words),
            **{**real.TRANSPORT, "XDG_CACHE_HOME": str(folder / "cache")},
        )
        self.job = json.loads(told)["job"]
        self.tasks = [f"{self.job}_{number}" for number in range(1, tasks + 1)]

    def logs(self) -> str:
        """Return what all tasks have printed so far."""
        return "".join(file.read_text() for file in (self.out / "slurm").glob("*.log"))

    def has_measured(self) -> bool:
        """Tell whether a launch has timed something."""
        return any("\ne " in raw.read_text() for raw in self.out.glob("raw/*/raw.txt"))

    def completed(self) -> None:
        """Insist that every task comes to a good end."""
        for task in self.tasks:
            ended = self.slurm.wait_for_state(task, "COMPLETED", "FAILED", "CANCELLED")
            assert ended["JobState"] == "COMPLETED", self.logs()

    def dataset(self) -> PerformanceDataset:
        """Return what was measured, of one context."""
        return read_parquet(self.out)


@pytest.mark.mpi
def test_the_tasks_of_a_campaign_share_one_dataset(slurm: Slurmbed, tmp_path: Path) -> None:
    """Two tasks at once, on two nodes each, measure all four shapes into one folder."""
    wanted = [Shape(n, p) for n in (1, 2) for p in (1, 2)]
    campaign = Campaign(slurm, tmp_path, wanted, tasks=2, few=True)
    campaign.completed()
    measured = campaign.dataset()
    shapes = {m.instance.shape for m in measured.measurements() if m.status is RunStatus.OK}
    assert shapes == set(wanted), campaign.logs()
    assert measured.context.machine == "bed"
    told = slurm.ask(*COLLTUNE, "submit", "--status", "--out", campaign.out, "--json")
    ended = {"state": "ENDED", "left": "", "said": "done"}
    assert json.loads(told) == [{"name": task, **ended} for task in campaign.tasks]


@pytest.mark.mpi
@pytest.mark.parametrize("how", ["requeue", "out of time"])
def test_a_campaign_that_is_stopped_midway_goes_on(
    how: str, slurm: Slurmbed, tmp_path: Path
) -> None:
    """Killed by Slurm or told that its time is up, it keeps what it has and its budget."""
    campaign = Campaign(slurm, tmp_path, [Shape(2, 1)], tasks=1, few=False)
    slurm.wait_until(campaign.has_measured, "a first measurement")
    if how == "requeue":
        slurm.ask("scontrol", "requeue", campaign.tasks[0])
    else:
        slurm.ask("scancel", "--batch", "--signal=TERM", campaign.job)
    slurm.wait_until(lambda: slurm.job(campaign.job)["Restarts"] == "1", "the second start")
    before = set(campaign.out.glob("*.parquet"))
    campaign.completed()
    assert "resumed a killed run" in campaign.logs()
    # on a busy machine the first start may have had all of the budget
    kept = set(campaign.out.glob("*.parquet"))
    assert kept
    assert kept >= before
    (journal,) = (campaign.out / "campaigns").glob("*.jsonl")
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["done"]
    assert last["at_s"] <= BUDGET_S + 5
