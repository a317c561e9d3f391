"""Jobs of a real Slurm that the hooks record: who reports what, and that no job notices it.

MPI_ROOT (``.mpi`` by default) has the MPIs, folders such as openmpi-4.1.8.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from colltune import process
from colltune.bench.build import unlinked_library
from colltune.domain import Collective, Shape
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from colltune.production.arms import Arm
from colltune.production.summary import MpiRun, Summary, parse_summary
from tests.integration.hooked_slurm import HookedSlurm, hooked_slurm
from tests.integration.real import QUIET, SOURCES
from tests.server.slurm.fake_service import good, with_arm

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.slurm, pytest.mark.mpi]
ROOT = Path(os.environ.get("MPI_ROOT", Path(__file__).parents[2] / ".mpi"))
OPENMPI = ("openmpi-4.1.8", "openmpi-5.0.11")
HYDRA = ("mpich-4.3.2", "intelmpi-2021.18.1")
JOB = ("--nodes=2", "--ntasks-per-node=2")
CALLS = "bcast:100:4:30 allreduce:8:4:30"


class Mpi(NamedTuple):
    """An MPI of the site, and the test's program for it."""

    found: Installation
    program: Path

    @property
    def name(self) -> str:
        return f"{self.found.library}/{self.found.release}"

    @property
    def mpirun(self) -> str:
        lying = "--map-by ppr:2:node" if self.found.library == "openmpi" else "-ppn 2 -n 4"
        return f"timeout -k 1 60 {self.found.mpirun} {lying}"

    def environment(self, **more: str) -> dict[str, str]:
        """Return what a job of this MPI has in its environment."""
        return QUIET | self.found.launch_environment() | {"COLLTUNE_LIBRARY": self.name} | more


@pytest.fixture(scope="module")
def bed() -> Iterator[HookedSlurm]:
    """Return a Slurm with two nodes of four processors, on which all jobs are recorded."""
    with hooked_slurm() as bed:
        yield bed


@pytest.fixture
def mpi(request: pytest.FixtureRequest, bed: HookedSlurm) -> Mpi:
    """Return an MPI by its name, with its library where the site's jobs find it."""
    mpirun = ROOT / request.param / "bin" / "mpirun"
    if not mpirun.exists():
        pytest.skip(f"{mpirun} is not there; MPI_ROOT names the folder with {request.param}")
    found = installation.find(str(mpirun), None)
    library = bed.site.hooks.parent / "lib" / request.param / "libcolltune.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(unlinked_library(found).read_bytes())
    program = bed.site.hooks.parent / f"{request.param}.program"
    if not program.exists():
        compile_it: list[str | Path] = [
            found.mpicc,
            "-O2",
            SOURCES / "timed_calls.c",
            "-o",
            program,
        ]
        env = dict(os.environ) | dict(found.launch_environment())
        process.check(process.run(compile_it, timeout_s=120, env=env), "compiling")
    bed.service.answer = with_arm
    bed.service.summaries.clear()
    libraries = {"LIBRARIES": f"{found.library}/{found.release}", "DEFAULT": ""}
    bed.site.configure(RECORD="all", RATE="2", LIB=str(library.parents[1]), **libraries)
    bed.site.logged()
    return Mpi(found, program)


def reported(bed: HookedSlurm, job: str) -> Summary:
    """Return what the job's epilog has sent."""
    found: list[Summary] = []

    def is_there() -> bool:
        sent = [parse_summary(body) for _, body in bed.service.summaries]
        found[:] = [summary for summary in sent if summary.job == job]
        return bool(found)

    bed.slurm.wait_until(is_there, f"the summary of job {job}")
    return found[0]


def counted(run: MpiRun) -> dict[Collective, tuple[Shape | None, int]]:
    """Return the layout and calls of each collective."""
    return {u.kind.collective: (u.kind.shape, u.process_calls) for u in run.uses}


def is_as_called(run: MpiRun) -> bool:
    """Tell whether a run has the calls of the test's program, on all ranks of both nodes."""
    of = counted(run)
    expected = (Shape(2, 2), 120)
    return of[Collective.BCAST] == expected and of[Collective.ALLREDUCE][0] == Shape(2, 2)


@pytest.mark.parametrize("mpi", [*OPENMPI, *HYDRA], indirect=True)
@pytest.mark.parametrize("arm", [Arm.TUNED, Arm.CONTROL])
def test_ranks_of_a_launcher_are_recorded(bed: HookedSlurm, mpi: Mpi, arm: Arm) -> None:
    """Within a batch job on two nodes, each run of mpirun writes a profile of all ranks."""
    bed.service.answer = partial(with_arm, arm=arm)
    run = f"{mpi.mpirun} {mpi.program} {CALLS}"
    job, output = bed.sbatch(f"told shell\n{run} && {run}", *JOB, **mpi.environment())
    found = reported(bed, job)
    assert [given.arm for given in found.given] == [arm]
    assert [run.job.arm for run in found.runs] == 2 * [str(arm)], output
    assert all(map(is_as_called, found.runs))
    (program,) = {run.job.program for run in found.runs}
    assert program.startswith("#")
    assert {run.job.rate for run in found.runs} == {2}
    if mpi.found.library == "openmpi":
        assert output.startswith("shell told " + ("nothing" if arm is Arm.CONTROL else "2x2"))


