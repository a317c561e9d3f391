"""What a site needs to record its jobs besides texts: a token, a secret and compiled libraries."""

from __future__ import annotations

import pwd
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from colltune.bench.build import unlinked_library
from colltune.errors import ColltuneError, say
from colltune.files import make_folder, whole, writing
from colltune.files.ownership import danger
from colltune.mpi import installation
from colltune.retraining.site_file import Cluster, Site, SiteMpi
from colltune.server.auth import token_file
from colltune.server.slurm import hooks
from colltune.server.slurm.job_file import part_name

TOKENS = "tokens"
HEADER = f"slurm/{hooks.HEADER}"
LIBRARIES = "lib"
SALT = f"slurm/{hooks.SALT}"
_NAME = "epilog"
_LIFE = timedelta(days=365)
RENEWED = timedelta(days=30)
"""A token that ends so soon, or never, is replaced."""


def records(site: Site) -> bool:
    """Tell whether the hooks of a site record its jobs."""
    return site.production.record and site.cluster is not None and bool(site.cluster.service)


def prepare(site: Site, folder: Path) -> tuple[str, ...]:
    """Make in a site's folder what is missing; return what could not be made, and how to."""
    if not records(site) or site.cluster is None:
        return ()
    make(folder / LIBRARIES)
    now = datetime.now(UTC)
    token = epilogs_token(site.cluster, folder) if (folder / HEADER).exists() else None
    if token is None or not ends_late(token, now):
        _make_token(site.cluster, folder, now + _LIFE)
    if site.production.users == "hash" and not (folder / SALT).exists():
        token_file.write_private(folder / SALT, f"{secrets.token_hex(32)}\n")
    return tuple(note for mpi in site.cluster.mpi if (note := _make_library(mpi, folder)))


def library_of(mpi: SiteMpi, folder: Path) -> Path:
    """Return where the library lies that jobs of `mpi` preload."""
    return folder / LIBRARIES / part_name(mpi.library, mpi.release) / "libcolltune.so"


def how_to_compile(mpi: SiteMpi, folder: Path) -> str:
    """Return the command that compiles the library of `mpi`, for a host where that MPI is."""
    named = mpi.mpirun or "MPIRUN"
    return f"colltune app interpose --unlinked --mpi {named} --out {library_of(mpi, folder)}"


def make(folder: Path) -> None:
    """Make a folder that everybody can read; insist that nobody else can change it."""
    with writing(folder):
        make_folder(folder, 0o755, exactly=True)
    if why := danger(folder):
        raise say("libraries-could-be-changed", why=why, folder=folder)


def tokens_of(cluster: Cluster, folder: Path) -> tuple[token_file.Token, ...]:
    """Return the site's tokens, which belong to the service's user since `install` ran."""
    path = folder / TOKENS
    return token_file.read(path, uid_of(cluster.user)) if path.exists() else ()


def uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def epilogs_token(cluster: Cluster, folder: Path) -> token_file.Token | None:
    return next((token for token in tokens_of(cluster, folder) if token.name == _NAME), None)


def ends_late(token: token_file.Token, now: datetime) -> bool:
    """Tell whether a token ends, but not soon."""
    return token.expires is not None and not token.is_expired(now + RENEWED)


def _make_token(cluster: Cluster, folder: Path, until: datetime) -> None:
    """Give the epilog a token, instead of the one that it had."""
    secret, known = token_file.new_token(), tokens_of(cluster, folder)
    allowed = frozenset({token_file.Scope.SUMMARIES})
    made = token_file.Token(_NAME, allowed, token_file.digest(secret), until.replace(microsecond=0))
    token_file.write(folder / TOKENS, [*(t for t in known if t.name != _NAME), made])
    token_file.write_private(folder / HEADER, f"Authorization: Bearer {secret}\n")


def _make_library(mpi: SiteMpi, folder: Path) -> str:
    """Put the library of `mpi` into the folder; return why not, if it cannot be compiled here."""
    path = library_of(mpi, folder)
    try:
        found = installation.find(mpi.mpirun or None, mpi.library)
        if found.release != mpi.release:
            raise say("another-release-here", library=mpi.library, release=found.release)
        content = unlinked_library(found).read_bytes()
    except ColltuneError as error:
        if path.exists() and not danger(path):
            return ""
        first = str(error).partition("\n")[0]
        return f"jobs of {mpi.name} are not recorded ({first}); {how_to_compile(mpi, folder)}"
    make(path.parent)
    if not path.exists() or path.read_bytes() != content or danger(path):
        with whole(path, 0o755) as temporary:
            temporary.write_bytes(content)
    return ""
