"""Progress on a terminal: what goes on, how far it is, and what is left of time and budget.

A thread draws it, from half a second on: verbs that are through by then never import rich. The
cursor is never hidden, so that a killed or suspended process leaves a usable terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from colltune.cli.console import can_redraw, in_background, takes_colours, takes_unicode
from colltune.cli.console.drawing import ASCII, UNICODE, View, drawn
from colltune.errors import Interrupted
from colltune.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_DELAY_S = 0.5
_PERIOD_S = 0.5


class Progress:
    """What a verb tells of its work; who shows it reads ``view``."""

    def __init__(self, title: str) -> None:
        began = time.monotonic()
        self.view = View(title, began, began)

    def phase(self, title: str, unit: str = "") -> None:
        """Begin another piece of work, which may be counted in `unit`."""
        began = time.monotonic()
        self.view = View(title, began, began, unit=unit)

    def part(self, number: int, total: int, title: str) -> None:
        """Begin part `number` of `total` parts that take about as long as each other."""
        at = time.monotonic()
        began = at if number == 1 else self.view.began
        unit = self.view.unit
        self.view = View(title, began, at, unit=unit, part=number, parts=total)

    def count(self, done: int, total: int, now: str = "") -> None:
        """Tell that `done` of `total` are done, and what is under way `now`."""
        at = time.monotonic()
        self.view = replace(self.view, at=at, done=done, total=total, now=printable(now))

    def spend(
        self,
        spent_s: float,
        budget_s: float,
        *,
        ends_s: float = 0.0,
        facts: tuple[str, ...] = (),
        now: str = "",
    ) -> None:
        """Tell what is spent of a budget of wall time; it ends when `ends_s` are, if not before.

        `facts` tell one thing in several ways, the longest first.
        """
        self.view = replace(
            self.view,
            at=time.monotonic(),
            spent_s=spent_s,
            budget_s=budget_s,
            ends_s=min(ends_s or budget_s, budget_s),
            facts=facts,
            now=printable(now),
        )


@contextmanager
def progress(
    title: str, *, quiet: bool, interrupted: str = "nothing was written"
) -> Iterator[Progress]:
    """Show the progress that is told to what this yields, and leave nothing of it behind.

    Nothing is shown if `quiet`, where standard error is no terminal, and while another job has it.

    Raises
    ------
    Interrupted
        Instead of KeyboardInterrupt; its message ends with `interrupted`.
    """
    told = Progress(title)
    try:
        if quiet or not can_redraw(sys.stderr):
            yield told
            return
        drawing = _Drawing(told, sys.stderr)
        drawing.start()
        try:
            yield told
        finally:
            drawing.end()
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {interrupted}") from None


class _Drawing(threading.Thread):
    """Draws until its end; whatever goes wrong with the terminal, the work goes on."""

    def __init__(self, told: Progress, stream: TextIO) -> None:
        super().__init__(name="progress", daemon=True)
        self._told, self._stream = told, stream
        self._ended = threading.Event()

    def end(self) -> None:
        """Take away what is drawn."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        if self._ended.wait(_DELAY_S):
            return
        try:
            self._draw()
        except (OSError, ValueError):
            # the terminal is gone
            return

    def _draw(self) -> None:
        from rich.live import Live

        console = _console(self._stream)
        live = Live(
            get_renderable=lambda: self._text(console),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        with live:
            while not self._ended.wait(_PERIOD_S):
                if not in_background(self._stream):
                    live.refresh()

    def _text(self, console: Console) -> Text:
        from rich.text import Text

        charset = UNICODE if takes_unicode(self._stream) else ASCII
        lines = drawn(self._told.view, time.monotonic(), datetime.now(), console.width, charset)
        pieces = [Text.assemble(*((text, style.value) for text, style in line)) for line in lines]
        # the cursor waits on a line of its own: the terminal's echo of Ctrl-C must not break one
        return Text("\n", no_wrap=True, overflow="crop").join([*pieces, Text()])


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    class Shown(Console):
        """A console whose cursor is never hidden."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    colours = takes_colours(stream)
    return Shown(
        file=stream,
        force_terminal=True,
        force_interactive=True,
        force_jupyter=False,
        color_system="standard" if colours else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
