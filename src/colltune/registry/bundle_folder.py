"""A bundle's files as bytes, checked before they go anywhere."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from colltune.domain import Collective, Context
from colltune.errors import BundleError
from colltune.models.bundle import Bundle, load

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Entry:
    """A bundle of a registry, without its models; ``size_bytes`` is what its files hold.

    ``id`` is the bundle's, ``slot`` where it would come into force, ``collectives`` and
    ``objective`` what it decides on and by which statistic, ``created_utc`` when it was fitted (ISO
    8601).
    """

    id: str
    context: Context
    collectives: tuple[Collective, ...]
    objective: str
    created_utc: str
    size_bytes: int
    slot: str


def checked(bundle: Bundle | Path) -> tuple[Bundle, dict[str, bytes]]:
    """Return a bundle, or the one in a folder, as it is read back from its files, and these.

    The files are copied first and the copy is checked, so that nothing can change in between.
    """
    with tempfile.TemporaryDirectory(prefix="colltune-") as name:
        copy = Path(name, "bundle")
        if isinstance(bundle, Bundle):
            bundle.save(copy)
            files = {file.name: file.read_bytes() for file in copy.iterdir()}
            return load(copy), files
        files = _files(bundle)
        copy.mkdir()
        for file_name, content in files.items():
            (copy / file_name).write_bytes(content)
        return load(copy), files


def _files(folder: Path) -> dict[str, bytes]:
    _refuse_pipes(folder)
    bundle = load(folder, ())
    names = [MANIFEST, *(f"{collective}.arrays" for collective in bundle.collectives)]
    files = {}
    for name in names:
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise BundleError(f"{folder / name}: cannot be read: {error.strerror}") from error
    return files


def _refuse_pipes(folder: Path) -> None:
    """Refuse what would be waited for without end; symbolic links to files are the user's own."""
    try:
        strange = [file for file in folder.iterdir() if file.exists() and not file.is_file()]
    except OSError:
        return
    if strange:
        raise BundleError(f"{strange[0]}: no plain file; a bundle holds nothing else")
