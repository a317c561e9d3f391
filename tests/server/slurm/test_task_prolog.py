"""The task prolog: what Slurm is to set for a task, in every situation, without Slurm."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from colltune.domain import Shape
from colltune.mpi import LIBRARIES, library
from colltune.mpi.installation import UNKNOWN, loaded
from colltune.server.slurm.job_file import JobDecisions, JobSection, write
from tests.server.slurm.site import Site

RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
USE = "OMPI_MCA_coll_tuned_use_dynamic_rules"
BUNDLE = "ab" * 32
JOB = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "4", "SLURM_CPUS_ON_NODE": "8"}
BATCH = JOB | {"SLURM_TASKS_PER_NODE": "8(x4)"}
VARIABLE = {
    "openmpi": RULES,
    "mpich": "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE",
    "intelmpi": "I_MPI_TUNING",
}
SHELLS = [shell for shell in ("sh", "bash") if shutil.which(shell)]


def prepare(folder: Path, *pairs: str, shapes: tuple[Shape, ...] = (Shape(4, 8),)) -> None:
    """Write a job's folder for libraries, ``openmpi/4.1.4``."""
    for pair in pairs:
        name, _, release = pair.partition("/")
        sections = []
        for shape in shapes:
            path = folder / f"{name}-{release}" / str(shape) / "rules"
            variables = {VARIABLE[name]: str(path)} | ({USE: "1"} if name == "openmpi" else {})
            sections.append(JobSection(shape, {"rules": "0\n"}, variables))
        patterns = library(name).user_patterns
        write(JobDecisions(BUNDLE, name, release, patterns, tuple(sections)), folder)


@pytest.fixture
def job(site: Site) -> Site:
    """Return a site on which job 17 is prepared for Open MPI 4.1.4."""
    shapes = (Shape(4, 8), Shape(4, 4), Shape(4, 1))
    prepare(site.jobs / "17", "openmpi/4.1.4", shapes=shapes)
    return site


def told(site: Site, environment: Mapping[str, str], shell: str = "sh") -> dict[str, str]:
    """Return the environment of a task after Slurm did what the task prolog printed."""
    outcome = site.run("task_prolog.sh", environment, shell)
    assert outcome.stderr == ""
    found = dict(environment)
    for line in outcome.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "unset":
            found.pop(rest, None)
        else:
            assert word == "export"
            name, _, value = rest.partition("=")
            found[name] = value
    return found


def section(environment: Mapping[str, str]) -> str:
    """Return the shape whose rules a task reads, empty if none."""
    path = environment.get(RULES, "")
    assert (USE in environment) == bool(path)
    return Path(path).parent.name if path else ""


