"""The database of what jobs report: its tables, its transactions, and its errors in plain words.

SQLite by default, which one machine may use; a site with several servers names PostgreSQL.

Format history
--------------
1. ``meta``: numbers by name (the schema's version, the store's own number, the number given last,
   the number judged last). ``jobs``: ids of jobs that reported, and when. ``details``: summaries by
   number, as JSON (`colltune.production.summary`) compressed by zlib. ``state``: JSON by key, what
   the judgement keeps. ``set_aside``: what was refused, counted by day and reason. ``asked``: jobs
   that were given an arm, by day. ``control``: the control group's share, and since when.
   ``leases``: who is at what only one process does at a time. ``given``: the arms of jobs that did
   not report yet; it is made where an earlier colltune made the others.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from colltune.errors import ColltuneError, OutputError, say
from colltune.files import writing
from colltune.on_demand import require

require("service", "sqlalchemy")

import sqlalchemy as sa  # noqa: E402 (a missing extra is named first)
from sqlalchemy.dialects import postgresql, sqlite  # noqa: E402

__all__ = ["ASKED", "CONTROL", "DETAILS", "GIVEN", "JOBS", "LEASES", "META", "SET_ASIDE"]
__all__ += ["SCHEMA_VERSION", "STATE", "Database", "sa"]

SCHEMA_VERSION = 1
_PATIENCE_S = 20
_LOCK = 0x636F6C6C74756E65
"""Of PostgreSQL, held while the tables are made."""
_PROBLEMS = {
    "FULL": ("the disk is full", "Free space there."),
    "READONLY": ("it is read-only", "Run as the owner of the file, or correct its mode."),
    "PERM": ("it is not permitted", "Run as the owner of the file, or correct its mode."),
    "CANTOPEN": ("it cannot be opened", "Correct owner and mode of the file and its folder."),
    "BUSY": ("another process has held it for too long", "Try again later."),
    "LOCKED": ("another process has held it for too long", "Try again later."),
    "CORRUPT": ("it is damaged", "Move it away, or restore it from a copy."),
    "NOTADB": ("it is not a database of SQLite", "Name another file."),
}
"""What SQLite's names of errors begin with, and what mends them."""

_TABLES = sa.MetaData()
# compared byte by byte, so that a range of keys is the same everywhere
_TEXT = sa.String().with_variant(postgresql.VARCHAR(collation="C"), "postgresql")
# SQLite gives out numbers of this type alone
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _table(name: str, *columns: sa.Column[Any], **more: Any) -> sa.Table:
    return sa.Table(name, _TABLES, *columns, **more)


def _key(name: str, kind: Any = _TEXT) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _value(name: str, kind: Any = _TEXT) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


META = _table("meta", _key("name"), _value("value", sa.BigInteger))
JOBS = _table("jobs", _key("job"), _value("received", sa.Double), sqlite_with_rowid=False)
DETAILS = _table(
    "details",
    _key("number", _NUMBER),
    _value("day"),
    _value("received", sa.Double),
    _value("content", sa.LargeBinary),
)
sa.Index("details_by_day", DETAILS.c.day, DETAILS.c.number)
STATE = _table("state", _key("key"), _value("content"))
SET_ASIDE = _table("set_aside", _key("day"), _key("reason"), _value("jobs", sa.BigInteger))
ASKED = _table(
    "asked",
    *map(_key, ("day", "slot", "arm", "bundle")),
    _value("jobs", sa.BigInteger),
)
GIVEN = _table(
    "given",
    *map(_key, ("job", "slot", "arm", "bundle")),
    _value("at", sa.Double),
    sqlite_with_rowid=False,
)
CONTROL = _table("control", _key("since", sa.Double), _value("share", sa.Double))
LEASES = _table("leases", _key("name"), _value("holder"), _value("until", sa.Double))


