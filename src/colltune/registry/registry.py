"""The registry itself: adding bundles, bringing them into force, going back, reports.

A report is a file of JSON, numbered like an event: ``format``, ``format_version``, ``at_utc``, and
what it says as ``content``.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from colltune.domain import Collective, Context
from colltune.errors import BundleError, say
from colltune.files import temporary
from colltune.files.reading import json_of
from colltune.files.remote import local_path, opened, url_of
from colltune.models.bundle import Bundle, insist_answers, load
from colltune.registry.events import (
    Action,
    Cause,
    Event,
    History,
    in_force,
    standing,
    trials,
    unnumbered,
)
from colltune.registry.names import checked_id, checked_prefix, checked_slot, is_id, slot_of
from colltune.registry.object_store import ObjectStore
from colltune.registry.store import (
    MANIFEST,
    FolderStore,
    RegistryStore,
    is_abandoned,
    numbered,
    numbers,
)
from colltune.text import counted


@dataclass(frozen=True)
class RegistryEntry:
    """A bundle of a registry, without its models."""

    id: str
    """id"""
    context: Context
    collectives: tuple[Collective, ...]
    """collectives with models"""
    objective: str
    created_utc: str
    """time of the fit (ISO 8601)"""
    size_bytes: int
    """size on disk"""
    slot: str
    """library and release that it decides for"""

    @classmethod
    def of(cls, bundle: Bundle, size_bytes: int) -> RegistryEntry:
        """Return what there is to be told of `bundle`."""
        facts = (bundle.context, bundle.collectives, bundle.objective, bundle.created_utc)
        return cls(bundle.id, *facts, size_bytes, slot_of(bundle.context))


def _checked(bundle: Bundle | Path) -> tuple[Bundle, dict[str, bytes]]:
    """Return a bundle, or the one in a folder, as it is read back from its files, and these.

    The files are copied first and the copy is checked, so that nothing can change in between.
    """
    with tempfile.TemporaryDirectory(prefix="colltune-") as name:
        copy = Path(name, "bundle")
        if isinstance(bundle, Bundle):
            bundle.save(copy)
        else:
            _copied(bundle, copy)
        return load(copy), {file.name: file.read_bytes() for file in copy.iterdir()}


def _copied(folder: Path, copy: Path) -> None:
    with suppress(OSError):
        # a pipe would be waited for without end; symbolic links to files are the user's own
        for file in folder.iterdir():
            if file.exists() and not file.is_file():
                raise say("not-regular", BundleError, path=file)
    collectives = load(folder, ()).collectives
    copy.mkdir()
    for name in (MANIFEST, *(f"{collective}.arrays" for collective in collectives)):
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise say(
                "cannot-read", BundleError, place=folder / name, why=error.strerror
            ) from error
        (copy / name).write_bytes(content)


NOTHING = ""
"""As what is expected to be in force: no bundle at all."""
REPORTS = ("drift", "verify", "retrain", "production")
_REPORT, REPORT_VERSION = "colltune-registry-report", 1
RETRAINING = "retraining"
"""The folder of the leases of `colltune.retraining.lease`."""
_LIST = "`colltune site bundles list` shows them"


class Registry:
    """The bundles of one machine; see `colltune.registry`.

    An instance remembers the events that it has read, so that asking it again and again what is in
    force costs a listing of one folder. It may be used by several threads.

    A `bundle_id` is the whole one, of 64 hexadecimal digits; a `slot` is a library with its
    release, ``openmpi-4.1.4``; a `kind` of report is one of `REPORTS`. What is missing, damaged or
    of a newer format is a `BundleError`, what cannot be written an `OutputError`; where somebody
    else came first it is a `RegistryConflict`, and nothing was done.

    Parameters
    ----------
    root
        The registry's folder, or the URL of an object store, ``s3://bucket/prefix``.
    """

    def __init__(self, root: str | Path) -> None:
        self.store: RegistryStore = _store(root)
        self._history = History(self.store)
        self._entries: dict[str, RegistryEntry] = {}

    def __str__(self) -> str:
        return self.store.where

    def add(self, bundle: Bundle | Path) -> str:
        """Put a bundle, or the one in a folder, into the registry and return its id.

        One that is there stays; if it is damaged, it is replaced.

        A `bundle` that is a path is that of its folder.
        """
        whole, files = _checked(bundle)
        insist_answers(whole)
        slot_of(whole.context)
        folder = _folder(whole.id)
        with self._using(whole.id):
            if not self._is_whole(whole.id):
                self.store.remove(folder)
                self.store.put_folder(folder, files)
            else:
                self.store.touch(f"{folder}/{MANIFEST}")
        return whole.id

    def _is_whole(self, bundle_id: str) -> bool:
        try:
            self._loaded(bundle_id, fresh=True)
        except BundleError:
            return False
        return True

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all bundles, sorted, damaged ones included."""
        return tuple(name for name in self.store.names("bundles") if is_id(name))

    def entries(self) -> tuple[RegistryEntry, ...]:
        """Return all bundles that can be read, the oldest first; `entry` says why others cannot.

        What was read once is remembered, since a bundle never changes.
        """
        entries: dict[str, RegistryEntry] = {}
        for bundle_id in self.ids():
            with suppress(BundleError):
                entries[bundle_id] = self._entries.get(bundle_id) or self.entry(bundle_id)
        self._entries = entries
        return tuple(sorted(entries.values(), key=lambda e: (e.created_utc, e.id)))

    def entry(self, bundle_id: str) -> RegistryEntry:
        """Return what there is to be told of one bundle; only its manifest is read."""
        bundle = self.store.described(_folder(checked_id(bundle_id)))
        self._check_name(bundle, bundle_id)
        return RegistryEntry.of(bundle, self.store.size_bytes(_folder(bundle.id)))

    def find(self, prefix: str) -> str:
        """Return the id that begins with `prefix` (at least 4 digits)."""
        found = [i for i in self.ids() if i.startswith(checked_prefix(prefix))]
        if not found:
            raise say("no-bundle-begins", registry=self, prefix=prefix)
        if len(found) > 1:
            raise say(
                "several-bundles-begin",
                registry=self,
                count=counted(len(found), "bundle"),
                prefix=prefix,
            )
        return found[0]

    def path(self, bundle_id: str) -> Path:
        """Return a local folder with the bundle: its own, or a copy of an object store's."""
        return self.store.local(_folder(checked_id(bundle_id)))

    def load(self, bundle_id: str, collectives: Collection[Collective] | None = None) -> Bundle:
        """Read a bundle (only the models of `collectives`, by default all) and check its hashes."""
        return self._loaded(checked_id(bundle_id), collectives)

    def _loaded(
        self,
        bundle_id: str,
        collectives: Collection[Collective] | None = None,
        *,
        fresh: bool = False,
    ) -> Bundle:
        try:
            return self._read(bundle_id, collectives, fresh=fresh)
        except BundleError:
            if not self.store.forget_local(_folder(bundle_id)):
                raise
        return self._read(bundle_id, collectives, fresh=fresh)

    def _read(
        self, bundle_id: str, collectives: Collection[Collective] | None, *, fresh: bool
    ) -> Bundle:
        bundle = load(self.store.local(_folder(bundle_id), fresh=fresh), collectives)
        self._check_name(bundle, bundle_id)
        return bundle

    def _check_name(self, bundle: Bundle, bundle_id: str) -> None:
        if bundle.id != bundle_id:
            raise say("another-bundle", registry=self, folder=_folder(bundle_id), bundle=bundle.id)

    def history(self, slot: str | None = None) -> tuple[Event, ...]:
        """Return what happened, to one slot or to all, the oldest first."""
        if slot is not None:
            checked_slot(slot)
        return tuple(e for e in self._history.events() if slot in (None, e.slot))

    def fresh_history(self) -> tuple[Event, ...]:
        """Return what happened up to now, past what caches of a shared file system remember."""
        return self._history.events(fresh=True)

    def current(self) -> dict[str, Event]:
        """Return what is in force: of each slot the event that brought it."""
        return in_force(self._history.events())

    def trials(self) -> dict[str, Event]:
        """Return what is on trial beside the bundle in force: of each slot the latest step."""
        return trials(self._history.events())

    def promote(
        self,
        bundle_id: str,
        *,
        by: str,
        note: str = "",
        expected: str | None = None,
        cause: Cause | None = None,
    ) -> Event:
        """Bring a bundle into force in its slot, after checking all of it; return the event.

        If it is in force already, nothing happens and the event that brought it is returned.

        Parameters
        ----------
        bundle_id
            Which.
        by, note
            Who does it and why, for the history.
        expected
            The id of the bundle that must be in force now, `NOTHING` for none; by default any.
        cause
            For what the machine does it; by default somebody asked for it.
        """
        if expected not in (None, NOTHING):
            checked_id(expected or "")
        self.find(checked_id(bundle_id))
        with self._using(bundle_id):
            bundle = _for_any_job(self._loaded(bundle_id, fresh=True))
            insist_answers(bundle)
            slot = slot_of(bundle.context)

            def draft(events: tuple[Event, ...]) -> Event:
                now = in_force(events).get(slot)
                _refuse_other(slot, now, expected)
                if now is not None and now.bundle_id == bundle_id:
                    return now
                event = unnumbered(slot, bundle_id, now, Action.PROMOTE, by, note)
                return replace(event, cause=cause)

            return self._history.append(draft)

    def rollback(self, slot: str, *, by: str, note: str = "", expected: str | None = None) -> Event:
        """Bring back what was in force before the latest event that is not itself undone.

        Parameters
        ----------
        slot
            Where.
        by, note, expected
            As for `promote`. If somebody else changes the slot in the meantime, that is a conflict,
            too, so that two who undo the same promotion do not undo two.
        """
        seen = in_force(self._history.events(fresh=True)).get(checked_slot(slot))
        if seen is None:
            raise say("nothing-to", registry=self, slot=slot, do="roll back")
        _refuse_other(slot, seen, expected)
        before = standing(self._history.events(), slot)[:-1]
        if not before:
            raise say("first-bundle", registry=self, bundle=seen.bundle_id[:12], slot=slot)
        with self._using(before[-1]):
            insist_answers(self._loaded(before[-1], fresh=True))

            def draft(events: tuple[Event, ...]) -> Event:
                now = in_force(events).get(slot)
                if now != seen:
                    _refuse_other(slot, now, seen.bundle_id)
                    raise say("changed-at-once", slot=slot)
                return unnumbered(slot, before[-1], seen, Action.ROLLBACK, by, note)

            return self._history.append(draft)

    def step(
        self,
        bundle_id: str,
        share: float,
        *,
        by: str,
        note: str = "",
        expected: str | None = None,
        cause: Cause | None = None,
    ) -> Event:
        """Give a bundle to a share of its slot's jobs, beside the bundle in force.

        It is checked as for `promote`. If it has that share already, nothing happens and the event
        that gave it is returned.

        Parameters
        ----------
        bundle_id
            Which. Another one on trial makes place for it.
        share
            Of the jobs, above 0, at most 1.
        by, note
            As for `promote`.
        expected
            The id of the bundle that must be on trial now, `NOTHING` for none; by default any.
        cause
            As for `promote`.
        """
        if not 0.0 < share <= 1.0:
            raise say("not-a-share", share=share)
        self.find(checked_id(bundle_id))
        with self._using(bundle_id):
            bundle = _for_any_job(self._loaded(bundle_id, fresh=True))
            insist_answers(bundle)
            slot = slot_of(bundle.context)

            def draft(events: tuple[Event, ...]) -> Event:
                now, trial = in_force(events).get(slot), trials(events).get(slot)
                _refuse_other(slot, trial, expected, "on trial")
                if now is None or now.bundle_id == bundle_id:
                    there = "no bundle" if now is None else "this bundle"
                    raise say(
                        "nothing-to-try-against", slot=slot, there=there, bundle=bundle_id[:12]
                    )
                if trial is not None and (trial.bundle_id, trial.share) == (bundle_id, share):
                    return trial
                event = unnumbered(slot, bundle_id, now, Action.STEP, by, note, share)
                return replace(event, cause=cause)

            return self._history.append(draft)

    def stop(self, slot: str, *, by: str, note: str = "", expected: str | None = None) -> Event:
        """End the trial in a slot: all jobs get the bundle in force.

        Parameters
        ----------
        slot
            Where.
        by, note, expected
            As for `step`.
        """

        def draft(events: tuple[Event, ...]) -> Event:
            now, trial = in_force(events).get(slot), trials(events).get(slot)
            _refuse_other(slot, trial, expected, "on trial")
            if trial is None:
                raise say("no-trial", slot=slot)
            return unnumbered(slot, trial.bundle_id, now, Action.STOP, by, note, 0.0)

        checked_slot(slot)
        return self._history.append(draft)

    def repoint(self) -> tuple[str, ...]:
        """Put ``current/<slot>`` right where its promoter did not; return which slots."""
        return self._history.repoint()

    def put_report(self, kind: str, content: Mapping[str, Any]) -> None:
        """Keep a report of one of `REPORTS`; `content` is JSON-able."""
        at_utc = datetime.now(UTC).isoformat(timespec="seconds")
        version = {"format": _REPORT, "format_version": REPORT_VERSION, "at_utc": at_utc}
        try:
            text = json.dumps(version | {"content": dict(content)}, indent=1, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise say("report-not-json", kind=kind, why=error) from error
        folder = _report_folder(kind)
        number = max(numbers(self.store, folder, fresh=True), default=0) + 1
        while not self.store.create(numbered(folder, number), text.encode()):
            number += 1

    def latest_report(self, kind: str) -> dict[str, Any] | None:
        """Return the latest report of a kind that can be read, None if there is none."""
        found = self.dated_report(kind)
        return None if found is None else found[1]

    def dated_report(self, kind: str) -> tuple[str, dict[str, Any]] | None:
        """Return the same with the time when it was made (ISO 8601)."""
        folder = _report_folder(kind)
        for number in sorted(numbers(self.store, folder), reverse=True):
            with suppress(ValueError, TypeError, KeyError):
                report = json_of(self.store.read(numbered(folder, number)) or b"")
                content = report["content"]
                known = report["format"] == _REPORT and report["format_version"] <= REPORT_VERSION
                if known and isinstance(content, dict):
                    return str(report.get("at_utc", "")), content
        return None

    def retraining_age_s(self) -> float | None:
        """Return how long ago a retraining was last at work, None if none ever was.

        It touches its lease while it runs; see `colltune.retraining.lease`.
        """
        leases = numbers(self.store, RETRAINING)
        return self.store.age_s(numbered(RETRAINING, leases[-1])) if leases else None

    @contextmanager
    def _using(self, bundle_id: str) -> Iterator[None]:
        """Keep a bundle from being removed; see `colltune.registry.garbage`."""
        key = f"work/using-{bundle_id}-{secrets.token_hex(6)}"
        self.store.create(key, temporary.mark().encode())
        try:
            marks = {f"work/{name}" for name in self.store.names("work", fresh=True)} - {key}
            for mark in [mark for mark in marks if is_abandoned(self.store, mark)]:
                self.store.remove(mark)
                marks.remove(mark)
            if f"work/removing-{bundle_id}" in marks:
                raise say("being-removed", registry=self, bundle=bundle_id[:12])
            yield
        finally:
            self.store.remove(key)


def _store(root: str | Path) -> RegistryStore:
    if not str(root):
        raise say("missing", BundleError, what="the registry", give="its folder or URL, --registry")
    url = url_of(root)
    folder = Path(root) if url is None else local_path(url)
    if folder is not None:
        return FolderStore(folder)
    return ObjectStore(opened(url or "", BundleError))


def _folder(bundle_id: str) -> str:
    return f"bundles/{bundle_id}"


def _report_folder(kind: str) -> str:
    if kind not in REPORTS:
        raise say("no-such-report", kind=kind[:80], known=", ".join(REPORTS))
    return f"reports/{kind}"


def _for_any_job(bundle: Bundle) -> Bundle:
    """Return `bundle`, which jobs are to get whose processes have a core each."""
    if shared := bundle.context.cores_shared:
        raise say("shared-cores", bundle=bundle.id[:12], shared=shared)
    return bundle


def _refuse_other(
    slot: str, now: Event | None, expected: str | None, state: str = "in force"
) -> None:
    found = NOTHING if now is None else now.bundle_id
    if expected not in (None, found):
        there = f"{found[:12]} by {now.by}" if now else "nothing"
        raise say(
            "not-as-expected", slot=slot, expected=expected or "no bundle", state=state, there=there
        )
