"""`colltune evaluate`: splits, suites and results."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Verb

LEARNER = ("--learner", "knn")
LEAVE = ("--split", "leave-nodes-out")


def test_a_split_is_run_and_its_decisions_written(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """The table names every baseline; the file holds each decision; both say the same."""
    out = tmp_path / "results.json"
    answer = colltune("evaluate", measurements_csv, *LEAVE, *LEARNER, "--out", out)
    assert answer.status == 0
    assert "leave-nodes-out on hydra, openmpi 4.1.4: folds: 4" in answer.out
    for name in ("default", "single_best", "virtual_best", "published_gam"):
        assert f"\n{name} " in answer.out
    assert "knn less the others" in answer.out
    assert f"-> {out}" in answer.out
    (run,) = json.loads(out.read_text())["runs"]
    assert run["scores"]["knn"]["all"]["instances"] == 60


def test_splits_and_their_options(colltune: Verb, measurements_csv: Path) -> None:
    """Each split tests what it says."""
    for split, instances in (
        (("leave-ppn-out", "--ppn", "2"), 20),
        (("extrapolation", "--largest", "2"), 30),
        (("extrapolation", "--above", "4"), 30),
    ):
        answer = colltune("evaluate", measurements_csv, "--split", *split, *LEARNER, "--json")
        assert answer.status == 0, split
        (run,) = answer.json["runs"]
        assert run["setup"]["split"] == split[0], split
        assert run["selectors"]["knn"]["all"]["instances"] == instances, split
        assert "published_knn" in run["differences"]["knn"], split


def test_launches_are_left_out(colltune: Verb, measurements_csv: Path, tmp_path: Path) -> None:
    """Two launches of the same grid are two folds, or one allocation if their names say so."""
    head, *rows = measurements_csv.read_text().splitlines()
    lines = [f"{head},launch", *(f"{row},{job}" for job in ("m/1", "m/2") for row in rows)]
    twice = tmp_path / "twice.csv"
    twice.write_text("\n".join(lines) + "\n")
    split = ("--split", "leave-allocation-out", *LEARNER, "--json")
    answer = colltune("evaluate", twice, *split)
    assert answer.json["runs"][0]["selectors"]["knn"]["all"]["instances"] == 120
    one = colltune("evaluate", twice, *split, "--allocation", "(.*)/")
    assert one.status == 3
    assert "at least 2 launches" in one.err


def test_the_paper_suite_prints_table_iv_and_draws_its_figures(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Both halves of Table IV are printed, learners in the paper's order; PNG files are written."""
    out = tmp_path / "figures"
    answer = colltune(
        "evaluate", measurements_csv, "--suite", "paper", *LEARNER, "--out", out, "--jobs", 1
    )
    assert answer.status == 0
    assert "d1: bcast on hydra, openmpi 4.1.4, tested on nodes 4" in answer.out
    large, small = answer.out.split("(b) Small training dataset")
    for half in (large.split("(a) Large training dataset")[1], small):
        words = [line.split()[0] for line in half.strip().splitlines()[2:]]
        assert words[:3] == ["KNN", "GAM", "XGBoost"]
    drawn = sorted(path.name for path in out.iterdir())
    stem = "d1_hydra_openmpi_bcast"
    assert drawn == [*(f"figure{k}_{stem}.png" for k in (2, 4, 5)), "results.json"]
    for name in drawn[:2]:
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_confirmed_decisions_have_a_row_and_a_cost(colltune: Verb, measurements_csv: Path) -> None:
    """With --confirm each learner has a second row, and the table says what measuring costs."""
    split = ("--split", "extrapolation")
    answer = colltune("evaluate", measurements_csv, *split, *LEARNER, "--confirm")
    assert answer.status == 0
    assert "knn, confirmed" in answer.out
    assert "confirm cost" in answer.out
    assert "only --noise separates them" in answer.out


def test_bad_requests_name_the_option_and_the_mend(colltune: Verb, measurements_csv: Path) -> None:
    """Every request that makes no sense ends with one clear error."""
    for words, message in (
        ((), "the test data are missing. Give --split"),
        (("--split", "leave-one-out"), "unknown --split 'leave-one-out'; known: leave-nodes-out"),
        (("--suite", "papers"), "unknown --suite 'papers'; known: paper"),
        (("--train-nodes", "2"), "--train-nodes and --test-nodes belong together"),
        (("--train-nodes", "2", "--test-nodes", "0"), "for --test-nodes"),
        (("--train-nodes", "two", "--test-nodes", "8"), "'two'"),
        (("--train-nodes", "2", "--test-nodes", "99"), "99"),
        ((*LEAVE, "--train-nodes", "2", "--test-nodes", "4"), "exclude each other"),
        ((*LEAVE, "--suite", "paper"), "exclude each other"),
        ((*LEAVE, "--largest", "2"), "--largest works only with --split extrapolation"),
        ((*LEAVE, "--ppn", "2"), "--ppn works only with --split leave-ppn-out"),
        (("--split", "leave-ppn-out", "--ppn", "64"), "no ppn 64 of --ppn"),
        ((*LEAVE, "--learner", "oracle"), "unknown learner 'oracle'"),
        ((*LEAVE, *LEARNER, *LEARNER), "given twice"),
        ((*LEAVE, "--objective", "best"), "unknown objective 'best'; known: trimmed-mean, mean"),
        ((*LEAVE, "--judge", "worst"), "unknown objective 'worst'"),
        ((*LEAVE, "--noise", "-1"), "noise -1 is not a standard deviation"),
        ((*LEAVE, "--noise", "nan"), "noise nan is not a standard deviation"),
        ((*LEAVE, "--seed", "-1"), "seed -1 must not be negative"),
        ((*LEAVE, "--max-nprocs", "1"), "leaves nothing to evaluate"),
        (("--suite", "paper", "--confirm"), "Drop --confirm"),
    ):
        answer = colltune("evaluate", measurements_csv, *words)
        assert answer.status == 3, words
        assert message in answer.err, words


def test_results_that_cannot_be_written_are_an_error(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """A folder where the file should be is named."""
    split = ("--split", "extrapolation")
    answer = colltune("evaluate", measurements_csv, *split, *LEARNER, "--out", tmp_path)
    assert answer.status == 9
    assert str(tmp_path) in answer.err