class Database:
    """SQLite in the file `url`, or PostgreSQL at the URL; nothing is opened before it is used."""

    def __init__(self, url: str) -> None:
        self._path = None if "://" in url else Path(url).absolute()
        self._url = (
            sa.URL.create("sqlite", database=str(self._path)) if self._path else sa.make_url(url)
        )
        if self._url.get_backend_name() == "postgresql":
            require("postgresql", "psycopg")
            self._url = self._url.set(drivername="postgresql+psycopg")
        elif self._path is None:
            raise say("no-store", store=self)

    def __str__(self) -> str:
        return str(self._path or self._url.render_as_string(hide_password=True))

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Yield a transaction; what it changed is on the disk at the end, or undone by an error."""
        with self._transaction(writes=True) as connection:
            yield connection

    def insert(self, table: sa.Table) -> Any:
        """Return an INSERT that can tell what to do with a row that is there."""
        return postgresql.insert(table) if self._path is None else sqlite.insert(table)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[sa.Connection]:
        with self._explained(), self._engine.connect() as connection:
            connection.execution_options(writes=writes)
            with connection.begin():
                yield connection

    @cached_property
    def _engine(self) -> sa.Engine:
        """The pool of connections; the tables are there and of a version that is known here."""
        with self._explained():
            options: dict[str, Any] = {"pool_pre_ping": True, "pool_timeout": _PATIENCE_S}
            if self._path:
                with writing(self._path):
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                options = {"connect_args": {"timeout": _PATIENCE_S, "isolation_level": None}}
            engine = sa.create_engine(self._url, **options)
            if self._path:
                sa.event.listen(engine, "connect", _connected)
                sa.event.listen(engine, "begin", _begun)
            with engine.connect() as connection:
                there = sa.inspect(connection).has_table(GIVEN.name)
            if not there:
                _make_tables(engine)
            with engine.connect() as connection:
                version = connection.scalar(sa.select(META.c.value).where(META.c.name == "version"))
        if version is None or version > SCHEMA_VERSION:
            at, known = f"the store {self}", SCHEMA_VERSION
            raise say("format-version", OutputError, place=at, version=version, known=known)
        return engine

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.SQLAlchemyError, UnicodeError) as error:
            raise self._error(error) from _cause(error)

    def _error(self, error: Exception) -> ColltuneError:
        origin = getattr(error, "orig", None) or error
        name = str(getattr(origin, "sqlite_errorname", "")).removeprefix("SQLITE_")
        said = next(iter(str(origin).splitlines()), "").rstrip(".") or type(origin).__name__
        why, mend = next(
            (found for start, found in _PROBLEMS.items() if name.startswith(start)),
            (said, "See the disk's and the database's own messages."),
        )
        return say("store-failed", store=self, why=why, mend=mend)


def _cause(error: Exception) -> Exception:
    """Return what the system would have said, for callers that tell a full disk from others."""
    origin = getattr(error, "orig", None)
    is_full = getattr(origin, "sqlite_errorname", "") == "SQLITE_FULL"
    if is_full or getattr(origin, "sqlstate", "") == "53100":
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error


def _connected(connection: Any, _record: object) -> None:
    # of a new file: three summaries fit a page of 8 KiB, but only one a page of 4
    for setting in (
        "page_size=8192",
        "journal_mode=WAL",
        "synchronous=FULL",
        "journal_size_limit=67108864",
    ):
        connection.execute(f"PRAGMA {setting}")


def _begun(connection: sa.Connection) -> None:
    # a writer that begins as a reader could find others' changes when it writes
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _make_tables(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execution_options(writes=True)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            is_new = not sa.inspect(connection).has_table(META.name)
            _TABLES.create_all(connection)
            if not is_new:
                return
            numbers = {"version": SCHEMA_VERSION, "store": secrets.randbits(48)}
            rows = (numbers | {"given": 0, "judged": 0}).items()
            connection.execute(META.insert(), [{"name": n, "value": v} for n, v in rows])
