"""`colltune fit`: datasets become a bundle of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import output, warn
from colltune.cli.options import (
    Backend,
    Jobs,
    Json,
    Method,
    OwnData,
    Quiet,
    Scheduler,
    Where,
    parse_pairs,
)
from colltune.cli.progress import progress
from colltune.cli.which_bundle import remember
from colltune.errors import BundleError
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.domain import Collective, Context, Shape
    from colltune.models.bundle import Bundle


@dataclass(frozen=True)
class FittedBundle:
    """What `fit` prints."""

    id: str
    """id of the bundle"""
    context: Context
    objective: str
    learners: Mapping[Collective, str]
    """learner by collective"""
    held_out: Mapping[Collective, Mapping[str, float | None]]
    """of held-out decisions, by collective: number of instances, mean log regret, share of the
    possible log gain, harm (share slower than the default), trust in predicted log gains"""
    configurations: int
    """configurations in all"""
    shapes: tuple[Shape, ...]
    """shapes that it was fitted to"""
    confirmations: int
    """decisions that stay as they were measured"""
    left_out: Mapping[str, str]
    """why configurations, by id, and collectives have no model"""
    measurements: int
    """measurements that it was fitted to"""
    path: Path
    """folder of the bundle"""
    transfer: Mapping[str, Any] | None
    """what was learned from other machines; null without --prior"""


def fit(
    data: OwnData = None,
    *,
    out: Annotated[Path, typer.Option(help="Bundle folder to write.")],
    learner: Annotated[
        str,
        typer.Option(
            help="auto (regret_trees), or another learner: knn, gam, xgboost, mgcv (needs R), "
            "cost_model, or the paper's published_knn, published_gam, published_xgboost."
        ),
    ] = "auto",
    objective: Annotated[
        str,
        typer.Option(
            help="The runtime statistic to minimise: trimmed-mean (without the fastest and "
            "slowest tenth), mean, median, p75, p90, p95 or p99."
        ),
    ] = "trimmed-mean",
    where: Where = None,
    prior: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="OTHER", help="Dataset of another machine to learn from as well; repeatable."
        ),
    ] = None,
    prior_where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Keep only these CSV rows of priors, as --where does for DATA.",
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="machine=NAME,…",
            help="Without DATA: the target of the bundle, machine=NAME, and also library_version= "
            "and fabric= if they differ from the priors.",
        ),
    ] = None,
    any_library: Annotated[
        bool,
        typer.Option(
            "--any-library",
            help="Also use priors of other MPI libraries; algorithms are matched by name.",
        ),
    ] = False,
    method: Method = None,
    backend: Backend = None,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit a runtime model for each configuration, and write the models as a bundle.

    Decisions that `colltune confirm` confirmed in the bundle at --out are kept, unless DATA
    contradict them.

    Example: colltune fit measurements.csv.gz --out bundle --learner auto

    Example: colltune fit --prior leonardo.csv.gz --for machine=hydra --out bundle
    """
    from colltune.cli.import_ import read_measured
    from colltune.cli.options import workers_of
    from colltune.dataset.method import in_words
    from colltune.dataset.objective import parse_objective
    from colltune.models.bundle import insist_savable
    from colltune.models.transfer import FitInputs
    from colltune.models.workers import DASK, Workers, at_work

    insist_savable(out)
    workers = workers_of(Workers(), backend, scheduler, jobs)
    statistic = parse_objective(objective)
    own = parse_pairs(where or [], "--where")
    theirs = parse_pairs(prior_where or [], "--prior-where")
    with progress("reading", quiet=quiet or json) as shown:
        work = FitInputs.of(
            *(data or [], own, prior or [], theirs, for_),
            any_library=any_library,
            method=method,
            read=partial(read_measured, any_name=False),
        )
        shown.phase("waiting for workers" if workers.backend == DASK else "fitting")
        with at_work(workers):
            shown.phase("fitting", "configurations")
            bundle = work.fit(learner, statistic, jobs=jobs, progress=shown.count)
        shown.phase("writing")
        bundle = _with_confirmations(bundle, work.own, out)
        bundle.save(out)
        remember(out)
    transfer: Mapping[str, Mapping[str, object]] = bundle.evidence.get("transfer", {})
    for collective, why in transfer.get("left_out", {}).items():
        warn(f"the priors do not help for {collective}: {why}")
    if work.methods:
        warn(
            "measured by different methods, or by another one than was asked for, whose times need "
            f"not be comparable: {in_words(work.methods)}"
        )
    for what, why in bundle.left_out.items():
        warn(f"{what} is left out: {why}")
    warnings = (
        f"{model.collective}: only the library's own decision was measured, so there is "
        "nothing to select. Measure more configurations. For imported files name the "
        "configuration with --set configuration=ID."
        for model in bundle.models
        if all(configuration.is_default for configuration in model.configurations)
    )
    learners = {model.collective: model.learner for model in bundle.models}
    held_out = {collective: bundle.held_out(collective) for collective in bundle.collectives}
    counts = len(bundle.configurations()), bundle.training_shapes, len(bundle.confirmations)
    told = bundle.id, bundle.context, bundle.objective, learners, held_out, *counts
    facts = FittedBundle(*told, bundle.left_out, work.n_measurements, out, transfer or None)
    output(facts, _lines(bundle, out, transfer), json=json, warnings=warnings)


def _lines(
    bundle: Bundle, out: Path, transfer: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    yield f"bundle {bundle.id[:12]} of {bundle.context}, {bundle.objective} times -> {out}"
    if bundle.confirmations:
        yield f"  {counted(len(bundle.confirmations), 'decision')} kept as measured by confirm"
    for model in bundle.models:
        trust = transfer.get("trust", {}).get(model.collective)
        borrowed = "" if trust is None else f", weight of the priors {trust}"
        configurations = f"{len(model.configurations)} configurations"
        yield f"  {model.collective}: {configurations}, {model.learner}{borrowed}"
        if told := bundle.held_out_text(model.collective):
            yield f"    {told}"


def _with_confirmations(bundle: Bundle, own: PerformanceDataset | None, path: Path) -> Bundle:
    """Return `bundle` with what was confirmed of the one at `path`, of the same context."""
    from colltune.models.bundle import load
    from colltune.models.confirmations import upheld

    try:
        old = load(path, [])
    except BundleError:
        return bundle
    if own is None or old.context != bundle.context or not old.confirmations:
        return bundle
    return bundle.with_confirmations(upheld(old.confirmations, own))
