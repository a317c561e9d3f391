"""Summaries for tests, as an epilog writes them."""

from __future__ import annotations

from colltune.production.arms import Arm
from colltune.production.summary import Given, Summary, parse_summary, text_of
from tests.dataset.profiles import profile_text, row

BUNDLE = "ab" * 32
PROFILE = profile_text(
    [row("bcast", "8x4", 512, 100, 1e-3, msize=1000), row("barrier", "-", 0, 10, 1e-3, size=32)],
    ["openmpi.bcast.binomial:segsize=1024"],
)
GIVEN = (
    Given("openmpi", "4.1.4", Arm.TUNED, BUNDLE),
    Given("mpich", "4.0.2", Arm.CONTROL, "cd" * 32),
)
HEAD = Summary("17", 1_795_000_000, 1_795_000_060, 8, "completed", "", GIVEN, (), 2)
TEXT = text_of(HEAD, [PROFILE, PROFILE])
SUMMARY = parse_summary(TEXT)
