"""Summaries of jobs: what is read is what was written, and anything else is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.errors import DataError
from colltune.production.summary import (
    MOST_BYTES,
    MOST_PARTS,
    as_json,
    from_json,
    parse_summary,
    text_of,
    text_without_slurm,
)
from tests.dataset.profiles import profile_text
from tests.production.summaries import GIVEN, HEAD, PROFILE, SUMMARY, TEXT
from tests.refusals import refused


def test_what_is_read_is_what_was_written() -> None:
    """The head as it was, and a run for each profile."""
    assert replace(SUMMARY, runs=()) == HEAD
    assert [(run.job.program, len(run.uses)) for run in SUMMARY.runs] == 2 * [("solver", 2)]
    assert len(TEXT) < MOST_BYTES


def test_a_job_without_profiles_is_a_summary() -> None:
    """A job that told nothing counts, too, also one that was given nothing."""
    bare = replace(HEAD, given=(), user="0123abcd", job="17_3", state="timeout")
    assert parse_summary(text_of(bare, [])) == bare


def test_json_keeps_everything() -> None:
    """A summary that was stored as JSON comes back equal."""
    assert from_json(json.loads(json.dumps(as_json(SUMMARY)))) == SUMMARY
    with refused("format-version", DataError, version=9):
        from_json(as_json(SUMMARY) | {"format": 9})


def changed(old: str, new: str) -> bytes:
    return TEXT.replace(old.encode(), new.encode(), 1)


BAD = {
    "nothing": (b"", "incomplete at=1"),
    "another version": (changed("summary 1", "summary 2"), "not-a-summary at=1"),
    "no number of a job": (changed("job 17", "job ../17"), "wrong-line at=2"),
    "a digit of another script": (TEXT.replace(b"job 17", "job ١".encode()), "wrong-line at=2"),
    "a time before 1970": (changed("started 1", "started -1"), "wrong-line at=3"),
    "lines in another order": (changed("ended", "nodes"), "wrong-line at=4"),
    "no node": (changed("nodes 8", "nodes 0"), "job-without-nodes at=5"),
    "an unknown state": (changed("completed", "happy"), "wrong-line at=6"),
    "a user's name": (changed("user -", "user alice"), "wrong-line at=7"),
    "an unknown arm": (changed("tuned", "best"), "wrong-line at=8"),
    "a bundle that is none": (changed("abab", "ABab"), "wrong-line at=8"),
    "a release twice": (changed("mpich 4.0.2", "openmpi 4.1.4"), "second-line at=9"),
    "a profile of another length": (
        changed(f"profile {len(PROFILE)}", "profile 7"),
        "not-a-profile",
    ),
    "a profile that was changed": (changed("solver", "sulver"), "wrong-checksum"),
    "no end": (TEXT.removesuffix(b"end\n"), "incomplete"),
    "text after the end": (TEXT + b"end\n", "text-after-end"),
    "too many releases": (
        text_of(
            replace(HEAD, given=tuple(replace(GIVEN[0], release=f"4.{n}") for n in range(65))), []
        ),
        f"too-many most={MOST_PARTS} what=releases",
    ),
    "too many profiles": (text_of(HEAD, [b""] * 501), "not-a-profile"),
    "too long": (text_of(HEAD, [profile_text([]) + b" " * MOST_BYTES]), "too-many what=bytes"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_summary_is_refused(what: str) -> None:
    """The error names the line, and what is wrong with it."""
    content, code = BAD[what]
    with refused(code, DataError):
        parse_summary(content)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(TEXT)), cut=st.integers(0, 40), put=st.binary(max_size=20))
def test_a_damaged_summary_is_refused_or_read(at: int, cut: int, put: bytes) -> None:
    """Whatever is put in its place, there is no other error; the profiles' hashes hold."""
    damaged = TEXT[:at] + put + TEXT[at + cut :]
    try:
        found = parse_summary(damaged)
    except DataError:
        return
    assert [run.uses for run in found.runs] == [run.uses for run in SUMMARY.runs]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TEXT.splitlines(keepends=True)), max_size=20), st.binary())
def test_lines_in_any_order_are_refused_or_read(lines: list[bytes], more: bytes) -> None:
    """Good lines in a wrong order, and bytes after them, raise nothing but a `DataError`."""
    try:
        parse_summary(b"".join(lines) + more)
    except DataError:
        return


def test_profiles_without_room_are_counted() -> None:
    """Of more profiles than fit those that do are there, whole, and the others are counted."""
    big, small = b"x" * 40_000, b"y" * 100
    text = text_without_slurm([big, big, small])
    assert len(text) <= MOST_BYTES
    assert b"\nleft_out 1\n" in text
    assert text.endswith(b"profile 40000\n%bprofile 100\n%bend\n" % (big, small))
