"""`colltune evaluate`: how good selections are on shapes the models have not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.options import Data, Jobs, Json, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = (
    ("instances", "instances", "{:.0f}"),
    ("gm speed-up", "geometric_mean_speedup", "{:.3f}"),
    ("am speed-up", "arithmetic_mean_speedup", "{:.3f}"),
    ("share", "log_gain_share", "{:.3f}"),
    ("t/t_best", "mean_regret", "{:.3f}"),
    ("p95", "p95_regret", "{:.3f}"),
    ("slower >5 %", "slower_share", "{:.1%}"),
    ("fit s", "fit_s", "{:.2f}"),
)


def evaluate(
    data: Data,
    train_nodes: Annotated[str, typer.Option(help="Node counts to train on: 4,16,36.")],
    test_nodes: Annotated[str, typer.Option(help="Node counts to test on: 7,13,19.")],
    learner: Annotated[
        list[str] | None,
        typer.Option(help="knn, gam, xgboost or auto; repeatable; default: all of them."),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(
            help="Keep the default unless the predicted gain is beyond the models' error, as"
            " `select` does; --no-guard gives the learners as published."
        ),
    ] = True,
    noise: Annotated[
        float, typer.Option(help="Log-normal noise put on training times, 0.05 for 5 %.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    max_nprocs: Annotated[
        int | None, typer.Option(help="Leave out instances with more processes.")
    ] = None,
    where: Where = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Train on some node counts, test on others, against default, single best and virtual best.

    Example: colltune evaluate data.csv.gz --train-nodes 4,16,36 --test-nodes 7,13 --json
    """
    from colltune.cli.console import counted_progress, parse_pairs, show_json
    from colltune.dataset import read
    from colltune.selector.evaluation import evaluate as run

    dataset = read(data, parse_pairs(where or [], "--where"))
    with counted_progress("evaluating", quiet=json):
        evaluation = run(
            dataset,
            train_nodes=_node_counts(train_nodes, "--train-nodes"),
            test_nodes=_node_counts(test_nodes, "--test-nodes"),
            learners=tuple(learner or ("knn", "gam", "xgboost", "auto")),
            guard=guard,
            noise=noise,
            seed=seed,
            max_nprocs=max_nprocs,
            jobs=jobs,
        )
    report = evaluation.as_dict()
    if json:
        show_json(report)
    else:
        _show(report)


def _node_counts(text: str, flag: str) -> tuple[int, ...]:
    from colltune.errors import DataError

    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise DataError(f"{flag} {text!r} is not a list of integers such as 4,16,36") from None


def _show(report: Mapping[str, Any]) -> None:
    from colltune.cli.console import columns, show

    collectives = list(next(iter(report["selectors"].values())))
    for collective in collectives:
        rows = [
            [name, *(_cell(metrics[collective].get(key), form) for _, key, form in _COLUMNS)]
            for name, metrics in report["selectors"].items()
        ]
        show(f"\n{collective}")
        show(columns(["selector", *(title for title, _, _ in _COLUMNS)], rows))


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
