"""A campaign as a Slurm job array that measures into one dataset: its script, and its tasks.

Every task measures its part of the campaign. Slurm starts a task again when it is preempted or its
node is lost. A task whose time is nearly up is told by a signal; it stops in good order, keeps what
it measured, and puts itself back into the queue, unless that would bring nothing.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune import process
from colltune.domain import Shape
from colltune.errors import UNFINISHED, ProgramError, say
from colltune.files import write_text
from colltune.provenance.job import counts

_ALLOCATION_S = 10.0
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class Allocation:
    job: str
    nodes: int
    tasks_per_node: tuple[int, ...] = ()
    ends_s: float | None = field(default=None, compare=False)

    @property
    def left_s(self) -> float | None:
        """Wall time in seconds that is left of the job, at least 0; None when unknown."""
        return None if self.ends_s is None else max(0.0, self.ends_s - time.monotonic())

    def check(self, shapes: Iterable[Shape]) -> None:
        for shape in sorted(shapes, reverse=True):
            if shape.nodes > self.nodes:
                granted = f"{self.nodes} nodes"
                raise say("granted-too-little", shape=shape, job=self.job, granted=granted)
            able = sum(tasks >= shape.ppn for tasks in self.tasks_per_node)
            if self.tasks_per_node and able < shape.nodes:
                granted = f"{shape.ppn} processes on {able} of its nodes"
                raise say("granted-too-little", shape=shape, job=self.job, granted=granted)


def allocation(environment: Mapping[str, str] | None = None) -> Allocation | None:
    """Return the Slurm job that this process runs in, or None outside of one."""
    variables = os.environ if environment is None else environment
    job = variables.get("SLURM_JOB_ID", "")
    if not job:
        return None
    tasks = _numbers(variables, "SLURM_TASKS_PER_NODE")
    nodes = _numbers(variables, "SLURM_JOB_NUM_NODES")
    return Allocation(job, nodes[0] if nodes else len(tasks) or 1, tasks, _ends_s(variables, job))


def duration_s(text: str) -> float:
    """Return the seconds of a wall time as Slurm writes it; one number alone is minutes.

    ``90``, ``1:30``, ``2:00:00``, ``1-12``, ``1-12:30``, ``1-12:30:00``, ``UNLIMITED``; a
    ValueError if it is of no such form.
    """
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not written by Slurm: {text!r}")
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _numbers(variables: Mapping[str, str], name: str) -> tuple[int, ...]:
    text = variables.get(name, "").strip()
    try:
        return counts(text) if text else ()
    except ValueError:
        raise say("not-slurms", name=name, text=text) from None


def _ends_s(variables: Mapping[str, str], job: str) -> float | None:
    """Return when the job ends by the monotonic clock, which no clock step moves."""
    told = variables.get("SLURM_JOB_END_TIME", "")
    if told.isdigit() and int(told) > 0:
        return time.monotonic() + int(told) - time.time()
    array, task = (variables.get(f"SLURM_ARRAY_{what}_ID", "") for what in ("JOB", "TASK"))
    # the number of one of an array's tasks is that of the array, too
    asked = f"{array}_{task}" if array and task else job
    command = ["squeue", "--noheader", f"--jobs={asked}", "--format=%L"]
    try:
        outcome = process.run(command, timeout_s=_ALLOCATION_S)
        return time.monotonic() + duration_s(outcome.stdout.strip()) if outcome.ok else None
    except (ProgramError, ValueError):
        return None


STOP_S = 60
"""Seconds before a job's end at which it is told to stop; Slurm may do so as much earlier."""
_SLACK_S = 300.0
_LEAST_S = 300.0
_INTERRUPTED = 130
_NAME = re.compile(r"[^\w.-]+")
_SUBMIT_TIMEOUT_S = 120.0
_MEND = "submit on a host with Slurm's client programs, or print the script with --print"

