"""`colltune submit`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Verb

CAMPAIGN = """
[machine]
name = "hydra"
[space]
collectives = ["bcast"]
nodes = [2, 8, 4]
ppn = [1, 16]
msizes_bytes = [8, 1024]
[budget]
total_s = 7200
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign file of six shapes."""
    path = tmp_path / "my campaign.toml"
    path.write_text(CAMPAIGN)
    return path


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an sbatch on PATH that takes everything."""
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho 17\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def directives(script: str) -> list[str]:
    """Return the options in a batch script."""
    head = "#SBATCH "
    return [line.removeprefix(head) for line in script.splitlines() if line.startswith(head)]


def test_print_shows_the_script_and_submits_nothing(
    colltune: Verb, campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layout and time come from the campaign, the rest is the user's; no sbatch is needed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    words = ("--out", "data", "--tasks", 3, "--partition", "long", "--account", "phys")
    answer = colltune("submit", campaign, *words, "--print", "--", "--qos=low", "-C", "ib&gpu")
    assert (answer.status, answer.err) == (0, "")
    found = directives(answer.out)
    assert found[1:5] == ["--array=1-3", "--nodes=8", "--ntasks-per-node=16", "--time=45"]
    assert found[-1] == "--partition=long --account=phys --qos=low -C 'ib&gpu'"
    measure = f"{sys.executable} -P -m colltune.cli measure '{campaign}' --out {tmp_path}/data"
    measure += " --programs same-types"
    assert f'\n{measure} --task "$SLURM_ARRAY_TASK_ID/3" &\n' in answer.out
    assert not (tmp_path / "data").exists()


def test_measures_options_are_handed_on(colltune: Verb, campaign: Path) -> None:
    """What changes the campaign changes that of the tasks, whose time and nodes may be given."""
    wanted = "--budget 4h --strategy full_grid --mpi /opt/mpi --only '*.chain:*' --only '*.ring'"
    script = colltune("submit", campaign, *shlex.split(wanted), "--print").out
    assert f"{wanted} --task" in script
    assert "--time=245" in directives(script)
    script = colltune("submit", campaign, "--programs", "any-legal", "--print").out
    assert "--programs any-legal --task" in script
    script = colltune("submit", campaign, "--time", "0:30:00", "--nodes", 9, "--print").out
    assert {"--time=30", "--nodes=9"} <= set(directives(script))


@pytest.mark.usefixtures("sbatch")
def test_submitting_tells_the_job_and_how_to_watch_it(
    colltune: Verb, campaign: Path, tmp_path: Path
) -> None:
    """The number, where the output goes, how to stop."""
    answer = colltune("submit", campaign, "--out", tmp_path / "data", "--tasks", 2)
    assert answer.status == 0
    assert answer.out.splitlines() == [
        "job 17: 2 tasks on 8 nodes x 16 processes, measuring 60 min each within a time limit of"
        f" 65 min -> {tmp_path}/data",
        "watch: squeue --array --jobs=17",
        f"output: {tmp_path}/data/slurm/17_TASK.log",
        f"status: colltune submit --status --out {tmp_path}/data",
        "stop: scancel 17 (the measurements are kept; submit again to resume)",
    ]


@pytest.mark.usefixtures("sbatch")
def test_submitting_tells_machines_as_json(colltune: Verb, campaign: Path, tmp_path: Path) -> None:
    """Numbers are numbers, times are seconds."""
    told = colltune("submit", campaign, "--out", tmp_path / "data", "--json").json
    assert told == {
        "job": "17",
        "tasks": 1,
        "nodes": 8,
        "ppn": 16,
        "task_s": 7200.0,
        "time_limit_s": 7500.0,
        "dataset": f"{tmp_path}/data",
        "log": f"{tmp_path}/data/slurm/17_TASK.log",
        "watch": "squeue --array --jobs=17",
    }


def test_what_makes_no_sense_is_refused(
    colltune: Verb, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is submitted, with the option that is wrong."""
    for words, status, code in (
        (("--tasks", 7), 4, "too-many-parts parts=7"),
        (("--nodes", 4), 4, "too-small name=--nodes value=4"),
        (("--time", "1h"), 4, "malformed value=1h"),
        (("--time", "2"), 4, "too-little-time minutes=5.0"),
        (("--budget", "soon"), 4, "malformed value=soon"),
        ((), 5, "program-missing program=sbatch"),
    ):
        monkeypatch.setenv("PATH", "/nonexistent")
        answer = colltune("submit", campaign, *words)
        assert (answer.status, answer.out) == (status, ""), words
        assert answer.says(code), (words, answer.err)
    nothing = colltune("submit")
    assert (nothing.status, nothing.code) == (2, "missing")


def test_what_differs_between_nodes_must_be_given(colltune: Verb, campaign: Path) -> None:
    """A name taken from each node would tear the dataset apart."""
    for line, key in (
        ('name = "hydra"', "machine.name"),
        ("nodes = [2, 8, 4]", "space.nodes"),
        ("ppn = [1, 16]", "space.ppn"),
    ):
        campaign.write_text(CAMPAIGN.replace(line, ""))
        answer = colltune("submit", campaign, "--print")
        assert (answer.status, answer.out) == (4, ""), line
        assert answer.says(f"key-missing key={key}"), line


def test_the_status_of_all_tasks(
    colltune: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm tells of those in the queue, their own last words of the others."""
    folder = tmp_path / "data" / "slurm"
    folder.mkdir(parents=True)
    for job in (9, 17):
        (folder / f"{job}.job").touch()
    (folder / "9_1.log").write_text("colltune: task 9_1: out of time\ncolltune: task 9_1: done\n")
    (folder / "17_1.log").write_text("")
    (folder / "17_10.log").write_text("killed\n")
    (tmp_path / "squeue").write_text(
        f'#!/bin/sh\necho "$@" >{tmp_path}/asked\n'
        "echo '17_1|RUNNING|1:30:00|None'; echo '17_2|PENDING|2:00:00|Resources'\n"
    )
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    answer = colltune("submit", "--status", "--out", tmp_path / "data")
    assert answer.out.splitlines()[2:] == [
        "  9_1  ENDED               done",
        " 17_1  RUNNING    1:30:00",
        " 17_2  PENDING    2:00:00  Resources",
        f"17_10  ENDED               ended without a message; see {folder}/17_10.log",
    ]
    assert "--jobs=17,9 " in (tmp_path / "asked").read_text()


def test_the_status_of_jobs_that_slurm_has_forgotten(
    colltune: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that ended long ago is no error; a Slurm that does not answer is one."""
    folder = tmp_path / "data" / "slurm"
    folder.mkdir(parents=True)
    (folder / "9.job").touch()
    (folder / "9_1.log").write_text("colltune: task 9_1: failed with status 5\n")
    words = ("submit", "--status", "--out", tmp_path / "data", "--json")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    squeue = tmp_path / "squeue"
    squeue.write_text(
        "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n"
    )
    squeue.chmod(0o755)
    task = {"name": "9_1", "state": "ENDED", "left": "", "said": "failed with status 5"}
    assert colltune(*words).json == [task]
    squeue.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    answer = colltune(*words)
    assert answer.status == 5
    assert "Unable to contact slurm controller" in answer.err


def test_a_dataset_without_jobs_has_no_status(colltune: Verb, tmp_path: Path) -> None:
    """Neither an error nor an empty table; no Slurm is needed."""
    answer = colltune("submit", "--status", "--out", tmp_path)
    assert (answer.status, answer.out) == (0, f"no task has measured into {tmp_path} yet\n")
