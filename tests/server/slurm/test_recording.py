"""Who is recorded: what the task prolog and the program of mpirun's ranks say, without Slurm."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from colltune.domain import Shape
from tests.server.slurm.site import Site
from tests.server.slurm.test_task_prolog import BATCH, JOB, SHELLS, prepare, step, told

TASKS = step("8(x4)", 4, 32)
DAEMONS = step("1(x4)", 4, 4)
NAMES = ("COLLTUNE_RECORD", "COLLTUNE_RECORD_RATE", "COLLTUNE_RECORD_NAMES", "COLLTUNE_ARM")
AGENTS = {"4": "OMPI_MCA_orte_fork_agent", "5": "PRTE_MCA_odls_base_exec_agent"}
SOME_LIBRARY = next(
    line.split()[-1]
    for line in Path("/proc/self/maps").read_text().splitlines()
    if "/libc.so" in line or "/libc-" in line
)
"""One that every program can preload."""
PAIRS = ("openmpi/4.1.4", "openmpi/5.0.11", "mpich/4.3.2", "intelmpi/2021.6")


def prepared(site: Site, job: str = "17", *, arm: str = "tuned", by_default: bool = True) -> Path:
    """Have the site record, and prepare a job for four libraries as the prolog does."""
    libraries = site.jobs.parent / "lib"
    site.configure(RECORD="all", LIB=str(libraries), RATE="7")
    folder = site.jobs / job
    prepare(folder, *PAIRS, shapes=(Shape(4, 8), Shape(4, 4)))
    (folder / "records").mkdir()
    for pair in PAIRS:
        name = pair.replace("/", "-")
        (libraries / name).mkdir(parents=True, exist_ok=True)
        if not (libraries / name / "libcolltune.so").exists():
            (libraries / name / "libcolltune.so").symlink_to(SOME_LIBRARY)
        (folder / name / "arm").write_text(f"{arm}\n")
        for exports in folder.glob(f"{name}/*/exports") if arm == "control" else ():
            exports.write_text("")
    if by_default:
        (folder / "record").touch()
    return libraries


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment bears on recording."""
    wanted = (*NAMES, *AGENTS.values(), "LD_PRELOAD")
    return {name: environment[name] for name in wanted if name in environment}


