"""The store of what jobs report: each once, judged once, merged by day, whatever is killed."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest

from colltune.errors import ConflictError, DataError, OutputError
from colltune.process import run
from colltune.production import archive
from colltune.production.database import META, Database
from colltune.production.store import LATEST_S, AssignedArm, SetAside, Store
from colltune.production.summary import Summary
from tests.production.postgresql import postgresql, programs
from tests.production.reporting import DAY_S, NOW
from tests.production.summaries import SUMMARY
from tests.refusals import refused

LATER = NOW + 6 * DAY_S


class Why(StrEnum):
    CLOCK = "its clock is off"
    ARM = "its arm was not given"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    if programs() is None:
        pytest.skip("no PostgreSQL here (Debian: postgresql)")
    pytest.importorskip("psycopg")
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "production.db")
    import psycopg  # noqa: PLC0415

    server, name = request.getfixturevalue("server"), f"test{uuid.uuid4().hex}"
    with psycopg.connect(server.format("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return str(server.format(name))


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    found = Store(url, tmp_path / "archive")
    yield found
    found.close()


def job(number: int) -> Summary:
    return replace(SUMMARY, job=str(number))


def started(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.production.reporting", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def reported(store: Store) -> list[str]:
    """Return the jobs that wait to be judged; their numbers have no gap."""
    with store.judging(NOW) as judging:
        assert judging is not None
        new = judging.new(10_000)
    assert [one.number for one in new] == list(range(1, len(new) + 1))
    return [one.summary.job for one in new]


def judge_all(store: Store, now: float = NOW) -> None:
    with store.judging(now) as judging:
        assert judging is not None
        for one in judging.new(10_000):
            judging.done(one.number)


def test_a_job_counts_once_and_stays_as_it_was(store: Store) -> None:
    """What was taken is there in the order of receipt, and what was known before is not."""
    assert [store.add(job(number), NOW) for number in (7, 5, 7)] == [True, True, False]
    with store.judging(NOW) as judging:
        assert judging is not None
        first, second = judging.new()
        assert (first.summary, second.summary) == (job(7), job(5))
        assert (first.number, second.number, first.received) == (1, 2, NOW)
        assert judging.new(1) == [first]


def test_a_job_from_many_threads_counts_once(store: Store) -> None:
    """One of those that report the same is told that it was new."""
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda number: store.add(job(number % 5), NOW), range(20)))
    assert sum(taken) == 5
    assert sorted(reported(store)) == list("01234")


@pytest.mark.slow
def test_two_processes_take_each_job_once(url: str, store: Store) -> None:
    """Both begin with an empty place, and of the jobs both report each is new to one of them."""
    both = [started("add", url, 0, 100), started("add", url, 50, 150)]
    taken = [line.strip() for one in both for line in one.communicate(timeout=120)[0].splitlines()]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(taken, key=int) == [str(number) for number in range(150)]
    assert sorted(reported(store), key=int) == sorted(taken, key=int)


@pytest.mark.slow
def test_what_was_acknowledged_survives_the_death_of_the_process(url: str, store: Store) -> None:
    """Killed in the middle and asked again, a process loses none and takes none twice."""
    taken: list[str] = []
    for _ in range(2):
        process = started("add", url, 0, 100_000)
        assert process.stdout is not None
        taken += [process.stdout.readline().strip() for _ in range(random.randint(1, 40))]
        process.send_signal(signal.SIGKILL)
        taken += process.communicate(timeout=120)[0].split()
    found = reported(store)
    # the last before a death may be there though nobody was told
    assert set(taken) <= set(found)
    assert len(found) == len(set(found)) <= len(taken) + 2


def test_what_is_judged_is_kept_whole_or_not_at_all(store: Store) -> None:
    """A judgement that fails changes nothing; one that ends moves on."""
    for number in range(4):
        store.add(job(number), NOW)

    def fail() -> None:
        with store.judging(NOW) as judging:
            assert judging is not None
            judging.put({"cell": 1})
            judging.done(2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.read("") == {}
    with store.judging(NOW) as judging:
        assert judging is not None
        judging.put({"cell/1": {"n": [1, 2.5]}, "cell/2": 2, "Cell/3": "é", "other": None})
        judging.done(judging.new(3)[-1].number)
        assert judging.get(["cell/2", "Cell/9"]) == {"cell/2": 2}
        assert [one.summary.job for one in judging.new()] == ["3"]
    assert store.read("cell/") == {"cell/1": {"n": [1, 2.5]}, "cell/2": 2}
    with store.judging(NOW) as judging:
        assert judging is not None
        judging.put({"cell/2": None, "cell/4": 4})
        found = {"cell/1": {"n": [1, 2.5]}, "cell/4": 4}
        assert dict(judging.items("cell/")) == judging.get(["cell/1", "cell/2", "cell/4"]) == found
    assert store.read("") == {"Cell/3": "é", **found}


def test_one_process_judges_until_it_is_taken_for_dead(store: Store) -> None:
    """Others wait; once one took over, what the first one wanted to keep is refused."""
    store.add(job(1), NOW)

    def be_slow() -> None:
        with store.judging(NOW) as slow:
            assert slow is not None
            with store.judging(NOW + 1) as second:
                assert second is None
            with store.judging(NOW + 1000) as second:
                assert second is not None
                second.put({"by": "second"})
                second.done(1)
            slow.put({"by": "first"})

    with refused("taken-over", ConflictError, what="judging"):
        be_slow()
    assert store.read("") == {"by": "second"}
    with store.judging(NOW + 1000) as third:
        assert third is not None
        assert third.new() == []


@pytest.mark.slow
def test_each_summary_is_judged_once_though_judges_are_killed(url: str, store: Store) -> None:
    """Whatever a judge had in hand when it died, the next one begins where it had begun."""
    for number in range(60):
        store.add(job(number), NOW)
    for _ in range(3):
        # nobody waits for a process that is no more
        with started("judge", url, NOW) as process:
            assert process.stdout is not None
            # it tells of each turn that it has begun
            for _ in range(random.randint(1, 5)):
                process.stdout.readline()
            process.kill()
    with started("judge", url, NOW) as process:
        assert process.communicate(timeout=120)[0]
    assert process.returncode == 0
    assert set(store.read("judged/").values()) == {1}
    assert len(store.read("judged/")) == 60


def test_days_that_are_over_are_merged(store: Store) -> None:
    """Jobs add up by what can be compared; what is not judged, or recent, waits."""
    for number in range(3):
        store.add(job(number), NOW)
    judge_all(store)
    store.add(job(3), NOW)
    store.add(job(4), LATER - 3 * DAY_S)
    store.merge_days(LATER)
    rows = store.archive_rows(NOW).to_pylist()
    assert [(row["collective"], row["jobs"], row["calls"]) for row in rows] == [
        ("barrier", 3, 3 * 2 * 10 * 32),
        ("bcast", 3, 3 * 2 * 100 * 32),
    ]
    assert {(row["slot"], row["arm"], row["bundle"]) for row in rows} == {
        ("openmpi-4.1.4", "tuned", "ab" * 32)
    }
    judge_all(store)
    for _ in range(2):
        store.merge_days(LATER)
    assert sum(store.archive_rows(NOW)["jobs"].to_pylist()) == 8
    store.merge_days(LATER + DAY_S)
    table = store.archive_rows(NOW, ["day", "jobs"])
    assert table.schema.names == ["day", "jobs"]
    assert sum(table["jobs"].to_pylist()) == 10
    assert store.archive_rows(LATER).num_rows == 0


def test_merging_needs_no_more_memory_for_more_groups(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums lie in a file, and rows are written a few at a time, which changes nothing in them."""
    other = Store(str(tmp_path / "other.db"), tmp_path / "other")
    for one in (store, other):
        for number in range(30):
            run = SUMMARY.runs[0]
            run = replace(run, job=replace(run.job, program=f"program{number % 7}"))
            one.add(replace(job(number), runs=(run,)), NOW)
        judge_all(one)
    store.merge_days(LATER)
    monkeypatch.setattr(archive, "_ROW_GROUP", 3)
    other.merge_days(LATER)
    assert store.archive_rows(0).num_rows == 14
    assert other.archive_rows(0).equals(store.archive_rows(0))


