"""What a site needs to record its jobs besides texts: a token, a secret and compiled libraries."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from colltune.bench.build import unlinked_library
from colltune.errors import ColltuneError
from colltune.files import whole
from colltune.mpi import installation
from colltune.retraining.site_file import Site, SiteMpi
from colltune.server.auth import token_file
from colltune.server.slurm import hooks
from colltune.server.slurm.job_file import part_name

TOKENS = "tokens"
HEADER = f"slurm/{hooks.HEADER}"
LIBRARIES = "lib"
_SALT = f"slurm/{hooks.SALT}"
_NAME = "epilog"


def records(site: Site) -> bool:
    """Tell whether the hooks of a site record its jobs."""
    return site.production.record and site.cluster is not None and bool(site.cluster.service)


def prepare(site: Site, folder: Path) -> tuple[str, ...]:
    """Make in a site's folder what is missing; return what could not be made, and how to."""
    if not records(site) or site.cluster is None:
        return ()
    if not (folder / HEADER).exists():
        _make_token(folder)
    if site.production.users == "hash" and not (folder / _SALT).exists():
        _write_privately(folder / _SALT, secrets.token_hex(32))
    return tuple(note for mpi in site.cluster.mpi if (note := _make_library(mpi, folder)))


def library_of(mpi: SiteMpi, folder: Path) -> Path:
    """Return where the library lies that jobs of `mpi` preload."""
    return folder / LIBRARIES / part_name(mpi.library, mpi.release) / "libcolltune.so"


def how_to_compile(mpi: SiteMpi, folder: Path) -> str:
    """Return the command that compiles the library of `mpi`, for a host where that MPI is."""
    named = mpi.mpirun or "MPIRUN"
    return f"colltune app interpose --unlinked --mpi {named} --out {library_of(mpi, folder)}"


def _make_token(folder: Path) -> None:
    secret, path = token_file.new_token(), folder / TOKENS
    known = token_file.read(path) if path.exists() else ()
    allowed = frozenset({token_file.Scope.SUMMARIES})
    made = token_file.Token(_NAME, allowed, token_file.digest(secret))
    token_file.write(path, [*(token for token in known if token.name != _NAME), made])
    _write_privately(folder / HEADER, f"Authorization: Bearer {secret}")


def _write_privately(path: Path, line: str) -> None:
    with whole(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(f"{line}\n")


def _make_library(mpi: SiteMpi, folder: Path) -> str:
    """Put the library of `mpi` into the folder; return why not, if it cannot be compiled here."""
    path = library_of(mpi, folder)
    try:
        found = installation.find(mpi.mpirun or None, mpi.library)
        if found.release != mpi.release:
            raise ColltuneError(f"the {mpi.library} found here is release {found.release}")
        content = unlinked_library(found).read_bytes()
    except ColltuneError as error:
        if path.exists():
            return ""
        first = str(error).partition("\n")[0]
        return f"jobs of {mpi.name} are not recorded ({first}); {how_to_compile(mpi, folder)}"
    if not path.exists() or path.read_bytes() != content:
        with whole(path) as temporary:
            temporary.write_bytes(content)
            temporary.chmod(0o755)
    return ""
