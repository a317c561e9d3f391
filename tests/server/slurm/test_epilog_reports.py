"""The epilog as it reports: what the service gets, and what is never read."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from colltune.production.arms import Arm
from colltune.production.summary import Given, Summary, parse_summary
from tests.dataset.profiles import profile_text, row
from tests.server.slurm.fake_service import BUNDLE, FakeService, with_arm
from tests.server.slurm.site import Site

UID = os.getuid()
JOB = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_CPUS_PER_NODE": "8(x4)"}
ENDED = JOB | {"SLURM_JOB_UID": str(UID), "SLURM_JOB_EXIT_CODE2": "0:0"}
PROFILE = profile_text([row("bcast", "4x8", 512, 100, 1e-3)])
GIVEN = (Given("openmpi", "4.1.4", Arm.TUNED, BUNDLE),)


@pytest.fixture
def recorded(site: Site, service: FakeService) -> Site:
    """Return a site that records, on which job 17 has begun."""
    service.answer = with_arm
    site.configure(RECORD="all")
    site.run("prolog.sh", JOB)
    return site


def drop_box(site: Site) -> Path:
    return site.jobs / "17/records"


def told(site: Site, service: FakeService, **environment: str) -> Summary:
    """Run the epilog, and return the one summary that the service got."""
    site.run("epilog.sh", ENDED | environment)
    ((_, body),) = service.summaries
    return parse_summary(body)


def waiting(site: Site) -> list[str]:
    return sorted(path.name for path in site.jobs.glob(".spool/*"))


def test_a_job_tells_what_it_recorded(recorded: Site, service: FakeService) -> None:
    """The arm and bundle it was given, and its profiles as they are; then nothing is left of it."""
    for name in ("a.profile", "b.profile"):
        (drop_box(recorded) / name).write_bytes(PROFILE)
    found = told(recorded, service)
    assert (found.job, found.nodes, found.state, found.user) == ("17", 4, "completed", "")
    assert found.given == GIVEN
    assert [run.job.program for run in found.runs] == ["solver", "solver"]
    assert 0 <= found.ended - found.started < 3600
    assert [path.name for path in recorded.jobs.iterdir() if path.name[0] != "."] == []
    assert waiting(recorded) == []
    assert recorded.logged() == []


def test_a_job_without_a_profile_tells_that(recorded: Site, service: FakeService) -> None:
    """Silent jobs count; of the control group, too, and the job's number was in the request."""
    assert [asked.job for asked in service.asked] == ["17"]
    assert told(recorded, service).runs == ()


@pytest.mark.parametrize(
    ("code", "until", "state"),
    [
        ("0:0", "", "unknown"),
        ("0:0", "1000", "timeout"),
        ("0:0", "9999999999", "completed"),
        ("3:0", "", "failed"),
        ("0:9", "9999999999", "failed"),
        ("", "", "unknown"),
    ],
)
def test_how_a_job_ended(
    site: Site, service: FakeService, code: str, until: str, state: str
) -> None:
    """As far as Slurm tells; without a profile, nobody knows that a job's time was not up."""
    service.answer = with_arm
    site.configure(RECORD="all")
    site.run("prolog.sh", JOB | ({"SLURM_JOB_END_TIME": until} if until else {}))
    assert told(site, service, SLURM_JOB_EXIT_CODE2=code).state == state


@pytest.mark.parametrize(
    ("record", "comment", "sends"),
    [("", "colltune:record", False), ("asked", "", True), ("all", "colltune:off", False)],
)
def test_only_jobs_that_may_be_recorded_report(
    site: Site, service: FakeService, record: str, comment: str, sends: bool
) -> None:
    """Where the site records nothing, or the job wants nothing of colltune, nothing is sent."""
    service.answer = with_arm
    site.configure(RECORD=record)
    site.run("prolog.sh", JOB | {"SLURM_JOB_COMMENT": comment})
    site.run("epilog.sh", ENDED)
    assert bool(service.summaries) == sends


