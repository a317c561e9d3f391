"""Intervals, chances and noise are computed in `colltune.evidence`, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import colltune

SOURCE = Path(colltune.__file__).parent
MODULES = ("scipy.stats.", "scipy.special.", "statsmodels.")
NAMES = {
    *("NormalDist", "erf", "erfc", "ppf", "stdev", "pstdev", "pvariance"),
    *("percentile", "nanpercentile", "bootstrap", "nanstd", "nanvar"),
}
LIMITS = (0.4549, 0.6745, 1.28, 1.2816, 1.4826, 1.645, 1.96, 2.24, 2.576)
KNOWN = {
    "bench/backends/replay.py": {"1.2816"},  # noise that is drawn, not told
    "models/confirmations.py": {"2.24"},  # of records that an earlier release wrote
}


def _found(tree: ast.AST) -> Iterator[str]:
    """Yield what of a module compares times by itself: imports, functions, known quantiles."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        else:
            names = []
        yield from (name for name in names if f"{name}.".startswith(MODULES))
        yield from (name for name in names if name.rpartition(".")[2] in NAMES)
        if isinstance(node, ast.Attribute) and node.attr in NAMES:
            yield node.attr
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield from (str(limit) for limit in LIMITS if abs(node.value - limit) < 5e-5)


@pytest.mark.parametrize(
    "text",
    [
        *("from scipy import stats", "from scipy.special import stdtr", "import scipy.stats"),
        *("half = 1.96 * sd", "np.percentile(draws, 5)", "from statistics import NormalDist"),
    ],
)
def test_the_walk_sees(text: str) -> None:
    """What the next test looks for is found where it is."""
    assert [*_found(ast.parse(text))]


def test_only_the_package_compares_times() -> None:
    """Its callers import no statistics, and know no quantile by heart."""
    told = {
        str(path.relative_to(SOURCE)): found
        for path in sorted(SOURCE.rglob("*.py"))
        if "evidence" not in path.relative_to(SOURCE).parts
        if (found := {*_found(ast.parse(path.read_text(encoding="utf-8")))})
    }
    assert told == KNOWN