def step(tasks_per_node: str, nodes: int, tasks: int) -> dict[str, str]:
    """Return what a task of a step sees."""
    return {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": tasks_per_node,
        "SLURM_TASKS_PER_NODE": tasks_per_node,
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_a_batch_job_is_told_the_rules_of_its_shape(job: Site, shell: str) -> None:
    """The files, and marks for the prologs of its steps."""
    here = f"{job.jobs}/17/openmpi-4.1.4/4x8"
    ours = {RULES: f"{here}/rules", USE: "1"}
    assert told(job, BATCH, shell) == {
        **BATCH,
        **ours,
        "COLLTUNE_JOB": "17:32",
        "COLLTUNE_SECTION": here,
        "COLLTUNE_SET": " ".join(f"{n}={v}" for n, v in ours.items()),
        "COLLTUNE_VARIABLES": f"{RULES} {USE}",
    }


def test_only_the_exact_shape_counts(job: Site, subtests: pytest.Subtests) -> None:
    """Any other layout, and whatever cannot be understood, keeps the default."""
    for tasks_per_node, nodes, shape in (
        ("8(x4)", "4", "4x8"),
        ("4(x4)", "4", "4x4"),
        ("1(x4)", "4", "4x1"),
        ("2(x4)", "4", ""),
        ("8(x3)", "4", ""),
        ("8(x2),8(x2)", "4", ""),
        ("8(x3),2", "4", ""),
        ("8", "4", ""),
        ("8(x4)", "", ""),
        ("", "4", ""),
        ("8(x4", "4", ""),
        ("$(id)(x4)", "4", ""),
        ("99999999999999999999(x4)", "4", ""),
        ("8(x4)", "4;id", ""),
        ("8(x4)", "0", ""),
    ):
        with subtests.test(tasks_per_node=tasks_per_node, nodes=nodes, shape=shape):
            environment = BATCH | {
                "SLURM_TASKS_PER_NODE": tasks_per_node,
                "SLURM_JOB_NUM_NODES": nodes,
            }
            assert section(told(job, environment)) == shape


def test_what_users_say_wins(job: Site, subtests: pytest.Subtests) -> None:
    """Their own settings of algorithms, and what they say of colltune; nothing else matters."""
    for shell in SHELLS:
        for user, shape in (
            ({"COLLTUNE": "off"}, ""),
            ({"COLLTUNE_BUNDLE": "abab"}, "4x8"),
            ({"COLLTUNE_BUNDLE": "cd"}, ""),
            ({"COLLTUNE_BUNDLE": "/home/me/bundle"}, ""),
            ({"OMPI_MCA_coll": "^tuned"}, ""),
            ({"OMPI_MCA_coll_tuned_bcast_algorithm": "3"}, ""),
            ({USE: "1"}, "4x8"),
            ({"OMPI_MCA_coll_tuned_verbose": "3", "OMPI_MCA_coll_base_verbose": "1"}, "4x8"),
            ({"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"}, "4x8"),
            ({"TEXT": "a\nexport OMPI_MCA_pml='x'\n"}, "4x8"),
            ({"TEXT": "$(touch x) `id` \"'\\ *"}, "4x8"),
            ({"SLURM_HET_SIZE": "2"}, ""),
            ({"nodes": "9", "ppn": "9", "where": "/", "folder": "/", "IFS": "4"}, "4x8"),
            ({"LC_ALL": "C.UTF-8", "NAME": "ä"}, "4x8"),
        ):
            with subtests.test(shell=shell, user=user, shape=shape):
                assert section(told(job, BATCH | user, shell)) == shape


def test_a_step_follows_its_job(job: Site, subtests: pytest.Subtests) -> None:
    """With the job's rules or a section of its own; daemons of a launcher are left alone."""
    for shell in SHELLS:
        for step_of, shape in (
            (step("8(x4)", 4, 32), "4x8"),
            (step("4(x4)", 4, 16), "4x4"),
            (step("8(x2)", 2, 16), "4x8"),
            (step("1(x4)", 4, 4), "4x8"),
            (step("1(x3)", 3, 3), "4x8"),
            (step("8(x3),7", 4, 31), "4x8"),
            (step("16(x2)", 2, 32), ""),
            (step("10,8(x2),6", 4, 32), ""),
            (step("8(x4)", 4, 32) | {"COLLTUNE": "off"}, ""),
            (step("8(x4)", 4, 32) | {"OMPI_MCA_coll_han_priority": "0"}, ""),
        ):
            with subtests.test(shell=shell, step_of=step_of, shape=shape):
                inherited = told(job, BATCH, shell)
                assert section(told(job, inherited | step_of, shell)) == shape


def test_what_was_changed_in_between_is_the_users(job: Site) -> None:
    """A variable of ours that the batch script changes or removes takes all of ours away."""
    inherited = told(job, BATCH)
    whole = step("8(x4)", 4, 32)
    own = told(job, inherited | whole | {RULES: "/home/me/rules"})
    assert own[RULES] == "/home/me/rules"
    assert USE not in own
    removed = {n: v for n, v in inherited.items() if n not in (RULES, USE)}
    assert section(told(job, removed | whole)) == ""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("coll_tuned_bcast_algorithm = 3", ""),
        ("# mine\nbtl = self,tcp\n  coll=^tuned\n", ""),
        (f"coll_tuned_use_dynamic_rules =  1\n{'x' * 3000}\n", "4x8"),
        ("#coll = x\ncoll_base_verbose = 1\ncoll_tuned_verbose=3\n", "4x8"),
        ("", "4x8"),
    ],
)
def test_a_file_of_open_mpis_is_the_users(
    job: Site, tmp_path: Path, text: str, shape: str, shell: str
) -> None:
    """What stands in the home folder's mca-params.conf wins as a variable does."""
    (tmp_path / ".openmpi").mkdir()
    (tmp_path / ".openmpi" / "mca-params.conf").write_text(text)
    assert section(told(job, BATCH | {"HOME": str(tmp_path)}, shell)) == shape


