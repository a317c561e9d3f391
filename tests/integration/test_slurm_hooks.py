"""The hooks in a real Slurm: jobs are told what to read, obey, and run unharmed without."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from colltune.domain import Collective, Shape
from colltune.models.fitting import fit
from colltune.mpi import library, trace
from colltune.mpi.formats import FORMATS
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.rules import Call
from tests.integration.hooked_slurm import RULES, TOLD, HookedSlurm, hooked_slurm
from tests.integration.real import RealMpi
from tests.models.machines import measured
from tests.mpi.tables import intervals, table
from tests.server.slurm.fake_service import BAD, good

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.slurm]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture(scope="module")
def bed() -> Iterator[HookedSlurm]:
    """Return a Slurm with two nodes of four processors."""
    with hooked_slurm() as bed:
        yield bed


@pytest.fixture(autouse=True)
def as_usual(bed: HookedSlurm) -> Iterator[None]:
    """Begin every test with a good service, and an empty folder and log; leave no job behind."""
    bed.service.answer = good
    bed.site.configure()
    bed.site.logged()
    yield
    bed.slurm.ask("scancel", "--user=root")


@pytest.mark.mpi
def test_the_mpi_of_a_job_runs_what_the_service_says(bed: HookedSlurm, mpi: RealMpi) -> None:
    """Within mpirun in a batch job, the functions that run are those of the job's rules."""
    chosen = {
        (Collective.BCAST, 4): intervals(
            (0, "bcast.chain:fanout=2,segsize=1024"), (4096, "bcast.scatter_allgather_ring")
        ),
        (Collective.ALLREDUCE, 4): intervals((0, "allreduce.nonoverlapping")),
    }
    classic = FORMATS["openmpi-classic"]
    written = classic.write(table(Shape(1, 4), chosen), mpi.release, programs=MOST_PROMISED)
    bed.service.answer = partial(good, rules=written.text)
    name = f"openmpi/{mpi.release}"
    bed.site.configure(LIBRARIES=name, DEFAULT=name)
    steps = ["bcast:100", "bcast:65536", "allreduce:64"]
    options = " ".join([*trace.launch_options(mpi.tracer), "--oversubscribe"])
    run = f"{mpi.installation.mpirun} -np 4 {options} {mpi.program} {' '.join(steps)} 2>&1"
    allowed = mpi.installation.launch_environment() | {"OMPI_MCA_pml": "ob1"}
    job = ("--nodes=1", "--ntasks-per-node=4")
    _, tuned = bed.sbatch(f"told shell\n{run}", *job, **allowed)
    _, plain = bed.sbatch(run, *job, COLLTUNE="off", **allowed)
    assert "shell told 1x4\n" in tuned
    parsed = classic.parse(written.text, "rules", mpi.release)
    wanted = []
    for seen in trace.observed(plain):
        decided = parsed.decide(Call(*seen[:3])).chosen
        (symbol,) = library("openmpi").at(mpi.release).expected_symbols(decided)
        wanted.append(trace.Observation(*seen[:3], symbol))
    assert len(wanted) == 3
    assert trace.observed(tuned) == wanted
    assert trace.observed(plain) != wanted


def test_all_tasks_of_a_direct_srun_are_told_the_same(bed: HookedSlurm) -> None:
    """Each of four tasks on two nodes, of a user without privileges, reads the job's one file."""
    outcome = bed.slurm.run(
        *NOBODY, "srun", "--quiet", "-N2", "--ntasks-per-node=2", "sh", "-c", f'cat "${RULES}"'
    )
    assert outcome.stdout == 4 * "# rules of the test\n0\n", outcome.explain()
    assert bed.srun("-N2", "--ntasks-per-node=2") == 4 * ["task told 2x2"]
    assert bed.site.logged() == []


STEPS = {
    "as the job": ("-N2 -n8", "2x4"),
    "a shape of its own": ("-N2 -n4", "2x2"),
    "a part of the job": ("-N1 -n4", "2x4"),
    "not the same on all nodes": ("-N2 -n3", "2x4"),
    "as many, in another layout": ("-N1 -n8 --overcommit", "nothing"),
    "one per node, as mpirun's daemons": ("-N2 -n2", "2x4"),
    "switched off": ("-N2 -n8 --export=ALL,COLLTUNE=off", "nothing"),
    "set by the user": ("-N2 -n8 --export=ALL,OMPI_MCA_coll=^tuned", "nothing"),
}


