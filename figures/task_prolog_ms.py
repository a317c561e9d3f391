"""What the hook before every task of a Slurm job costs: plain sh, no Python, no program."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from colltune import process
from colltune.domain import Shape
from colltune.mpi import library
from colltune.server.slurm import hooks
from colltune.server.slurm.job_file import JobDecisions, JobSection, write
from figures.figure import Figure
from tests.integration.hooked_slurm import hooked_slurm

_ROUNDS = 300
_STEPS = 25
_TASKS = 4
_EMPTY = "#!/bin/sh\nexit 0\n"
_JOB = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_STEP_NUM_TASKS": "32",
    "SLURM_STEP_TASKS_PER_NODE": "8(x4)",
    "SLURM_CPUS_ON_NODE": "8",
}


def run() -> Figure:
    """Return by how many ms the hook of a task is slower than an empty script, in sh."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hooks.install(folder / "hooks", folder, {})
        site = f"COLLTUNE_SITE_FOLDER={folder}/jobs\nCOLLTUNE_SITE_DEFAULT=openmpi/4.1.4\n"
        (folder / "hooks" / hooks.SITE).write_text(site)
        _prepare(folder / "jobs" / "17")
        empty = _script(folder / "empty.sh")
        # as many other variables as a job with some modules has
        others = {f"MODULE_VARIABLE_{k}": "/opt/software/some/where:" * 5 for k in range(150)}
        environment = others | _JOB
        hook = folder / "hooks" / "task_prolog.sh"
        told = subprocess.run(
            [hook], env=environment, capture_output=True, text=True, check=True
        ).stdout
        if f"{folder}/jobs/17/openmpi-4.1.4/4x8/rules" not in told:
            raise RuntimeError(f"the hook did not do its work: {told}")
        return _figure("task_prolog_ms", _alternated(hook, empty, environment))


def run_srun() -> Figure:
    """Return by how many ms a step of four tasks takes longer with the hook, through srun."""
    with hooked_slurm(1, _TASKS, for_tasks=False) as bed:
        empty = _script(bed.site.hooks / "empty.sh")
        hook = bed.site.hooks / "task_prolog.sh"
        granted = bed.slurm.run("salloc", "--no-shell", "-N1", f"-n{_TASKS}")
        job = granted.stderr.partition("job allocation ")[2].split()[0]
        step = ("srun", "--quiet", f"--jobid={job}", "-N1", f"-n{_TASKS}")
        told = bed.slurm.ask(*step, f"--task-prolog={hook}", "printenv", "COLLTUNE_SECTION")
        if told.count(f"/{job}/openmpi-4.1.4/1x{_TASKS}\n") != _TASKS:
            raise RuntimeError(f"the tasks were not told: {told}")
        seconds: dict[Path, list[float]] = {hook: [], empty: []}
        for _ in range(_STEPS):
            for script, times in seconds.items():
                outcome = bed.slurm.run(*step, f"--task-prolog={script}", "true")
                times.append(process.check(outcome, "a step").seconds)
        return _figure("task_prolog_srun_ms", (seconds[hook], seconds[empty]))


def _prepare(folder: Path) -> None:
    path = folder / "openmpi-4.1.4" / "4x8" / "rules"
    variables = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path),
        "OMPI_MCA_coll_hcoll_enable": "0",
    }
    section = JobSection(Shape(4, 8), {"rules": "0\n"}, variables)
    patterns = library("openmpi").user_patterns
    write(JobDecisions("ab" * 32, "openmpi", "4.1.4", patterns, (section,)), folder)


def _script(path: Path) -> Path:
    path.write_text(_EMPTY)
    path.chmod(0o755)
    return path


def _alternated(
    hook: Path, empty: Path, environment: Mapping[str, str]
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the seconds of each run of both scripts, run in turn."""
    seconds: dict[Path, list[float]] = {hook: [], empty: []}
    for _ in range(_ROUNDS):
        for script, times in seconds.items():
            started = time.perf_counter()
            pid = os.posix_spawn(
                script,
                [str(script)],
                dict(environment),
                file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
            )
            os.waitpid(pid, 0)
            times.append(time.perf_counter() - started)
    return seconds[hook], seconds[empty]


def _figure(name: str, seconds: tuple[Sequence[float], Sequence[float]]) -> Figure:
    ours, baseline = (1e3 * statistics.median(times) for times in seconds)
    # of runs beside each other, since a machine's load changes meanwhile
    added = 1e3 * statistics.median(o - b for o, b in zip(*seconds, strict=True))
    return Figure(name, added, "ms", ours, baseline)
