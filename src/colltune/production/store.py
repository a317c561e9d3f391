"""Keeps what jobs report: once each, on the disk when it is acknowledged, in bounded space.

Summaries wait in a database (`colltune.production.database`) until they were judged, each exactly
once, and stay there for three whole days. Then they are merged by day into Parquet
(`colltune.production.archive`). A database in a file is for one machine, on a disk of its own and
not on NFS; servers that share a PostgreSQL database share the archive's folder as well.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from colltune.errors import say
from colltune.production.archive import Archive, ArchivePart
from colltune.production.database import (
    ASKED,
    CONTROL,
    DETAILS,
    GIVEN,
    JOBS,
    LEASES,
    META,
    SET_ASIDE,
    STATE,
    Database,
    sa,
)
from colltune.production.summary import Summary, as_json, from_json

if TYPE_CHECKING:
    import pyarrow as pa

LATEST_S = 14 * 86400.0
"""After its end a job may still report so long, since the epilog keeps what it could not send."""
DAYS_KEPT = 3
"""Whole days of which single summaries are kept; longer while they are not judged."""
_UNJUDGED_DAYS, _GIVEN_DAYS = 30, 60
_JUDGING_S, _MERGING_S = 300.0, 3600.0
"""A process of another host that has held a lease for so long is taken for dead."""
_AT_ONCE = 500
_NEXT_NUMBER = (
    sa.update(META)
    .where(META.c.name == "given")
    .values(value=META.c.value + 1)
    .returning(META.c.value)
)
_REPORTED = sa.delete(GIVEN).where(GIVEN.c.job == sa.bindparam("reported"))
_KEEP = DETAILS.insert()
_LAST_CHARACTER = chr(0x10FFFF)


class SetAside(StrEnum):
    """Why a summary is set aside and never judged."""

    UNKNOWN_BUNDLE = "unknown_bundle"
    ARM_NOT_GIVEN = "arm_not_given"
    CLOCK_OFF = "clock_off"
    OTHER_LIBRARY = "other_library"
    OTHER_JOB = "other_job"
    IMPOSSIBLE = "impossible"

    @property
    def text(self) -> str:
        """The reason in words."""
        return _REASONS[self]


_REASONS = {
    SetAside.UNKNOWN_BUNDLE: "the registry never had the bundle that the job was given",
    SetAside.ARM_NOT_GIVEN: "the job was not given this arm with this bundle",
    SetAside.CLOCK_OFF: "its times cannot be right. Look at the clocks of the nodes.",
    SetAside.OTHER_LIBRARY: "a run used a library or release that the job was not given",
    SetAside.OTHER_JOB: "a run belongs to another job",
    SetAside.IMPOSSIBLE: "its numbers cannot have been measured in such a job",
}


class StoredSummary(NamedTuple):
    """A summary, its number in the order of receipt, and when it came (UTC, since 1970)."""

    number: int
    summary: Summary
    received: float


class AssignedArm(NamedTuple):
    """What a job was given on a ``day`` (UTC, ``2026-11-22``)."""

    day: str
    slot: str
    arm: str
    bundle_id: str


class Store:
    """The summaries of a site, and what was made of them.

    ``url`` is a file (SQLite) or ``postgresql://…``; ``archive`` the folder of merged days. All
    methods can be called by several threads and processes at once. What the database says when it
    cannot be used is an `OutputError`, caused by ENOSPC where the disk is full.
    """

    def __init__(self, url: str, archive: Path) -> None:
        self._database = Database(url)
        self._archive = Archive(archive)

    def close(self) -> None:
        self._database.close()

    def add(self, summary: Summary, now: float) -> bool:
        """Keep what a job reports; False if that job reported before.

        It is on the disk when this returns.
        """
        text = json.dumps(as_json(summary), separators=(",", ":"), allow_nan=False)
        with self._database.writing() as db:
            # a number is given out and used within one transaction: they are visible in their order
            if db.scalar(self._new_job, {"job": summary.job, "received": now}) is None:
                return False
            row = {"number": db.scalar(_NEXT_NUMBER), "day": _day(now), "received": now}
            db.execute(_REPORTED, {"reported": summary.job})
            content = zlib.compress(text.encode("utf-8"), 9)
            db.execute(_KEEP, {**row, "content": content})
        return True

    @cached_property
    def _new_job(self) -> Any:
        """Return the statement that adds a job, and returns it if it is new."""
        return self._database.insert(JOBS).on_conflict_do_nothing().returning(JOBS.c.job)

    def set_aside(self, reason: SetAside, now: float) -> None:
        """Count a summary that is not judged, and why."""
        insert = self._database.insert(SET_ASIDE)
        counted = insert.values(day=_day(now), reason=reason.value, jobs=1).on_conflict_do_update(
            index_elements=["day", "reason"], set_={"jobs": SET_ASIDE.c.jobs + 1}
        )
        with self._database.writing() as db:
            db.execute(counted)

    def set_aside_counts(self, since: float) -> Counter[str]:
        """Return how many were set aside for each reason since the day of `since`."""
        total = sa.select(SET_ASIDE.c.reason, sa.func.sum(SET_ASIDE.c.jobs))
        query = total.where(SET_ASIDE.c.day >= _day(since)).group_by(SET_ASIDE.c.reason)
        return Counter({reason: int(jobs) for reason, jobs in self._rows(query)})

    def note_given(self, given: Collection[tuple[str, str, str, str]], now: float) -> None:
        """Keep which jobs were given which arm (job, slot, arm and bundle), and count each once."""
        names = ("job", "slot", "arm", "bundle")
        # in one order, so that two processes never wait for each other
        rows = [dict(zip(names, one, strict=True)) | {"at": now} for one in sorted(given)]
        keep, add = self._database.insert(GIVEN), self._database.insert(ASKED)
        added = add.on_conflict_do_update(
            index_elements=(*AssignedArm._fields[:-1], "bundle"),
            set_={"jobs": ASKED.c.jobs + add.excluded.jobs},
        )
        counts: Counter[tuple[str, ...]] = Counter()
        if rows:
            with self._database.writing() as db:
                for at in range(0, len(rows), _AT_ONCE):
                    new = keep.values(rows[at : at + _AT_ONCE]).on_conflict_do_nothing()
                    counts.update(map(tuple, db.execute(new.returning(*list(GIVEN.c)[1:4]))))
                asked = (dict(zip(names[1:], key, strict=True)) for key in sorted(counts))
                days = [{"day": _day(now), **key, "jobs": counts[*key.values()]} for key in asked]
                if days:
                    db.execute(added, days)

    def given(self, job: str) -> set[tuple[str, str, str]]:
        """Return the slots, arms and bundles that a job was given which did not report yet."""
        columns = (GIVEN.c.slot, GIVEN.c.arm, GIVEN.c.bundle)
        return {tuple(row) for row in self._rows(sa.select(*columns).where(GIVEN.c.job == job))}

    def asked(self, since: float) -> Counter[AssignedArm]:
        """Return how many jobs were given an arm, since the day of `since`."""
        query = sa.select(ASKED).where(ASKED.c.day >= _day(since))
        return Counter({AssignedArm(*key): jobs for *key, jobs in self._rows(query)})

    def received(self, since: float) -> int:
        """Return how many jobs reported since then, of those that still count."""
        return int(self._rows(sa.select(sa.func.count()).where(JOBS.c.received >= since))[0][0])

    def split_since(self, control: float, now: float) -> None:
        """Note that from `now` on the share `control` of all jobs is the control group."""
        with self._database.writing() as db:
            last = db.scalar(sa.select(CONTROL.c.share).order_by(CONTROL.c.since.desc()).limit(1))
            if last != control:
                insert = self._database.insert(CONTROL).values(since=now, share=control)
                known = {"index_elements": ["since"], "set_": {"share": control}}
                db.execute(insert.on_conflict_do_update(**known))

    def controls(self) -> Callable[[float], float | None]:
        """Return what tells the share of the control group as of then.

        That is None if nobody had told it yet.
        """
        rows = self._rows(sa.select(CONTROL.c.since, CONTROL.c.share).order_by(CONTROL.c.since))
        shares = (None, *(float(share) for _, share in rows))
        return lambda at: shares[bisect_right(rows, at, key=itemgetter(0))]

    def read(self, prefix: str) -> dict[str, Any]:
        """Return what the judgement keeps under keys that begin with `prefix`."""
        key, last = STATE.c.key, prefix + _LAST_CHARACTER
        query = sa.select(key, STATE.c.content).where(key >= prefix, key < last).order_by(key)
        return {name: json.loads(content) for name, content in self._rows(query)}

    @contextmanager
    def judging(self, now: float) -> Iterator[Judging | None]:
        """Yield what is to be judged, None while another process judges.

        All that was put and done is kept together when the block ends, or nothing of it if it
        fails; so each summary is judged once. Reports are taken meanwhile.
        """
        with self._lease("judging", now, _JUDGING_S) as holder:
            if holder is None:
                yield None
                return
            judging = Judging(self._database)
            yield judging
            with self._database.writing() as db:
                self._insist(db, "judging", holder)
                judging.keep(db)

    def merge_days(self, now: float, months: int = 12) -> None:
        """Merge days that are over into the archive, and forget what is older than `months`."""
        kept, given_up = (_day(now - days * 86400) for days in (DAYS_KEPT, _UNJUDGED_DAYS))
        with self._lease("merging", now, _MERGING_S) as holder:
            if holder is None:
                return
            (store, judged) = (self._number(name) for name in ("store", "judged"))
            is_over = sa.and_(
                DETAILS.c.day < kept, (DETAILS.c.number <= judged) | (DETAILS.c.day < given_up)
            )
            number, day = DETAILS.c.number, DETAILS.c.day
            for part in self._archive.parts(store):
                self._drop(part)
            ranges = sa.select(day, sa.func.min(number), sa.func.max(number)).where(is_over)
            for row in self._rows(ranges.group_by(day).order_by(day)):
                part = ArchivePart(row[0], store, row[1], row[2])
                with self._archive.merging(part) as merged:
                    for stored in self._between(part):
                        merged.take(stored.summary)
                    with self._database.writing() as db:
                        self._insist(db, "merging", holder)
                self._drop(part)
            self._forget(now, _day(now - months * 30.5 * 86400))

    def archive_rows(self, since: float, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the merged days since that of `since`, with all `columns` or those named."""
        return self._archive.rows(_day(since), columns)

    def newest(self, most: int = 5000) -> Iterator[Summary]:
        """Yield the latest reports of days that are not merged yet."""
        for row in self._rows(_DETAILS.order_by(DETAILS.c.number.desc()).limit(most)):
            yield _stored(row).summary

    def _forget(self, now: float, oldest: str) -> None:
        self._archive.remove_before(oldest)
        with self._database.writing() as db:
            db.execute(sa.delete(JOBS).where(JOBS.c.received < now - LATEST_S))
            db.execute(sa.delete(GIVEN).where(GIVEN.c.at < now - _GIVEN_DAYS * 86400))
            for table in (ASKED, SET_ASIDE):
                db.execute(sa.delete(table).where(table.c.day < oldest))

    def _between(self, part: ArchivePart) -> Iterator[StoredSummary]:
        """Yield the summaries of a part, a few in memory at a time."""
        at = part.first - 1
        while True:
            number, day = DETAILS.c.number, DETAILS.c.day
            query = _DETAILS.where(day == part.day, number > at, number <= part.last)
            rows = self._rows(query.order_by(number).limit(_AT_ONCE))
            if not rows:
                return
            yield from map(_stored, rows)
            at = rows[-1][0]

    def _drop(self, part: ArchivePart) -> None:
        """Remove the summaries of a part that is archived, so that reports hardly wait."""
        number, day = DETAILS.c.number, DETAILS.c.day
        of_part = sa.and_(day == part.day, number >= part.first, number <= part.last)
        some = sa.select(number).where(of_part).order_by(number).limit(_AT_ONCE)
        removed = _AT_ONCE
        while removed:
            with self._database.writing() as db:
                removed = db.execute(sa.delete(DETAILS).where(number.in_(some))).rowcount

    def _number(self, name: str) -> int:
        return int(self._rows(sa.select(META.c.value).where(META.c.name == name))[0][0])

    def _rows(self, query: Any) -> list[Any]:
        with self._database.reading() as db:
            return list(db.execute(query))

    @contextmanager
    def _lease(self, name: str, now: float, seconds: float) -> Iterator[str | None]:
        """Yield this holder's own word, None if another process holds the lease `name`."""
        holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}"
        mine = {"holder": holder, "until": now + seconds}
        insert = self._database.insert(LEASES).values(name=name, **mine)
        # one of a clock that was far ahead ends, too
        over = (LEASES.c.until < now) | (LEASES.c.until > now + seconds)
        taken = insert.on_conflict_do_update(index_elements=["name"], set_=mine, where=over)
        with self._database.writing() as db:
            before = db.scalar(sa.select(LEASES.c.holder).where(LEASES.c.name == name))
            if before is not None and _is_dead(before):
                db.execute(sa.delete(LEASES).where(LEASES.c.holder == before))
            is_mine = db.scalar(taken.returning(LEASES.c.name)) is not None
        if not is_mine:
            yield None
            return
        try:
            yield holder
        finally:
            with self._database.writing() as db:
                db.execute(sa.delete(LEASES).where(LEASES.c.holder == holder))

    def _insist(self, db: sa.Connection, name: str, holder: str) -> None:
        """Raise unless the lease is still held; nobody can take it before the transaction ends."""
        held = sa.update(LEASES).where(LEASES.c.name == name, LEASES.c.holder == holder)
        if db.scalar(held.values(holder=holder).returning(LEASES.c.name)) is None:
            raise say("taken-over", place=self._database, what=name)


