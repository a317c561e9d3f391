"""A service that compares jobs with a control group, and takes what they report."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from colltune.dataset.profile import bucket
from colltune.errors import UsageError
from colltune.production.arms import Arm, ArmShares, arm_of
from colltune.production.store import Store
from colltune.production.summary import Given, Summary, text_of
from colltune.server.production import ProductionJobs
from colltune.server.settings import ServiceSettings
from tests.dataset.profiles import profile_text, row
from tests.refusals import refused
from tests.server.serving_process import PATIENCE_S, Server
from tests.server.writable import ONLY_PROMOTES, Writable, bearer, filled, recorded, writable

MACHINE, CONTROL = "hydra", 0.3
ROW = row("bcast", "8x4", 512, 100, 1e-3, msize=1000)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Writable]:
    """Yield a service whose jobs prove what bundles gain."""
    site = recorded(tmp_path)
    with writable(tmp_path, production=site, machine=MACHINE, judge_s=3600.0) as found:
        loop = loop_of(found)
        # the tests look themselves
        loop._ended.set()
        assert loop._thread is not None
        loop._thread.join()
        yield found


def loop_of(service: Writable) -> ProductionJobs:
    """Return what the service does for production."""
    found = service.client.app.state.service.production  # type: ignore[attr-defined]
    assert isinstance(found, ProductionJobs)
    return found


def job_of(arm: Arm, candidate: float = 0.0, after: int = 0) -> str:
    """Return the number of a job that belongs to `arm`."""
    split = ArmShares(CONTROL, candidate)
    return next(str(n) for n in range(after, 9999) if arm_of(MACHINE, str(n), split) is arm)


def ask(service: Writable, job: str | None = None, more: str = "") -> Any:
    """Return the answer to a prolog."""
    query = f"nodes=4&ppn=1&folder=/tmp/j{more}" + (f"&job={job}" if job else "")
    return service.client.get(f"/v1/job/openmpi/4.1.4?{query}")


def summary(
    service: Writable, arm: Arm = Arm.TUNED, profiles: tuple[bytes, ...] | None = None, **head: Any
) -> bytes:
    """Return what the epilog of a job of `arm` sends that ended just now."""
    ended = int(time.time())
    job = head.get("job") or job_of(arm)
    given = Given("openmpi", "4.1.4", arm, service.first)
    whole = Summary(job, ended - 60, ended, 8, "completed", "", (given,), (), 0)
    if profiles is None:
        profiles = (profile_text([ROW], job=job, arm=str(arm)),)
    return text_of(replace(whole, **head), profiles)


def send(service: Writable, content: bytes) -> Any:
    """Return the answer to an epilog."""
    return service.post("/v1/summaries", content=content)


def kept(service: Writable) -> list[str]:
    """Return the jobs that wait to be judged."""
    with loop_of(service).store.judging(time.time()) as judging:
        assert judging is not None
        return [one.summary.job for one in judging.new()]


def test_a_job_is_given_its_arm(service: Writable) -> None:
    """Tuned jobs get settings, those of the control group the same text without any."""
    tuned, control = (ask(service, job_of(arm)) for arm in (Arm.TUNED, Arm.CONTROL))
    for answer, arm in ((tuned, "tuned"), (control, "control")):
        assert answer.headers["x-colltune-arm"] == arm
        assert answer.text.startswith(f"colltune-job 2\nbundle {service.first}\narm {arm}\n")
        assert "\nshape 4x1\n" in answer.text
    assert "\nset " in tuned.text
    assert "\nset " not in control.text
    assert tuned.headers["etag"] != control.headers["etag"]


def test_who_has_no_arm_is_answered_as_ever(service: Writable) -> None:
    """Requests without a job, and those that name a bundle, get version 1 and no arm."""
    control = job_of(Arm.CONTROL)
    for answer in (ask(service), ask(service, control, f"&bundle={service.second}")):
        assert "x-colltune-arm" not in answer.headers
        assert answer.text.startswith("colltune-job 1\n")
        assert "\nset " in answer.text


def test_an_answer_for_a_job_is_not_kept(service: Writable) -> None:
    """Jobs' own answers push no other out of the cache, and 304 is only for the same arm."""
    answers = service.client.app.state.service.state.answers  # type: ignore[attr-defined]
    before = len(answers)
    first = ask(service, job_of(Arm.TUNED))
    for number in range(20):
        ask(service, str(number))
    assert len(answers) == before
    url = f"/v1/job/openmpi/4.1.4?nodes=4&ppn=1&folder=/tmp/j&job={job_of(Arm.CONTROL)}"
    tag = {"If-None-Match": first.headers["etag"]}
    assert service.client.get(url, headers=tag).status_code == 200


