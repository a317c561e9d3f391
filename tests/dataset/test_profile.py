"""Profiles of applications: reading, adding up, and what is refused."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.dataset.profile import (
    CallKind,
    Profile,
    Use,
    added_up,
    bucket,
    parse_profile,
    read_profiles,
)
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from tests.dataset.profiles import HEAD, RECORDED, profile_text, row, sealed
from tests.refusals import refused

ROWS = (
    row("bcast", "8x4", 512, 100, 1e-3, msize=1000),
    row("allreduce", "8x1", 8, 50, 2e-3),
    row("barrier", "-", 0, 10, 1e-3, size=32),
)


def read(*contents: bytes) -> Profile:
    """Return what files of these contents add up to."""
    parsed = [parse_profile(content, f"file {n}") for n, content in enumerate(contents)]
    return added_up((job for job, _ in parsed), (use for _, uses in parsed for use in uses))


def test_a_recorded_profile_counts_the_known_program() -> None:
    """Operations, sizes and layouts are those of the program, on either library."""
    found = read_profiles([RECORDED / "known-openmpi.profile"])
    counted = {
        (u.kind.collective.value, str(u.kind.shape), u.msize_bytes): u.operations
        for u in found.uses
    }
    assert counted == {
        ("bcast", "2x2", 1000): 20,
        ("bcast", "2x2", 100000): 5,
        ("bcast", "2x2", 0): 3,
        ("barrier", "2x2", 0): 7,
        ("allreduce", "2x1", 8): 60,
        ("alltoallv", "2x2", 24): 4,
    }
    (job,) = found.jobs
    assert (job.library, job.release, job.nprocs, job.shape) == (
        "openmpi",
        "5.0.11",
        4,
        Shape(2, 2),
    )
    mpich = read_profiles([RECORDED / "known-mpich.profile"])
    assert (mpich.library, mpich.release) == ("mpich", "4.0.2")


def test_times_are_shares_of_the_run() -> None:
    """Seconds of processes add up, and uses come with the longest first."""
    found = read(profile_text(ROWS))
    assert [u.kind.collective.value for u in found.uses] == ["bcast", "allreduce", "barrier"]
    assert found.process_s == 320.0
    assert found.collectives_s == pytest.approx(32 * 0.1 + 8 * 0.1 + 32 * 0.01)
    bcast = found.uses[0]
    assert bcast.kind == CallKind(Collective.BCAST, 32, Shape(8, 4), 512)
    assert bcast.kind.last_bytes == 1023
    assert (bcast.operations, bcast.msize_bytes, bcast.default_share) == (100, 1000, 1.0)
    assert bcast.call_s == pytest.approx(1e-3)
    assert bcast.deviation_s == pytest.approx(0.0, abs=1e-6)
    assert found.uses[2].kind.shape is None


def test_configurations_of_one_kind_are_one_use() -> None:
    """What ran is kept by configuration, and the library's own decision apart."""
    rows = [row("bcast", "8x4", 8, 30, 1e-3), row("bcast", "8x4", 8, 10, 2e-3, configuration=1)]
    name = "colltune.bcast.hierarchical:groups=4,inner=binomial"
    (use,) = read(profile_text(rows, [name])).uses
    assert use.ran == {"": 960, name: 320}
    assert use.default_share == 0.75
    assert (use.least_s, use.most_s) == (1e-3, 2e-3)


def test_what_production_records_is_read() -> None:
    """The arm, what was left out and the sketches are read, and sketches are added up."""
    rows = [row("bcast", "8x4", 8, 30, 1e-3), row("bcast", "8x4", 8, 10, 2e-3)]
    found = read(profile_text(rows, arm="control", left_out="3 0.5", program="#0123456789abcdef"))
    (job,), (use,) = found.jobs, found.uses
    assert (job.arm, job.left_out, job.program) == ("control", (3, 0.5), "#0123456789abcdef")
    assert use.times == {bucket(1e-3): 960, bucket(2e-3): 320}


def test_an_older_profile_has_no_sketch() -> None:
    """Format 1 is read: no arm is known, and nothing is made up."""
    found = read_profiles([RECORDED / "known-openmpi.profile"])
    assert [(job.arm, job.left_out) for job in found.jobs] == [("-", (0, 0.0))]
    assert all(use.timed and not use.times for use in found.uses)


def test_folders_and_programs(tmp_path: Path) -> None:
    """A folder's profiles are read; a program's runs can be asked for; a file counts once."""
    (tmp_path / "a.profile").write_bytes(profile_text(ROWS))
    (tmp_path / "b.profile").write_bytes(profile_text(ROWS, program="other"))
    (tmp_path / ".c.profile.tmp").write_bytes(b"half a fi")
    both = read_profiles([tmp_path, tmp_path / "a.profile"])
    assert both.programs == ("other", "solver")
    assert len(both.jobs) == 2
    assert len(read_profiles([tmp_path], ["solver"]).jobs) == 1
    with refused("no-profile-of", DataError, wanted="thing", there="other, solver"):
        read_profiles([tmp_path], ["thing"])
    (tmp_path / "empty").mkdir()
    with refused("no-profile-here", DataError):
        read_profiles([tmp_path / "empty"])
    with refused("unreadable", DataError):
        read_profiles([tmp_path / "missing.profile"])


def test_libraries_do_not_add_up() -> None:
    """Runs with different releases are refused together."""
    with refused("libraries-differ", DataError, libraries="openmpi 4.1.4, openmpi 5.0.8"):
        read(profile_text(ROWS), profile_text(ROWS, library="openmpi 5.0.8"))
    with refused("no-profiles", DataError):
        added_up([], [])


NO_TIMES = ROWS[0].rpartition(" ")[0] + " "
BODY = profile_text(ROWS).rpartition(b"end")[0].decode()


