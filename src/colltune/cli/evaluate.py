"""`colltune evaluate`: how good selections are on what the models have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, output
from colltune.cli.options import (
    Data,
    Jobs,
    Json,
    Method,
    Quiet,
    Where,
    parse_counts,
    parse_pairs,
    programs_of,
    writable_place,
)
from colltune.cli.progress import progress
from colltune.text import printable

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.evaluation.evaluation import Evaluation, EvaluationFigures
    from colltune.evaluation.request import DecidedDataset, Result
    from colltune.evaluation.scores import Difference, Score
    from colltune.mpi.programs import Programs


def evaluate(
    data: Data,
    split: Annotated[
        str | None,
        typer.Option(
            help="What to hold out for testing: leave-nodes-out, leave-ppn-out (each value once), "
            "extrapolation (the larger node counts), leave-allocation-out (each allocation "
            "once, judged by its own times), message-sizes (random halves)."
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            help="paper: Table IV of Hunold et al. 2020, and with --out its figures 2 and 4 to 8."
        ),
    ] = None,
    train_nodes: Annotated[
        str | None,
        typer.Option(metavar="N,…", help="Node counts to train on, instead of a split: 4,16,36."),
    ] = None,
    test_nodes: Annotated[
        str | None,
        typer.Option(metavar="N,…", help="Node counts to test on, with --train-nodes: 7,13,19."),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(
            help="extrapolation: number of node counts to test on; default: the upper third."
        ),
    ] = None,
    above: Annotated[
        int | None, typer.Option(help="extrapolation: test on more nodes than this.")
    ] = None,
    ppn: Annotated[
        str | None, typer.Option(metavar="N,…", help="leave-ppn-out: hold out only these: 8,16.")
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="leave-allocation-out: regular expression for launch names; its first group is "
            "the allocation. Default: from the provenance, else each launch is an allocation.",
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(help="A learner, or auto as in `fit`; repeatable; default: auto."),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(
            help="Keep the default unless the gain is beyond doubt and noise, as in `select`; "
            "--no-guard always takes the fastest prediction."
        ),
    ] = True,
    objective: Annotated[
        str, typer.Option(help="The runtime statistic to learn, as in `fit`.")
    ] = "trimmed-mean",
    judge: Annotated[
        str | None,
        typer.Option(
            help="The runtime statistic that decisions are judged by; default: the objective."
        ),
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Also replay `confirm`: one half of the recorded launches or repetitions "
            "confirms or withdraws decisions, the other half judges them.",
        ),
    ] = False,
    noise: Annotated[
        float,
        typer.Option(
            help="Log-normal noise to add to training times, 0.05 for 5 %; with --confirm also to "
            "the launches that confirm."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Random seed of noise, halves and intervals.")] = 0,
    max_nprocs: Annotated[
        int | None, typer.Option(help="Skip instances with more processes than this.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="JSON file to write all decisions to; with --suite paper a folder, which also "
            "gets the figures.",
            metavar="FILE",
            callback=writable_place,
        ),
    ] = None,
    programs: Annotated[
        str | None,
        typer.Option(
            "--programs",
            metavar="PROMISE",
            help="Which programs the decisions are for, as in `select`: what harms them is left "
            "out; measured: nothing is. Default: $COLLTUNE_PROGRAMS, else same-types; with --suite "
            "paper measured.",
        ),
    ] = None,
    method: Method = None,
    where: Where = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train on one part of the data and test on the rest.

    The baselines are the library's default, the single best configuration, the best configuration
    of each instance (virtual_best), and the three learners of Hunold et al. (CLUSTER 2020). None of
    them can choose what `select` leaves out because it breaks some programs, see --programs.

    Examples: colltune evaluate data.csv.gz --split leave-nodes-out --out decisions.json

    colltune evaluate data.csv.gz --train-nodes 4,16,36 --test-nodes 7,13 --json

    colltune evaluate data --split leave-nodes-out --confirm

    colltune evaluate data.csv.gz --suite paper --out figures
    """
    from colltune.cli.import_ import read_measured
    from colltune.dataset.objective import parse_objective
    from colltune.evaluation.request import EvaluationRequest

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
        allocation=allocation,
        learners=tuple(learner or ("auto",)),
        guard=guard,
        objective=parse_objective(objective),
        judged_by=parse_objective(judge or objective),
        noise=noise,
        seed=seed,
        max_nprocs=max_nprocs,
        jobs=jobs,
        confirm=confirm,
        method=method,
        programs=_programs(programs, suite),
        reader=read_measured,
    )
    if suite == "paper" and out is not None:
        # a missing package is told of before hours of fits
        import colltune.plots.evaluations  # noqa: F401

    with progress("reading", quiet=quiet or json) as shown:
        datasets = request.read()
        shown.phase("evaluating", "fits")
        result = request.run(datasets, shown.part, shown.count)
    _show_result(result, datasets, out, json=json)


