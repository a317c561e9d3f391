"""A site's hooks in a folder of a test."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from colltune import process
from colltune.server.slurm import hooks

LOGGER = """#!/bin/sh
echo "$*" >> {log}
"""
PROGRAMS = ("curl", "timeout", "mktemp", "awk", "find")
_LIMIT_S = 120.0


class Site:
    """Installed hooks, a folder for jobs, a logger that writes into a file."""

    def __init__(self, folder: Path, socket: Path, libraries: str = "openmpi/4.1.4") -> None:
        skip_without_programs()
        self.hooks = folder / "hooks"
        self.jobs = folder / "jobs"
        self.log = folder / "log"
        self.socket = socket
        self.libraries = libraries
        self.log.touch()
        self.log.chmod(0o666)
        self.jobs.mkdir(mode=0o755)
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        logger = bin_folder / "logger"
        logger.write_text(LOGGER.format(log=self.log))
        logger.chmod(0o755)
        self._path = f"{bin_folder}:/usr/bin:/bin"
        shutil.copytree(_installed(), self.hooks)
        self.configure()

    def configure(self, **settings: str) -> None:
        """Write the site file anew, with these settings beside the usual ones."""
        usual = {
            "URL": "http://localhost",
            "SOCKET": str(self.socket),
            "FOLDER": str(self.jobs),
            "LIBRARIES": self.libraries,
            "DEFAULT": self.libraries.split()[0],
            # more than by default: the machine that tests run on may be busy
            "LIMIT_S": "30",
            "TOTAL_S": "60",
        }
        lines = [f'COLLTUNE_SITE_{n}="{v}"' for n, v in (usual | settings).items()]
        (self.hooks / hooks.SITE).write_text("\n".join([*lines, f"PATH={self._path}", ""]))

    def run(
        self, script: str, environment: Mapping[str, str], shell: str = "sh"
    ) -> process.ProcessResult:
        """Run one of the hooks with this environment alone; it must end with status 0."""
        before = {"sh": (), "bash": ("bash", "--posix")}[shell]
        command: list[str | Path] = [*before, self.hooks / script]
        outcome = process.run(command, timeout_s=_LIMIT_S, env=dict(environment))
        assert outcome.ok, outcome.explain()
        return outcome

    def logged(self) -> list[str]:
        """Return what was logged since the last time."""
        lines = self.log.read_text().splitlines()
        os.truncate(self.log, 0)
        return lines


@cache
def _installed() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="cthooks"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    hooks.install(folder / "hooks", folder, {})
    return folder / "hooks"


def skip_without_programs() -> None:
    """Skip the test, with the reason, where the hooks cannot run."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"the hooks need the program {program}")