def in_job(site: Site, arm: str, number: str = "17") -> dict[str, str]:
    """Return what every process of a recorded job is told."""
    values = (f"{site.jobs}/{number}/records", "7", arm)
    return dict(
        zip(("COLLTUNE_RECORD", "COLLTUNE_RECORD_RATE", "COLLTUNE_ARM"), values, strict=True)
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("arm", ["tuned", "candidate", "control"])
def test_a_step_of_srun_preloads_the_library(site: Site, arm: str, shell: str) -> None:
    """All tasks of it, in a batch job or without; the batch shell itself preloads nothing."""
    library = f"{prepared(site, arm=arm)}/openmpi-4.1.4/libcolltune.so"
    agent = {AGENTS["4"]: f"{site.hooks}/rank.sh {library}"}
    batch = told(site, BATCH, shell)
    assert recorded(batch) == in_job(site, arm) | agent
    preloads = in_job(site, arm) | {"LD_PRELOAD": library}
    assert recorded(told(site, batch | TASKS, shell)) == preloads | agent
    assert recorded(told(site, JOB | TASKS, shell)) == preloads


@pytest.mark.parametrize(
    ("pair", "batch_job", "step_of", "preloads"),
    [
        ("openmpi/4.1.4", True, DAEMONS, False),
        ("openmpi/4.1.4", False, DAEMONS, False),
        ("openmpi/5.0.11", True, step("1(x3)", 3, 3), False),
        ("openmpi/5.0.11", True, step("1", 1, 1), False),
        ("openmpi/5.0.11", True, step("8(x3),2", 4, 26), True),
        ("mpich/4.3.2", True, DAEMONS, True),
        ("mpich/4.3.2", True, step("1", 1, 1), True),
        ("intelmpi/2021.6", False, DAEMONS, True),
    ],
)
def test_daemons_of_a_launcher(
    site: Site, pair: str, batch_job: bool, step_of: dict[str, str], preloads: bool
) -> None:
    """Hydra's start all ranks, so they hand on what they preload; Open MPI's only some."""
    prepared(site)
    before = (BATCH if batch_job else JOB) | {"COLLTUNE_LIBRARY": pair}
    before = told(site, before) if batch_job else before
    found = told(site, before | step_of)
    assert ("LD_PRELOAD" in found) == preloads
    if not preloads and not batch_job:
        assert recorded(found) == {}


@pytest.mark.parametrize("pair", [*PAIRS, "openmpi/4.1.6"])
def test_mpirun_is_told_what_to_start_ranks_by(site: Site, pair: str) -> None:
    """Each release of Open MPI by its own variable; no other launcher, nor an unknown release."""
    libraries = prepared(site)
    found = recorded(told(site, BATCH | {"COLLTUNE_LIBRARY": pair}))
    name, _, release = pair.partition("/")
    expected = {}
    if name == "openmpi" and pair in PAIRS:
        library = f"{libraries}/openmpi-{release}/libcolltune.so"
        expected = {AGENTS[release[0]]: f"{site.hooks}/rank.sh {library}"}
    assert found == (in_job(site, "tuned") | expected if pair in PAIRS else {})


USERS: list[tuple[dict[str, str], str]] = [
    ({"COLLTUNE": "off"}, ""),
    ({"COLLTUNE_RECORD": "off"}, ""),
    ({"COLLTUNE_RECORD": "/home/me/records"}, ""),
    ({"SLURM_HET_SIZE": "2"}, ""),
    ({"COLLTUNE_RECORD": "on"}, "tuned"),
    ({"COLLTUNE_BUNDLE": "abab"}, "own"),
    ({"COLLTUNE_BUNDLE": "cdcd"}, "own"),
    ({"OMPI_MCA_coll": "^tuned"}, "own"),
    ({"SLURM_TASKS_PER_NODE": "2(x4)"}, "own"),
]


@pytest.mark.parametrize(("user", "arm"), USERS)
def test_what_users_say_wins(site: Site, user: dict[str, str], arm: str) -> None:
    """One variable opts out; who decides himself, or gets no section, is of no arm."""
    prepared(site)
    assert recorded(told(site, BATCH | user)).get("COLLTUNE_ARM", "") == arm


def test_users_ask_where_the_site_records_who_asks(site: Site) -> None:
    """Without the prolog's mark a job is recorded only if it says so."""
    prepared(site, by_default=False)
    assert recorded(told(site, BATCH)) == {}
    asked = told(site, BATCH | {"COLLTUNE_RECORD": "on"})
    assert recorded(asked) == recorded(asked) | in_job(site, "tuned")
    assert "LD_PRELOAD" in told(site, asked | TASKS)


def test_what_users_preload_comes_first(site: Site) -> None:
    """And what they start ranks by stays."""
    library = f"{prepared(site)}/openmpi-4.1.4/libcolltune.so"
    ours = [site.jobs.parent / name for name in ("a.so", "b.so")]
    for path in ours:
        path.symlink_to(SOME_LIBRARY)
    own = {"LD_PRELOAD": f"{ours[0]} {ours[1]}", AGENTS["4"]: "valgrind"}
    batch = told(site, BATCH | own)
    assert recorded(batch) == own
    found = told(site, JOB | own | TASKS)
    assert found["LD_PRELOAD"] == f"{ours[0]}:{ours[1]}:{library}"
    again = told(site, found | TASKS)
    assert again["LD_PRELOAD"] == found["LD_PRELOAD"]


def test_settings_of_a_step_are_the_users(site: Site) -> None:
    """The step goes on being recorded, but no more as the job's arm."""
    prepared(site)
    found = told(site, told(site, BATCH) | TASKS | {"OMPI_MCA_coll_han_priority": "0"})
    assert found["COLLTUNE_ARM"] == "own"
    assert "LD_PRELOAD" in found


@pytest.mark.parametrize("records", [True, False])
def test_a_job_within_a_job_is_recorded_as_its_own(site: Site, records: bool) -> None:
    """Of what the outer job's step was told, nothing is left."""
    library = f"{prepared(site)}/openmpi-4.1.4/libcolltune.so"
    outer = told(site, told(site, BATCH | {"LD_PRELOAD": SOME_LIBRARY}) | TASKS)
    assert outer["LD_PRELOAD"] == f"{SOME_LIBRARY}:{library}"
    if records:
        prepared(site, "18", arm="control")
    inner = {n: v for n, v in outer.items() if "_STEP_" not in n} | {"SLURM_JOB_ID": "18"}
    agent = {AGENTS["4"]: f"{site.hooks}/rank.sh {library}"}
    expected = in_job(site, "control", "18") | agent if records else {}
    assert recorded(told(site, inner)) == expected | {"LD_PRELOAD": SOME_LIBRARY}


def test_without_the_library_nothing_is_recorded(site: Site) -> None:
    """All tasks see the same folder, so that all or none preload."""
    library = prepared(site) / "openmpi-4.1.4/libcolltune.so"
    library.unlink()
    assert recorded(told(site, BATCH)) == {}
    assert recorded(told(site, JOB | TASKS)) == {}
    assert str(library) in site.run("task_prolog.sh", BATCH | {"COLLTUNE_VERBOSE": "1"}).stdout


def rank(site: Site, environment: Mapping[str, str], *command: str, cwd: Path | None = None) -> str:
    """Return what a rank that mpirun starts by rank.sh prints."""
    return started(site, environment, *command, cwd=cwd).stdout


def started(
    site: Site, environment: Mapping[str, str], *command: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a rank as mpirun does by rank.sh."""
    library = f"{site.jobs.parent}/lib/openmpi-4.1.4/libcolltune.so"
    return subprocess.run(
        [site.hooks / "rank.sh", library, *command],
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize(
    ("change", "arm"),
    [
        ({}, "tuned"),
        ({"OMPI_MCA_coll": "^tuned"}, "own"),
        ({"OMPI_MCA_coll_tuned_use_dynamic_rules": "0"}, "own"),
        ({"OMPI_MCA_coll_base_verbose": "9"}, "tuned"),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_MCA_coll": "^tuned"}, "tuned"),
    ],
)
def test_a_rank_of_mpirun(site: Site, change: dict[str, str], arm: str) -> None:
    """Its first one tells when mpirun's command line decides; all preload, and see no more."""
    prepared(site)
    batch = told(site, BATCH) | {"OMPI_COMM_WORLD_RANK": "0", "LD_PRELOAD": "/nowhere/a.so"}
    before = {"PATH": "/usr/bin:/bin"} | batch | change | {"library": "mine", "job": "x"}
    found = dict(x.split("=", 1) for x in rank(site, before, "env").splitlines())
    for name in ("_", "PWD", "SHLVL", "OLDPWD"):
        found.pop(name, None)
    preload = f"/nowhere/a.so:{site.jobs.parent}/lib/openmpi-4.1.4/libcolltune.so"
    assert found == before | {"COLLTUNE_ARM": arm, "LD_PRELOAD": preload}


def test_a_library_that_is_lost_ends_no_rank(site: Site) -> None:
    """The program runs without it; the first rank says so where the user asks for the log."""
    (prepared(site) / "openmpi-4.1.4/libcolltune.so").unlink()
    for number, log, lines in (("0", "1", 1), ("0", "", 0), ("1", "1", 0)):
        environment = {"OMPI_COMM_WORLD_RANK": number, "COLLTUNE_LOG": log, "LD_PRELOAD": ""}
        done = started(site, environment, "sh", "-c", 'echo "ran with $LD_PRELOAD"')
        assert done.stdout == "ran with \n"
        assert len(done.stderr.splitlines()) == lines


def test_a_rank_finds_its_program_as_mpirun_does(site: Site, tmp_path: Path) -> None:
    """On PATH, or in the folder it is in; arguments are kept as they are."""
    prepared(site)
    shutil.copy("/bin/echo", tmp_path / "here_only")
    words = ("a  b", "$(id)", "*")
    for program in ("here_only", "./here_only", "echo"):
        assert rank(site, {}, program, *words, cwd=tmp_path) == " ".join(words) + "\n"
