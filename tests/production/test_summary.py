"""Summaries of jobs: what is read is what was written, and anything else is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.production.summary import (
    MOST_BYTES,
    MOST_PARTS,
    SummaryError,
    as_json,
    from_json,
    parse_summary,
    text_of,
    text_without_slurm,
)
from tests.dataset.profiles import profile_text
from tests.production.summaries import GIVEN, HEAD, PROFILE, SUMMARY, TEXT


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
    with pytest.raises(SummaryError, match="format 9"):
        from_json(as_json(SUMMARY) | {"format": 9})


def changed(old: str, new: str) -> bytes:
    return TEXT.replace(old.encode(), new.encode(), 1)


BAD = {
    "nothing": (b"", "line 1: it is not complete"),
    "another version": (changed("summary 1", "summary 2"), "line 1: this is not a summary"),
    "no number of a job": (changed("job 17", "job ../17"), "line 2: 'job ../17'"),
    "a digit of another script": (TEXT.replace(b"job 17", "job ١".encode()), "line 2"),
    "a time before 1970": (changed("started 1", "started -1"), "line 3"),
    "lines in another order": (changed("ended", "nodes"), "line 4"),
    "no node": (changed("nodes 8", "nodes 0"), "line 5: a job has at least one node"),
    "an unknown state": (changed("completed", "happy"), "line 6"),
    "a user's name": (changed("user -", "user alice"), "line 7"),
    "an unknown arm": (changed("tuned", "best"), "line 8"),
    "a bundle that is none": (changed("abab", "ABab"), "line 8"),
    "a release twice": (changed("mpich 4.0.2", "openmpi 4.1.4"), "line 9: openmpi 4.1.4 twice"),
    "a profile of another length": (changed(f"profile {len(PROFILE)}", "profile 7"), "line 11"),
    "a profile that was changed": (changed("solver", "sulver"), "the checksum is wrong"),
    "no end": (TEXT.removesuffix(b"end\n"), "it is not complete"),
    "text after the end": (TEXT + b"end\n", "text after the end"),
    "too many releases": (
        text_of(
            replace(HEAD, given=tuple(replace(GIVEN[0], release=f"4.{n}") for n in range(65))), []
        ),
        f"more than {MOST_PARTS} releases",
    ),
    "too many profiles": (text_of(HEAD, [b""] * 501), "the profile after line 11"),
    "too long": (text_of(HEAD, [profile_text([]) + b" " * MOST_BYTES]), "more than 65536 bytes"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_summary_is_refused(what: str) -> None:
    """The error names the line, and what is wrong with it."""
    content, why = BAD[what]
    with pytest.raises(SummaryError, match=r"^the summary: ") as refused:
        parse_summary(content)
    assert why in str(refused.value)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(TEXT)), cut=st.integers(0, 40), put=st.binary(max_size=20))
def test_a_damaged_summary_is_refused_or_read(at: int, cut: int, put: bytes) -> None:
    """Whatever is put in its place, there is no other error; the profiles' hashes hold."""
    damaged = TEXT[:at] + put + TEXT[at + cut :]
    try:
        found = parse_summary(damaged)
    except SummaryError:
        return
    assert [run.uses for run in found.runs] == [run.uses for run in SUMMARY.runs]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TEXT.splitlines(keepends=True)), max_size=20), st.binary())
def test_lines_in_any_order_are_refused_or_read(lines: list[bytes], more: bytes) -> None:
    """Good lines in a wrong order, and bytes after them, raise nothing but a `SummaryError`."""
    try:
        parse_summary(b"".join(lines) + more)
    except SummaryError:
        return


def test_profiles_without_room_are_counted() -> None:
    """Of more profiles than fit those that do are there, whole, and the others are counted."""
    big, small = b"x" * 40_000, b"y" * 100
    text = text_without_slurm([big, big, small])
    assert len(text) <= MOST_BYTES
    assert b"\nleft_out 1\n" in text
    assert text.endswith(b"profile 40000\n%bprofile 100\n%bend\n" % (big, small))