@pytest.mark.slow
def test_a_death_at_any_step_of_merging_neither_loses_nor_doubles(tmp_path: Path) -> None:
    """The next one that merges finds out how far the one that died had come."""
    folder = tmp_path / "begun"
    store = Store(str(folder / "production.db"), folder / "archive")
    for number in range(6):
        store.add(job(number), NOW + (number % 2) * DAY_S)
    judge_all(store)
    store.close()
    with started("merge", folder, 61) as process:
        process.communicate(timeout=300)
    assert process.returncode == 0
    died = sorted(tmp_path.glob("died-at-*"))
    assert len(died) > 10
    for copy in died:
        again = Store(str(copy / "production.db"), copy / "archive")
        # reports that came in between belong to a part of their own
        assert again.add(job(6), NOW)
        judge_all(again, LATER)
        again.merge_days(LATER + DAY_S)
        jobs: Counter[str] = Counter()
        for row in again.archive_rows(0, ["day", "collective", "jobs"]).to_pylist():
            jobs[row["collective"]] += row["jobs"]
        assert jobs == {"bcast": 7, "barrier": 7}, copy
        assert [p for p in (copy / "archive").iterdir() if p.suffix != ".parquet"] == []
        again.close()


def test_space_is_bounded(store: Store, tmp_path: Path) -> None:
    """What is older than the months kept goes, ids of jobs once none of them may still report."""
    store.add(job(1), NOW)
    store.note_given([("9", "openmpi-4.1.4", "tuned", "ab")], NOW)
    store.set_aside(cast(SetAside, Why.CLOCK), NOW)
    # never judged, as if the judgement was broken
    store.merge_days(NOW + 40 * DAY_S)
    assert store.archive_rows(0).num_rows == 2
    assert store.add(job(1), NOW + LATEST_S + 40 * DAY_S)
    store.merge_days(NOW + 70 * DAY_S, months=2)
    assert store.archive_rows(0).num_rows == 0
    assert store.asked(0) == store.set_aside_counts(0) == {}
    assert list((tmp_path / "archive").iterdir()) == []


