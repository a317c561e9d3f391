"""A learner that is added from outside the package."""

from __future__ import annotations

from pathlib import Path

from tests.extension.exercise import ROOT, contract, verbs

LINE = "tests.extension.learner.line"
MEASURED = ROOT / "tests" / "data" / "small_cluster.csv"


def test_it_keeps_the_contract() -> None:
    """All contract tests of learners run for it and pass."""
    ran = contract(LINE, "extra_trees", "learners")
    assert not ran["failed"] + ran["error"]
    assert ran["passed"] > 5


def test_its_bundle_needs_no_extension(tmp_path: Path) -> None:
    """It is fitted, and selected from where nobody registered it: a known predictor was exported.

    The error that names all learners names it, too.
    """
    bundle, out = tmp_path / "bundle", tmp_path / "rules"
    select = ["select", "--bundle", bundle, "--nodes", "1", "--ppn", "5"]
    one = [*select, "--collective", "bcast", "--msize", "4096", "--json"]
    fit = ["fit", MEASURED, "--out", bundle, "--learner"]
    refused, fitted, here = verbs([LINE], [*fit, "nonsense"], [*fit, "extra_trees"], one)
    there, written = verbs([], one, [*select, "--format", "openmpi", "--out", out])
    assert "extra_trees" in refused.err
    assert not fitted.status + here.status + written.status, fitted.err + here.err + written.err
    assert here.json == there.json
    assert out.read_text()
