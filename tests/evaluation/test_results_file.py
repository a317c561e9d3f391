"""Results on disk, whole and damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from colltune import __version__
from colltune.errors import DataError
from colltune.evaluation import Evaluation, LeaveNodesOut, evaluate_split
from colltune.evaluation.evaluation import read, write
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


def test_everything_comes_back(evaluation: Evaluation, tmp_path: Path) -> None:
    """What is read has the same setup, decisions and figures as what was written."""
    (again,) = read(write([evaluation], tmp_path / "deep" / "results.json"))
    assert again.setup == evaluation.setup
    assert again.as_dict() == evaluation.as_dict()
    assert again.colltune_version == __version__
    assert again.learners == ("knn",)
    assert vars(again.tested)["best"] == evaluation.tested.best
    assert {n: d.configuration for n, d in again.decided.items()} == {
        n: d.configuration for n, d in evaluation.decided.items()
    }


def test_a_run_says_what_it_is_of(content: Any) -> None:
    """A run names context, data digest, split, seed and noise; the file its version."""
    assert (content["format"], content["format_version"]) == ("colltune-evaluation", 3)
    (run,) = content["runs"]
    assert run["context"]["machine"] == "made-up"
    assert len(run["dataset_digest"]) == 64
    assert (run["split"], run["seed"], run["noise"]) == ("leave-nodes-out", 3, 0.05)
    assert len(run["selectors"]["knn"]["configuration"]) == 3 * 2 * 6


def test_results_of_before_know_nothing_unmeasured(content: Any, tmp_path: Path) -> None:
    """A file of version 1 is read, and none of its choices counts as not measured."""
    content["format_version"] = 1
    for columns in content["runs"][0]["selectors"].values():
        del columns["unmeasured"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(content))
    (old,) = read(path)
    assert not any(one.unmeasured.any() for one in old.decided.values())


def _changed(path: list[Any], value: Any) -> Callable[[Any], str]:
    """Return a function that changes one value of the content and returns the file's text."""

    def change(content: Any) -> str:
        at = content
        for key in path[:-1]:
            at = at[key]
        if value is _GONE:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return json.dumps(content)

    return change


_GONE = object()
_RUN = ["runs", 0]
_DAMAGES: list[tuple[Callable[[Any], str], str]] = [
    (lambda c: json.dumps(c)[:500], "cut short, or not JSON"),
    (lambda c: "", "cut short, or not JSON"),
    (lambda c: "[" * 100_000, "cut short, or not JSON"),
    (lambda c: "[1, 2]", "not the results of"),
    (_changed(["format"], "colltune-bundle"), "not the results of"),
    (_changed(["format_version"], 99), "the results have format 99"),
    (_changed(["runs"], []), "have no run"),
    (_changed(["runs"], 7), "damaged"),
    (_changed([*_RUN, "split"], _GONE), "no 'split'"),
    (_changed([*_RUN, "context"], {"machine": "x"}), "damaged"),
    (_changed([*_RUN, "tested", "nodes"], [1, 2]), "different lengths"),
    (_changed([*_RUN, "tested", "nodes", 0], 2.5), "not a count"),
    (_changed([*_RUN, "tested", "nodes", 0], 2**70), "damaged"),
    (_changed([*_RUN, "tested", "default_s", 0], -1.0), "default_s has an entry"),
    (_changed([*_RUN, "tested", "default_s", 0], 1e-30), "slower than its default_s"),
    (_changed([*_RUN, "tested", "collective", 0], "bkast"), "unknown collective"),
    (_changed([*_RUN, "selectors", "knn", "selected_s"], [1.0]), "have different lengths"),
    (_changed([*_RUN, "selectors", "knn", "selected_s", 0], 1e-30), "faster than best_s"),
    (_changed([*_RUN, "selectors", "knn", "kept", 0], "yes"), "kept, unmeasured or noise"),
    (_changed([*_RUN, "selectors", "knn", "noise", 0], -0.5), "kept, unmeasured or noise"),
    (_changed([*_RUN, "selectors", "knn", "unmeasured", 0], 2), "kept, unmeasured or noise"),
    (_changed([*_RUN, "selectors", "knn"], None), "damaged"),
]


def test_damaged_results_are_named(content: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Whatever is wrong with a results file, one error names the file and what it is."""
    path = tmp_path / "broken.json"
    for number, (damage, message) in enumerate(_DAMAGES):
        with subtests.test(number=number, message=message):
            path.write_text(damage(deepcopy(content)))
            with pytest.raises(DataError, match=message) as caught:
                read(path)
            assert "broken.json" in str(caught.value)


def test_a_missing_or_binary_file_is_an_error(tmp_path: Path) -> None:
    """No file, a folder and bytes that are no text are told apart from results."""
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "bytes.json").write_bytes(bytes(range(256)))
    with pytest.raises(DataError, match="not JSON"):
        read(tmp_path / "bytes.json")
