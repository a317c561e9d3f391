"""All formats of configuration files, and which of them a file is of.

To add a format: a class that fulfils `file_format.Format`, and a line in `FORMATS`; the contract
tests then run for it.
"""

from __future__ import annotations

from pathlib import Path

from colltune.errors import LibraryError
from colltune.mpi import relatives
from colltune.mpi.file_format import Format
from colltune.mpi.intelmpi.adjust_format import AdjustFormat
from colltune.mpi.intelmpi.tuning_format import TuningFormat
from colltune.mpi.mpich.tree_format import MpichJson
from colltune.mpi.mpich.variables_format import MpichVariables
from colltune.mpi.openmpi.classic import OpenMpiClassic
from colltune.mpi.openmpi.han.format import OpenMpiHan
from colltune.mpi.openmpi.parameters import OpenMpiParameters
from colltune.mpi.openmpi.ranges import OpenMpiJson

FORMATS: dict[str, Format] = {
    "openmpi-classic": OpenMpiClassic(),
    "openmpi-json": OpenMpiJson(),
    "openmpi-han": OpenMpiHan(),
    "openmpi-parameters": OpenMpiParameters(),
    "intelmpi-json": TuningFormat(),
    "intelmpi-adjust": AdjustFormat(),
    "mpich-json": MpichJson(),
    "mpich-cvars": MpichVariables(),
}
LARGEST_BYTES = 32 << 20
RELEASES: dict[str, tuple[str, ...]] = {
    "openmpi": ("4.1.4", "4.1.8", "5.0.6", "5.0.11", "6.0.0"),
    "mpich": ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2"),
    "intelmpi": ("2019.9", "2021.6", "2021.11", "2021.15", "2021.18.1"),
}
"""Releases of each library between which a file's meaning changes, oldest first; at least one per
catalogue."""
CURRENT: dict[str, str] = {"openmpi": "5.0.11", "mpich": "5.0.2", "intelmpi": "2021.18.1"}
"""For which a file is most likely meant; Open MPI 6 reads classic files differently."""


PREFERRED: dict[str, tuple[str, ...]] = {
    "openmpi": ("openmpi-json", "openmpi-classic"),
    "mpich": ("mpich-json",),
    "intelmpi": ("intelmpi-json",),
}
"""In which format a configuration is written for a library, the first that a release reads."""


def format_of(
    text: str, source: str, named: str | None = None, library: str | None = None
) -> Format:
    """Return the format called `named`, or else the one that `text` looks like.

    Only formats of `library` count, if one is given.

    Raises
    ------
    LibraryError
        If there is no format of that name, or the text looks like none, or like several.
    """
    if named is not None:
        return _named(named, source, library)
    ours = [known for known in FORMATS.values() if library in (None, known.library)]
    alike = [known for known in ours if known.recognises(text)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        seen = " or ".join(known.name for known in alike)
    else:
        seen = f"no configuration file{f' of {library}' if library else ''} that is known"
    names = ", ".join(known.name for known in ours)
    raise LibraryError(f"{source}: looks like {seen}; name its format: {names}")


def format_for(name: str, release: str) -> Format:
    """Return the format called `name`; for a library's name the best that `release` reads.

    Raises
    ------
    LibraryError
        If there is no such format, or no format of the library can be written yet.
    """
    if name in FORMATS:
        return FORMATS[name]
    preferred = PREFERRED.get(name)
    if name in relatives.names():
        raise LibraryError(relatives.why_not_written(name))
    if preferred is None:
        known = ", ".join((*PREFERRED, *FORMATS))
        raise LibraryError(f"no library or format {name!r}; known: {known}")
    ours = [FORMATS[one] for one in preferred]
    return next((known for known in ours if reads(known, release)), ours[-1])


def _named(named: str, source: str, library: str | None) -> Format:
    found = FORMATS.get(named)
    if found is None:
        raise LibraryError(f"no format {named!r}; known: {', '.join(FORMATS)}")
    if library not in (None, found.library):
        raise LibraryError(
            f"{source}: {named} is a format of {found.library}, not of {library}; name a release of"
            f" {found.library}"
        )
    return found


def readers(known: Format) -> tuple[str, ...]:
    """Return those of `RELEASES` that read a format, oldest first."""
    return tuple(r for r in RELEASES.get(known.library, ()) if reads(known, r))


def likely_reader(known: Format) -> str:
    """Return the release for which a file whose release is not known was most likely written.

    It is the current one, or where that does not read the format the newest that does.

    Raises
    ------
    LibraryError
        If no supported release reads it.
    """
    found = readers(known)
    if not found:
        raise LibraryError(f"no release that reads {known.name} is known; name one with --release")
    current = CURRENT.get(known.library, "")
    return current if current in found else found[-1]


def reads(known: Format, release: str) -> bool:
    """Tell whether `release` is supported and reads a format."""
    try:
        return not known.unreadable_by(release)
    except LibraryError:
        return False


def read_text(path: Path) -> str:
    """Return the text of a configuration file; bytes that are no UTF-8 stay as surrogates.

    Raises
    ------
    LibraryError
        If it cannot be read, is no text, or is larger than 32 MiB.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise LibraryError(f"{path}: cannot be read: {error.strerror or error}") from error
    return text_of(content, str(path))


def text_of(content: bytes, source: str) -> str:
    """Return the text that the first `LARGEST_BYTES` + 1 bytes of a file hold.

    Raises
    ------
    LibraryError
        If it is no text, or larger than 32 MiB.
    """
    if len(content) > LARGEST_BYTES:
        raise LibraryError(
            f"{source}: larger than {LARGEST_BYTES >> 20} MiB; no library needs that"
        )
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        raise LibraryError(f"{source}:{line}: a zero byte; this is no text file")
    return content.decode("utf-8", errors="surrogateescape")