@pytest.mark.parametrize("mpi", [OPENMPI[1]], indirect=True)
@pytest.mark.parametrize("batch", [True, False])
def test_ranks_of_srun_are_recorded(bed: HookedSlurm, mpi: Mpi, batch: bool) -> None:
    """As a step of a batch job, or a job by itself."""
    bed.slurm.skip_without_plugin("pmix")
    bed.service.summaries.clear()
    step = ("srun", "--mpi=pmix", "--quiet", *JOB, str(mpi.program), *CALLS.split())
    if batch:
        job, _ = bed.sbatch(" ".join(step), *JOB, **mpi.environment())
    else:
        bed.slurm.ask(*step, **mpi.environment())
        bed.slurm.wait_until(lambda: bool(bed.service.summaries), "a summary")
        job = parse_summary(bed.service.summaries[0][1]).job
    (run,) = reported(bed, job).runs
    assert run.job.arm == "tuned"
    assert is_as_called(run)


@pytest.mark.parametrize("mpi", ["mpich-4.3.2"], indirect=True)
def test_srun_with_pmi2_is_silent(bed: HookedSlurm, mpi: Mpi) -> None:
    """There libcolltune cannot find out whether all ranks have it: the job runs without."""
    step = f"srun --mpi=pmi2 --quiet {mpi.program} {CALLS} 2>&1"
    job, output = bed.sbatch(step, *JOB, **mpi.environment())
    assert [line.split()[0] for line in output.splitlines()] == ["TIME", "TIME"]
    assert reported(bed, job).runs == ()


@pytest.mark.parametrize("mpi", [OPENMPI[1]], indirect=True)
def test_a_step_that_is_no_mpi_program(bed: HookedSlurm, mpi: Mpi) -> None:
    """It runs as ever, and the job says that it was silent."""
    job, output = bed.sbatch("srun --quiet hostname 2>&1", *JOB, **mpi.environment())
    assert sorted(output.split()) == ["node0", "node0", "node1", "node1"]
    assert reported(bed, job).runs == ()


@pytest.mark.parametrize("mpi", OPENMPI, indirect=True)
@pytest.mark.parametrize(
    ("user", "arm"),
    [
        ({"COLLTUNE_RECORD": "off"}, None),
        ({"COLLTUNE": "off"}, None),
        ({"OMPI_MCA_coll": "^tuned"}, "own"),
    ],
    ids=["no recording", "nothing of colltune", "own settings"],
)
def test_what_users_say_wins(
    bed: HookedSlurm, mpi: Mpi, user: dict[str, str], arm: str | None
) -> None:
    """One variable opts out, of recording or of all; who decides himself is of no arm."""
    run = f"{mpi.mpirun} {mpi.program} {CALLS}"
    job, _ = bed.sbatch(run, *JOB, **mpi.environment(**user))
    assert [run.job.arm for run in reported(bed, job).runs] == ([arm] if arm else [])


@pytest.mark.parametrize("mpi", OPENMPI, indirect=True)
def test_what_a_batch_script_does_later(bed: HookedSlurm, mpi: Mpi) -> None:
    """What it preloads comes first, variables that mpirun exports stay, options count as own."""
    maths = next(Path("/lib").glob("*-linux-gnu/libm.so.6"))
    say = "sh -c 'echo $LD_PRELOAD $MINE'"
    script = [
        f"LD_PRELOAD={maths} {mpi.mpirun} {say}",
        f"{mpi.mpirun} -x MINE=yes {say}",
        f"{mpi.mpirun} --mca coll_tuned_bcast_algorithm 1 {mpi.program} {CALLS} >&2",
        f"export OMPI_MCA_coll=^tuned\n{mpi.mpirun} {mpi.program} {CALLS} >&2",
        f"export COLLTUNE_RECORD=off\n{mpi.mpirun} {mpi.program} {CALLS} >&2",
    ]
    job, output = bed.sbatch("\n".join(script), *JOB, **mpi.environment())
    library = bed.site.hooks.parent / "lib" / f"openmpi-{mpi.found.release}" / "libcolltune.so"
    lines = [line for line in output.splitlines() if "libcolltune" in line]
    assert lines == [*4 * [f"{maths}:{library}"], *4 * [f"{library} yes"]], output
    assert [run.job.arm for run in reported(bed, job).runs] == ["own", "own"]


@pytest.mark.parametrize("mpi", ["mpich-4.3.2"], indirect=True)
def test_a_program_of_another_mpi_is_left_alone(bed: HookedSlurm, mpi: Mpi) -> None:
    """Where the site's default is not what a job runs, it runs as ever, and is not recorded."""
    other = OPENMPI[1]
    mpirun = ROOT / other / "bin" / "mpirun"
    if not mpirun.exists():
        pytest.skip(f"{mpirun} is not there")
    library = bed.site.hooks.parent / "lib" / other / "libcolltune.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(unlinked_library(installation.find(str(mpirun), None)).read_bytes())
    name = other.replace("-", "/")
    bed.site.configure(RECORD="all", LIB=str(library.parents[1]), LIBRARIES=name, DEFAULT=name)
    run = f"{mpi.mpirun} {mpi.program} {CALLS} 2>&1"
    step = f"srun --mpi=pmi2 --quiet {mpi.program} {CALLS} 2>&1"
    environment = mpi.environment(COLLTUNE_LIBRARY="")
    job, output = bed.sbatch(f"{run} && {step}", *JOB, **environment)
    assert output.count("TIME bcast") == 2, output
    assert "colltune" not in output
    assert reported(bed, job).runs == ()


@pytest.mark.parametrize("mpi", [OPENMPI[0]], indirect=True)
def test_a_site_that_records_nothing(bed: HookedSlurm, mpi: Mpi) -> None:
    """Its jobs have no variable of recording, and no summary is sent."""
    bed.service.answer = good
    bed.site.configure(RECORD="", LIBRARIES=mpi.name, DEFAULT=mpi.name)
    _, output = bed.sbatch("env | grep -c 'RECORD\\|AGENT\\|agent\\|LD_PRELOAD' || true", *JOB)
    assert output.strip() == "0"
    assert bed.service.summaries == []