def test_what_is_set_aside_is_counted(store: Store) -> None:
    """By reason, since a day."""
    clock, arm = (cast(SetAside, why) for why in Why)
    for _ in range(120):
        store.set_aside(clock, NOW)
    store.set_aside(arm, NOW + DAY_S)
    assert store.set_aside_counts(NOW) == {clock.value: 120, arm.value: 1}
    assert store.set_aside_counts(NOW + DAY_S) == {arm.value: 1}


def test_jobs_that_were_given_an_arm_are_added_up_by_day(store: Store) -> None:
    """Counts of several processes add up, and older days are left out."""
    of = ("openmpi-4.1.4", "tuned", "ab")
    store.note_given([(str(job), *of) for job in range(2)], NOW - 40 * DAY_S)
    store.note_given([(str(job), *of) for job in range(2, 5)], NOW)
    # the same job, asked for by another worker
    store.note_given([(str(job), *of) for job in range(4, 6)], NOW)
    store.note_given([], NOW)
    days = (datetime.fromtimestamp(NOW - n * DAY_S, UTC).date().isoformat() for n in (0, 40))
    new, old = (AssignedArm(day, *of) for day in days)
    assert store.asked(NOW) == {new: 4}
    assert store.asked(0) == {old: 2, new: 4}


def test_a_store_of_an_earlier_colltune_is_read(store: Store) -> None:
    """The table of what jobs were given is made where it is missing; nothing else changes."""
    store.add(job(1), NOW)
    with store._database.writing() as db:
        db.exec_driver_sql("DROP TABLE given")
    again = Store(str(store._database), Path("archive"))
    again.note_given([("2", "openmpi-4.1.4", "tuned", "ab")], NOW)
    assert again.given("2")
    assert not again.add(job(1), NOW)
    again.close()


