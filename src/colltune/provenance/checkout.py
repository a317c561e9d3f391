"""The commit of colltune itself, when it runs from a checkout or was installed from one."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from colltune.provenance.reading import exists, text

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@lru_cache(maxsize=4)
def facts(package: Path) -> dict[str, str]:
    """Return ``colltune_commit`` of the checkout that holds the folder `package`, where known.

    Changes that are not committed are not told.
    """
    found = commit(package) or _installed_commit()
    return {"colltune_commit": found} if found else {}


def commit(folder: Path) -> str:
    """Return the commit of the checkout of colltune around `folder`, or an empty text.

    A repository that merely contains an installed colltune, such as a user's own with a virtual
    environment in it, does not count: the checkout must have ``src/colltune``.
    """
    for parent in folder.resolve().parents:
        if exists(parent / ".git"):
            is_ours = folder.resolve().is_relative_to(parent / "src" / "colltune")
            return _head(_git_folder(parent / ".git")) if is_ours else ""
    return ""


def _git_folder(path: Path) -> Path:
    """Return the folder that ``.git`` is, or names if it is the file of a work tree."""
    pointer = text(path).removeprefix("gitdir:").strip() if path.is_file() else ""
    return path.parent / pointer if pointer else path


def _head(git: Path) -> str:
    head = text(git / "HEAD")
    if head.startswith("ref:"):
        reference = head.removeprefix("ref:").strip()
        common = git / (text(git / "commondir") or ".")
        head = text(git / reference) or text(common / reference) or _packed(common, reference)
    return head if _COMMIT.fullmatch(head) else ""


def _packed(common: Path, reference: str) -> str:
    try:
        lines = (common / "packed-refs").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    pairs = (line.partition(" ") for line in lines)
    return next((sha for sha, _, name in pairs if name.strip() == reference), "")


def _installed_commit() -> str:
    """Return what the installer recorded when it took a repository (PEP 610)."""
    try:
        recorded = json.loads(metadata.distribution("colltune").read_text("direct_url.json") or "")
        found = recorded["vcs_info"]["commit_id"]
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) and _COMMIT.fullmatch(found) else ""