def test_variables_of_another_job_are_taken_back(job: Site) -> None:
    """A job submitted from within job 17 is told nothing of that, and what it says itself stays."""
    inherited = told(job, BATCH) | {"SLURM_JOB_ID": "18"}
    assert section(told(job, inherited)) == ""
    user = {"OMPI_MCA_coll_tuned_bcast_algorithm": "3"}
    found = told(job, inherited | user)
    assert section(found) == ""
    assert user.items() <= found.items()
    prepare(job.jobs / "18", "openmpi/4.1.4")
    assert told(job, inherited)[RULES] == f"{job.jobs}/18/openmpi-4.1.4/4x8/rules"


def test_tasks_of_no_batch_job_decide_by_themselves(job: Site, subtests: pytest.Subtests) -> None:
    """One task per node is taken for a daemon, unless it has all processors of its node."""
    for environment, shape in (
        (step("8(x4)", 4, 32), "4x8"),
        (step("1(x4)", 4, 4), ""),
        (step("1(x4)", 4, 4) | {"SLURM_CPUS_PER_TASK": "8"}, "4x1"),
        (step("1(x4)", 4, 4) | {"SLURM_CPUS_PER_TASK": "2"}, ""),
    ):
        with subtests.test(environment=environment, shape=shape):
            assert section(told(job, JOB | environment)) == shape


LOADED = [
    ({}, "openmpi-4.1.4"),
    ({"LOADEDMODULES": "gcc/13:OpenMPI/4.1.4-GCC-12.2.0"}, "openmpi-4.1.4"),
    ({"LOADEDMODULES": "openmpi/5.0.11"}, "openmpi-5.0.11"),
    ({"LOADEDMODULES": "openmpi/4.1.4:openmpi/5.0.11"}, "openmpi-5.0.11"),
    ({"LOADEDMODULES": "openmpi/4.1"}, ""),
    ({"LOADEDMODULES": "openmpi/4.1.40"}, ""),
    ({"LOADEDMODULES": "openmpi/4.1.4.1"}, ""),
    ({"LOADEDMODULES": "mpi/openmpi-x86_64"}, "openmpi-4.1.4"),
    ({"LOADEDMODULES": "mpi/mpich-x86_64"}, ""),
    ({"LOADEDMODULES": "MPICH/4.0.2-gcc"}, "mpich-4.0.2"),
    ({"LOADEDMODULES": "cray-mpich/8.1.28"}, ""),
    ({"LOADEDMODULES": "mvapich2/2.3.7"}, ""),
    ({"LOADEDMODULES": "impi/2021.6.0-intel-2022"}, "intelmpi-2021.6"),
    ({"LOADEDMODULES": "mpi/2021.6"}, "intelmpi-2021.6"),
    ({"LOADEDMODULES": "compiler/intel-oneapi-mpi/2021.6"}, "intelmpi-2021.6"),
    ({"LOADEDMODULES": "mpi4py/3.1.4"}, "openmpi-4.1.4"),
    ({"EBVERSIONOPENMPI": "5.0.11", "LOADEDMODULES": "impi/2021.6"}, "openmpi-5.0.11"),
    ({"EBVERSIONIMPI": "2021.6"}, "intelmpi-2021.6"),
    ({"COLLTUNE_LIBRARY": "mpich/4.0.2", "LOADEDMODULES": "impi/2021.6"}, "mpich-4.0.2"),
    ({"COLLTUNE_LIBRARY": "openmpi"}, "openmpi-4.1.4"),
    ({"COLLTUNE_LIBRARY": "mpich"}, ""),
    ({"COLLTUNE_LIBRARY": "../../etc"}, ""),
]


