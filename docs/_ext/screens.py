"""The tutorial's pictures of a terminal: its commands are run again, and their screens drawn.

``python -m docs._ext.screens FOLDER [NAME …]`` writes all of them, or some; as `make screens` does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from colltune.files import write_text
from docs._ext import terminal

ROOT = Path(__file__).parents[2]
COLUMNS = 100
DATA = "tests/data/small_cluster.csv"
SELECT = "colltune select --bundle bundle --nodes 1 --ppn 4"
LAUNCH = "mpirun -np 4 --oversubscribe"
# in the tutorial's order: later ones need what earlier ones write
COMMANDS = {
    "fit": f"colltune fit {DATA} --out bundle",
    "select": SELECT,
    "select-one": f"{SELECT} --collective bcast --msize 512",
    "write": f"{SELECT} --format openmpi --out rules",
    "lint": "colltune rules lint broken --release 5.0.11",
    "verify": f"colltune verify rules --no-measure -- {LAUNCH}",
    "tune": "colltune tune --budget 90 --out tuned",
}
BROKEN = "1\n7\n1\n4 1\n0 6 0\n"


def screens(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each command of `names`, and what a terminal shows of it."""
    last = max(list(COMMANDS).index(name) for name in names)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tests").symlink_to(ROOT / "tests")
        (folder / "broken").write_text(BROKEN, encoding="utf-8")
        for title, command in list(COMMANDS.items())[: last + 1]:
            env = {**os.environ, **root, "PATH": programs}
            _, written = terminal.run(["sh", "-c", command], columns=COLUMNS, cwd=folder, env=env)
            shown = terminal.screen(written)
            for place in (name, str(ROOT)):
                shown = shown.replace(place, "/home/me/colltune")
            if title in names:
                yield title, f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m\n{shown}"


if __name__ == "__main__":
    for screen, text in screens(sys.argv[2:] or list(COMMANDS)):
        write_text(Path(sys.argv[1]) / f"tutorial-{screen}.svg", terminal.svg(text, COLUMNS))
