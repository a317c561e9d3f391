"""Milliseconds to decide all collectives of a shape that was not asked for before, all sizes exact.

The bundle is that of `render_shape_ms`: 14 collectives, `_TOTAL` configurations, fitted with
regret_trees. It is loaded and was asked for other shapes; the decisions are those of the job's own
communicator, with switch points to the byte. Beside it stand the same shape asked for again, and
the paper's learners. COLLTUNE_CONFIGURATIONS changes how many configurations there are.
"""

from __future__ import annotations

import os
import statistics
import time

from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.selector.argmin import ModelSelector
from colltune.selector.decision_table import decision_table
from figures.figure import Figure
from figures.render_shape_ms import bundle_of

_TOTAL = 60
_PROMISED_MS = 50.0
_SHAPES = tuple(Shape(nodes, ppn) for nodes in (5, 7, 12, 20, 24, 28) for ppn in (4, 12, 24))


def _decide_ms(bundle: Bundle, shape: Shape) -> float:
    started = time.perf_counter()
    decision_table(
        ModelSelector(bundle),
        shape,
        Collective,
        comm_layouts={shape.nprocs: (shape,)},
        describe=False,
    )
    return 1000 * (time.perf_counter() - started)


def run() -> Figure:
    """Return the median over shapes of the first question, regret_trees against the promise."""
    total = int(os.environ.get("COLLTUNE_CONFIGURATIONS", _TOTAL))
    first_ms = {}
    for learner in ("knn", "gam", "xgboost", "regret_trees"):
        bundle = bundle_of(learner, total)
        warming, *shapes = _SHAPES
        _decide_ms(bundle, warming)
        first_ms[learner] = statistics.median(_decide_ms(bundle, shape) for shape in shapes)
        again_ms = statistics.median(_decide_ms(bundle, shape) for shape in shapes)
        print(f"{learner}: {first_ms[learner]:.1f} ms, asked again {again_ms:.1f} ms")
    ours_ms = first_ms["regret_trees"]
    return Figure("select_shape_ms", ours_ms, "ms", ours_ms, _PROMISED_MS)
