"""`colltune han`: picks, files for a job, and the comparison, from files without an MPI."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colltune.cli.app import app
from colltune.domain import Collective, Shape
from colltune.errors import CampaignError, DataError, UsageError
from colltune.han import tasks_file
from colltune.han.space import Space, TuningInputs, TuningRequest
from tests.han.samples import (
    CONTEXT,
    SETUP,
    SHAPE,
    TASKS,
    replace_measuring,
    write_tasks,
    write_whole,
)
from tests.refusals import refused

ONE = ("--collective", "bcast", "--segsize", "4K", "--up", "libnbc", "--low", "sm")


def _run(*words: object) -> str:
    result = CliRunner().invoke(app(["han"]), ["han", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_picks_are_shown_and_written(tmp_path: Path) -> None:
    """The table tells the composed runtimes; the files make the job's coll/han run the setup."""
    tasks = write_tasks(tmp_path / "tasks.jsonl")
    output = _run("select", tasks, "--shape", "2x2", *ONE, "--msize", "4K,40K", "--out", tmp_path)
    rows = [line.split() for line in output.splitlines()]
    assert ["bcast", "4", "KiB", "low=sm,segsize=4096,up=libnbc", "3.000"] in rows
    assert ["bcast", "40", "KiB", "low=sm,segsize=4096,up=libnbc", "12.000"] in rows
    assert "1.00 times the best time of each message on average, 1.00 at worst" in output
    assert f"mpirun --tune {tmp_path / 'han.tune'} …" in output
    assert "0 han @intra" in (tmp_path / "han.rules").read_text()
    assert (tmp_path / "han.tune").read_text().splitlines() == [
        "--mca coll_han_use_dynamic_file_rules 1",
        f"--mca coll_han_dynamic_rules_filename {tmp_path / 'han.rules'}",
        "--mca coll_han_bcast_segsize 4096",
        "--mca coll_han_bcast_low_module 1",
    ]


def test_sizes_and_setups_are_those_of_the_file(tmp_path: Path) -> None:
    """Without options, what the file was measured for is picked from, and its only shape."""
    tasks = write_tasks(tmp_path / "tasks.jsonl")
    inputs = TuningInputs((Collective.BCAST,), (SHAPE,), (4096, 40960))
    asked = TuningRequest(inputs, Space((4096,), ("libnbc",), ("sm",))).asked()
    tasks_file.begin(tasks, CONTEXT, asked)
    found = json.loads(_run("select", tasks, "--json"))
    assert [pick["instance"]["msize_bytes"] for pick in found["picks"]] == [4096, 40960]
    assert {pick["setup"] for pick in found["picks"]} == {SETUP.id}
    assert found["job"]["setups"] == {"bcast": SETUP.id}


def test_of_several_shapes_one_must_be_named(tmp_path: Path) -> None:
    """The message names those of the file."""
    tasks = write_tasks(tmp_path / "tasks.jsonl")
    tasks_file.append(tasks, [replace(TASKS[0], shape=Shape(2, 3))])
    with refused("choose-one", UsageError, known="2x2, 2x3"):
        _run("select", tasks)


def test_json_tells_setups_by_their_ids(tmp_path: Path) -> None:
    """What machines read holds seconds, bytes and ids."""
    tasks = write_tasks(tmp_path / "tasks.jsonl")
    found = json.loads(_run("select", tasks, "--shape", "2x2", *ONE, "--msize", "4K", "--json"))
    assert found["picks"] == [
        {
            "instance": {"collective": "bcast", "shape": "2x2", "msize_bytes": 4096},
            "setup": "openmpi.bcast.han_intra:low=sm,segsize=4096,up=libnbc",
            "time_s": 0.003,
        }
    ]
    assert found["job"]["slowdown"] == {"bcast": 1.0}


def test_the_comparison_tells_regret(tmp_path: Path) -> None:
    """Picks stand beside what was measured of whole collectives."""
    tasks, data = write_tasks(tmp_path / "tasks.jsonl"), write_whole(tmp_path / "whole")
    words = ("compare", tasks, data, *ONE[2:])
    assert "mean regret: 0.0%" in _run(*words)


def test_measuring_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with series, launches, seconds and the file."""
    replace_measuring(monkeypatch)
    output = _run("measure", tmp_path / "tasks.jsonl", "--shape", "2x2")
    assert output == f"1 series of tasks, 1 launch, 1.0 s -> {tmp_path / 'tasks.jsonl'}\n"


def test_senseless_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started for a shape without nodes, or a module that does not exist."""
    for words, error, code in (
        (("measure", "t", "--shape", "1x4"), CampaignError, "shape-without-han shape=1x4"),
        (("measure", "t"), CampaignError, "nothing-to-measure"),
        (("measure", "t", "--shape", "2x2", "--up", "x"), CampaignError, "unknown name=x"),
        (("select", "no", "--shape", "2x2"), DataError, "unreadable path=no"),
    ):
        replace_measuring(monkeypatch)
        with refused(code, error):
            _run(*words)


def test_a_dataset_without_setups_is_refused(tmp_path: Path) -> None:
    """The message tells how to measure them."""
    tasks, data = write_tasks(tmp_path / "tasks.jsonl"), write_whole(tmp_path / "whole")
    data.write_text(data.read_text().replace("han_intra", "chain"))
    with refused("no-exhaustive-search", DataError):
        _run("compare", tasks, data)
