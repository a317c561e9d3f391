"""`colltune submit`: a campaign as a Slurm job array."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, Verbatim, output
from colltune.cli.options import (
    ForPrograms,
    ForResults,
    Interposed,
    Json,
    Mpi,
    Only,
    Skip,
    StartedBy,
)
from colltune.domain import Shape
from colltune.errors import CampaignError, say
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.bench.campaign import Campaign
    from colltune.bench.slurm import BatchJob


@dataclass(frozen=True)
class SubmittedJob:
    """What `submit` prints."""

    job: str
    """Slurm's number of the array"""
    tasks: int
    """tasks"""
    nodes: int
    ppn: int
    task_s: float
    """measuring time of a task"""
    time_limit_s: float | None
    """time limit of a task; null: unlimited"""
    dataset: Path
    """folder of the dataset"""
    log: Path
    """pattern of the log files"""
    watch: str
    """command that shows the tasks"""


@dataclass(frozen=True)
class PrintedScript:
    """What `submit --print` prints."""

    script: str
    """text of the batch script"""


def submit(
    campaign: Annotated[Path | None, typer.Argument(help="Campaign file (TOML).")] = None,
    sbatch_options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- SBATCH OPTIONS…]", help="Options of sbatch, after --."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Dataset folder to add to, on a file system that all nodes see.")
    ] = Path("dataset"),
    tasks: Annotated[
        int,
        typer.Option(
            min=1, help="Number of tasks that share the campaign's shapes and its budget."
        ),
    ] = 1,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wall time of all tasks together: 90, 30m, 4h."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time limit of a task, in sbatch's notation; default: its budget and 5 minutes. "
            "Tasks that need longer are started again.",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes of a task; default: those of the largest shape."),
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm's partition.")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm account to charge.")] = None,
    mpi: Mpi = None,
    launcher: StartedBy = None,
    backend: Annotated[str | None, typer.Option(help="As for measure.")] = None,
    strategy: Annotated[str | None, typer.Option(help="As for measure.")] = None,
    only: Only = None,
    skip: Skip = None,
    interposed: Interposed = False,
    programs: ForPrograms = None,
    results: ForResults = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the batch script, and submit nothing.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show the state of the dataset's tasks.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a campaign on a Slurm cluster: a job array, one dataset.

    Each task measures its part. A task that is preempted or runs out of time resumes later.

    Example: colltune submit reprompi_configs/slurm-cluster.toml --out dataset --tasks 4
    --partition batch -- --qos=low --constraint='ib&gpu'
    """
    from colltune.bench import slurm
    from colltune.bench.campaign import CampaignPart
    from colltune.cli.campaigns import campaign_of

    if status:
        _show_status(out, as_json=json)
        return
    if campaign is None:
        raise say("missing", what="the campaign file", give="CAMPAIGN, or use --status")
    plan = campaign_of(
        campaign,
        budget,
        backend,
        strategy,
        only,
        skip,
        interposed=interposed,
        programs=programs,
        results=results,
    )
    plan = plan.changed(part=CampaignPart(1, tasks))
    _check_everywhere_the_same(campaign)
    same = {"--budget": budget, "--backend": backend, "--strategy": strategy, "--mpi": mpi}
    same["--launcher"] = launcher
    words = [str(campaign.absolute()), "--out", str(out.absolute())]
    # the variable that may have told need not be there on the nodes
    words += ["--programs", str(plan.programs)]
    words += [word for name, value in same.items() if value for word in (name, value)]
    words += ["--interposed"] * interposed
    for name, globs in (("--only", only), ("--skip", skip)):
        words += [word for glob in globs or () for word in (name, glob)]
    named = {"partition": partition, "account": account}
    options = [f"--{name}={value}" for name, value in named.items() if value is not None]
    job = slurm.BatchJob(
        name=f"colltune-{campaign.stem}",
        tasks=tasks,
        shape=_granted(plan, nodes),
        task_s=plan.budget_s,
        time_s=slurm.time_limit_s(plan.budget_s) if time is None else _time_s(time),
        # -P: modules lying in the working folder are not for us
        measure=(sys.executable, "-P", "-m", "colltune.cli", "measure", *words),
        dataset=out.absolute(),
        options=(*options, *(sbatch_options or ())),
    )
    if print_:
        script = job.script()
        output(PrintedScript(script), [Verbatim(script.removesuffix("\n"))], json=json)
        return
    _report(job, slurm.submit(job), as_json=json)


def _check_everywhere_the_same(path: Path) -> None:
    """Insist on what each node that a task runs on would otherwise take from itself."""
    from colltune.bench.campaign_file import given_keys

    given = given_keys(path)
    for key in ("machine.name", "space.nodes", "space.ppn"):
        if key not in given:
            raise say("key-missing", CampaignError, file=path, key=key)


def _granted(plan: Campaign, nodes: int | None) -> Shape:

    if nodes is not None and nodes < max(plan.nodes):
        less = f"less than the {max(plan.nodes)} of space.nodes"
        raise say("too-small", CampaignError, name="--nodes", value=nodes, less=less)
    return Shape(nodes or max(plan.nodes), max(plan.each_ppn))


def _time_s(text: str) -> float:
    from colltune.bench.slurm import duration_s

    try:
        return duration_s(text)
    except ValueError:
        what, like = "a time limit for --time", "90 (minutes), 1:30:00 or 1-12:00:00"
        raise say("malformed", CampaignError, value=text, what=what, like=like) from None


def _report(job: BatchJob, number: str, *, as_json: bool) -> None:
    from colltune.bench.durations import text

    log = job.folder / f"{number}_TASK.log"
    watch = f"squeue --array --jobs={number}"
    numbers = job.tasks, job.shape.nodes, job.shape.ppn, job.task_s, job.time_s
    lines = [
        f"job {number}: {counted(job.tasks, 'task')} on {job.shape.nodes} nodes x {job.shape.ppn}"
        f" processes, measuring {text(job.task_s)} each within a time limit of {text(job.time_s)}"
        f" -> {job.dataset}",
        f"watch: {watch}",
        f"output: {log}",
        f"status: colltune submit --status --out {shlex.quote(str(job.dataset))}",
        f"stop: scancel {number} (the measurements are kept; submit again to resume)",
    ]
    output(SubmittedJob(number, *numbers, job.dataset, log, watch), lines, json=as_json)


def _show_status(dataset: Path, *, as_json: bool) -> None:
    from colltune.bench.slurm import tasks

    found = tasks(dataset)
    rows = [[task.name, task.state, task.left, task.said] for task in found]
    table = TextTable(("task", "state", "time left", "said"), rows, wrap=("said",))
    nothing = f"no task has measured into {dataset} yet"
    output(found, [table if found else nothing], json=as_json)
