"""A learner that is added from outside the package."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle that the new learner was fitted to."""
    path = tmp_path_factory.mktemp("fitted") / "bundle"
    [fitted] = verbs([LINE], ["fit", MEASURED, "--out", path, "--learner", "extra_trees"])
    assert fitted.status == 0, fitted.err
    return path


def test_its_bundle_needs_no_extension(bundle: Path) -> None:
    """It is selected from where nobody registered the learner: a known predictor was exported."""
    select = ["select", "--bundle", bundle, "--nodes", "1", "--ppn", "5"]
    one = ["--collective", "bcast", "--msize", "4096", "--json"]
    here, there = (verbs(plugins, [*select, *one])[0] for plugins in ([LINE], []))
    assert here.status == 0, here.err
    assert here.json == there.json
    out = bundle.parent / "rules"
    [written] = verbs([], [*select, "--format", "openmpi", "--out", out])
    assert written.status == 0, written.err
    assert out.read_text()


def test_it_is_offered_where_learners_are() -> None:
    """The error that names all learners names it, too."""
    [refused] = verbs([LINE], ["fit", MEASURED, "--out", "nowhere", "--learner", "nonsense"])
    assert "extra_trees" in refused.err