def _programs(named: str | None, suite: str | None) -> Programs | None:
    """Return what an option says; None: all that was measured can be chosen."""
    if named == "measured" or (named is None and suite == "paper"):
        return None
    return programs_of(named)


_SCORE: tuple[tuple[str, str, str], ...] = (
    ("am speed-up", "arithmetic_mean_speedup", "{:.3f}"),
    ("gm speed-up", "geometric_mean_speedup", "{:.3f}"),
    ("share", "log_gain_share", "{:.3f}"),
    ("95 % of share", "log_gain_share_interval", "{:.2f} .. {:.2f}"),
    ("t/t_best", "mean_regret", "{:.3f}"),
    ("p95", "p95_regret", "{:.3f}"),
    ("slower >5 %", "slower_share", "{:.1%}"),
    ("95 % of slower", "slower_share_interval", "{:.1%} .. {:.1%}"),
    ("harm", "harm_share", "{:.1%}"),
    ("95 % of harm", "harm_share_interval", "{:.1%} .. {:.1%}"),
    ("by", "mean_slowdown", "{:.2f}x"),
    ("worst", "worst_slowdown", "{:.2f}x"),
    ("default", "default_share", "{:.0%}"),
    ("not measured", "unmeasured", "{}"),
    ("fit s", "fit_s", "{:.2f}"),
    ("confirm cost", "confirm_cost", "{:.1%}"),
)
_DROP = (
    *("fit s", "not measured", "by", "p95", "95 % of slower", "95 % of harm", "worst", "default"),
    *("am speed-up", "confirm cost", "95 % of share", "t/t_best"),
)
_BASELINES = ("default", "virtual_best")
_PAPER_NAMES = {
    "published_knn": "KNN",
    "published_gam": "GAM",
    "published_xgboost": "XGBoost",
    "single_best": "single best",
    "virtual_best": "best possible",
}


@dataclass(frozen=True)
class Evaluated:
    """What `evaluate` prints."""

    runs: tuple[EvaluationFigures, ...]
    """by split"""
    written: Sequence[Path]
    """files that were written, with --out"""
    datasets: Mapping[str, DecidedDataset] = field(default_factory=dict)
    """datasets of the paper's Table IV, with --suite"""
    table_iv: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """by training, method and dataset: mean speed-up"""


def _show_result(
    result: Result, datasets: Sequence[PerformanceDataset], out: Path | None, *, json: bool
) -> None:
    """Print `result`, and write it, and the paper's figures if they were asked for, to `out`."""
    written = _written(result, datasets, out)
    output(_evaluated(result, written), _lines(result, written), json=json)


def _lines(result: Result, written: Sequence[Path]) -> Iterator[str | TextTable]:
    yield from _table_iv(result) if result.paper else _run_lines(result.runs)
    for note in dict.fromkeys(note for run in result.runs for note in run.notes):
        yield printable(f"note: {note}")
    for path in written:
        yield f"-> {path}"


def _written(
    result: Result, datasets: Sequence[PerformanceDataset], out: Path | None
) -> list[Path]:
    if out is None:
        return []
    from colltune.evaluation.evaluation import write

    if not result.paper:
        return [write(result.runs, out)]
    from colltune.plots.evaluations import draw_all

    return [write(result.runs, out / "results.json"), *draw_all(result.paper, datasets, out)]


def _evaluated(result: Result, written: Sequence[Path]) -> Evaluated:
    from colltune.evaluation.request import described, table_iv

    runs = tuple(map(_figures, result.runs))
    if not result.paper:
        return Evaluated(runs, written)
    return Evaluated(runs, written, described(result.paper), table_iv(result.paper))


