"""`colltune evaluate`: how good selections are on what the models have not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import parse_pairs, progress
from colltune.cli.counts import parse_counts
from colltune.cli.options import Data, Jobs, Json, Profiles, Quiet, Where, writable_place


def evaluate(
    data: Data,
    split: Annotated[
        str | None,
        typer.Option(
            help="What is left out of training and tested: leave-nodes-out, leave-ppn-out (each"
            " once), extrapolation (the larger node counts), leave-allocation-out (each launch, on"
            " its own times), message-sizes (random halves), transfer (--test-data)."
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            help="paper: Table IV and, into --out, figures 4 to 8 of Hunold et al. 2020;"
            " all: every split that the data allows."
        ),
    ] = None,
    train_nodes: Annotated[
        str | None, typer.Option(help="Node counts to train on, instead of a split: 4,16,36.")
    ] = None,
    test_nodes: Annotated[
        str | None, typer.Option(help="Node counts to test on, with --train-nodes: 7,13,19.")
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(help="extrapolation: test so many node counts; default: the upper third."),
    ] = None,
    above: Annotated[
        int | None, typer.Option(help="extrapolation: test what has more nodes than this.")
    ] = None,
    ppn: Annotated[
        str | None, typer.Option(help="leave-ppn-out: leave out only these: 8,16.")
    ] = None,
    test_data: Annotated[
        list[Path] | None,
        typer.Option(help="transfer: the other machine's dataset; repeatable.", metavar="DATA"),
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="leave-allocation-out: regular expression whose first group in a launch's name is"
            " its allocation; default: what the provenance says, else each launch is its own.",
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(help="A learner, or auto as `fit` has it; repeatable; default: auto."),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(
            help="Keep the default unless the predicted gain is beyond doubt and noise, as"
            " `select` does; --no-guard always takes the fastest prediction."
        ),
    ] = True,
    objective: Annotated[
        str, typer.Option(help="What of a runtime is learned to be small, as `fit` has it.")
    ] = "trimmed-mean",
    judge: Annotated[
        str | None,
        typer.Option(help="What of a runtime decisions are judged by; default: the objective."),
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Also replay `confirm`: one half of the recorded launches or repetitions confirms"
            " decisions or withdraws them, the other half judges.",
        ),
    ] = False,
    noise: Annotated[
        float,
        typer.Option(
            help="Log-normal noise put on training times, 0.05 for 5 %; with --confirm also on each"
            " launch that confirms."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of noise, halves and intervals.")] = 0,
    max_nprocs: Annotated[
        int | None, typer.Option(help="Leave out instances with more processes.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write all decisions into this JSON file; with --suite paper, a folder that also"
            " gets the figures.",
            metavar="FILE",
            callback=writable_place,
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="DATA are two files of --out: show how their learners differ."
        ),
    ] = False,
    profile: Profiles = None,
    where: Where = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train on a part of the data, test on the rest, against default, oracle and other baselines.

    Baselines are the library's default, the single best configuration, the best one of every
    instance (virtual_best), the three learners of Hunold et al. (CLUSTER 2020) as published, and
    log-log interpolation.

    Examples: colltune evaluate data.csv.gz --split leave-nodes-out --out new.json

    colltune evaluate --compare old.json new.json

    colltune evaluate data.csv.gz --train-nodes 4,16,36 --test-nodes 7,13 --json

    colltune evaluate data.csv.gz --split leave-nodes-out --profile profiles

    colltune evaluate data --split leave-nodes-out --confirm

    colltune evaluate data.csv.gz --suite paper --out figures
    """
    from colltune.cli import evaluation_report as report
    from colltune.dataset.objective import parse_objective
    from colltune.evaluation.request import EvaluationRequest

    if compare:
        report.show_comparison(data, json=json)
        return
    request = EvaluationRequest(
        data=tuple(data),
        where=parse_pairs(where or [], "--where"),
        split=split,
        suite=suite,
        train_nodes=parse_counts(train_nodes, "--train-nodes"),
        test_nodes=parse_counts(test_nodes, "--test-nodes"),
        largest=largest,
        above=above,
        ppn=parse_counts(ppn, "--ppn"),
        test_data=tuple(test_data or ()),
        allocation=allocation,
        learners=tuple(learner or ("auto",)),
        guard=guard,
        objective=parse_objective(objective),
        judged_by=parse_objective(judge or objective),
        noise=noise,
        seed=seed,
        max_nprocs=max_nprocs,
        jobs=jobs,
        profiles=tuple(profile or ()),
        confirm=confirm,
    )
    with progress("reading", quiet=quiet or json) as shown:
        datasets = request.read()
        shown.phase("evaluating", "fits")
        result = request.run(datasets, shown.part, shown.count)
    report.show_result(result, out, json=json)