def test_a_trial_is_given_to_its_share(service: Writable, caplog: pytest.LogCaptureFixture) -> None:
    """Candidates get the bundle on trial, the others what they had; one that is damaged nobody."""
    service.registry.step(service.second, 0.5, by="test")
    watcher = service.client.app.state.service.watcher  # type: ignore[attr-defined]
    watcher.refresh()
    candidate = job_of(Arm.CANDIDATE, 0.5)
    for job, arm, bundle in (
        (candidate, "candidate", service.second),
        (job_of(Arm.TUNED, 0.5), "tuned", service.first),
        (job_of(Arm.CONTROL, 0.5), "control", service.first),
    ):
        answer = ask(service, job)
        found = (answer.headers["x-colltune-arm"], answer.headers["x-colltune-bundle"])
        assert found == (arm, bundle)
    service.registry.stop("openmpi-4.1.4", by="test")
    watcher.refresh()
    assert ask(service, candidate).headers["x-colltune-arm"] == "tuned"
    damaged = service.registry.path(service.second) / "bcast.arrays"
    service.registry.step(service.second, 0.5, by="test")
    damaged.write_bytes(b"damaged")
    watcher.refresh()
    assert ask(service, candidate).headers["x-colltune-arm"] == "tuned"


def test_jobs_are_counted_once_by_arm(service: Writable) -> None:
    """However many of a job's nodes ask; what cannot be written is written later."""
    jobs = {arm: job_of(arm) for arm in (Arm.TUNED, Arm.CONTROL)}
    for job in (*jobs.values(), *jobs.values()):
        ask(service, job)
    loop = loop_of(service)
    loop.store, good = Store("/dev/null/no.db", Path("/dev/null/no")), loop.store
    loop.flush()
    loop.store = good
    loop.flush()
    loop.flush()
    asked = Counter({(a.slot, a.arm, a.bundle_id): n for a, n in good.asked(0.0).items()})
    assert asked == {("openmpi-4.1.4", arm, service.first): 1 for arm in jobs}


def test_a_report_cannot_choose_its_arm(service: Writable) -> None:
    """What the service answered counts, not what a report says or would be drawn by now."""
    job = job_of(Arm.CANDIDATE, 0.5)
    assert ask(service, job).headers["x-colltune-arm"] == "tuned"
    service.registry.step(service.second, 0.5, by="test")
    given = {
        arm: (Given("openmpi", "4.1.4", arm, bundle),)
        for arm, bundle in ((Arm.CANDIDATE, service.second), (Arm.TUNED, service.first))
    }
    refused = send(service, summary(service, Arm.CANDIDATE, job=job, given=given[Arm.CANDIDATE]))
    assert (refused.status_code, refused.json()["reason"]) == (202, "arm_not_given")
    assert send(service, summary(service, job=job, given=given[Arm.TUNED])).status_code == 201
    # of a job that the service was never asked about, what it would have drawn is possible
    other = job_of(Arm.CANDIDATE, 0.5, after=int(job) + 1)
    again = summary(service, Arm.CANDIDATE, job=other, given=given[Arm.CANDIDATE])
    loop_of(service)._admission._read_at = 0.0
    assert send(service, again).status_code == 201


def test_a_job_counts_once(service: Writable) -> None:
    """The first report is stored, the same again known."""
    content = summary(service)
    answers = [send(service, content) for _ in range(2)]
    assert [a.status_code for a in answers] == [201, 200]
    assert [a.json()["outcome"] for a in answers] == ["stored", "known"]
    assert kept(service) == [job_of(Arm.TUNED)]


