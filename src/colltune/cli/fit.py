"""`colltune fit`: datasets become a bundle of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import output, warn
from colltune.cli.options import Backend, Jobs, Json, OwnData, Quiet, Scheduler, Where, parse_pairs
from colltune.cli.progress import progress
from colltune.errors import BundleError

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.models.bundle import Bundle


def fit(
    data: OwnData = None,
    *,
    out: Annotated[Path, typer.Option(help="Bundle folder to write.")],
    learner: Annotated[
        str,
        typer.Option(
            help="auto, which is regret_trees; or one to compare with: knn, gam, xgboost, mgcv"
            " (needs R), cost_model."
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
    prior: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="OTHER", help="Dataset of another machine to learn from, too; repeatable."
        ),
    ] = None,
    prior_where: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="As --where, for the CSV rows of priors."),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="machine=NAME,…",
            help="Without DATA: the machine the bundle is for, machine=NAME, and where they differ"
            " from the priors' also library_version= and fabric=.",
        ),
    ] = None,
    any_library: Annotated[
        bool,
        typer.Option("--any-library", help="Take priors of other libraries, matched by name."),
    ] = False,
    backend: Backend = None,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit runtime models of all configurations and write them as a bundle.

    What `colltune confirm` proved of the bundle at --out is kept, unless DATA contradict it.

    Example: colltune fit measurements.csv.gz --out bundle --learner auto

    Example: colltune fit --prior leonardo.csv.gz --for machine=hydra --out bundle
    """
    from colltune.cli.options import workers_of
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
        work = FitInputs.of(data or [], own, prior or [], theirs, for_, any_library=any_library)
        shown.phase("waiting for workers" if workers.backend == DASK else "fitting")
        with at_work(workers):
            shown.phase("fitting", "configurations")
            bundle = work.fit(learner, statistic, jobs=jobs, progress=shown.count)
        shown.phase("writing")
        bundle = _with_confirmations(bundle, work.own, out)
        bundle.save(out)
    transfer: Mapping[str, Mapping[str, object]] = bundle.evidence.get("transfer", {})
    for collective, why in transfer.get("left_out", {}).items():
        warn(f"nothing is learned from the priors for {collective}: {why}")
    warnings = (
        f"{model.collective}: nothing but the library's own decision was measured, so that"
        " there is nothing to select; measure configurations, or tell those of imported"
        " files with --set configuration=ID"
        for model in bundle.models
        if all(configuration.is_default for configuration in model.configurations)
    )
    facts = {**_facts(bundle), "measurements": work.n_measurements, "path": out}
    output(facts, _lines(bundle, out, transfer), json=json, warnings=warnings)


def _lines(
    bundle: Bundle, out: Path, transfer: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    yield f"bundle {bundle.id[:12]} of {bundle.context}, {bundle.objective} times -> {out}"
    if bundle.confirmations:
        yield f"  {len(bundle.confirmations)} decisions stay as they were measured"
    for model in bundle.models:
        trust = transfer.get("trust", {}).get(model.collective)
        borrowed = "" if trust is None else f", priors trusted by {trust}"
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


def _facts(bundle: Bundle) -> dict[str, object]:
    facts: dict[str, object] = {
        "id": bundle.id,
        "context": bundle.context,
        "objective": bundle.objective,
        "learners": {m.collective: m.learner for m in bundle.models},
        "held_out": {c: bundle.held_out(c) for c in bundle.collectives},
        "configurations": len(bundle.configurations()),
        "shapes": bundle.training_shapes,
        "confirmations": len(bundle.confirmations),
    }
    transfer = bundle.evidence.get("transfer")
    return facts if transfer is None else facts | {"transfer": transfer}
