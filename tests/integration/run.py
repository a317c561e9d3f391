"""``python -m tests.integration.run [PYTEST ARGUMENT ...]``: tests on all MPIs of `install`.

One run of pytest for each release of each library, several libraries at once: the newest of all,
then the ones before. It returns the worst exit status.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.install import VARIABLES, rounds


def main(arguments: list[str]) -> int:
    """Run the tests; return the exit status."""
    others = {name: value for name, value in os.environ.items() if name not in VARIABLES.values()}
    worst = 0
    for variables in rounds() or [{}]:
        named = ", ".join(Path(value).name for value in variables.values())
        sys.stdout.write(f"test-mpi: testing with {named or 'what is on PATH'}\n")
        sys.stdout.flush()
        # not by colltune.process, which keeps the output: people want to see tests run
        command = [sys.executable, "-m", "pytest", *(arguments or ["tests/integration"])]
        worst = max(worst, subprocess.run(command, env=others | variables, check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
