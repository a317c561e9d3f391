"""What progress looks like: at most two lines of text for any width; pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

_MOST_BAR, _LEAST_BAR = 40, 8
_MOST_WIDTH = 110


class Style(StrEnum):
    """Styles of rich, by what they are for."""

    TITLE = "bold"
    DONE = "cyan"
    TO_DO = "bright_black"
    PLAIN = ""
    NOW = "dim"


Line = list[tuple[str, Style]]


@dataclass(frozen=True)
class Charset:
    """The characters of a bar, of a wheel that turns, and what stands for left-out text."""

    done: str
    to_do: str
    wheel: str
    more: str


UNICODE = Charset("━", "─", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "…")
ASCII = Charset("#", "-", "|/-\\", "...")


@dataclass(frozen=True)
class View:
    """How far a piece of work has got.

    ``began`` and ``at`` are monotonic times in seconds: when the work began, and when the rest was
    found out. Counted work has done ``done`` of ``total`` ``unit``; work with a budget has spent
    ``spent_s`` of ``budget_s``; other work is only known to go on. ``now`` tells what is under way,
    ``facts`` further ones about a budget, longest first. ``part`` of ``parts`` like this one is
    under way.
    """

    title: str
    began: float
    at: float
    now: str = ""
    unit: str = ""
    done: int = 0
    total: int = 0
    spent_s: float = 0.0
    budget_s: float = 0.0
    ends_s: float = 0.0
    facts: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1

    @property
    def counted_share(self) -> float:
        """Return how much of all counted parts is done, from 0 to 1."""
        of_part = min(1.0, self.done / self.total) if self.total else 0.0
        return (self.part - 1 + of_part) / self.parts

    def left_s(self, at: float) -> float | None:
        """Return how long counted work will go on, as far as that can be told at the time `at`."""
        share = self.counted_share
        if share <= 0:
            return None
        whole_s = (self.at - self.began) / share
        return max(0.0, self.began + whole_s - at)

    def budget_spent_s(self, at: float) -> float:
        """Return what is spent of the budget at the time `at`."""
        return min(self.budget_s, self.spent_s + max(0.0, at - self.at))


def clock(seconds: float) -> str:
    """Return a duration: ``0:09``, ``12:34``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def drawn(view: View, at: float, now: datetime, width: int, charset: Charset) -> list[Line]:
    """Return the lines that show `view` at the monotonic time `at`, which is `now`.

    The last column stays empty: terminals differ in what they do behind it.
    """
    room = min(width, _MOST_WIDTH) - 1
    lines = [_first(view, at, now, room, charset)]
    if view.now and room > len(charset.more) + 2:
        lines.append([(_cut(f"  {view.now}", room, charset), Style.NOW)])
    return lines


def _first(view: View, at: float, now: datetime, room: int, charset: Charset) -> Line:
    title = view.title if view.parts == 1 else f"{view.title} ({view.part} of {view.parts})"
    share = None
    if view.budget_s > 0:
        share = view.budget_spent_s(at) / view.budget_s
        ways = list(_budgeted(view, at, now))
    elif view.total:
        share = view.counted_share
        ways = list(_counted(view, at))
    else:
        ways = [clock(at - view.began)]
    least_bar = 1 if share is None else _LEAST_BAR
    for text in ways:
        left = room - len(title) - len(text) - 2
        if left >= least_bar:
            bar = _bar(share, min(left, _MOST_BAR), at, charset)
            return [(title, Style.TITLE), (" ", Style.PLAIN), *bar, (f" {text}", Style.PLAIN)]
    return [(_cut(f"{title} {ways[-1]}", room, charset), Style.TITLE)]


def _bar(share: float | None, width: int, at: float, charset: Charset) -> Line:
    if share is None:
        return [(charset.wheel[int(at * 2) % len(charset.wheel)], Style.DONE)]
    done = int(width * min(1.0, share))
    return [(charset.done * done, Style.DONE), (charset.to_do * (width - done), Style.TO_DO)]


def _counted(view: View, at: float) -> Iterator[str]:
    """Yield what is to be said of counted work, from the longest way to the shortest."""
    count = f"{view.done}/{view.total}"
    so_far = f"{clock(at - view.began)} so far"
    left_s = view.left_s(at)
    left = "time left unknown" if left_s is None else f"about {clock(left_s)} left"
    named = f"{count} {view.unit}".rstrip()
    yield f"{named}, {so_far}, {left}"
    yield f"{named}, {left}"
    yield f"{count}, {left}"
    yield count if left_s is None else f"{clock(left_s)} left"


def _budgeted(view: View, at: float, now: datetime) -> Iterator[str]:
    """Yield what is to be said of work with a budget, from the longest way to the shortest."""
    spent_s = view.budget_spent_s(at)
    left = f"{clock(view.budget_s - spent_s)} left"
    used = f"{clock(spent_s)} used"
    ends_s = max(0.0, (view.ends_s or view.budget_s) - spent_s)
    ends = f"ends by {_moment(now, ends_s)}"
    for fact in view.facts or ("",):
        for words in ((fact, used, left, ends), (fact, used, left), (fact, left)):
            yield ", ".join(word for word in words if word)
    yield left


def _moment(now: datetime, in_s: float) -> str:
    """Return the time of day in `in_s` seconds; with seconds if soon, the day if not today."""
    then = now + timedelta(seconds=in_s)
    if then.date() != now.date():
        return f"{then:%a %H:%M}"
    return f"{then:%H:%M:%S}" if in_s < 600 else f"{then:%H:%M}"


def _cut(text: str, room: int, charset: Charset) -> str:
    if len(text) <= room:
        return text
    return text[: max(0, room - len(charset.more))] + charset.more[: max(0, room)]