def _figures(run: Evaluation) -> EvaluationFigures:
    from colltune.evaluation.evaluation import EvaluationFigures

    return EvaluationFigures(
        run.setup,
        run.guard,
        run.objective,
        run.train_nodes,
        run.test_nodes,
        run.scores,
        {mine: _differences(run, mine) for mine in run.learners},
        run.notes,
    )


def _differences(run: Evaluation, learner: str) -> dict[str, Difference]:
    """Return how `learner` differs, over all collectives, from every other selector."""
    from colltune.evaluation.scores import differences

    return {
        other: differences(run.tested, decided, run.decided[learner])[-1]
        for other, decided in run.decided.items()
        if other not in (learner, *_BASELINES)
    }


def _run_lines(runs: Iterable[Evaluation]) -> Iterator[str | TextTable]:
    from colltune.evaluation.scores import ALL

    for run in runs:
        folds = len(set(zip(run.tested.collective, run.tested.fold, strict=True)))
        yield ""
        yield printable(f"{run.setup.split} on {run.setup.context}: folds: {folds}")
        for collective in (*run.tested.collectives, ALL):
            score = run.scores["default"][collective]
            yield f"\n{collective}: instances: {score.instances}, shapes: {score.shapes}"
            table = [[name, *_cells(s[collective], _SCORE)] for name, s in run.scores.items()]
            # a column that nobody has a value in is left out
            every = zip(["selector", *_titles(_SCORE)], *table, strict=True)
            head, *scores = zip(*(column for column in every if any(column[1:])), strict=True)
            yield TextTable(head, scores, drop=_DROP)
        for mine in run.learners:
            differences = _differences(run, mine).items()
            yield f"\n{mine} less the others, all collectives, same instances"
            rows = [[name, *_cells(d, _DIFFERENCE)] for name, d in differences]
            yield TextTable(["other", *_titles(_DIFFERENCE)], rows, drop=_DROP_DIFFERENCE)
        yield ""


_DIFFERENCE: tuple[tuple[str, str, str], ...] = (
    ("instances", "instances", "{}"),
    ("speed-up", "speedup", "{:.3f}"),
    ("95 % of speed-up", "speedup_interval", "{:.3f} .. {:.3f}"),
    ("share", "share", "{:+.3f}"),
    ("95 % of share", "share_interval", "{:+.2f} .. {:+.2f}"),
    ("harm", "harm", "{:+.1%}"),
    ("95 % of harm", "harm_interval", "{:+.1%} .. {:+.1%}"),
    ("faster on", "better", "{:.0%}"),
    ("slower on", "worse", "{:.0%}"),
)
_DROP_DIFFERENCE = ("instances", "95 % of harm", "95 % of share", "slower on", "faster on", "harm")


def _titles(columns: Sequence[tuple[str, str, str]]) -> list[str]:
    return [title for title, _, _ in columns]


def _cells(found: Score | Difference, columns: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the fields of `found` as its columns have them; empty where one is None."""
    cells = []
    for _, name, form in columns:
        value = getattr(found, name)
        values = value if isinstance(value, tuple) else (value,)
        cells.append("" if value is None else form.format(*values))
    return cells


def _table_iv(result: Result) -> Iterator[str | TextTable]:
    """Yield the paper's Table IV, its rows first, and below them what it did not have."""
    from colltune.evaluation.request import described, table_iv

    for label, what in described(result.paper).items():
        nodes = ", ".join(map(str, what.test_nodes))
        on = f"{what.collective} on {what.context}, tested on nodes {nodes}"
        yield printable(f"{label}: {on}")
    yield "arithmetic mean of t_default / t_selected"
    for (size, rows), letter in zip(table_iv(result.paper).items(), "ab", strict=True):
        first = [name for name in _PAPER_NAMES if name in rows and name != "virtual_best"]
        others = [name for name in rows if name not in _PAPER_NAMES and name != "default"]
        last = [name for name in rows if name == "virtual_best"]
        cells = [
            [_PAPER_NAMES.get(name, name), *(f"{v:.2f}" for v in rows[name].values())]
            for name in (*first, *others, *last)
        ]
        yield f"\n({letter}) {size.capitalize()} training dataset"
        yield TextTable(["method", *rows["default"]], cells)
