"""Whatever is in a file, every format answers with findings, or with one clear error."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.activation_check import effect_findings
from colltune.mpi.formats import FORMATS, readers
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.rules import Call, Fault, Rules, Severity
from tests.contract.format_tables import CASES, UNSHRUNK, candidates
from tests.mpi.linting import lint

each_reader = pytest.mark.parametrize(("name", "release"), CASES)
newest_reader = pytest.mark.parametrize(
    ("name", "release"), [(name, readers(known)[-1]) for name, known in FORMATS.items()]
)
_NUMBER = re.compile(rb"\d+")
_WORD = re.compile(rb"[A-Za-z_]+")
_ODD_NUMBERS = (
    *(b"0", b"-1", b"-0", b"1.5", b"1e9", b"010", b"0x10", b"4294967296", b"2147483648"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"9" * 40),
    *(b"9" * 5000, "٣".encode(), b"\xff", b"", b"inf", b"NaN", b"1_000"),
)
_HUGE = (
    b"{" * 100_000,
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"1 " * 50_000,
    b"\n" * 100_000,
    b"x" * 100_000,
    b'"' * 100_000,
    b"# \xff\n" * 25_000,
    b"a=" * 50_000,
    b"--mca a b " * 10_000,
)
_NO_CONTENT = (
    b"",
    b" ",
    b"\n",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"{}",
    b"[]",
    b"0",
    b"null",
    b"{",
    b"\xff",
)


@cache
def _sample(name: str, release: str) -> bytes:
    """Return a file of ours with several collectives, communicators and message sizes."""
    known, job = FORMATS[name], Shape(2, 4)
    rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {}
    for collective in (Collective.BCAST, Collective.ALLREDUCE, Collective.ALLGATHER):
        for size in [8] if known.single_algorithm else [2, 4, 8]:
            found = candidates(name, release, collective, size)
            first, last = found[:2][-1][1], found[-1][1]
            always = (Interval(0, None, first),)
            thrice = (
                Interval(0, 8191, first),
                Interval(8192, 1 << 20, last),
                Interval((1 << 20) + 1, None, first),
            )
            rules[collective, size] = always if known.single_algorithm else thrice
    return known.write(
        DecisionTable(known.library, job, rules), release, programs=MOST_PROMISED
    ).text.encode()


def _cut(content: bytes, data: st.DataObject) -> bytes:
    return content[: data.draw(st.integers(0, len(content)))]


def _flip(content: bytes, data: st.DataObject) -> bytes:
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(1, 255))
    return bytes(changed)


def _twice(content: bytes, data: st.DataObject) -> bytes:
    first, last = sorted(data.draw(st.integers(0, len(content))) for _ in range(2))
    at = data.draw(st.sampled_from([first, last, len(content)]))
    return content[:at] + content[first:last] + content[at:]


def _without(content: bytes, data: st.DataObject) -> bytes:
    first, last = sorted(data.draw(st.integers(0, len(content))) for _ in range(2))
    return content[:first] + content[last:]


def _lines_moved(content: bytes, data: st.DataObject) -> bytes:
    lines = content.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        line = lines.pop(data.draw(st.integers(0, len(lines) - 1)))
        lines.insert(data.draw(st.integers(0, len(lines))), line)
    return b"".join(lines)


def _numbers(content: bytes, data: st.DataObject) -> bytes:
    return _replaced(_NUMBER, st.sampled_from(_ODD_NUMBERS), content, data)


def _words(content: bytes, data: st.DataObject) -> bytes:
    words = sorted(set(_WORD.findall(content)))
    odd = (b"nonsense", b"\xc3\xa9", b"any", b"inf", b"alltoallw", b"barrier")
    return _replaced(_WORD, st.sampled_from((*words, *odd)), content, data)


def _replaced(
    what: re.Pattern[bytes], by: st.SearchStrategy[bytes], content: bytes, data: st.DataObject
) -> bytes:
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(what.finditer(content))
        if places:
            place = data.draw(st.sampled_from(places))
            content = content[: place.start()] + data.draw(by) + content[place.end() :]
    return content


_CHANGES: tuple[Callable[[bytes, st.DataObject], bytes], ...] = (
    *(_cut, _flip, _twice, _without, _lines_moved, _numbers, _words),
    lambda content, _: content.replace(b"\n", b"\r\n"),
    lambda content, _: content.replace(b"\n", b"\r"),
    lambda content, _: b"\xef\xbb\xbf" + content,
    lambda content, _: content * 3,
)


def _parsed(name: str, release: str, content: bytes) -> Rules | None:
    """Return the file that a format makes of `content`, None if it refuses it."""
    text = content.decode("utf-8", errors="surrogateescape")
    FORMATS[name].recognises(text)
    try:
        return FORMATS[name].parse(text, "f", release)
    except LibraryError as error:
        refusal = str(error)
    assert 0 < len(refusal) < 2000
    return None


def _look_at_all(parsed: Rules, content: bytes) -> None:
    """Ask a parsed file everything, and check that its answers fit together."""
    n_lines = content.count(b"\n") + content.count(b"\r") + 1
    findings = lint(parsed)
    assert list(findings) == sorted(findings)
    assert all(0 <= f.line <= n_lines and f.message and f.mend for f in findings)
    assert all(len(f.message) < 2000 for f in findings)
    assert all(1 <= rule.line <= n_lines for rule in parsed.rules)
    known = FORMATS[parsed.format]
    told = any(finding.fault is Fault.FILE_DROPPED for finding in findings)
    # a list of variables is read though it names files that are dropped
    assert told == bool(parsed.dropped) or known.lists_variables
    if parsed.dropped:
        outcome = parsed.decide(Call(Collective.BCAST, 4, 9))
        assert (outcome.configuration.is_default, outcome.ends_program) == (True, "")
        with pytest.raises(LibraryError):
            known.convert(parsed, parsed.release)
    for collective in [*dict.fromkeys(rule.collective for rule in parsed.rules), Collective.SCAN]:
        sizes = parsed.comm_sizes(collective)
        assert all(a < b for a, b in pairwise(sizes))
        for comm_size in {2, 8, *sizes[:3], *sizes[-2:]}:
            if 2 <= comm_size <= 1 << 31:
                _look_at_switches(parsed, collective, comm_size)


def _look_at_switches(parsed: Rules, collective: Collective, comm_size: int) -> None:
    """Check that nothing changes between two switch points."""
    for nodes in (1, 2):
        switches = parsed.switch_points(collective, comm_size, nodes)
        assert switches[0] == 0
        assert all(a < b for a, b in pairwise(switches))
        lasts = [*(first - 1 for first in switches[1:]), (1 << 62) - 1]
        for first, last in list(zip(switches, lasts, strict=True))[:4]:
            at_ends = [
                parsed.decide(Call(collective, comm_size, msize, nodes)).chosen
                for msize in (first, max(first, last))
            ]
            assert at_ends[0] == at_ends[1]


@each_reader
@UNSHRUNK
@given(data=st.data())
def test_a_file_that_was_damaged(name: str, release: str, data: st.DataObject) -> None:
    """Cut, flipped, repeated, reordered or with odd numbers: findings or one error."""
    content = _sample(name, release)
    for _ in range(5):
        change = data.draw(st.sampled_from(_CHANGES))
        damaged = change(content, data).replace(b"\0", b"?")
        parsed = _parsed(name, release, damaged)
        if parsed is not None:
            _look_at_all(parsed, damaged)


@each_reader
@UNSHRUNK
@given(data=st.data())
def test_a_damaged_file_is_converted(name: str, release: str, data: st.DataObject) -> None:
    """It is refused, or what is written is sound and, without notes, decides the same."""
    change = data.draw(st.sampled_from(_CHANGES))
    damaged = change(_sample(name, release), data).replace(b"\0", b"?")
    parsed = _parsed(name, release, damaged)
    if parsed is None:
        return
    _convert(name, release, parsed)


@newest_reader
def test_numbers_that_are_no_text_are_converted(name: str, release: str) -> None:
    """Whichever number became a byte that is no UTF-8: the file is refused or converted."""
    content = _sample(name, release)
    numbers = list(_NUMBER.finditer(content))
    for found in numbers[:: max(7, len(numbers) // 24)]:
        damaged = content[: found.start()] + b"\xff" + content[found.end() :]
        parsed = _parsed(name, release, damaged)
        if parsed is not None:
            _convert(name, release, parsed)


def _convert(name: str, release: str, parsed: Rules) -> None:
    """Convert a file; without notes, the result must decide the same."""
    try:
        written = FORMATS[name].convert(parsed, release)
    except LibraryError:
        return
    again = FORMATS[name].parse(written.text, "f", release)
    assert not again.dropped
    assert [f for f in lint(again) if f.severity is Severity.ERROR] == []
    if not written.notes:
        for collective in (Collective.BCAST, Collective.ALLREDUCE, Collective.SCAN):
            for comm_size, msize in product((2, 3, 8, 9), (0, 7, 8192, 1 << 20, 1 << 40)):
                call = Call(collective, comm_size, msize)
                assert again.decide(call).chosen == parsed.decide(call).chosen


@each_reader
@UNSHRUNK
@given(data=st.data())
def test_a_damaged_file_in_a_job(name: str, release: str, data: st.DataObject) -> None:
    """Whatever a job sets, it is told what keeps a damaged file from running, without failing."""
    change = data.draw(st.sampled_from(_CHANGES))
    damaged = change(_sample(name, release), data).replace(b"\0", b"?")
    parsed = _parsed(name, release, damaged)
    if parsed is None:
        return
    paths = {"": "/f"}
    activation, mpi = FORMATS[name].activation(release, paths), library(FORMATS[name].library)
    odd = st.sampled_from(["", "0", "1", "-1", "x", "yes", "9" * 40, "^", ",", "\udcff", "/f"])
    for job in ({}, activation, {n: data.draw(odd) for n in activation}):
        for finding in effect_findings(mpi, parsed, activation, paths, job):
            assert finding.message
            assert finding.mend


@newest_reader
def test_a_file_cut_at_every_byte(name: str, release: str) -> None:
    """No place is special."""
    content = _sample(name, release)
    step = max(1, len(content) // 50)
    for end in {*range(0, len(content), step), *range(max(0, len(content) - 20), len(content))}:
        parsed = _parsed(name, release, content[:end])
        if parsed is not None:
            assert all(finding.message for finding in lint(parsed))


@newest_reader
@pytest.mark.parametrize("content", _NO_CONTENT)
def test_a_file_without_content(name: str, release: str, content: bytes) -> None:
    """Nothing, or next to nothing, is no reason to fail."""
    parsed = _parsed(name, release, content)
    if parsed is not None:
        _look_at_all(parsed, content)


@newest_reader
@pytest.mark.parametrize("content", _HUGE, ids=lambda c: c[:12].decode("ascii", "replace").strip())
def test_a_huge_file_of_nonsense(name: str, release: str, content: bytes) -> None:
    """A hundred kilobytes of one thing: deep nesting ends in no recursion, nothing in a hang."""
    parsed = _parsed(name, release, content)
    if parsed is not None:
        _look_at_all(parsed, content)


@newest_reader
def test_a_file_of_a_megabyte(name: str, release: str) -> None:
    """A file of ours, many times over, is read in time that grows as its size does."""
    content = _sample(name, release)
    content *= -(-1_000_000 // len(content))
    parsed = _parsed(name, release, content)
    if parsed is not None:
        parsed.decide(Call(Collective.BCAST, 8, 1 << 20))
