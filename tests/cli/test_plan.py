"""`colltune plan`: nothing is run, everything is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Verb

CAMPAIGN = """
[machine]
name = "there"
[library]
name = "openmpi"
release = "5.0.11"
[space]
collectives = ["bcast", "barrier"]
nodes = [2, 4]
ppn = [2]
msizes_bytes = [8, 1048576]
segsizes_bytes = [0]
fanouts = [2]
only = ["*.binomial*", "*.linear"]
[budget]
total = "1h"
max_reps = 10
cell_s = 0.5
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign file for two shapes."""
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN)
    return path


def test_planning_needs_no_mpi(
    colltune: Verb, campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign that names its release is planned on a machine without any MPI."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = colltune("plan", campaign, "--json").json["plan"]
    # bcast: default and binomial at 2 sizes; barrier: default and linear; on 2 shapes
    assert facts["cells"] == 2 * (2 * 2 + 2)
    assert facts["worst"]["wall_s"] >= 12 * 0.5
    assert facts["cells_left_out"] == 0
    assert facts["limit"]["wall_s"] == 3600


def test_reprompi_is_planned_without_its_program(
    colltune: Verb, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReproMPI needs a launch per configuration and shape, and has no empty messages."""
    monkeypatch.setenv("COLLTUNE_REPROMPI", "/no/such/mpibenchmark")
    facts = colltune("plan", campaign, "--backend", "reprompi", "--json").json["plan"]
    # on each shape: the defaults share a launch, binomial and linear have their own
    assert facts["expected"]["launches"] >= 2 * 3


def test_a_plan_shows_what_a_person_asks(colltune: Verb, campaign: Path) -> None:
    """The table has cells, launches, wall time, node-hours and what is left out."""
    shown = colltune("plan", campaign).out
    assert "openmpi on there: 12 cells on 2 shapes up to 4x2; native, full_grid" in shown
    for words in ("all cells, expected", "all cells, at worst", "within the budget", "hard limit"):
        assert words in shown
    assert "all cells fit into the budget" in shown


def test_second_launches_are_counted(colltune: Verb, campaign: Path) -> None:
    """What it costs to measure a shape again stands in the plan; no share, no line."""
    words = ("plan", campaign, "--strategy", "latin_hypercube")
    assert "of these in second launches" in colltune(*words).out
    planned = colltune(*words, "--json").json["plan"]
    again = planned["second_launches"]
    assert planned["repeated_shapes"] == ["4x2"]
    assert again["launches"] == 1
    assert 1.0 < again["wall_s"] < 10.0
    campaign.write_text(f"{CAMPAIGN}[measure]\nrepeat_shapes = 0\n")
    assert "second launches" not in colltune(*words).out


def test_a_small_budget_leaves_cells_out(colltune: Verb, campaign: Path) -> None:
    """What finds no time within the budget is counted by shape."""
    shown = colltune("plan", campaign, "--budget", "3", "--launch-s", "2.99999").out
    assert "do not fit into the budget" in shown
    assert "4x2" in shown


def test_recorded_runtimes_replace_the_guess(
    colltune: Verb, campaign: Path, measurements_csv: Path
) -> None:
    """With data of the machine the plan says what its runtimes rest on."""
    facts = colltune("plan", campaign, "--data", measurements_csv, "--json").json
    assert "predicted from" in facts["plan"]["runtimes"]


def test_nonsense_is_refused(colltune: Verb, campaign: Path) -> None:
    """A wrong option is an error that names it and what there is."""
    for words, message in (
        (("--budget", "soon"), "'soon' is not a wall time"),
        (("--strategy", "greedy"), "unknown strategy 'greedy'; known: "),
        (("--backend", "mpptest"), "unknown backend 'mpptest'"),
        (("--task", "3/2"), "part 3/2"),
        (("--only", "*.quick"), "space.only: '*.quick' matches no configuration"),
    ):
        answer = colltune("plan", campaign, *words)
        assert answer.status == 4, words
        assert message in answer.err, words


def test_a_plan_says_when_it_pays(colltune: Verb, campaign: Path) -> None:
    """The last lines say what it saves, and what that rests on; without node-hours, how many."""
    shown = colltune("plan", campaign).out
    assert "it pays once tuned jobs took" in shown
    told = ("--node-hours-per-month", "1000", "--collectives-share", "10-30")
    facts = colltune("plan", campaign, *told, "--json").json
    found = facts["payback"]
    assert found["cost_node_hours"] == facts["plan"]["within_budget"]["node_hours"]
    saving = found["saving_node_hours_per_month"]
    assert 0 <= saving["lower"] < saving["expected"] < saving["upper"] < 300
    assert found["days"]["upper"] is None
    assert "10 to 30 % as given" in found["basis"]


def test_a_plan_counts_what_jobs_asked_for(colltune: Verb, campaign: Path, tmp_path: Path) -> None:
    """Jobs of another release would not be tuned, so for them alone it does not pay."""
    line = (
        '{"version": 1, "hour": "2026-11-22T23", "library": "openmpi", "release": "%s", "nodes": 2,'
        ' "ppn": 4, "count": 9}\n'
    )
    for release, pays in (("4.1.8", False), ("5.0.11", True)):
        (tmp_path / "demand-1.jsonl").write_text(line % release)
        shown = colltune("plan", campaign, "--demand", tmp_path).out
        assert ("does not pay" in shown) is not pays
