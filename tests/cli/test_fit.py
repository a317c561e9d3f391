"""`colltune fit`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from colltune.dataset import read
from colltune.dataset.parquet import append_dataset
from colltune.models.bundle import load
from tests.cli.conftest import Verb


def test_the_objective_is_stated_from_fit_to_select(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Manifest, fit and select all name the statistic that was learned."""
    for words, objective in (
        ((), "trimmed-mean"),
        (("--objective", "median"), "median"),
        (("--objective", "P90"), "p90"),
    ):
        out = tmp_path / "bundle"
        answer = colltune("fit", measurements_csv, "--out", out, "--learner", "knn", *words)
        assert f"{objective} times" in answer.out, words
        assert json.loads((out / "manifest.json").read_text())["objective"] == objective, words
        assert load(out).objective == objective, words
        shape = ("--bundle", out, "--nodes", 8, "--ppn", 4)
        assert f"{objective} times" in colltune("select", *shape).out, words
        assert colltune("select", *shape, "--json").json["objective"] == objective, words


def test_bundles_of_different_objectives_differ(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """The objective is part of a bundle's identity, even where all times are the same."""
    ids = [
        colltune(
            *("fit", measurements_csv, "--out", tmp_path / name, "--learner", "knn"),
            *("--objective", name, "--json"),
        ).json["id"]
        for name in ("mean", "median")
    ]
    assert ids[0] != ids[1]


def test_unknown_words_are_explained(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """A statistic or learner that does not exist is named with those that do."""
    for option, told in (
        ("--objective", "unknown objective 'best'; known: trimmed-mean, mean, median, p75"),
        ("--learner", "xgboost"),
    ):
        answer = colltune("fit", measurements_csv, "--out", tmp_path / "b", option, "best")
        assert answer.status == 3, option
        assert "'best'" in answer.err, option
        assert told in answer.err, option
        assert not (tmp_path / "b").exists(), option


def test_a_statistic_that_the_data_lack_is_explained(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Asked for the mean of summaries without one, fit says which cell lacks it and what to do."""
    header, *rows = measurements_csv.read_text().splitlines()
    data = tmp_path / "data.csv"
    data.write_text("\n".join([f"{header},n_reps", *(f"{row},50" for row in rows)]) + "\n")
    answer = colltune("fit", data, "--out", tmp_path / "b", "--objective", "mean")
    assert answer.status != 0
    assert "the mean is unknown for 240 of 240 measurements" in answer.err
    assert "trimmed-mean and median always work" in answer.err


def test_methods_are_not_mixed_unless_asked_for(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """`--method` picks one by a part of its name, or all; the bundle keeps what was mixed."""
    measured = read([measurements_csv])
    native = {"backend": "native", "sync": "window: common start on a global clock"}
    other = {"backend": "reprompi", "synchronisation": "dissemination barrier"}
    again = measured.frame.assign(launch="again")
    append_dataset(tmp_path / "d", measured, native)
    append_dataset(tmp_path / "d", replace(measured, frame=again), other)
    words = ("fit", tmp_path / "d", "--out", tmp_path / "b", "--learner", "knn", "--json")
    refused = colltune(*words)
    assert refused.status == 3
    assert "--method" in refused.err
    tried = ("evaluate", tmp_path / "d", "--split", "leave-nodes-out", "--learner", "knn")
    assert colltune(*tried).status == 3
    assert colltune(*tried, "--method", "native").status == 0
    drawn = colltune("plot", "curves", tmp_path / "d", "--out", tmp_path / "p.png")
    assert "native, windows" in drawn.err
    chosen = colltune(*words, "--method", "native")
    assert (chosen.status, chosen.json["measurements"]) == (0, len(measured))
    mixed = colltune(*words, "--method", "all")
    assert mixed.json["measurements"] == 2 * len(measured)
    assert set(load(tmp_path / "b").evidence["methods"]) == {
        "native, windows",
        "reprompi, barriers",
    }


def test_a_csv_is_checked_as_an_import_checks_it(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Numbers become names, unknown ones and times of another unit are refused."""
    text, out = measurements_csv.read_text(), tmp_path / "bundle"
    known = colltune("fit", measurements_csv, "--out", out, "--learner", "knn", "--json").json
    assert "openmpi.bcast.pipeline" in {c.id for c in load(out).configurations()}
    data = tmp_path / "other.csv"
    data.write_text(text.replace(",pipeline,", ",3,"))
    assert colltune("fit", data, "--out", out, "--learner", "knn").status == 0
    assert {c.algorithm for c in load(out).configurations()} >= {"pipeline", "chain"}
    data.write_text(text.replace(",pipeline,", ",banana,"))
    assert "'banana'" in colltune("fit", data, "--out", out, "--learner", "knn").err
    lines = text.replace("time_s", "time").splitlines()
    longer = [line.rsplit(",", 1) for line in lines[1:]]
    data.write_text("\n".join([lines[0], *(f"{a},{float(b) * 1e6}" for a, b in longer)]) + "\n")
    assert "--time-unit" in colltune("fit", data, "--out", out, "--learner", "knn").err
    assert known["configurations"] == 4
