"""Pictures of a terminal: run a command on a pseudo-terminal, and draw its screen as SVG."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import signal
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from rich.cells import chop_cells
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_ROWS = 50
_CONTROL = re.compile(r"(\x1b\[[\d;?]*[A-Za-z]|\r?\n|\r)")
# dark in light and in dark pages, each colour with contrast enough
_COLOURS = "636e7b ff7b72 7ee787 f2cc60 79c0ff d2a8ff 76e3ea e1e4e8"
_RGB = [(int(c[:2], 16), int(c[2:4], 16), int(c[4:], 16)) for c in _COLOURS.split()]
_THEME = TerminalTheme((0x1B, 0x1F, 0x24), _RGB[-1], _RGB)
# rich's template names a font of another host; rows begin 41 below the top, for its title
_FORMAT = """<svg viewBox="0 31 {width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, "DejaVu Sans Mono", \
Menlo, Consolas, monospace; }}
{styles}
</style>
<defs>{lines}</defs>
<rect y="31" width="{width}" height="{terminal_height}" rx="8" fill="#1b1f24"/>
<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def run(
    command: Sequence[str | Path],
    *,
    columns: int = 80,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300.0,
) -> tuple[int, str]:
    """Run `command` on a terminal of `columns`; return its status and all that it wrote there."""
    terminal, end = os.openpty()
    termios.tcsetwinsize(end, (_ROWS, columns))
    size = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(_ROWS)}
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=cwd,
        env={**(os.environ if env is None else env), **size},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(end)
    timer = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    written = b""
    try:
        while part := os.read(terminal, 1 << 16):
            written += part
    except OSError:
        # the last process on the terminal has ended
        pass
    finally:
        status = process.wait()
        timer.cancel()
        os.close(terminal)
    return status, written.decode(errors="replace")


def screen(written: str) -> str:
    """Return what stays to be seen, with its colours: lines that were drawn over are left out."""
    lines, row, fresh = [""], 0, True
    for part in _CONTROL.split(written):
        if part.endswith("\n"):
            row, fresh = row + 1, True
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            fresh = False
        elif part.startswith("\x1b[") and not part.endswith("m"):
            if part.endswith("A"):
                row = max(0, row - int(part[2:-1] or 1))
            elif part.endswith("K"):
                lines[row] = ""
        elif part:
            lines[row] = (lines[row] if fresh else "") + part
            fresh = True
    return "\n".join(lines).rstrip()


def svg(shown: str, columns: int = 80) -> str:
    """Return the picture of a `screen` of `columns`; longer lines go on in the next one."""
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for line in Text.from_ansi(shown).split():
        ends = list(accumulate(len(piece) for piece in chop_cells(line.plain, columns)))
        for piece in line.divide(ends[:-1]):
            console.print(piece, soft_wrap=True)
    # room below: the template has no margin there
    console.print()
    name = "t" + hashlib.sha256(shown.encode()).hexdigest()[:8]
    return console.export_svg(theme=_THEME, code_format=_FORMAT, unique_id=name)