@pytest.mark.parametrize(
    ("record", "comment", "by_default"),
    [("all", "", True), ("asked", "", False), ("asked", "my, colltune:record", True)],
)
def test_who_is_recorded_without_asking(
    site: Site, service: FakeService, record: str, comment: str, by_default: bool
) -> None:
    """The mark that the task prolog looks for; the drop-box is there for all."""
    service.answer = with_arm
    site.configure(RECORD=record)
    site.run("prolog.sh", JOB | {"SLURM_JOB_COMMENT": comment})
    assert (site.jobs / "17/record").exists() == by_default
    assert drop_box(site).stat().st_mode & 0o7777 == 0o1733


def test_a_job_of_the_control_group_is_told_nothing(site: Site, service: FakeService) -> None:
    """Its folder says so, and every shape stands there without settings."""
    service.answer = partial(with_arm, arm="control")
    site.configure(RECORD="all")
    site.run("prolog.sh", JOB)
    part = site.jobs / "17/openmpi-4.1.4"
    assert (part / "arm").read_text() == "control\n"
    assert {path.read_text() for path in part.glob("*/exports")} == {""}
    assert told(site, service).given == (Given("openmpi", "4.1.4", Arm.CONTROL, BUNDLE),)


def hostile(what: str, box: Path, secret: Path) -> None:
    """Put something into the drop-box that is not to be read."""
    bait = box / "bait.profile"
    match what:
        case "a link":
            bait.symlink_to(secret)
        case "a hard link":
            bait.hardlink_to(secret)
        case "a pipe":
            os.mkfifo(bait)
        case "a folder":
            bait.mkdir()
        case "a huge file":
            bait.write_bytes(PROFILE)
            os.truncate(bait, 1 << 30)
        case "another ending":
            (box / "bait").write_bytes(PROFILE)
        case "an odd name":
            (box / "a $(touch x)\n;.profile").write_bytes(PROFILE)


@pytest.mark.parametrize(
    "what",
    ["a link", "a hard link", "a pipe", "a folder", "a huge file", "another ending", "an odd name"],
)
def test_what_is_no_file_of_the_jobs_is_not_read(
    recorded: Site, service: FakeService, tmp_path: Path, what: str
) -> None:
    """Nothing of it is sent, and nothing of the job stays."""
    secret = tmp_path / "secret"
    secret.write_bytes(PROFILE)
    hostile(what, drop_box(recorded), secret)
    assert told(recorded, service).runs == ()
    assert not (recorded.jobs / "17").exists()
    assert secret.read_bytes() == PROFILE


@pytest.mark.root
def test_files_of_others_are_not_read(recorded: Site, service: FakeService) -> None:
    """Only those of the job's user."""
    for name, owner in (("mine.profile", 4242), ("other.profile", 4243)):
        (drop_box(recorded) / name).write_bytes(PROFILE)
        os.chown(drop_box(recorded) / name, owner, owner)
    assert len(told(recorded, service, SLURM_JOB_UID="4242").runs) == 1


def test_what_has_no_room_is_counted(recorded: Site, service: FakeService) -> None:
    """The text is at most 64 KiB; small profiles come first."""
    large = profile_text([row("bcast", "4x8", 512, 100, 1e-3)] * 350)
    assert 20_000 < len(large) < 60_000
    for name, content in (("a", large), ("b", large), ("c", PROFILE), ("d", large)):
        (drop_box(recorded) / f"{name}.profile").write_bytes(content)
    found = told(recorded, service)
    assert len(found.runs) + found.left_out == 4
    assert found.left_out > 0
    assert len(found.runs[0].uses) == 1


def test_a_user_is_told_by_a_hash_where_the_site_wants_it(site: Site, service: FakeService) -> None:
    """Of the site's secret and the user's number."""
    service.answer = with_arm
    site.configure(RECORD="all", USERS="hash")
    (site.hooks / "secret").write_bytes(b"salt")
    site.run("prolog.sh", JOB)
    whole = hashlib.sha256(f"salt{UID}\n".encode()).hexdigest()
    assert told(site, service).user == whole[:32]


