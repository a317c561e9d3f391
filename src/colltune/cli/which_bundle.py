"""Which bundle is read where none is named: the environment's, the site's, the last one made."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from colltune.cli.console import show, warn
from colltune.errors import BundleError, ColltuneError, OutputError, say
from colltune.text import printable

VARIABLE = "COLLTUNE_BUNDLE"
SITE_FILE = Path("/etc/colltune/site.toml")
_LAST = "last-bundle"
_TUNED = ("tuned/bundle", "tuned/*/bundle")


def found_bundle(site: Path | None, *, writes: bool = False, quiet: bool = False) -> Path:
    """Return the bundle to read, and say which one it is unless `quiet`, then on standard error.

    The first one counts: that of the environment, of the site, of the working folder, the user's.
    """
    sites: list[Callable[[], tuple[Path, str] | None]] = []
    if not writes:
        sites = [partial(_of_site, site)]
    for find in (_of_environment, *sites, _of_working_folder, _of_user):
        chosen = find()
        if chosen is not None:
            path, why = chosen
            (warn if quiet else show)(printable(f"bundle: {path} ({why})"))
            return path
    raise say("no-bundle-named", variable=VARIABLE)


def remember(bundle: Path) -> None:
    """Keep the name of a bundle that was made, as the user's last one; no error if that fails."""
    from colltune.files import whole

    try:
        with whole(_data_home() / _LAST) as temporary:
            temporary.write_text(f"{bundle.absolute()}\n", encoding="utf-8")
    except (OSError, OutputError, ValueError):
        pass


def _data_home() -> Path:
    named = os.environ.get("XDG_DATA_HOME", "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / ".local/share") / "colltune"


def _of_environment() -> tuple[Path, str] | None:
    named = os.environ.get(VARIABLE, "")
    if not named or not Path(named).is_dir():
        # a job names a bundle of its service by its id
        return None
    return Path(named), f"named in {VARIABLE}"


def _of_site(site: Path | None) -> tuple[Path, str] | None:
    """Return the bundle in force of a site: of the file that is named, or of this machine's."""
    from colltune.files.ownership import danger

    if site is None and (not SITE_FILE.is_file() or danger(SITE_FILE)):
        return None
    from colltune.registry import Registry
    from colltune.retraining import site_file

    try:
        registry = Registry(site_file.load(site or SITE_FILE).registry)
        current = registry.current()
        if len(current) == 1:
            slot, event = next(iter(current.items()))
            return registry.path(event.bundle_id), f"in force for {slot} in {site or SITE_FILE}"
    except (ColltuneError, OSError) as error:
        if site is not None:
            raise
        warn(printable(f"{SITE_FILE} tells of no bundle: {error}"))
        return None
    if site is None and not current:
        return None
    slots, where = ", ".join(sorted(current)) or "no slots", f"{site or SITE_FILE}"
    raise say("choose-one", BundleError, where=where, known=slots, option="--bundle")


def _of_working_folder() -> tuple[Path, str] | None:
    found = [path for pattern in _TUNED for path in Path().glob(pattern) if _is_own(path)]
    if not found:
        return None
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    return newest, "the newest of ./tuned"


def _of_user() -> tuple[Path, str] | None:
    try:
        named = (_data_home() / _LAST).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    path = Path(named)
    return (path, "the last one that you made") if named and _is_own(path) else None


def _is_own(path: Path) -> bool:
    """Tell whether a bundle is this user's own."""
    try:
        owners = {each.stat().st_uid for each in (path, path / "manifest.json")}
    except OSError:
        return False
    return owners == {os.geteuid()}
