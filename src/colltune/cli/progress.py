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
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TextIO

from colltune.cli.console import can_redraw, in_background, takes_colours
from colltune.errors import say
from colltune.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_DELAY_S = 0.5
_PERIOD_S = 0.5
_MOST_BAR, _LEAST_BAR = 40, 8
_MOST_WIDTH = 110


@dataclass
class Progress:
    """What a verb tells of its work, while another thread draws it.

    ``began`` and ``at`` are monotonic times in seconds: when the work began, and when the rest was
    found out. Counted work has done ``done`` of ``total`` ``unit``; work with a budget has spent
    ``spent_s`` of ``budget_s``; other work is only known to go on. ``now`` tells what is under way,
    ``facts`` further ones about a budget, longest first. ``number`` of ``parts`` like this one is
    under way.
    """

    title: str
    began: float = field(default_factory=time.monotonic)
    at: float = field(default_factory=time.monotonic)
    now: str = ""
    unit: str = ""
    done: int = 0
    total: int = 0
    spent_s: float = 0.0
    budget_s: float = 0.0
    ends_s: float = 0.0
    facts: tuple[str, ...] = ()
    number: int = 1
    parts: int = 1

    def phase(self, title: str, unit: str = "") -> None:
        """Begin another piece of work, which may be counted in `unit`."""
        vars(self).update(vars(Progress(title, unit=unit)))

    def part(self, number: int, total: int, title: str) -> None:
        """Begin part `number` of `total` parts that take about as long as each other."""
        began = time.monotonic() if number == 1 else self.began
        following = Progress(title, began, unit=self.unit, number=number, parts=total)
        vars(self).update(vars(following))

    def count(self, done: int, total: int, now: str = "") -> None:
        """Tell that `done` of `total` are done, and what is under way `now`."""
        self.at, self.done, self.total, self.now = time.monotonic(), done, total, printable(now)

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
        self.at, self.spent_s, self.budget_s = time.monotonic(), spent_s, budget_s
        self.ends_s = min(ends_s or budget_s, budget_s)
        self.facts, self.now = facts, printable(now)


@contextmanager
def progress(
    title: str, *, quiet: bool, interrupted: str = "nothing was written"
) -> Iterator[Progress]:
    """Show the progress that is told to what this yields, and leave nothing of it behind.

    Nothing is shown if `quiet`, where standard error is no terminal, and while another job has it.
    A KeyboardInterrupt becomes an Interrupted whose message ends with `interrupted`.
    """
    told = Progress(title)
    ended = threading.Event()
    drawing = threading.Thread(
        target=_draw, args=(told, sys.stderr, ended), name="progress", daemon=True
    )
    try:
        if not quiet and can_redraw(sys.stderr):
            drawing.start()
        try:
            yield told
        finally:
            ended.set()
            if drawing.ident is not None:
                drawing.join()
    except KeyboardInterrupt:
        raise say("interrupted", left=interrupted) from None


def _draw(told: Progress, stream: TextIO, ended: threading.Event) -> None:
    """Draw until the end; whatever goes wrong with the terminal, the work goes on."""
    if ended.wait(_DELAY_S):
        return
    from rich.live import Live

    console = console_on(stream)

    def look() -> RenderableType:
        # a copy: the work goes on while it is drawn
        return drawn(replace(told), time.monotonic(), datetime.now(), console.width)

    live = Live(
        get_renderable=look,
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        vertical_overflow="crop",
    )
    try:
        with live:
            while not ended.wait(_PERIOD_S):
                if not in_background(stream):
                    live.refresh()
    except (OSError, ValueError):
        # the terminal is gone
        return


def console_on(stream: TextIO, width: int | None = None) -> Console:
    """Return a console on a terminal, whose cursor is never hidden."""
    from rich.console import Console

    class Shown(Console):
        def show_cursor(self, show: bool = True) -> bool:
            return False

    return Shown(
        file=stream,
        width=width,
        force_terminal=True,
        force_interactive=True,
        force_jupyter=False,
        color_system="standard" if takes_colours(stream) else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def drawn(view: Progress, at: float, now: datetime, width: int) -> RenderableType:
    """Return the lines that show `view` at the monotonic time `at`, which is `now`.

    The last column stays empty: terminals differ in what they do behind it.
    """
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    room = min(width, _MOST_WIDTH) - 1
    title = view.title if view.parts == 1 else f"{view.title} ({view.number} of {view.parts})"
    share, ways = _share_and_ways(view, at, now)
    least = 1 if share is None else _LEAST_BAR
    fits = next((way for way in ways if len(title) + len(way) + 2 + least <= room), None)
    if fits is None:
        first: RenderableType = Text(_cut(f"{title} {ways[-1]}", room), "bold")
    else:
        grid = Table.grid(padding=(0, 1, 0, 0))
        mark: RenderableType = Text("|/-\\"[int(at * 2) % 4], "cyan")
        if share is not None:
            bar = min(room - len(title) - len(fits) - 2, _MOST_BAR)
            mark = ProgressBar(1.0, share, bar, complete_style="cyan", finished_style="cyan")
        grid.add_row(Text(title, "bold"), mark, Text(fits, no_wrap=True))
        first = grid
    under_way = [Text(_cut(f"  {view.now}", room), "dim")] if view.now else []
    # the cursor waits on a line of its own: the terminal's echo of Ctrl-C must not break one
    return Group(first, *under_way, Text())


def _share_and_ways(view: Progress, at: float, now: datetime) -> tuple[float | None, list[str]]:
    """Return how much is done, and what is to be said, from the longest way to the shortest."""
    if view.budget_s > 0:
        spent_s = min(view.budget_s, view.spent_s + max(0.0, at - view.at))
        left, used = f"{clock(view.budget_s - spent_s)} left", f"{clock(spent_s)} used"
        ends = f"ends by {_moment(now, max(0.0, (view.ends_s or view.budget_s) - spent_s))}"
        every = [
            (fact, *told)
            for fact in view.facts or ("",)
            for told in ((used, left, ends), (used, left), (left,))
        ]
        ways = [", ".join(filter(None, words)) for words in (*every, (left,))]
        return spent_s / view.budget_s, ways
    so_far = clock(at - view.began)
    if not view.total:
        return None, [so_far]
    share = (view.number - 1 + min(1.0, view.done / view.total)) / view.parts
    count = f"{view.done}/{view.total}"
    named = f"{count} {view.unit}".rstrip()
    if share <= 0:
        unknown = "time left unknown"
        return share, [
            f"{named}, {so_far} so far, {unknown}",
            f"{named}, {unknown}",
            f"{count}, {unknown}",
            count,
        ]
    left = f"{clock(max(0.0, view.began + (view.at - view.began) / share - at))} left"
    return share, [
        f"{named}, {so_far} so far, about {left}",
        f"{named}, about {left}",
        f"{count}, about {left}",
        left,
    ]


def clock(seconds: float) -> str:
    """Return a duration: ``0:09``, ``12:34``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _moment(now: datetime, in_s: float) -> str:
    """Return the time of day in `in_s` seconds; with seconds if soon, the day if not today."""
    then = now + timedelta(seconds=in_s)
    if then.date() != now.date():
        return f"{then:%a %H:%M}"
    return f"{then:%H:%M:%S}" if in_s < 600 else f"{then:%H:%M}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 3)] + "..."[: max(0, room)]