_BODY = """\
folder={folder}
task="${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
requeues="$folder/$task.requeues"
started="$folder/$task.started"
measure=
stopped=

say() {{
    echo "colltune: task $task: $*" >&2
}}

finish() {{
    rm -f -- "$started"
    exit "$1"
}}

trap 'stopped=yes; [ -z "$measure" ] || kill -TERM "$measure" 2>/dev/null' TERM
true >"$started" || exit 9
{measure} --task "$SLURM_ARRAY_TASK_ID/{tasks}" &
measure=$!
[ -z "$stopped" ] || kill -TERM "$measure" 2>/dev/null
while :; do
    wait "$measure"
    status=$?
    kill -0 "$measure" 2>/dev/null || break
done

if [ "$status" -eq 0 ]; then
    say "done"
    rm -f -- "$requeues"
    finish 0
fi
if [ -z "$stopped" ] && [ "$status" -ne {unfinished} ] && [ "$status" -ne {interrupted} ]; then
    say "failed with status $status"
    finish "$status"
fi
state=SIGNALING
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ "$state" = SIGNALING ] || break
    state=$(squeue --noheader --jobs="$task" --format=%T) || state=SIGNALING
    [ "$state" != SIGNALING ] || sleep 1
done
# else cancelled, or preempted and started again by Slurm itself
if [ "$state" != RUNNING ] && [ "$state" != SIGNALING ]; then
    say "stopped; what was measured is kept"
    finish "$status"
fi
if [ -z "$(find {dataset} -name raw -prune -o -name '*.parquet' -newer "$started" -print)" ]; then
    say "stopped before anything was measured, not started again; give more --time"
    finish "$status"
fi
echo "$status" >>"$requeues"
if [ "$(wc -l <"$requeues")" -gt {most_requeues} ]; then
    say "started again {most_requeues} times and still not done; submit it again to go on"
    finish "$status"
fi
say "out of time, starting again"
scontrol requeue "$task" || say "cannot be put back into the queue; submit it again to go on"
finish "$status"
"""
_ASK_TIMEOUT_S = 60.0
_ASK_MEND = "run this on a host with Slurm's client programs"
_TASK_NAME = re.compile(r"\d+_\d+")


@dataclass(frozen=True)
class BatchJob:
    """A job array of `tasks` tasks, each of which runs ``measure --task I/N``."""

    name: str
    tasks: int
    shape: Shape
    task_s: float
    time_s: float
    measure: tuple[str, ...]
    dataset: Path
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.time_s < _LEAST_S:
            minutes = _LEAST_S / 60
            raise say("too-little-time", time_s=self.time_s, stop_s=2 * STOP_S, minutes=minutes)

    @property
    def folder(self) -> Path:
        """The folder for the script, the tasks' output and their state."""
        return folder_of(self.dataset)

    @property
    def most_requeues(self) -> int:
        """How often a task may start itself again: as its time limit makes needed, and some."""
        turn_s = max(STOP_S, self.time_s - _SLACK_S)
        return 2 * max(1, math.ceil(self.task_s / turn_s)) + 1

    def script(self) -> str:
        return "\n".join(
            [
                "#!/bin/sh",
                "# Measures one task's part of a campaign; written by colltune submit.",
                *(f"#SBATCH {option}" for option in self._directives()),
                "",
                _BODY.format(
                    folder=_quoted([str(self.folder)]),
                    measure=_quoted(self.measure),
                    dataset=_quoted([str(self.dataset)]),
                    tasks=self.tasks,
                    most_requeues=self.most_requeues,
                    unfinished=UNFINISHED,
                    interrupted=_INTERRUPTED,
                ),
            ]
        )

    def _directives(self) -> list[str]:
        # sbatch puts numbers in the place of % in a file's name
        log = str(self.folder).replace("%", "%%") + "/%A_%a.log"
        ours = [
            f"--job-name={job_name(self.name)}",
            f"--array=1-{self.tasks}",
            f"--nodes={self.shape.nodes}",
            f"--ntasks-per-node={self.shape.ppn}",
            f"--time={_limit(self.time_s)}",
            "--exclusive",
            "--requeue",
            "--open-mode=append",
            f"--signal=B:TERM@{STOP_S}",
            "--export=ALL",
            # a site's hooks must not tune what is measured
            "--comment=colltune:off",
            f"--output={log}",
        ]
        lines = [directive_word(option) for option in ours]
        if self.options:
            lines.append(" ".join(directive_word(word) for word in self.options))
        return lines