class Judging:
    """Summaries that nobody judged yet, and what the judgement keeps, in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put: dict[str, Any] = {}
        with database.reading() as db:
            judged = db.scalar(sa.select(META.c.value).where(META.c.name == "judged"))
        self._cursor = int(judged or 0)

    def new(self, limit: int = 2000) -> list[StoredSummary]:
        """Return summaries in the order of their receipt, after those that are done."""
        number = DETAILS.c.number
        query = _DETAILS.where(number > self._cursor).order_by(number).limit(limit)
        with self._database.reading() as db:
            return [_stored(row) for row in db.execute(query)]

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of those `keys` that have one."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Any] = {}
        with self._database.reading() as db:
            for at in range(0, len(wanted), _AT_ONCE):
                some = STATE.c.key.in_(wanted[at : at + _AT_ONCE])
                rows = db.execute(sa.select(STATE.c.key, STATE.c.content).where(some))
                found |= {key: json.loads(content) for key, content in rows}
        found |= {key: self._put[key] for key in wanted if key in self._put}
        return {key: value for key, value in found.items() if value is not None}

    def items(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield keys that begin with `prefix`, and their values."""
        key, last, after = STATE.c.key, prefix + _LAST_CHARACTER, ""
        changed = {name: value for name, value in self._put.items() if name.startswith(prefix)}
        yield from (item for item in sorted(changed.items()) if item[1] is not None)
        while True:
            query = sa.select(key, STATE.c.content).where(key >= prefix, key < last, key > after)
            with self._database.reading() as db:
                rows = list(db.execute(query.order_by(key).limit(_AT_ONCE)))
            if not rows:
                return
            for name, content in rows:
                if name not in changed:
                    yield name, json.loads(content)
            after = rows[-1][0]

    def put(self, values: Mapping[str, Any]) -> None:
        """Keep JSON values; one that is None is forgotten."""
        self._put.update(values)

    def done(self, number: int) -> None:
        """Say that all summaries up to `number` are judged."""
        self._cursor = max(self._cursor, number)

    def keep(self, db: sa.Connection) -> None:
        """Write all of it within the transaction `db`."""
        insert = self._database.insert(STATE)
        kept = insert.on_conflict_do_update(
            index_elements=["key"], set_={"content": insert.excluded.content}
        )
        rows = [
            {"key": key, "content": json.dumps(value, separators=(",", ":"))}
            for key, value in sorted(self._put.items())
            if value is not None
        ]
        gone = [{"gone": key} for key, value in self._put.items() if value is None]
        if rows:
            db.execute(kept, rows)
        if gone:
            db.execute(sa.delete(STATE).where(STATE.c.key == sa.bindparam("gone")), gone)
        cursor = sa.update(META).where(META.c.name == "judged")
        db.execute(cursor.values(value=self._cursor))


_DETAILS = sa.select(DETAILS.c.number, DETAILS.c.content, DETAILS.c.received)


def _stored(row: Any) -> StoredSummary:
    number, content, received = row
    return StoredSummary(number, from_json(json.loads(zlib.decompress(content))), received)


def _is_dead(holder: str) -> bool:
    """Tell whether a lease's holder was a process of this host that is no more."""
    host, pid, _ = holder.split(" ")
    return host == socket.gethostname() and not Path("/proc", pid).exists()


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()
