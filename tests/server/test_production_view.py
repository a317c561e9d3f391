"""What the page and its clients are told of production."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from colltune.production.judgement import ProductionVerdict, SavedNodeHours, TrialStep, TrialVerdict
from colltune.production.status import status_of
from tests.cli.conftest import Verb, colltune
from tests.page.reading import facts_of
from tests.production.judged import EVENTS, JUDGEMENT, SETTINGS, SLOT, TRIED, finding
from tests.server.test_production import MACHINE, loop_of
from tests.server.writable import Writable, recorded, writable

__all__ = ["colltune"]
VIEW, REPORT = "/v1/view/production", "/v1/production/report"


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Writable]:
    """Yield a service of a site that was judged."""
    settings = {"production": recorded(tmp_path), "machine": MACHINE, "judge_s": 3600.0}
    with writable(tmp_path, **settings) as found:
        loop_of(found).stop()
        loop_of(found).judgement = JUDGEMENT
        yield found


def test_where_it_is_off_the_page_says_how_to_switch_it_on(tmp_path: Path) -> None:
    """There are no figures then, and no report."""
    with writable(tmp_path) as found:
        told = found.client.get(VIEW).json()
        assert (told["recording"], told["saved"], told["proven"]) == (False, None, [])
        assert "site init" in told["switch_on"]
        assert found.client.get(REPORT).status_code == 404


def test_it_has_every_field_of_the_status(judged: Writable) -> None:
    """Nothing that is known is lost on the way, and nothing is there twice."""
    told = judged.client.get(VIEW).json()
    status = status_of(JUDGEMENT, SETTINGS, EVENTS, MACHINE)
    assert told.keys() == asdict(status).keys()
    assert told["saved"] == {"period": "all", "node_hours": 1412, "lower": 1280, "upper": 1550}
    assert told["arms"][1] == {**asdict(JUDGEMENT.arms[1]), "arm": "control"}
    assert [one["mpi_name"] for one in told["refuted"]] == ["MPI_Alltoall"]


@pytest.mark.parametrize("verdict", ProductionVerdict)
def test_what_was_not_compared_is_no_figure(
    tmp_path: Path, colltune: Verb, monkeypatch: pytest.MonkeyPatch, verdict: ProductionVerdict
) -> None:
    """Without an interval, page, JSON, text and metrics tell no gain, no hours, and no 1.00x."""
    unknown = replace(finding(verdict, 1.0), gain=None, lower=None, upper=None)
    trial = TrialStep(
        SLOT, TRIED, 0.25, 1, None, None, None, TrialVerdict.NOT_COMPARED, False, "one job"
    )
    nothing = replace(
        JUDGEMENT,
        findings=(unknown,),
        steps=(trial,),
        saved=SavedNodeHours(0, 0, 0),
        drifts=(),
        months={},
        collectives={},
        jobs=1,
    )
    settings = {"production": recorded(tmp_path), "machine": MACHINE, "judge_s": 3600.0}
    with writable(tmp_path, **settings) as service:
        loop_of(service).stop()
        loop_of(service).judgement = nothing

        def ask(_url: str, path: str, _limit_s: float) -> bytes:
            return bytes(service.client.get(path).content)

        monkeypatch.setattr("colltune.server.slurm.ask.ask", ask)
        told = service.client.get(VIEW).json()
        text = colltune("site", "status", "http://tuning:8765")
        metrics = service.client.get("/metrics").text
    assert (told["saved"], told["months"], told["collectives"]) == (None, [], [])
    assert told["proven"] == told["refuted"] == []
    assert text.status == 0
    assert not re.search(r"1\.00x|1\.000|\b0 node-hours", text.out)
    assert not re.search(r"^colltune_production_saved_node_hours\{", metrics, re.MULTILINE)


def test_a_trial_is_told_from_the_registry(judged: Writable) -> None:
    """As soon as it began, and no longer when it was stopped."""
    judged.registry.step(judged.second, 0.05, by="ann")
    (trial,) = judged.client.get(VIEW).json()["roll_outs"]
    assert (trial["bundle_id"], trial["share"], trial["by"]) == (judged.second, 0.05, "ann")
    judged.registry.stop("openmpi-4.1.4", by="ann")
    told = judged.client.get(VIEW).json()
    assert (told["roll_outs"], [one["by"] for one in told["stopped"]]) == ([], ["ann"])


@pytest.mark.parametrize(
    ("month", "status"),
    [("", 200), ("2026-10", 200), ("2025-01", 404), ("2026-13", 422), ("x", 422)],
)
def test_reports_are_of_months_that_there_are(judged: Writable, month: str, status: int) -> None:
    """A report may run its own script alone, and load nothing; an error names what there is."""
    answer = judged.client.get(f"{REPORT}?month={month}")
    assert answer.status_code == status
    if status == 200:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'sha256-" in policy
        first = facts_of(answer.text)["answers"]["v1/view/production"]["months"][0]
        assert first["period"] == (month or "2026-11")
    if status == 404:
        assert "2026-11, 2026-10" in answer.json()["detail"]


def test_the_command_asks_the_service(
    judged: Writable, colltune: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its address it tells the same as the page, and the report is the service's."""

    def ask(url: str, path: str, _limit_s: float) -> bytes:
        assert url == "http://tuning:8765"
        return bytes(judged.client.get(path).content)

    monkeypatch.setattr("colltune.server.slurm.ask.ask", ask)
    out = tmp_path / "october.html"
    answer = colltune(
        *("site", "status", "http://tuning:8765", "--report", out, "--month", "2026-10")
    )
    assert answer.status == 0
    assert "412 node-hours (380 to 450)" in answer.out
    assert out.read_bytes() == judged.client.get(f"{REPORT}?month=2026-10").content
