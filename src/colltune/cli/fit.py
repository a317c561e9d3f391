"""`colltune fit`: datasets become a bundle of models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.options import Data, Jobs, Json, Where

if TYPE_CHECKING:
    from colltune.models.bundle import Bundle


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Bundle folder to write.")],
    learner: Annotated[
        str,
        typer.Option(
            help="knn, gam, xgboost, or auto: the one with the best held-out decisions,"
            " per collective."
        ),
    ] = "auto",
    objective: Annotated[
        str,
        typer.Option(
            help="What of a runtime is to be small: trimmed-mean (less its fastest and slowest"
            " tenth), mean, median, p75, p90, p95 or p99."
        ),
    ] = "trimmed-mean",
    where: Where = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Fit one runtime model per configuration and write them as a bundle.

    Example: colltune fit measurements.csv.gz --out bundle --learner auto
    """
    from colltune.cli.console import counted_progress, parse_pairs, show, show_json
    from colltune.dataset import read
    from colltune.dataset.objective import parse_objective
    from colltune.models.fitting import fit as fit_bundle

    statistic = parse_objective(objective)
    dataset = read(data, parse_pairs(where or [], "--where"))
    with counted_progress("fitting", quiet=json) as progress:
        bundle = fit_bundle(dataset, learner, objective=statistic, jobs=jobs, progress=progress)
    bundle.save(out)
    if json:
        show_json({**_facts(bundle), "measurements": len(dataset), "path": str(out)})
        return
    show(f"bundle {bundle.id[:12]} of {bundle.context}, {bundle.objective} times -> {out}")
    for model in bundle.models:
        show(f"  {model.collective}: {len(model.configurations)} configurations, {model.learner}")


def _facts(bundle: Bundle) -> dict[str, object]:
    return {
        "id": bundle.id,
        "context": vars(bundle.context),
        "objective": bundle.objective,
        "learners": {m.collective.value: m.learner for m in bundle.models},
        "configurations": len(bundle.configurations()),
        "shapes": [str(shape) for shape in bundle.training_shapes],
    }