def test_errors_name_file_and_line(subtests: pytest.Subtests) -> None:
    """What is cut, changed, or not what it should be is refused with its line."""
    for content, message in (
        (b"", "not-a-profile"),
        (b"colltune-profile 3\n", "format-version version=3"),
        (profile_text(ROWS)[:-30], "wrong-checksum line=17"),
        (profile_text(ROWS).replace(b"solver", b"salver"), "wrong-checksum"),
        (profile_text(ROWS, wall_s=None), "line-missing name=wall_s"),
        (profile_text(ROWS, wall_s="nan"), "not-seconds what=wall_s value=nan line=9"),
        (profile_text(ROWS, wall_s="1 2"), "not-once name=wall_s words=1 line=9"),
        (profile_text(ROWS, world="32 4x4"), "not-a-layout value=4x4 line=7"),
        (profile_text(ROWS, rate="0"), "not-whole what=rate least=1 line=8"),
        (profile_text(ROWS, extra="1"), "line-unknown line=14"),
        (sealed(BODY + "row bcast 1\n"), "columns-missing count=2 wanted=16 line=18"),
        (sealed(BODY + ROWS[0].replace("bcast", "cast") + "\n"), "not-a-collective text=cast"),
        (sealed(BODY + ROWS[0].replace(" 512 ", " 500 ") + "\n"), "not-a-power first=500"),
        (
            sealed(BODY + ROWS[0].replace(" 1000 1000 ", " 1000 1024 ") + "\n"),
            "not-whole what=most_bytes value=1024",
        ),
        (
            sealed(BODY + ROWS[0].replace(" 512 0 ", " 512 3 ") + "\n"),
            "configuration-not-named",
        ),
        (profile_text(ROWS, ["nonsense"]), "not-an-id value=nonsense line=14"),
        (profile_text(ROWS, arm="mine"), "unknown what=arm name=mine line=12"),
        (profile_text(ROWS, left_out="1"), "not-once name=left_out words=2 line=13"),
        (
            profile_text([NO_TIMES + "3:9,2:9"]),
            "not-a-sketch value=3:9,2:9",
        ),
        (profile_text([NO_TIMES + "71:1"]), "not-a-sketch value=71:1"),
        (profile_text([ROWS[0] + "0"]), "not-a-sketch"),
        (sealed(BODY.replace("columns collective", "columns thing")), "columns-differ"),
        (sealed(BODY.split("columns")[0]), "line-missing name=columns"),
    ):
        with subtests.test(content=content, message=message):
            with refused(message, DataError) as raised:
                parse_profile(content, "job.profile")
            assert str(raised.value).startswith("job.profile, line ")


COUNTS = st.integers(1, 10**6)
SECONDS = st.floats(0, 1e3, allow_nan=False)
KINDS = st.sampled_from(
    [
        CallKind(Collective.BCAST, 4, Shape(2, 2), 8),
        CallKind(Collective.BCAST, 4, None, 8),
        CallKind(Collective.ALLREDUCE, 2, Shape(2, 1), 64),
    ]
)


@st.composite
def uses(draw: st.DrawFn) -> Use:
    """Draw a use with sums that fit each other."""
    kind, calls = draw(KINDS), draw(COUNTS)
    timed = draw(st.integers(0, calls))
    first = kind.first_bytes
    times = sorted((draw(SECONDS), draw(SECONDS))) if timed else [0.0, 0.0]
    return Use(
        kind,
        calls,
        calls * first,
        first,
        kind.last_bytes,
        timed,
        timed * times[0],
        times[0],
        times[1],
        timed * times[1] ** 2,
        calls * times[1],
        {"": calls},
    )


@given(st.lists(uses(), min_size=1, max_size=8), st.randoms())
@settings(max_examples=60, deadline=None)
def test_adding_up_keeps_every_sum(drawn: list[Use], random: object) -> None:
    """Calls, bytes and seconds are neither lost nor counted twice, in whatever order."""
    job, _ = parse_profile(profile_text(()), "job")
    found = added_up([job], drawn)
    turned = added_up([job], drawn[::-1])
    assert {u.kind for u in found.uses} == {u.kind for u in drawn}
    for name in ("process_calls", "bytes", "timed", "process_s", "timed_s"):
        total = math.fsum(getattr(u, name) for u in drawn)
        assert math.fsum(getattr(u, name) for u in found.uses) == pytest.approx(total)
    assert [u.kind for u in found.uses] == [u.kind for u in turned.uses]
    for use, other in zip(found.uses, turned.uses, strict=True):
        assert use.ran == {"": use.process_calls}
        assert dataclasses.replace(other, **_sums(use)) == use
        assert use.least_bytes <= use.msize_bytes <= use.most_bytes


def _sums(use: Use) -> dict[str, Any]:
    """Return what depends on the order of adding in the last digit."""
    return {name: getattr(use, name) for name in ("timed_s", "squares_s2", "process_s")}


@given(st.integers(0, 400), st.integers(0, 255))
@settings(max_examples=60, deadline=None)
def test_no_changed_byte_goes_unnoticed(at: int, value: int) -> None:
    """A file with another byte anywhere before its end is refused."""
    content = bytearray(profile_text(ROWS))
    if content[at] == value:
        return
    content[at] = value
    with pytest.raises(DataError):
        parse_profile(bytes(content), "job.profile")


def test_the_digest_tells_profiles_apart() -> None:
    """The same runs have one digest in any order; others have another."""
    one, other = profile_text(ROWS), profile_text(ROWS[:2], job="18")
    assert read(one, other).digest == read(other, one).digest
    assert read(one).digest != read(other).digest
    assert HEAD["job"] == "17"