def test_the_token_is_sent(recorded: Site, service: FakeService) -> None:
    """As the file of headers says it, which no command line shows."""
    (recorded.hooks / "summaries.header").write_text("Authorization: Bearer colltune_x\n")
    recorded.run("epilog.sh", ENDED)
    assert service.summaries[0][0] == "Bearer colltune_x"


@pytest.mark.parametrize(
    ("status", "keeps"),
    [(200, False), (202, False), (422, False), (401, True), (429, True), (503, True), (507, True)],
)
def test_what_the_service_does_not_take_waits(
    recorded: Site, service: FakeService, status: int, keeps: bool
) -> None:
    """Until a later epilog sends it, and only what can never be taken is dropped."""
    service.status = status
    recorded.run("epilog.sh", ENDED)
    assert waiting(recorded) == (["17"] if keeps else [])
    assert len(recorded.logged()) == (status == 422)


@pytest.mark.parametrize("how", ["down", "hanging"])
def test_a_service_that_is_away_loses_nothing(
    recorded: Site, service: FakeService, how: str
) -> None:
    """Its epilog ends; a later job's tells the service of both."""
    service.status = 0
    away = {"SOCKET": "/nowhere"} if how == "down" else {"LIMIT_S": "0.2"}
    recorded.configure(RECORD="all", **away)
    recorded.run("epilog.sh", ENDED)
    assert waiting(recorded) == ["17"]
    service.status = 201
    service.summaries.clear()
    recorded.configure(RECORD="all")
    recorded.run("prolog.sh", JOB | {"SLURM_JOB_ID": "18"})
    recorded.run("epilog.sh", ENDED | {"SLURM_JOB_ID": "18"})
    assert [parse_summary(body).job for _, body in service.summaries] == ["18", "17"]
    assert waiting(recorded) == []


def test_at_most_a_thousand_summaries_wait(recorded: Site, service: FakeService) -> None:
    """More are lost, with a line; a later epilog sends twenty of those that wait."""
    spool = recorded.jobs / ".spool"
    spool.mkdir()
    for number in range(1000):
        (spool / str(1000 + number)).write_text("x")
    service.status = 503
    recorded.run("epilog.sh", ENDED)
    assert len(waiting(recorded)) == 1000
    assert "1000 summaries wait" in recorded.logged()[0]
    service.status, shown = 200, len(service.summaries)
    recorded.run("prolog.sh", JOB | {"SLURM_JOB_ID": "18"})
    recorded.run("epilog.sh", ENDED | {"SLURM_JOB_ID": "18"})
    assert len(service.summaries) - shown == 21
    assert len(waiting(recorded)) == 980


def test_a_full_spool_folder_is_no_obstacle(recorded: Site, service: FakeService) -> None:
    """Where the text cannot be kept, a line says so, and the job's folder is removed."""
    (recorded.jobs / ".spool").write_text("no folder")
    recorded.logged()
    assert recorded.run("epilog.sh", ENDED).stderr == ""
    (line,) = recorded.logged()
    assert str(recorded.jobs / ".spool") in line
    assert service.summaries == []
    assert not (recorded.jobs / "17").exists()


def test_without_curl_nothing_is_lost(recorded: Site, tmp_path: Path) -> None:
    """The text waits."""
    programs = tmp_path / "few"
    programs.mkdir()
    for name in ("find", "sort", "head", "date", "dd", "mv", "rm", "mkdir", "timeout", "sh", "id"):
        (programs / name).symlink_to(str(shutil.which(name)))
    text = (recorded.hooks / "site.sh").read_text()
    (recorded.hooks / "site.sh").write_text(f"{text}PATH={programs}\n")
    recorded.run("epilog.sh", ENDED)
    assert waiting(recorded) == ["17"]
