"""Results on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from colltune.evaluation import Evaluation, LeaveNodesOut, evaluate_split
from colltune.evaluation.evaluation import write
from tests.models.machines import measured


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """Return an evaluation of the made-up machine."""
    data = measured(nodes=(2, 4, 8), ppn=(1, 4), noise=0.1)
    return evaluate_split(
        data, LeaveNodesOut(), learners=("knn",), with_references=False, noise=0.05, seed=3
    )


@pytest.fixture
def content(evaluation: Evaluation, tmp_path: Path) -> Any:
    """Return what a results file holds."""
    return json.loads(write([evaluation], tmp_path / "whole.json").read_text())


def test_a_run_says_what_it_is_of(content: Any) -> None:
    """A run names context, data digest, split, seed and noise; the file its version."""
    assert (content["format"], content["format_version"]) == ("colltune-evaluation", 4)
    (run,) = content["runs"]
    assert run["context"]["machine"] == "made-up"
    assert len(run["dataset_digest"]) == 64
    assert (run["split"], run["seed"], run["noise"]) == ("leave-nodes-out", 3, 0.05)
    assert len(run["selectors"]["knn"]["configuration"]) == 3 * 2 * 6
