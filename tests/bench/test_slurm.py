"""The batch script of a campaign as a job array."""

from __future__ import annotations

import os
import shlex
import shutil
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune import process
from colltune.bench.slurm import BatchJob, directive_word, job_name, submit, time_limit_s
from colltune.domain import Shape
from colltune.errors import CampaignError, ProgramError
from tests.refusals import refused

GOLDEN = Path(__file__).parents[1] / "golden" / "slurm"
WORDS = st.text(string.printable.replace("\\", "").translate(dict.fromkeys(range(32))))
JOB = BatchJob(
    name="colltune hydra",
    tasks=4,
    shape=Shape(36, 32),
    task_s=3600.0,
    time_s=3900.0,
    measure=("/opt/venv/bin/python", "-m", "colltune", "measure", "/home/her/hydra.toml"),
    dataset=Path("/scratch/data"),
)
AWKWARD = replace(
    JOB,
    name="it's a 'b'; rm -rf $HOME",
    tasks=1,
    shape=Shape(2, 1),
    task_s=86400.0,
    time_s=5400.0,
    measure=("/opt/my venv/bin/python", "measure", "--only", "*.bcast.*", "$(reboot)", "it's"),
    dataset=Path('/scratch/her "100%" data\'s'),
    options=("--partition=long", "-C", "ib&gpu", "--comment=a # 'b' \"c\" $HOME `d`"),
)


def test_the_script_is_as_recorded(tmp_path: Path) -> None:
    """The whole script, also with names that a shell would take apart; each sh can read it."""
    for name, job in (("plain", JOB), ("awkward", AWKWARD)):
        assert job.script() == (GOLDEN / f"{name}.sh").read_text()
        (tmp_path / "job.sh").write_text(job.script())
        for shell in filter(shutil.which, ("sh", "bash", "dash")):
            read = process.run([shell, "-n", tmp_path / "job.sh"], timeout_s=10)
            process.check(read, f"reading {name} by {shell}")


@given(st.lists(WORDS, min_size=1))
def test_the_measuring_command_survives_the_shell(words: list[str]) -> None:
    """What sh makes of the line are the very words that were given."""
    line = next(
        line
        for line in replace(JOB, measure=("measure", *words)).script().splitlines()
        if line.startswith("measure ")
    )
    assert shlex.split(line)[: len(words) + 1] == ["measure", *words]


@given(WORDS)
def test_a_directive_is_one_word(word: str) -> None:
    """Quotes, blanks and number signs neither end a word nor begin a comment."""
    assert shlex.split(directive_word(word), comments=True) == [word]


def test_what_a_script_cannot_hold_is_refused() -> None:
    """The message has the word and says what to do; nothing is silently changed."""
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"options": ("--comment=a\nreboot",)}, "control-character"),
        ({"options": ("--comment=a\\b",)}, "backslash"),
        ({"measure": ("a\nb",)}, "control-character"),
        ({"dataset": Path("/a\nb")}, "control-character"),
        ({"dataset": Path("/a\\b")}, "backslash"),
    )
    for change, message in changes:
        with refused(message, CampaignError):
            replace(JOB, **change).script()


def test_a_time_limit_that_is_too_short_is_refused() -> None:
    """A task that would be told to stop at once could never measure."""
    with refused("too-little-time", CampaignError, stop_s=120):
        replace(JOB, time_s=240.0)


def test_a_task_may_start_again_as_often_as_its_limit_makes_needed() -> None:
    """A day in turns of at most 85 minutes needs 17; the bound is twice that and never endless."""
    assert replace(JOB, task_s=86400.0, time_s=5400.0).most_requeues == 2 * 17 + 1
    assert JOB.most_requeues == 3
    assert replace(JOB, time_s=float("inf")).most_requeues == 3


def test_limits_and_names_are_slurms() -> None:
    """A task is done before it is told to stop; a job's name is one word, which names a file."""
    assert "#SBATCH --time=UNLIMITED\n" in replace(JOB, time_s=float("inf")).script()
    assert time_limit_s(3600.0) - 3600.0 >= 2 * 60
    assert [job_name(text) for text in ("a b/c", "..hydra-1", "  ")] == [
        "a-b-c",
        "..hydra-1",
        "campaign",
    ]