def test_the_loaded_mpi_counts(site: Site, subtests: pytest.Subtests) -> None:
    """The release that is loaded, exactly; the site's default where modules do not tell."""
    for modules, name in LOADED:
        with subtests.test(modules=modules, name=name):
            prepared = ("openmpi/4.1.4", "openmpi/5.0.11", "mpich/4.0.2", "intelmpi/2021.6")
            prepare(site.jobs / "17", *prepared)
            found = told(site, BATCH | modules)
            names = [value for key, value in found.items() if key in VARIABLE.values()]
            assert [Path(value).parts[-3] for value in names] == ([name] if name else [])
            told_here = loaded(modules)
            if "COLLTUNE_LIBRARY" not in modules and told_here is not None:
                library_name, release = told_here
                assert (library_name == UNKNOWN or not name) or name.startswith(library_name)
                exact = f"{library_name}-{release}" if release else name
                assert not name or exact.removesuffix(".0") == name


@pytest.mark.parametrize("name", LIBRARIES)
def test_settings_of_every_library_can_be_given(site: Site, name: str) -> None:
    """What colltune sets for a library, the hooks hand on, and what users decide, they heed."""
    release = {"openmpi": "4.1.4", "mpich": "4.0.2", "intelmpi": "2021.6"}[name]
    prepare(site.jobs / "17", f"{name}/{release}")
    environment = BATCH | {"COLLTUNE_LIBRARY": f"{name}/{release}"}
    assert VARIABLE[name] in told(site, environment)
    for pattern in library(name).user_patterns.deciding[:3]:
        own = re.sub(r"[*?]+", "X", pattern)
        found = told(site, environment | {own: "mine"})
        assert found.get(VARIABLE[name], "mine") == "mine"


def test_a_folder_that_colltune_env_wrote(site: Site, tmp_path: Path) -> None:
    """Users name it by a variable; it needs no site, and its one library is the job's."""
    prepare(tmp_path / "mine", "openmpi/5.0.11")
    (site.hooks / "site.sh").unlink()
    own = {"COLLTUNE_FOLDER": str(tmp_path / "mine")}
    assert section(told(site, BATCH | own)) == "4x8"
    assert section(told(site, BATCH)) == ""


def test_a_damaged_folder_is_no_obstacle(job: Site, subtests: pytest.Subtests) -> None:
    """Only settings of algorithms are handed on; with anything else in a file, nothing of it."""
    for text in (
        "LD_PRELOAD=/tmp/x\n",
        f"{RULES}=/a/../b\n",
        "export A=b\n",
        "\n",
        f"{RULES}=/a\nPATH=/x\n",
    ):
        with subtests.test(text=text):
            (job.jobs / "17/openmpi-4.1.4/4x8/exports").write_text(text)
            found = told(job, BATCH)
            assert found.keys() - BATCH.keys() == {"COLLTUNE_JOB"}


@pytest.mark.parametrize("change", [Path.unlink, partial(Path.write_text, data="")])
def test_a_lost_file_is_named_to_nobody(job: Site, change: Callable[[Path], object]) -> None:
    """MPICH ends programs over it: the job, or a later step, keeps MPI's own decisions."""
    here = job.jobs / "17/openmpi-4.1.4/4x8/rules"
    inherited = told(job, BATCH)
    change(here)
    verbose = {"COLLTUNE_VERBOSE": "1"}
    for environment in (BATCH, inherited | step("8(x4)", 4, 32)):
        assert section(told(job, environment)) == ""
        printed = job.run("task_prolog.sh", environment | verbose).stdout.splitlines()
        (line,) = [line for line in printed if line.startswith("print ")]
        assert str(here) in line
    assert section(told(job, inherited | step("4(x4)", 4, 16))) == ""


def test_it_says_why_when_asked(job: Site) -> None:
    """With COLLTUNE_VERBOSE the first task prints one line; others print none."""
    verbose = BATCH | {"COLLTUNE_VERBOSE": "1", "COLLTUNE": "off"}
    printed = job.run("task_prolog.sh", verbose).stdout.splitlines()
    assert [line for line in printed if line.startswith("print ")] == [
        "print colltune: COLLTUNE=off"
    ]
    assert "print" not in job.run("task_prolog.sh", verbose | {"SLURM_PROCID": "1"}).stdout
