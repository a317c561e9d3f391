"""A PostgreSQL of the tests' own: Debian's programs, a folder in /tmp, a unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USER = "nobody"
_PATIENCE_S = 120


def programs() -> Path | None:
    """Return the folder of the newest server's programs; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts)
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgresql() -> Iterator[str]:
    """Yield the URL of a server, up to the database's name, without its end."""
    bin_folder = programs()
    assert bin_folder is not None
    # PostgreSQL never runs as root
    user = _USER if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        folder = Path(name)
        if user:
            shutil.chown(folder, user)

        def run(program: str, *options: str) -> None:
            command = [str(bin_folder / program), "-D", str(folder / "data"), *options]
            subprocess.run(
                command,
                user=user,
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
            )

        run("initdb", "--auth=trust", "--username=colltune", "--encoding=UTF8", "--no-sync")
        run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", f"-k {folder} -h ''")
        try:
            yield f"postgresql://colltune@/{{}}?host={folder}"
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