class Batch:
    """The batch script of one task, run here with programs that stand for Slurm's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "the data"
        (self.data / "slurm").mkdir(parents=True)
        self.program("scontrol", f'echo "$@" >>{folder}/requeued')

    def program(self, name: str, body: str) -> None:
        """Make a program that the script finds on PATH."""
        (self.folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.folder / name).chmod(0o755)

    def run(self, measure: str, *states: str) -> process.ProcessResult:
        """Run the script; squeue tells one of `states` after the other, then the last again."""
        self.program("measure", measure)
        (self.folder / "states").write_text("".join(f"{state}\n" for state in states))
        rest = f"sed 1d {self.folder}/states >{self.folder}/rest"
        keep = f"[ -s {self.folder}/rest ] && mv {self.folder}/rest {self.folder}/states"
        self.program("squeue", f"head -n 1 {self.folder}/states; {rest}; {keep}; true")
        job = replace(JOB, measure=(str(self.folder / "measure"),), dataset=self.data)
        (self.folder / "job.sh").write_text(job.script())
        array = {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}
        env = {**array, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        return process.run(["sh", self.folder / "job.sh"], timeout_s=30, env=env)

    @property
    def requeued(self) -> list[str]:
        """What scontrol was asked to do."""
        file = self.folder / "requeued"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """Return a batch script to run."""
    return Batch(tmp_path)


MEASURED = 'sleep 0.01; touch "$(dirname "$0")/the data/a.parquet"'


def test_an_unfinished_task_of_a_running_job_starts_again(batch: Batch) -> None:
    """Out of time or interrupted, also while Slurm is still busy with telling it so."""
    for number, states in enumerate((("RUNNING",), ("SIGNALING", "RUNNING"))):
        outcome = batch.run(f"{MEASURED}; exit {(10, 130)[number]}", *states)
        assert batch.requeued == ["requeue 17_3"] * (number + 1)
        assert "task 17_3: out of time, starting again" in outcome.stderr


def test_a_task_that_slurm_has_ended_stays_so(batch: Batch) -> None:
    """To put a cancelled job into the queue again would be against its user's will."""
    for state in ("COMPLETING", "CANCELLED", "PREEMPTED", "NODE_FAIL", ""):
        outcome = batch.run(f"{MEASURED}; exit 130", state)
        assert (state, outcome.returncode, batch.requeued) == (state, 130, [])
        assert "stopped; what was measured is kept" in outcome.stderr


def test_a_task_that_is_done_or_failed_keeps_its_status(batch: Batch) -> None:
    """Slurm's state of the job is that of the measuring; the task's number is handed on."""
    for status in (0, 4, 137):
        outcome = batch.run(f'{MEASURED}; echo "$@"; exit {status}', "RUNNING")
        assert (outcome.returncode, batch.requeued) == (status, [])
        assert outcome.stdout == "--task 3/4\n"


def test_what_is_not_new_is_no_progress(batch: Batch) -> None:
    """Only what this turn has added counts, and raw output of launches does not."""
    (batch.data / "old.parquet").touch()
    (batch.data / "raw").mkdir()
    outcome = batch.run(f'sleep 0.01; touch "{batch.data}/raw/x.parquet"; exit 10', "RUNNING")
    assert (outcome.returncode, batch.requeued) == (10, [])
    assert "before anything was measured" in outcome.stderr


def test_a_requeue_that_slurm_refuses_is_told(batch: Batch) -> None:
    """The log says how to go on."""
    batch.program("scontrol", "echo 'Access denied' >&2; exit 1")
    outcome = batch.run(f"{MEASURED}; exit 10", "RUNNING")
    assert outcome.returncode == 10
    assert "Access denied" in outcome.stderr
    assert "cannot be put back into the queue; submit it again" in outcome.stderr


def sbatch(folder: Path, body: str) -> None:
    """Make a program that stands for sbatch."""
    (folder / "sbatch").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "sbatch").chmod(0o755)


def test_submitting_gives_the_script_and_returns_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script lies in the dataset, is what sbatch gets, and a cluster's name is left out."""
    sbatch(tmp_path, f'cp "$2" {tmp_path}/seen && echo "$1" >{tmp_path}/option && echo "17;big"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    job = replace(JOB, dataset=tmp_path / "data set")
    assert submit(job) == "17"
    assert (tmp_path / "seen").read_text() == job.script()
    assert (tmp_path / "option").read_text() == "--parsable\n"
    kept = tmp_path / "data set" / "slurm" / "colltune-hydra.sh"
    assert kept.read_text() == job.script()


def test_a_refused_script_is_told_with_sbatchs_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the command and what it said."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for body, code, said in (
        ("echo 'invalid partition' >&2; exit 1", "program-failed", "stderr: invalid partition"),
        ("echo Submitted", "not-printed", "stdout: Submitted"),
    ):
        sbatch(tmp_path, body)
        with refused(code, ProgramError) as raised:
            submit(replace(JOB, dataset=tmp_path / "data"))
        assert said in raised.value.values["told"]


def test_without_sbatch_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where to submit, and the dataset's folder is as it was."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("program-missing", ProgramError, program="sbatch"):
        submit(replace(JOB, dataset=tmp_path / "data"))
    assert not (tmp_path / "data").exists()
