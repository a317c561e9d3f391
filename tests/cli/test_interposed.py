"""Verbs on measurements that hold libcolltune's algorithms beside the library's.

``tests/data/interposed.csv`` was measured with ``colltune measure --interposed`` and Open MPI
5.0.11, on 2 and 4 processes of a machine with two processors that had more to do.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colltune.bench import build
from tests.cli.conftest import Verb

DATA = Path(__file__).parents[1] / "data" / "interposed.csv"
OWN = "colltune.bcast.hierarchical:groups=1,inner=pipeline,outer=same,segsize=8192"


@pytest.fixture(scope="module")
def slow_default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the measurements without the library's own algorithms but a default 50 times slower.

    So that something of libcolltune is chosen, whatever the machine was doing.
    """
    head, *rows = DATA.read_text().splitlines()
    times = slice(head.split(",").index("time_s"), None)
    kept = [head]
    for row in rows:
        if ",default," in row:
            words = row.split(",")
            words[times] = [str(50 * float(word)) for word in words[times]]
            kept.append(",".join(words))
        elif ",binomial," not in row:
            kept.append(row)
    path = tmp_path_factory.mktemp("data") / "slow_default.csv"
    path.write_text("\n".join(kept) + "\n")
    return path


@pytest.fixture
def bundle(colltune: Verb, slow_default: Path, tmp_path: Path) -> Path:
    """Return a bundle of these measurements."""
    path = tmp_path / "bundle"
    assert colltune("fit", slow_default, "--learner", "knn", "--out", path).status == 0
    return path


def test_a_dataset_comes_back_as_it_was(colltune: Verb, tmp_path: Path) -> None:
    """Imported and exported, every row names the same configuration with the same times."""
    dataset, again = tmp_path / "dataset", tmp_path / "again.csv"
    assert colltune("data", "import", DATA, "--out", dataset).status == 0
    assert colltune("data", "export", dataset, "--out", again).status == 0
    assert sorted(again.read_text().splitlines()) == sorted(DATA.read_text().splitlines())


def test_learners_take_them_for_configurations(colltune: Verb, tmp_path: Path) -> None:
    """All that was timed is fitted, with words and numbers among the parameters."""
    for learner in ("knn", "cost_model"):
        out = tmp_path / "bundle"
        answer = colltune("fit", DATA, "--learner", learner, "--out", out)
        assert (answer.status, answer.out.count("configurations")) == (0, 2), learner
        manifest = json.loads((out / "manifest.json").read_text())
        assert OWN in json.dumps(manifest), learner


def test_they_are_selected_and_explained(colltune: Verb, bundle: Path, tmp_path: Path) -> None:
    """Decisions name them, and pictures, reports and forecasts do."""
    asked = ("--nodes", 1, "--ppn", 4, "--collective", "bcast")
    chosen = colltune("select", "--bundle", bundle, *asked, "--msize", 65536, "--json").json
    assert chosen["configuration"].startswith("colltune.bcast.hierarchical")
    assert "colltune.hierarchical" in colltune("select", "--bundle", bundle, *asked).out
    forecast = colltune(
        "what-if", bundle, "--collective", "bcast", "--msize", "64K", "--now", "1x4"
    )
    assert forecast.status == 0, forecast.err
    report, picture = tmp_path / "report.html", tmp_path / "map.svg"
    assert colltune("report", bundle, "--out", report).status == 0
    assert "colltune.hierarchical" in report.read_text()
    drawn = colltune("plot", "map", bundle, "--collective", "bcast", "--out", picture)
    assert drawn.status == 0, drawn.err


def test_a_table_names_them_and_a_rules_file_does_not(
    colltune: Verb, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written is linted, explained, and told how to be put into effect."""
    library = tmp_path / "libcolltune.so"
    monkeypatch.setattr(build, "library_for", lambda *_: library)
    table, rules = tmp_path / "job.table", tmp_path / "rules"
    shape = ("--bundle", bundle, "--nodes", 1, "--ppn", 4)
    told = colltune("select", *shape, "--format", "openmpi-table", "--out", table)
    line = f'export LD_PRELOAD="${{LD_PRELOAD:+$LD_PRELOAD:}}"{library} COLLTUNE_TABLE={table}'
    assert line in told.out
    assert line.partition(" COLLTUNE")[0] in (tmp_path / "job.table.params").read_text()
    assert "nothing found" in colltune("rules", "lint", table).out
    call = ("--collective", "bcast", "--nodes", 1, "--ppn", 4, "--msize", 65536)
    assert "hierarchical" in colltune("rules", "explain", table, *call).out
    noted = colltune("select", *shape, "--format", "openmpi", "--out", rules).err
    assert "all collectives are left to the library" in noted
    assert rules.read_text().endswith("0 # collectives\n")


def test_without_a_compiler_the_table_is_written_all_the_same(
    colltune: Verb, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note tells how to get the library."""
    monkeypatch.setenv("COLLTUNE_INTERPOSED", "/nowhere/libcolltune.so")
    table = tmp_path / "job.table"
    shape = ("--bundle", bundle, "--nodes", 1, "--ppn", 4)
    told = colltune("select", *shape, "--format", "openmpi-table", "--out", table)
    assert told.status == 0
    assert table.is_file()
    assert "Run colltune app interpose" in told.err
