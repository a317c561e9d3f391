"""`colltune data import`, `export`, `fit` and `evaluate`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from colltune.dataset import read
from colltune.models.bundle import load
from colltune.models.learners.mgcv import SCRIPT
from tests.cli.conftest import Verb


def test_import_and_export_round_trip(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """A CSV that is imported and exported again holds the same measurements."""
    known = tmp_path / "known.csv"
    known.write_text(measurements_csv.read_text().replace(",ring,", ",pipeline,"))
    imported = colltune("data", "import", known, "--out", tmp_path / "d", "--json")
    assert (imported.status, imported.json["rows"]) == (0, 240)
    exported = colltune("data", "export", tmp_path / "d", "--out", tmp_path / "e.csv.gz")
    assert exported.status == 0
    assert not (tmp_path / "colltune.R").exists()
    again, first = read([tmp_path / "e.csv.gz"]), read([tmp_path / "d"])
    assert again.context == first.context == read([known]).context
    pd.testing.assert_frame_equal(again.frame, first.frame)
    assert again.frame["time_s"].tolist() == read([known]).frame["time_s"].tolist()
    assert set(again.frame["launch"]) == {"known.csv"}


def test_the_file_for_r_is_copied(colltune: Verb, measurements_csv: Path, tmp_path: Path) -> None:
    """Beside the exported file lies the one that colltune's learner runs, whatever was there."""
    (tmp_path / "colltune.R").write_text("old")
    words = ("data", "export", measurements_csv, "--out", tmp_path / "e.csv", "--with-r", "--json")
    assert colltune(*words).json["r_file"] == str(tmp_path / "colltune.R")
    assert (tmp_path / "colltune.R").read_bytes() == SCRIPT.read_bytes()


def test_bad_csv_is_a_data_error(colltune: Verb, measurements_csv: Path, tmp_path: Path) -> None:
    """Whatever is wrong with a CSV ends with status 3 and says where."""
    for change, message in (
        (("time_s", "seconds"), "missing column time_s"),
        (("bcast", "bkast"), "line 2, column collective"),
        (("hydra", "hydra,"), "not a readable CSV"),
    ):
        bad = tmp_path / "bad.csv"
        bad.write_text(measurements_csv.read_text().replace(*change))
        for verb in (["import", bad], ["fit", bad]):
            answer = colltune(*verb, "--out", tmp_path / "out")
            assert answer.status == 3, change
            assert message in answer.err, change
            assert "bad.csv" in answer.err, change


def test_evaluate_compares_with_the_baselines(colltune: Verb, measurements_csv: Path) -> None:
    """Evaluate finds the gain that is in the data, beside default, single and virtual best."""
    split = ["--train-nodes", "2,4,16", "--test-nodes", "8"]
    answer = colltune("evaluate", measurements_csv, *split, "--learner", "knn", "--json")
    assert answer.status == 0
    (run,) = answer.json["runs"]
    selectors = run["selectors"]
    published = {"published_knn", "published_gam", "published_xgboost"}
    others = {"default", "single_best", "virtual_best", *published}
    assert set(selectors) == {*others, "knn"}
    best = selectors["virtual_best"]["all"]
    assert best["instances"] == 15
    assert best["geometric_mean_speedup"] == pytest.approx(3.0)
    assert selectors["knn"]["bcast"]["log_gain_share"] == pytest.approx(1.0)
    assert selectors["default"]["all"]["arithmetic_mean_speedup"] == 1.0
    table = colltune("evaluate", measurements_csv, *split, "--learner", "knn")
    assert "virtual_best" in table.out


def test_fit_for_a_machine_that_was_never_measured(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """A prior and a name are enough; the answer and the bundle say what they rest on."""
    answer = colltune(
        "fit",
        *("--prior", measurements_csv, "--for", "machine=leo", "--learner", "knn"),
        *("--out", tmp_path / "b", "--json"),
    )
    assert answer.status == 0
    assert answer.json["context"]["machine"] == "leo"
    assert answer.json["context"]["library"] == "openmpi"
    assert (answer.json["measurements"], answer.json["shapes"]) == (0, [])
    assert answer.json["transfer"]["measured_here"] is False
    assert answer.json["transfer"]["priors"][0]["measurements"] == 240
    selected = colltune("select", "--bundle", tmp_path / "b", "--nodes", 4, "--ppn", 2, "--json")
    assert selected.status == 0


def test_fit_takes_measurements_and_priors(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Own rows stay those of the machine; the prior is read and named apart from them."""
    other = tmp_path / "other.csv"
    other.write_text(measurements_csv.read_text().replace("hydra", "lernaea"))
    answer = colltune(
        "fit", measurements_csv, "--prior", other, "--learner", "knn", "--out", tmp_path / "b"
    )
    assert answer.status == 0
    assert "weight of the priors" in answer.out
    facts = load(tmp_path / "b").evidence["transfer"]
    assert facts["measured_here"] is True
    assert facts["priors"][0]["context"]["machine"] == "lernaea"


def test_fit_refuses_what_does_not_fit_together(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Options that contradict each other end with status 3 and the mend."""
    for options, message in (
        (["--for", "machine=x"], "Name DATA, or for a machine that was never measured both"),
        (["DATA", "--for", "machine=x"], ". Drop it, or drop DATA"),
        (["DATA", "--prior", "DATA"], ". Name it as DATA"),
        (["--prior", "DATA"], "Name DATA, or for a machine that was never measured both"),
        (["--prior", "DATA", "--for", "release=4"], "'release=4' is not one of machine=…"),
        (["--prior", "DATA", "--for", "fabric=ib"], "the machine"),
        (["--prior", "DATA", "--for", "machine=x,library=mpich"], "With --any-library"),
        (["--prior", "DATA", "--for", "machine=x,machine=y"], "each once"),
        (["--prior", "nowhere.csv", "--for", "machine=x"], "no such file"),
    ):
        words = [str(measurements_csv) if word == "DATA" else word for word in options]
        answer = colltune("fit", *words, "--learner", "knn", "--out", tmp_path / "b")
        assert answer.status == 3, options
        assert message in answer.err, options
        assert not (tmp_path / "b").exists(), options
