"""A learner that is added from outside the package."""

from __future__ import annotations

from pathlib import Path

from tests.extension.exercise import ROOT, contract, verbs

LINE = "tests.extension.learner.line"
MEASURED = ROOT / "tests" / "data" / "small_cluster.csv"
BROKEN = """
from dataclasses import replace

from colltune.models.learners import LEARNERS, LearnerEntry
from tests.extension.learner.extra_trees import RandomTrees

class Broken(RandomTrees):
    def export(self):
        return replace(super().export(), margins=self.predictor_.margins + 1.0)

LEARNERS["extra_trees"] = LearnerEntry("broken:Broken", "log")
"""


def test_it_keeps_the_contract() -> None:
    """All contract tests of learners, scikit-learn's own among them, run for it and pass."""
    ran = contract(LINE, "extra_trees or RandomTrees", "learners")
    assert not ran["failed"] + ran["error"]
    assert ran["passed"] > 50


def test_the_contract_finds_a_broken_one(tmp_path: Path) -> None:
    """A learner whose export predicts something else fails, and only that fails."""
    (tmp_path / "broken.py").write_text(BROKEN)
    ran = contract(
        "broken", "export_predicts and (extra_trees or knn)", "learners", beside=tmp_path
    )
    assert (ran["passed"], ran["failed"]) == (1, 1)


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