def test_reports_at_once_count_once(service: Writable) -> None:
    """Of several who report the same job at the same time one is stored."""
    content, statuses = summary(service), Counter[int]()
    threads = [
        threading.Thread(target=lambda: statuses.update([send(service, content).status_code]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {201: 1, 200: 3}


def profile_with(rows: tuple[str, ...] = (ROW,), **head: str) -> tuple[bytes, ...]:
    """Return the profile of a tuned job's only run."""
    return (profile_text(rows, **{"job": job_of(Arm.TUNED), "arm": "tuned", **head}),)


def with_column(number: int, value: str) -> tuple[bytes, ...]:
    """Return a profile of which one column is another."""
    words = ROW.split(" ")
    return profile_with((" ".join((*words[:number], value, *words[number + 1 :])),))


NOW = int(time.time())
SET_ASIDE: dict[str, tuple[dict[str, Any], str]] = {
    "a bundle that never was": (
        {"given": (Given("openmpi", "4.1.4", Arm.TUNED, "ab" * 32),)},
        "unknown_bundle",
    ),
    "control that was tuned": ({"arm": Arm.CONTROL, "job": job_of(Arm.TUNED)}, "arm_not_given"),
    "tuned that was control": ({"arm": Arm.TUNED, "job": job_of(Arm.CONTROL)}, "arm_not_given"),
    "a candidate without a trial": (
        {"arm": Arm.CANDIDATE, "job": job_of(Arm.TUNED)},
        "arm_not_given",
    ),
    "a run of another arm": ({"profiles": profile_with(arm="control")}, "arm_not_given"),
    "an end before the start": ({"started": NOW + 30, "ended": NOW}, "clock_off"),
    "an end in the future": ({"ended": NOW + 3600}, "clock_off"),
    "an end long ago": ({"started": NOW - 20 * 86400, "ended": NOW - 15 * 86400}, "clock_off"),
    "a run longer than the job": ({"profiles": profile_with(wall_s="4000")}, "clock_off"),
    "another library": ({"profiles": profile_with(library="mpich 4.3.2")}, "other_library"),
    "another release": ({"profiles": profile_with(library="openmpi 5.0.8")}, "other_library"),
    "a run of another job": ({"profiles": profile_with(job="99999")}, "other_job"),
    "more nodes than the job": ({"nodes": 4}, "impossible"),
    "more processes than fit": (
        {"profiles": profile_with(world="40960 8x5120"), "nodes": 8},
        "impossible",
    ),
    "more time than there was": ({"profiles": profile_with(wall_s="0.01")}, "impossible"),
    "collectives beyond the run": (
        {"profiles": profile_with(collectives_s="40 3 50")},
        "impossible",
    ),
    "another count in the sketch": (
        {"profiles": with_column(16, f"{bucket(1e-3)}:7")},
        "impossible",
    ),
    "a call of a nanosecond": ({"profiles": with_column(12, "1e-9")}, "impossible"),
    "a call longer than the job": ({"profiles": with_column(13, "5000")}, "impossible"),
}


@pytest.mark.parametrize("name", SET_ASIDE)
def test_what_cannot_be_true_is_set_aside(unchanged: Writable, name: str) -> None:
    """It is acknowledged with the reason, counted, and never judged."""
    head, reason = SET_ASIDE[name]
    store = loop_of(unchanged).store
    before = store.set_aside_counts(0.0)[reason]
    answer = send(unchanged, summary(unchanged, **head))
    assert (answer.status_code, answer.json().get("reason")) == (202, reason)
    assert answer.json()["detail"]
    assert store.set_aside_counts(0.0)[reason] == before + 1
    assert kept(unchanged) == []


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writable]:
    """Yield such a service for tests that store nothing."""
    folder = tmp_path_factory.mktemp("production")
    with writable(folder, production=recorded(folder), machine=MACHINE, judge_s=3600.0) as found:
        yield found


@pytest.mark.parametrize("of", ["at the end", "in the middle", "a byte", "its beginning", "words"])
def test_what_is_no_summary_is_refused(unchanged: Writable, of: str) -> None:
    """A damaged text names its line; nothing of it is kept."""
    whole = summary(unchanged)
    bad = {
        "at the end": whole[:-5],
        "in the middle": whole[: len(whole) // 2],
        "a byte": whole.replace(b"row bcast", b"row bcasu"),
        "its beginning": b"",
        "words": b"not a summary\n",
    }[of]
    answer = send(unchanged, bad)
    assert answer.status_code == 422
    assert "line" in answer.json()["detail"]
    assert kept(unchanged) == []


def test_a_body_beyond_64_kib_is_refused(unchanged: Writable) -> None:
    """Whether it tells its length or not."""
    for content in (b"x" * 70_000, iter([b"x" * 40_000] * 2)):
        assert send(unchanged, content).status_code == 413  # type: ignore[arg-type]


def test_who_has_no_right_reports_nothing(unchanged: Writable) -> None:
    """A token for promotions reports no jobs."""
    content = summary(unchanged)
    assert unchanged.client.post("/v1/summaries", content=content).status_code == 401
    narrow = unchanged.post("/v1/summaries", ONLY_PROMOTES, content=content)
    assert narrow.status_code == 403
    assert "--scope summaries" in narrow.json()["detail"]


def test_what_was_in_force_when_the_job_began_counts(service: Writable) -> None:
    """A bundle promoted while the job ran changes nothing; one promoted long before does."""
    service.registry.promote(service.second, by="test")
    assert send(service, summary(service)).status_code == 201
    later = int(time.time()) - 3600
    early = summary(service, job=job_of(Arm.TUNED, after=50), started=later)
    # an hour ago nothing was in force
    assert send(service, early).json()["reason"] == "arm_not_given"


def test_the_control_group_of_then_counts(service: Writable) -> None:
    """A job that was control while the group was larger is believed, one that never was is not."""
    loop = loop_of(service)
    arms = {
        str(n): [arm_of(MACHINE, str(n), ArmShares(share)) for share in (CONTROL, 0.5)]
        for n in range(100)
    }
    before, never = (
        next(job for job, found in arms.items() if found == [Arm.TUNED, last])
        for last in (Arm.CONTROL, Arm.TUNED)
    )
    loop.store.split_since(0.5, time.time() - 3600)
    answers = [send(service, summary(service, Arm.CONTROL, job=job)) for job in (before, never)]
    assert [answer.status_code for answer in answers] == [201, 202]


def test_a_flood_is_turned_away(tmp_path: Path) -> None:
    """Beyond the burst of a token comes 429 with when to try again; set-aside ones stay few."""
    more = {"rate_per_s": 0.01, "summaries_burst": 5, "judge_s": 3600.0}
    site = recorded(tmp_path)
    with writable(tmp_path, production=site, machine=MACHINE, **more) as service:
        answers = [send(service, summary(service, nodes=1, job=str(n))) for n in range(8)]
        assert [a.status_code for a in answers] == [202] * 5 + [429] * 3
        assert int(answers[-1].headers["retry-after"]) > 0


def test_a_store_that_takes_nothing_is_told_and_recovers(service: Writable) -> None:
    """The epilog keeps its text for later: 503 with no path in it; the next report is stored."""
    loop = loop_of(service)
    loop.store, good = Store("/dev/null/no.db", Path("/dev/null/no")), loop.store
    loop._admission._store = loop.store
    answer = send(service, summary(service))
    assert answer.status_code == 503
    assert "/dev/null" not in answer.text
    loop.store = loop._admission._store = good
    assert send(service, summary(service)).status_code == 201


def test_a_service_without_it_takes_none(tmp_path: Path) -> None:
    """Jobs have no arms, and summaries are refused with what switches it on."""
    with writable(tmp_path) as service:
        answer = ask(service, job_of(Arm.CONTROL))
        assert answer.text.startswith("colltune-job 1\n")
        refused = service.post("/v1/summaries", content=b"colltune-summary 1\n")
        assert refused.status_code == 403
        assert re.search(r"--site.*record = true", refused.json()["detail"])


def loaded(service: Writable, arm: Arm, job: str) -> bytes:
    """Return the report of a job of which bcast took half as long where it was tuned."""
    call_s = 5e-4 if arm is Arm.TUNED else 1e-3
    rows = [row("bcast", "4x1", size, 100, call_s, msize=size) for size in (1, 64, 1024)]
    head = {"job": job, "arm": str(arm), "wall_s": "50", "world": "4 4x1"}
    started = int(time.time())
    return summary(service, arm, (profile_text(rows, **head),), job=job, started=started)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return what Prometheus is told of production: name and values of labels, and the value."""
    return {
        (sample.name.removeprefix("colltune_production_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("colltune_production_")
    }


def test_what_came_in_is_judged_and_told(service: Writable) -> None:
    """Jobs by arm, what they saved, and what was set aside become metrics after the next look."""
    loop = loop_of(service)
    arms = {str(n): arm_of(MACHINE, str(n), ArmShares(CONTROL)) for n in range(60)}
    for job, arm in arms.items():
        ask(service, job)
        assert send(service, loaded(service, arm, job)).status_code == 201
    assert (
        send(service, summary(service, nodes=1, job=job_of(Arm.TUNED, after=60))).status_code == 202
    )
    service.registry.step(service.second, 0.25, by="test")
    service.client.app.state.service.watcher.refresh()  # type: ignore[attr-defined]
    loop.flush()
    loop.look()
    found = samples(service.client.get("/metrics").text)
    for arm, jobs in Counter(arms.values()).items():
        for what, count in (("asked", jobs), ("reported", jobs), ("silent", 0)):
            assert found["jobs", arm.value, "openmpi-4.1.4", what] == count, found
    assert found["saved_node_hours", "expected"] > 0
    assert found["set_aside", "impossible"] == 1
    assert found["trial_share", "openmpi-4.1.4"] == 0.25
    assert found["summaries_total", "stored"] == len(arms)
    assert found["judged_age_seconds",] >= 0
    assert (
        sum(
            found["decisions", verdict] for verdict in ("proven", "refuted", "open", "not_compared")
        )
        > 0
    )
    assert kept(service) == []


def test_a_look_that_fails_is_told_and_the_service_answers(service: Writable) -> None:
    """It is logged and counted, and the next look begins anew."""
    loop = loop_of(service)
    loop.store, good = Store("/dev/null/no.db", Path("/dev/null/no")), loop.store
    loop._merged = ""
    loop.look()
    assert service.client.get("/v1/config/openmpi/4.1.4?nodes=4&ppn=1").status_code == 200
    found = samples(service.client.get("/metrics").text)
    assert (found["failures_total", "judge"], found["failures_total", "merge"]) == (1, 1)
    loop.store = good
    loop.look()
    assert loop.judgement is not None


def test_the_settings_travel_to_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a site file says of production is the same in another process."""
    told = ServiceSettings(registry="r", machine=MACHINE, production=recorded(tmp_path))
    for name, value in told.environment().items():
        monkeypatch.setenv(name, value)
    assert ServiceSettings() == told
    with refused("works-only-with", UsageError, other="a registry"):
        ServiceSettings(bundle=tmp_path, production=recorded(tmp_path), registry=None)


def site_file(folder: Path, more: str = "record = true\ncontrol = 0.3\n") -> Path:
    """Write a site file beside the registry in `folder`."""
    path = folder / "site.toml"
    path.write_text(
        f'[site]\nmachine = "{MACHINE}"\nregistry = "registry"\n[data]\ndatasets = ["data"]\n'
        f"[production]\n{more}"
    )
    return path


def test_without_it_no_database_is_loaded(tmp_path: Path) -> None:
    """A service whose site does not record has none of the packages for it in memory."""
    filled(tmp_path)
    path = site_file(tmp_path, "")
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from colltune.cli.serve import _of_site, _settings\n"
        "from colltune.server.app import create_app\n"
        f"create_app(_settings(**_of_site(Path({str(path)!r}))))\n"
        "heavy = {'sqlalchemy', 'ddsketch', 'statsmodels', 'scipy', 'sklearn', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


@pytest.mark.slow
def test_two_workers_count_every_job_once(tmp_path: Path) -> None:
    """Whatever worker a job reports to, twice: it is stored once, and judged once."""
    _, first, _ = filled(tmp_path)
    options = ("--site", site_file(tmp_path), "--tokens", tmp_path / "tokens", "--workers", 2)
    environment = {"COLLTUNE_SERVER_JUDGE_S": "1", "COLLTUNE_SERVER_RATE_PER_S": "1e5"}
    statuses = Counter[int]()
    arms = {str(n): arm_of(MACHINE, str(n), ArmShares(CONTROL)) for n in range(100)}
    with Server(*options, "--uds", tmp_path / "s", environment=environment) as server:
        server.await_ready()
        told = SimpleNamespace(first=first)

        def work(job: str, arm: Arm) -> None:
            url = f"/v1/job/openmpi/4.1.4?nodes=4&ppn=1&folder=/tmp/j&job={job}"
            assert server.get(url).headers["x-colltune-arm"] == arm
            for _ in range(2):
                answer = server.post("/v1/summaries", bearer(), loaded(told, arm, job))  # type: ignore[arg-type]
                statuses.update([answer.status])

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, arms, arms.values()))
        assert statuses == {201: len(arms), 200: len(arms)}
        wanted = {
            ("jobs", arm.value, "openmpi-4.1.4", what): jobs
            for arm, jobs in Counter(arms.values()).items()
            for what in ("asked", "reported")
        }
        deadline = time.monotonic() + PATIENCE_S
        while (
            not wanted.items() <= (found := samples(server.get("/metrics").body.decode())).items()
        ):
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        assert server.stop() == 0, server.log()