def test_what_a_job_was_given_is_known_until_it_reports(store: Store) -> None:
    """Every worker sees it; a job of which nothing is kept was given nothing that is known."""
    store.note_given([("1", "openmpi-4.1.4", "control", "ab"), ("2", "mpich-4.3.2", "t", "c")], NOW)
    assert store.given("1") == {("openmpi-4.1.4", "control", "ab")}
    store.add(job(1), NOW)
    assert store.given("1") == store.given("3") == set()


def test_the_share_of_the_control_group_has_a_history(store: Store) -> None:
    """What is said again changes nothing."""
    for share, after in ((0.05, 0), (0.05, 10), (0.1, 20), (0.05, 30)):
        store.split_since(share, NOW + after)
    control_at = store.controls()
    found = [control_at(NOW + after) for after in (-1, 0, 19, 20, 99)]
    assert found == [None, 0.05, 0.05, 0.1, 0.05]


def newer(path: Path) -> None:
    database = Database(str(path))
    with database.writing() as db:
        db.execute(META.update().where(META.c.name == "version").values(value=99))
    database.close()


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + os.urandom(5000))


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (newer, "format-version version=99 known=1"),
        (damaged, "store-failed"),
        (lambda path: path.write_text("notes\n" * 500), "store-failed"),
        (lambda path: (path.unlink(), path.mkdir()), "store-failed"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, spoil: Any, code: str) -> None:
    """With the mend, and without the question that was asked of the database."""
    path = tmp_path / "production.db"
    store = Store(str(path), tmp_path)
    store.add(job(1), NOW)
    store.close()
    spoil(path)
    with refused(code, OutputError) as caught:
        Store(str(path), tmp_path).add(job(2), NOW)
    assert str(path) in str(caught.value)
    assert "SELECT" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("mysql://x:secret@host/db", "no-store"),
        ("postgresql://x:secret@127.0.0.1:1/db?connect_timeout=5", "store-failed"),
    ],
)
def test_a_database_that_cannot_be_reached_is_named(tmp_path: Path, url: str, code: str) -> None:
    """Its password is not."""
    with refused(code, OutputError) as caught:
        Store(url, tmp_path).add(job(1), NOW)
    assert "secret" not in str(caught.value)


def test_a_damaged_day_is_named(store: Store, tmp_path: Path) -> None:
    """As is one of a newer format; other files of the folder are left alone."""
    store.add(job(1), NOW)
    judge_all(store)
    store.merge_days(LATER)
    (file,) = (tmp_path / "archive").iterdir()
    shutil.copy(file, file.with_name("copy.parquet"))
    assert store.archive_rows(0).num_rows == 2
    file.write_bytes(file.read_bytes()[:-100])
    with refused("damaged", DataError, path=file):
        store.archive_rows(0)


@pytest.mark.root
def test_a_disk_that_is_full_or_read_only(tmp_path: Path) -> None:
    """What was taken stays, the error tells which it is, and with room again it goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=1M", "colltune-test", str(disk)]
    if os.geteuid() or not run(options, timeout_s=10).ok:
        pytest.skip("no tmpfs can be mounted here")
    try:
        store = Store(str(disk / "production.db"), disk / "archive")
        taken = 0

        def fill() -> None:
            nonlocal taken
            while taken < 5000:
                store.add(replace(job(taken), user=os.urandom(2000).hex()), NOW)
                taken += 1

        with refused("store-failed", OutputError) as caught:
            fill()
        assert getattr(caught.value.__cause__, "errno", 0) == errno.ENOSPC
        assert taken > 10
        store.close()
        run(["mount", "-o", "remount,size=8M", str(disk)], timeout_s=10)
        store = Store(str(disk / "production.db"), disk / "archive")
        assert store.add(job(taken), NOW)
        assert reported(store) == [str(number) for number in range(taken + 1)]
        store.close()
        run(["mount", "-o", "remount,ro", str(disk)], timeout_s=10)
        with refused("store-failed", OutputError):
            Store(str(disk / "production.db"), disk / "archive").add(job(9999), NOW)
    finally:
        run(["umount", str(disk)], timeout_s=10)
