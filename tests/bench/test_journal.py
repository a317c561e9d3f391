"""The journal of a campaign's run, and going on with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colltune.bench import journal
from colltune.bench.campaign import Campaign
from colltune.bench.strategies import Visited
from colltune.domain import Collective, Shape
from colltune.errors import OutputError
from tests.refusals import refused

CAMPAIGN = Campaign((Collective.BCAST,), (8,), machine="m", ppn=(4,), total_s=30.0)
SHAPE = Shape(2, 4)


def resumed(log: journal.Journal) -> bool:
    """Tell whether an earlier, killed process began this run."""
    return bool(log.launches) or log.spent_s > 0


def _killed_run(dataset: Path) -> str:
    """Leave the journal of a run that ended without a word in its second launch."""
    with journal.opened(dataset, CAMPAIGN) as log:
        log.begin("a", 0, "survey", SHAPE, 1.0)
        log.end("a", 4.0)
        log.begin("b", 1, "refine", SHAPE, 5.0)
        log.beat(6.5)
        log.beat(6.6)
        return log.name


def test_a_killed_run_is_found_again(tmp_path: Path) -> None:
    """The next run of the campaign knows what was spent and launched, the open launch included."""
    name = _killed_run(tmp_path)
    with journal.opened(tmp_path, CAMPAIGN) as log:
        assert (log.name, log.spent_s, resumed(log), log.done) == (name, 6.5, True, False)
        assert log.launches == {"a", "b"}
        assert log.visits == (Visited("survey", SHAPE, 3.0), Visited("refine", SHAPE, 1.5))


def test_the_launches_of_a_visit_count_once(tmp_path: Path) -> None:
    """Where each configuration needs a launch, a visit is all of them, with their time."""
    with journal.opened(tmp_path, CAMPAIGN) as log:
        for number, launch in enumerate("abc"):
            log.begin(launch, number // 2, "survey", SHAPE, 2.0 * number)
            log.end(launch, 2.0 * number + 1.0)
    with journal.opened(tmp_path, CAMPAIGN) as log:
        assert log.visits == (Visited("survey", SHAPE, 2.0), Visited("survey", SHAPE, 1.0))


def test_a_run_that_ended_by_itself_is_not_resumed(tmp_path: Path) -> None:
    """After its end the same campaign starts anew, with the whole budget."""
    with journal.opened(tmp_path, CAMPAIGN) as log:
        log.finish(30.0)
    with journal.opened(tmp_path, CAMPAIGN) as again:
        assert (resumed(again), again.spent_s, again.done) == (False, 0.0, False)


def test_a_requeued_job_knows_that_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch job that ended a run finds it done; another job starts anew."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with journal.opened(tmp_path, CAMPAIGN) as log:
        log.finish(30.0)
    with journal.opened(tmp_path, CAMPAIGN) as again:
        assert again.done
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    with journal.opened(tmp_path, CAMPAIGN) as other:
        assert not other.done


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    """Two runs of one campaign at once have a journal each."""
    with (
        journal.opened(tmp_path, CAMPAIGN) as first,
        journal.opened(tmp_path, CAMPAIGN) as second,
    ):
        assert first.name != second.name


@pytest.mark.parametrize(
    "other",
    [CAMPAIGN.changed(machine="n"), CAMPAIGN.changed(cell_s=1.0), CAMPAIGN.changed(skip=("x",))],
)
def test_another_campaign_is_not_resumed(tmp_path: Path, other: Campaign) -> None:
    """Only the very same campaign goes on with a killed run; its budget may differ."""
    _killed_run(tmp_path)
    with journal.opened(tmp_path, other) as log:
        assert not resumed(log)
    with journal.opened(tmp_path, CAMPAIGN.changed(total_s=60.0)) as log:
        assert resumed(log)


def test_resuming_can_be_refused(tmp_path: Path) -> None:
    """Without `resume` a killed run is left where it is."""
    _killed_run(tmp_path)
    with journal.opened(tmp_path, CAMPAIGN, resume=False) as log:
        assert not resumed(log)


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    """A journal whose last line is half written is read, and can be written on."""
    name = _killed_run(tmp_path)
    path = tmp_path / "campaigns" / f"{name}.jsonl"
    path.write_text(path.read_text() + '{"end": "b", "at')
    with journal.opened(tmp_path, CAMPAIGN) as log:
        assert log.spent_s == 6.5
        log.end("b", 9.0)
    with journal.opened(tmp_path, CAMPAIGN) as log:
        assert log.visits[1] == Visited("refine", SHAPE, 4.0)


@pytest.mark.parametrize("text", ["", "garbage\n", '{"version": 99}\n', "[1]\n"])
def test_a_damaged_journal_is_passed_over(tmp_path: Path, text: str) -> None:
    """A journal without a readable first line is nobody's, and does no harm."""
    folder = tmp_path / "campaigns"
    folder.mkdir()
    (folder / "x.jsonl").write_text(text)
    with journal.opened(tmp_path, CAMPAIGN) as log:
        assert (log.name, resumed(log)) != ("x", True)


def test_every_line_is_a_json_object(tmp_path: Path) -> None:
    """The journal can be read by any program, line by line."""
    name = _killed_run(tmp_path)
    lines = (tmp_path / "campaigns" / f"{name}.jsonl").read_text().splitlines()
    keys = [sorted(json.loads(line)) for line in lines[1:]]
    assert keys == [
        ["at_s", "begin", "shape", "visit", "what"],
        ["at_s", "end"],
        ["at_s", "begin", "shape", "visit", "what"],
        ["at_s"],
    ]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """A dataset that is no folder is an error that names it."""
    (tmp_path / "d").write_text("")
    with (
        refused("cannot-write", OutputError),
        journal.opened(tmp_path / "d", CAMPAIGN),
    ):
        pass