def test_steps_follow_the_job_or_are_left_alone(bed: HookedSlurm) -> None:
    """All tasks of a step are told the job's rules, rules of their own, or nothing."""
    say = f"sh -c '{TOLD}' sh"
    script = ["told shell", "unset SLURM_NTASKS_PER_NODE"]
    script += [f'srun --quiet {o} {say} "{name}" | sort -u' for name, (o, _) in STEPS.items()]
    script += ["unset $COLLTUNE_VARIABLES", f"srun --quiet -N2 -n8 {say} unset | sort -u"]
    _, output = bed.sbatch("\n".join(script), "-N2", "--ntasks-per-node=4")
    expected = [f"{name} told {told}" for name, (_, told) in STEPS.items()]
    assert output.splitlines() == ["shell told 2x4", *expected, "unset told nothing"]


@pytest.mark.mpi
def test_daemons_of_a_launcher_are_left_alone(bed: HookedSlurm, mpi: RealMpi) -> None:
    """Of a job with two tasks on each node, mpirun's ranks are told the job's file on both."""
    told = f"sh -c '{TOLD}' sh rank"
    allowed = mpi.installation.launch_environment()
    ranks = bed.slurm.folder / "ranks"
    # mpirun itself hangs now and then before it starts anything
    once = f"timeout -k 1 12 {mpi.installation.mpirun} --map-by ppr:2:node {told} >{ranks}"
    run = f"for turn in 1 2 3; do {once} && break; done; sort {ranks}"
    _, output = bed.sbatch(run, "-N2", "--ntasks-per-node=2", **allowed)
    assert output.splitlines() == 4 * ["rank told 2x2"]


@pytest.mark.parametrize(
    "options", [("-N2", "-n3"), ("-n1", ":", "-n2")], ids=["tasks per node", "heterogeneous job"]
)
def test_uneven_jobs_keep_the_default(options: tuple[str, ...], bed: HookedSlurm) -> None:
    """Where not all nodes have the same number of processes, no rule was made for that."""
    script = ("sh", "-c", TOLD, "sh", "task")
    words = [w for o in options for w in ((*script, o) if o == ":" else (o,))]
    outcome = bed.slurm.run("srun", "--quiet", *words, *script)
    assert outcome.stdout.splitlines() == 3 * ["task told nothing"], outcome.explain()


def test_what_users_say_wins(bed: HookedSlurm) -> None:
    """COLLTUNE=off and what the job's comment says reach the hooks."""
    job = ("-N1", "-n2")
    assert bed.srun(*job) == 2 * ["task told 1x2"]
    assert bed.srun(*job, COLLTUNE="off") == 2 * ["task told nothing"]
    assert bed.srun(*job, "--comment=colltune:off") == 2 * ["task told nothing"]
    bed.srun(*job, "--comment=colltune:bundle=abab12")
    assert bed.service.asked[-1].bundle == "abab12"


def test_a_job_within_a_job_is_told_its_own(bed: HookedSlurm) -> None:
    """A job that inherits the variables of the one that submitted it gets those of its own."""
    inner, output = bed.slurm.folder / "inner.sh", bed.slurm.folder / "inner"
    inner.write_text(f"#!/bin/sh\nset -- inner\n{TOLD}\nsrun --quiet sh -c '{TOLD}' sh task\n")
    submit = f"sbatch --parsable -N1 -n3 --output={output} {inner}"
    _, said = bed.sbatch(f"told outer\n{submit}", "-N1", "-n4")
    outer, job = said.splitlines()
    bed.slurm.wait_for_state(job, "COMPLETED", "FAILED")
    assert outer == "outer told 1x4"
    assert bed.shown(output.read_text()).splitlines() == ["inner told 1x3", *3 * ["task told 1x3"]]


def test_users_can_do_it_themselves(bed: HookedSlurm, bundle: Path) -> None:
    """`colltune env` in a batch script tells its shell and the steps, also where the site has."""
    folder = bed.slurm.folder / "mine"
    command = (sys.executable, "-m", "colltune.cli", "env", "--bundle", bundle)
    words = shlex.join(map(str, (*command, "--library", "openmpi", "--release", "4.1.4")))
    script = f"eval \"$({words} --folder {folder})\"\ntold shell\nsrun -Q sh -c '{TOLD}' sh task"
    _, output = bed.sbatch(script, "-N2", "--ntasks-per-node=2")
    rules = f"{folder}/openmpi-4.1.4/2x2/rules"
    assert output.splitlines() == [f"shell told {rules}", *4 * [f"task told {rules}"]]


