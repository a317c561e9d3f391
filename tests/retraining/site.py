"""A made-up site: launches of a machine whose runtimes follow formulas, and its site file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from colltune.dataset.parquet import append
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.retraining.nightly import Night
from colltune.retraining.nightly import retrain as run
from colltune.retraining.site_file import Site, parse
from tests.models.machines import FORMULAS

CONTEXT = Context("made-up", "openmpi", "4.1.4")
SHAPES = tuple(Shape(n, p) for n in (2, 4, 8, 16) for p in (1, 4))
MSIZES = (64, 4096, 262144)
Factor = Callable[[str, Instance], float]


def unchanged(_algorithm: str, _instance: Instance) -> float:
    """Return the factor of a machine that is as it was."""
    return 1.0


def launch(
    folder: Path,
    name: str,
    *,
    seed: int,
    shapes: Sequence[Shape] = SHAPES,
    collectives: Iterable[Collective] = (Collective.BCAST,),
    algorithms: Iterable[str] = tuple(FORMULAS),
    factor: Factor = unchanged,
    common: float = 0.1,
    own: float = 0.02,
    context: Context = CONTEXT,
    facts: dict[str, str] | None = None,
) -> Path:
    """Measure all cells once, as one launch with its own luck, into the dataset `folder`."""
    rng = np.random.default_rng(seed)
    luck = rng.lognormal(0.0, common)
    measurements = [
        Measurement(
            instance,
            Configuration(context.library, collective, algorithm),
            name,
            times_s=(
                float(
                    FORMULAS[algorithm](shape.nprocs, msize)
                    * luck
                    * rng.lognormal(0.0, own)
                    * factor(algorithm, instance)
                ),
            ),
        )
        for collective in collectives
        for shape in shapes
        for msize in MSIZES
        for algorithm in algorithms
        for instance in [Instance(collective, shape, msize)]
    ]
    return append(folder, context, measurements, facts or {})


def site_of(root: Path, extra: str = "") -> Site:
    """Return a site below `root`: registry, data and, by `extra`, more tables."""
    (root / "registry").mkdir(exist_ok=True)
    if "[evaluate]" not in extra:
        extra += "[evaluate]\nfolds = 2\n"
    text = (
        '[site]\nmachine = "made-up"\nregistry = "registry"\n'
        '[data]\ndatasets = ["data"]\n[fit]\nlearner = "knn"\n' + extra
    )
    return parse(text, "site.toml", root)


def retrain(site: Site, **changes: Any) -> Night:
    """Run one night quietly."""
    return run(
        replace(site, **changes),
        lambda _what: nullcontext(lambda _done, _total, _next: None),
        lambda night: [str(r.reason) for r in night.results],
    )
