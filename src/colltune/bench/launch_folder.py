"""The folder of one launch's raw output, and what to do with those that killed runs left behind.

A launch owns its folder by a file lock, which the system releases when the process ends in whatever
way. A folder that nobody owns and that has no ``done`` file was left by a killed run.
"""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from colltune.bench.backends.protocol import Backend
from colltune.dataset import append
from colltune.domain import Context
from colltune.errors import DataError, OutputError
from colltune.files.reading import json_of

_DONE, _LOCK, _FACTS = "done", "lock", "launch.json"


@contextmanager
def new_launch(
    dataset: Path, context: Context, provenance: Mapping[str, str]
) -> Iterator[tuple[str, Path]]:
    """Make and own a new launch folder; yield the launch's name and the folder."""
    launch = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    folder = dataset / "raw" / launch
    try:
        folder.mkdir(parents=True)
        facts = {"context": asdict(context), "provenance": dict(provenance)}
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / _FACTS).write_text(json.dumps(facts))
            yield launch, folder
    except OSError as error:
        raise OutputError(
            f"cannot write the dataset {dataset}: {error.strerror or error}; name a writable folder"
        ) from error


def mark_done(folder: Path, file: Path | None) -> None:
    """Note that the launch's measurements are in the dataset, in `file`."""
    (folder / _DONE).write_text(file.name if file else "nothing measured")


def salvage_all(dataset: Path, backend: Backend) -> int:
    """Add to the dataset what killed runs left in it; return the number of measurements.

    Launches that are still running are left alone, and so are those of another backend: its raw
    output waits for it.
    """
    found = 0
    for folder in sorted((dataset / "raw").glob("*")):
        if (folder / _FACTS).exists() and not (folder / _DONE).exists():
            found += _salvage(dataset, folder, backend)
    return found


def _salvage(dataset: Path, folder: Path, backend: Backend) -> int:
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        if (folder / _DONE).exists():
            return 0
        with suppress(DataError, ValueError, KeyError):
            facts = json_of((folder / _FACTS).read_text())
            if not _made_by(backend, facts["provenance"]):
                return 0
            measurements = backend.salvage(folder)
            provenance = facts["provenance"] | {"salvaged": "the run was killed"}
            file = None
            if measurements:
                file = append(dataset, Context(**facts["context"]), measurements, provenance)
            mark_done(folder, file)
            return len(measurements)
    return 0


def _made_by(backend: Backend, provenance: Mapping[str, str]) -> bool:
    name = provenance.get("backend")
    return name is None or name == backend.provenance().get("backend")