def folder_of(dataset: Path) -> Path:
    """Return the folder of a dataset in which its job arrays keep what they need."""
    return dataset / "slurm"


def submit(job: BatchJob) -> str:
    """Write the script into the dataset's folder, give it to sbatch, return the array's number."""
    script = job.script()
    sbatch = process.find("sbatch", _MEND)
    path = job.folder / f"{job_name(job.name)}.sh"
    write_text(path, script, 0o644)
    outcome = process.run([sbatch, "--parsable", path], timeout_s=_SUBMIT_TIMEOUT_S)
    process.check(outcome, "submitting the campaign")
    number = outcome.stdout.strip().partition(";")[0]
    if not number.isdigit():
        raise say("not-printed", program="sbatch", what="a job number", told=outcome.explain())
    (job.folder / f"{number}.job").touch()
    return number


def configuration() -> dict[str, str]:
    """Return Slurm's configuration as its controller knows it, empty where nothing is set."""
    scontrol = process.find("scontrol", _ASK_MEND)
    outcome = process.run([scontrol, "show", "config"], timeout_s=_ASK_TIMEOUT_S)
    process.check(outcome, "asking for Slurm's configuration")
    rows = (line.partition("=") for line in outcome.stdout.splitlines())
    # a setting that can be given several times is numbered
    named = {re.sub(r"\[0\]$", "", name.strip()): value.strip() for name, _, value in rows}
    return {name: "" if value == "(null)" else value for name, value in named.items()}


def time_limit_s(task_s: float) -> float:
    return task_s + _SLACK_S


def _limit(time_s: float) -> str:
    return "UNLIMITED" if math.isinf(time_s) else str(math.ceil(time_s / 60))


def job_name(text: str) -> str:
    """Return `text` as a job's name: one word of letters, digits, dots, dashes."""
    return _NAME.sub("-", text).strip("-") or "campaign"


def directive_word(word: str) -> str:
    """Return `word` for an ``#SBATCH`` line, quoted as in sh, which is how sbatch reads it."""
    _check_one_line(word)
    if "\\" in word:
        raise say("backslash", word=word)
    return shlex.quote(word)


def _quoted(words: Sequence[str]) -> str:
    for word in words:
        _check_one_line(word)
    return shlex.join(words)


def _check_one_line(word: str) -> None:
    if any(ord(character) < 32 for character in word):
        raise say("control-character", word=word)


@dataclass(frozen=True)
class Task:
    """A task of a job array."""

    name: str
    """job and task, 17_1"""
    state: str
    """Slurm's state, or ENDED"""
    left: str
    """time left"""
    said: str
    """its last words"""


def tasks(dataset: Path) -> tuple[Task, ...]:
    """Return the tasks that measure, or have measured, into the folder `dataset`."""
    folder = folder_of(dataset)
    queued = _queue(file.stem for file in folder.glob("*.job"))
    logs = {file.stem: file for file in folder.glob("*.log") if _TASK_NAME.fullmatch(file.stem)}
    names = sorted({*queued, *logs}, key=lambda name: [int(n) for n in name.split("_")])
    return tuple(
        queued.get(name) or Task(name, "ENDED", "", _last_word(name, logs[name])) for name in names
    )


def _queue(jobs: Iterable[str]) -> dict[str, Task]:
    numbers = ",".join(sorted(jobs))
    if not numbers:
        return {}
    squeue = process.find("squeue", _ASK_MEND)
    options = ("--array", "--noheader", f"--jobs={numbers}", "--format=%i|%T|%L|%r")
    outcome = process.run([squeue, *options], timeout_s=_ASK_TIMEOUT_S)
    if not outcome.ok and "nvalid job id" not in outcome.stderr:
        process.check(outcome, "asking for the jobs")
    rows = [line.split("|", 3) for line in outcome.stdout.splitlines()]
    return {
        name: Task(name, state, left, "" if reason == "None" else reason)
        for name, state, left, reason in rows
    }


def _last_word(name: str, log: Path) -> str:
    said = f"colltune: task {name}: "
    lines = log.read_text(errors="replace").splitlines()
    words = [line.removeprefix(said) for line in lines if line.startswith(said)]
    return words[-1] if words else f"ended without a message; see {log}"
