"""Building and unpacking what is given to users."""

from __future__ import annotations

import os
import posixpath
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from colltune import process

ROOT = Path(__file__).parents[2]
_BUILD = """
import os, sys
os.umask(int(sys.argv[1], 8))
os.execv(sys.executable, [sys.executable, "-m", "hatchling", "build", *sys.argv[2:]])
"""
# what a builder may have set; each test says what it wants
_UNSET = ("SOURCE_DATE_EPOCH", "PYTHONHASHSEED", "PYTHONPATH")


def build(
    kind: str,
    folder: Path,
    *,
    tree: Path = ROOT,
    umask: str = "022",
    variables: Mapping[str, str] | None = None,
) -> Path:
    """Build a ``wheel`` or ``sdist`` of a tree without a network; return the file."""
    command = [sys.executable, "-c", _BUILD, umask, "-t", kind, "-d", str(folder)]
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    outcome = process.run(command, cwd=tree, env={**kept, **(variables or {})}, timeout_s=120)
    process.check(outcome, f"building the {kind}")
    (file,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


def members(file: Path) -> dict[str, bytes]:
    """Return the files in a wheel or an sdist, by name; of an sdist without its top folder."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    found = {}
    with tarfile.open(file) as sdist:
        for member in sdist.getmembers():
            aim = (
                posixpath.join(member.name, "..", member.linkname)
                if member.issym()
                else member.name
            )
            stream = sdist.extractfile(posixpath.normpath(aim))
            if stream is not None:
                found[member.name.partition("/")[2]] = stream.read()
    return found