def test_a_users_task_prolog_takes_what_was_prepared(bed: HookedSlurm, bundle: Path) -> None:
    """srun --task-prolog with a folder of `colltune env`, on a site without a decision."""
    bed.site.configure(LIBRARIES="openmpi/9.9.9", DEFAULT="")
    folder = bed.slurm.folder / "prepared"
    command = (sys.executable, "-m", "colltune.cli", "env", "--bundle", bundle)
    release = ("--library", "openmpi", "--release", "4.1.4", "--folder", folder)
    bed.slurm.ask(*command, *release, "--nodes", "2", "--ppn", "2")
    hook = f"--task-prolog={bed.site.hooks}/task_prolog.sh"
    told = bed.srun("-N2", "--ntasks-per-node=2", hook, COLLTUNE_FOLDER=str(folder))
    assert told == 4 * [f"task told {folder}/openmpi-4.1.4/2x2/rules"]


def test_a_prolog_on_every_node_asks_once() -> None:
    """Where the controller runs no prolog, the nodes do: one request, one decision for all."""
    with hooked_slurm(3, 2, on_nodes=True) as bed:
        assert bed.srun("-N3", "--ntasks-per-node=2") == 6 * ["task told 3x2"]
        assert [asked.ppn for asked in bed.service.asked] == [[2]]
        bed.slurm.wait_until(lambda: not list(bed.site.jobs.glob("[0-9]*")), "the epilog")
        bed.service.answer = BAD["hanging"]
        assert bed.srun("-N3", "--ntasks-per-node=2") == 6 * ["task told nothing"]
        assert bed.drained() == []


def test_the_real_service_tells_a_job(bed: HookedSlurm, bundle: Path) -> None:
    """`colltune serve` on a unix socket answers the prolog, in a form that it takes."""
    socket = bed.slurm.folder / "served"
    served_by: list[str | Path] = [
        sys.executable,
        "-m",
        "colltune.cli",
        "serve",
        "--bundle",
        bundle,
    ]
    command = [*served_by, "--uds", socket]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as served:
        try:
            ready = ("curl", "-sf", "--unix-socket", socket, "http://localhost/health/ready")
            bed.slurm.wait_until(lambda: bed.slurm.run(*ready).ok, "the service")
            bed.site.configure(SOCKET=str(socket), LIMIT_S="2", TOTAL_S="10")
            job = ("-N2", "--ntasks-per-node=2")
            assert bed.srun(*job) == 4 * ["task told 2x2"], bed.site.logged()
        finally:
            served.kill()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle for Open MPI 4.1.4 in which something is faster than the default."""
    path = tmp_path_factory.mktemp("fitted") / "bundle"
    return fit(measured(collectives=(Collective.BCAST,)), "knn").save(path)


@pytest.mark.parametrize("kind", ["hanging", "down"])
def test_a_job_runs_unharmed_whatever_the_service_does(kind: str, bed: HookedSlurm) -> None:
    """Nothing is set, one line is logged, and no node is drained."""
    if kind == "down":
        bed.site.configure(SOCKET=str(bed.site.hooks / "nobody"))
    else:
        bed.service.answer = BAD[kind]
    assert bed.srun("-N1", "-n2") == 2 * ["task told nothing"]
    (line,) = bed.site.logged()
    assert "it runs with MPI's own decisions" in line
    assert bed.drained() == []


@pytest.mark.parametrize("how", ["read-only", "full"])
def test_a_job_runs_unharmed_whatever_the_folder_is_like(how: str, bed: HookedSlurm) -> None:
    """Nothing is set, one line is logged, and no node is drained."""
    folder = bed.site.hooks.parent / how.replace(" ", "-")
    folder.mkdir()
    options = "size=16k,mode=755" + (",ro" if how == "read-only" else "")
    bed.slurm.ask("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder)
    if how == "full":
        bed.slurm.run("sh", "-c", f"head -c 30000 /dev/zero > {folder}/filled")
    bed.site.configure(FOLDER=str(folder))
    assert bed.srun("-N1", "-n2") == 2 * ["task told nothing"]
    (line,) = bed.site.logged()
    assert "it runs with MPI's own decisions" in line
    assert bed.drained() == []
