"""What progress looks like."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime

from colltune.cli.progress import Progress, clock, console_on, drawn

NOW = datetime(2026, 3, 4, 23, 50, 0)
MEASURING = Progress(
    "measuring",
    began=0.0,
    at=40.0,
    now="bcast chain:segsize=4096, 64 KiB on 4x8 (launch 2, refine)",
    spent_s=40.0,
    budget_s=90.0,
    ends_s=90.0,
    facts=("120/243 cells", "120/243"),
)
FITTING = Progress("fitting", 0.0, 30.0, "bcast: gam", "configurations", done=30, total=90)


def lines(
    view: Progress, width: int, at: float | None = None, encoding: str = "ascii"
) -> list[str]:
    """Return the lines as text, without the one that the cursor waits on."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    console = console_on(stream, width)
    console.print(drawn(view, view.at if at is None else at, NOW, width), no_wrap=True, crop=False)
    stream.flush()
    stream.seek(0)
    return [line.rstrip() for line in stream.read().splitlines()][:-1]


def test_a_budget_is_shown_with_what_is_used_and_left() -> None:
    """Cells, the budget used and left, when it ends, and what is measured now."""
    assert lines(MEASURING, 90) == [
        "measuring -----------               120/243 cells, 0:40 used, 0:50 left, ends by 23:50:50",
        "  bcast chain:segsize=4096, 64 KiB on 4x8 (launch 2, refine)",
    ]


def test_a_budget_goes_on_between_what_is_told() -> None:
    """Ten seconds later ten seconds less are left, and never less than none."""
    assert "0:50 used, 0:40 left" in lines(MEASURING, 90, at=50.0)[0]
    assert "1:30 used, 0:00 left" in lines(MEASURING, 90, at=1000.0)[0]


def test_an_end_before_the_budget_is_told() -> None:
    """Where the batch job ends first, that is when it ends; on another day, the day is named."""
    assert "0:50 left, ends by 23:50:10" in lines(replace(MEASURING, ends_s=50.0), 90)[0]
    late = replace(MEASURING, budget_s=7240.0, ends_s=7240.0)
    assert "2:00:00 left, ends by Thu 01:50" in lines(late, 90)[0]


def test_counted_work_is_shown_with_the_time_left() -> None:
    """Configurations done of all, the time so far, and what is left at the same pace."""
    first, second = lines(FITTING, 90)
    assert first.endswith(" 30/90 configurations, 0:30 so far, about 1:00 left")
    assert second == "  bcast: gam"
    assert "0:40 so far, about 0:50 left" in lines(FITTING, 90, at=40.0)[0]


def test_nothing_done_tells_no_time() -> None:
    """Before the first is done, the time left is not guessed."""
    assert (
        "0/90 configurations, 0:30 so far, time left unknown"
        in lines(replace(FITTING, done=0), 90)[0]
    )


def test_parts_count_towards_the_time_left() -> None:
    """Half of the second of two parts done in 30 s leaves 10 s."""
    view = replace(FITTING, done=45, number=2, parts=2)
    assert lines(view, 90)[0].startswith("fitting (2 of 2) -")
    assert "about 0:10 left" in lines(view, 90)[0]


def test_work_of_unknown_length_shows_that_it_goes_on() -> None:
    """A wheel turns, beside the time so far."""
    view = Progress("reading", 0.0, 0.0)
    assert lines(view, 40, at=61.0) == ["reading - 1:01"]
    assert lines(view, 40, at=61.4) == ["reading - 1:01"]
    assert lines(view, 40, at=60.5) == ["reading / 1:00"]


def test_no_line_reaches_the_last_column() -> None:
    """Whatever the width, lines stay within it, and what is cut says so."""
    for view in (MEASURING, FITTING, Progress("reading", 0.0, 0.0)):
        for width in (*range(1, 45), 60, 80, 110, 300):
            for encoding in ("ascii", "utf-8"):
                found = lines(view, width, encoding=encoding)
                assert max(map(len, found)) < width, (view, width, encoding)
        assert lines(replace(view, now="x" * 200), 40)[-1].endswith("...")


def test_narrow_terminals_keep_what_is_left() -> None:
    """On 40 columns, the budget left and the time left remain."""
    assert lines(MEASURING, 40)[0] == "measuring ----       120/243, 0:50 left"
    assert lines(FITTING, 40)[0].endswith(" 30/90, about 1:00 left")


def test_ascii_has_no_other_character() -> None:
    """What is drawn for a terminal without Unicode is ASCII."""
    for view in (MEASURING, FITTING, Progress("reading", 0.0, 0.0)):
        assert all(line.isascii() for line in lines(view, 60))


def test_durations() -> None:
    """Minutes and seconds, and hours where there are any."""
    for seconds, text in ((0.4, "0:00"), (9, "0:09"), (754, "12:34"), (3723, "1:02:03")):
        assert clock(seconds) == text
