"""What every format of configuration files in the registry must fulfil."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.file_format import Written
from colltune.mpi.formats import FORMATS, format_of, readers
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.rules import Call, Fault, Rules, Severity
from tests.contract.format_tables import (
    APART,
    CASES,
    DROPPED,
    FEW,
    FEWEST,
    OWN_CHOICES,
    calls,
    candidates,
    said,
    tables,
    tells_communicators,
)
from tests.mpi.linting import lint
from tests.mpi.tables import normal, table_of

PATH = "/shared/rules"
each_reader = pytest.mark.parametrize(("name", "release"), CASES)


def _write(table: DecisionTable, name: str, release: str) -> Written:
    return FORMATS[name].write(table, release, programs=MOST_PROMISED)


def _read(written: Written) -> Rules:
    return FORMATS[written.format].parse(written.text, PATH, written.release)


def _always(name: str, job: Shape, choice: Configuration) -> DecisionTable:
    """Return the table that has one choice for all messages on a whole job."""
    return DecisionTable(name, job, {(choice.collective, job.nprocs): (Interval(0, None, choice),)})


def _lost(written: Written) -> list[str]:
    """Return the notes without those that hold for whatever the format writes."""
    remarks = FORMATS[written.format].remarks
    return [note for note in written.notes if note not in remarks]


def _paths(written: Written) -> dict[str, str]:
    return {end: f"{PATH}{end}" for end in written.texts}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_knows_its_name_and_library(name: str) -> None:
    """The key of the registry is the format's own name, its library one that is known."""
    known = FORMATS[name]
    assert known.name == name
    assert known.library in LIBRARIES
    assert known.title
    assert readers(known)


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_release_is_refused(name: str) -> None:
    """No release is guessed, to read nor to write."""
    known = FORMATS[name]
    empty = DecisionTable(known.library, Shape(1, 2), {})
    text = known.write(empty, readers(known)[-1]).text
    for attempt in (
        lambda: known.unreadable_by("0.0.1"),
        lambda: known.parse(text, "f", "0.0.1"),
        lambda: known.write(empty, "0.0.1"),
    ):
        with pytest.raises(LibraryError):
            attempt()


@each_reader
def test_another_librarys_table_is_refused(name: str, release: str) -> None:
    """No algorithm is taken for one of another library."""
    other = next(each for each in LIBRARIES if each != FORMATS[name].library)
    table = _always(other, Shape(1, 2), Configuration(other, Collective.BCAST, "binomial"))
    with pytest.raises(LibraryError):
        _write(table, name, release)


@each_reader
def test_every_safe_algorithm_can_be_written(name: str, release: str) -> None:
    """One configuration of each that runs with all messages is kept, mostly without a note."""
    known, asked_for, kept = FORMATS[name], 0, 0
    job = Shape(2, 2) if name in OWN_CHOICES else Shape(1, 4)
    for collective in Collective:
        always = [c for first, c in candidates(name, release, collective, 4) if not first]
        for choice in {c.algorithm: c for c in always if not c.is_default}.values():
            written = _write(_always(known.library, job, choice), name, release)
            asked_for += 1
            if _lost(written):
                continue
            kept += 1
            parsed = _read(written)
            asked = Call(collective, 4, 1 << 20, job.nodes)
            assert parsed.decide(asked).chosen == choice, choice.id
            assert parsed.decide(asked).configuration == choice, choice.id
    assert kept >= 0.9 * asked_for >= FEWEST.get(name, 9)


@each_reader
@FEW
@given(data=st.data())
def test_what_is_written_is_read(name: str, release: str, data: st.DataObject) -> None:
    """A table comes back as it was; what the notes leave to the library is all that may differ."""
    known = FORMATS[name]
    table = data.draw(tables(known, release))
    written = _write(table, name, release)
    assert (written.format, written.release) == (name, release)
    parsed = _read(written)
    assert (parsed.format, parsed.release, parsed.source) == (name, release, PATH)
    assert not parsed.dropped
    if not tells_communicators(known):
        return
    found = table_of(parsed, known.library, table.shape)
    if not _lost(written):
        assert found == normal(table)
    again = _write(found, name, release)
    assert table_of(_read(again), known.library, table.shape) == found


@each_reader
@FEW
@given(data=st.data())
def test_what_is_written_is_decided(name: str, release: str, data: st.DataObject) -> None:
    """On any communicator of the job every call is decided as the table says."""
    known = FORMATS[name]
    table = data.draw(tables(known, release))
    written = _write(table, name, release)
    parsed = _read(written)
    for call in data.draw(st.lists(calls(table), min_size=8, max_size=8)):
        wanted = said(table, call)
        outcome = parsed.decide(call)
        if not tells_communicators(known) and (call.collective, call.comm_size) not in table.rules:
            continue
        if outcome.chosen != wanted:
            assert _lost(written)
            assert outcome.chosen.is_default
        if outcome.chosen == wanted and not wanted.is_default:
            assert outcome.rule in parsed.rules
            assert not outcome.ends_program


@each_reader
@FEW
@given(data=st.data())
def test_nothing_is_found_in_what_is_written(name: str, release: str, data: st.DataObject) -> None:
    """The lint has no error for a file of our own, and no warning but for what was asked for."""
    written = _write(data.draw(tables(FORMATS[name], release)), name, release)
    found = [f for f in lint(_read(written)) if f.severity is not Severity.NOTE]
    # the tables are written for programs with the library's operations only
    assert {f.fault for f in found} <= {Fault.SOME_PROGRAMS}


@each_reader
@FEW
@given(data=st.data())
def test_what_is_written_is_recognised(name: str, release: str, data: st.DataObject) -> None:
    """What is written looks like its own format and like no other one."""
    written = _write(data.draw(tables(FORMATS[name], release)), name, release)
    assert format_of(written.text, PATH).name == name
    assert format_of(written.text.replace("\n", "\r\n"), PATH).name == name


@each_reader
@FEW
@given(data=st.data())
def test_converted_to_itself_it_decides_the_same(
    name: str, release: str, data: st.DataObject
) -> None:
    """Converting to the same format and release keeps every decision, and has nothing to note."""
    known = FORMATS[name]
    table = data.draw(tables(known, release))
    parsed = _read(_write(table, name, release))
    converted = known.convert(parsed, release)
    assert converted.notes == ()
    again = _read(converted)
    for call in data.draw(st.lists(calls(table), min_size=6, max_size=6)):
        assert again.decide(call).chosen == parsed.decide(call).chosen


@pytest.mark.parametrize(
    ("name", "release", "to", "to_release"),
    [
        (name, release, to, to_release)
        for name, release in CASES
        for to, to_release in CASES
        if FORMATS[name].library == FORMATS[to].library
        and (name, release) != (to, to_release)
        and (name == to or not {name, to} & APART)
        and release == readers(FORMATS[name])[-1]
        and to_release in (readers(FORMATS[to])[0], readers(FORMATS[to])[-1])
    ],
)
@FEW
@given(data=st.data())
def test_converted_to_another_it_keeps_what_it_does_not_note(
    name: str, release: str, to: str, to_release: str, data: st.DataObject
) -> None:
    """Where nothing is noted, the other format and release choose the same for every call."""
    table = data.draw(tables(FORMATS[name], release))
    parsed = _read(_write(table, name, release))
    converted = FORMATS[to].convert(parsed, to_release)
    assert (converted.format, converted.release) == (to, to_release)
    again = _read(converted)
    assert not again.dropped
    assert [f for f in lint(again) if f.severity is Severity.ERROR] == []
    for call in data.draw(st.lists(calls(table), min_size=6, max_size=6)):
        if not converted.notes:
            assert again.decide(call).chosen == parsed.decide(call).chosen


@pytest.mark.parametrize("name", sorted(APART))
def test_what_speaks_of_something_else_is_not_converted(name: str) -> None:
    """A format with other things to choose from neither takes nor gives the others' rules."""
    for to, known in FORMATS.items():
        if known.library != FORMATS[name].library or to in APART:
            continue
        release, empty = readers(known)[-1], DecisionTable(known.library, Shape(1, 2), {})
        for source, target in ((name, to), (to, name)):
            parsed = _read(_write(empty, source, release))
            with pytest.raises(LibraryError):
                FORMATS[target].convert(parsed, release)


@each_reader
@FEW
@given(data=st.data())
def test_the_activation_puts_it_into_effect(name: str, release: str, data: st.DataObject) -> None:
    """A job with exactly these variables runs what is said to run by default."""
    known = FORMATS[name]
    table = data.draw(tables(known, release))
    written = _write(table, name, release)
    parsed = _read(written)
    for call in data.draw(st.lists(calls(table), min_size=3, max_size=3)):
        for job in (table.shape, None):
            environment = known.activation(release, _paths(written), job)
            outcome = parsed.decide(call, environment)
            assert outcome.configuration == parsed.decide(call).configuration


@each_reader
def test_the_activation_needs_absolute_paths(name: str, release: str) -> None:
    """Every rank would take a relative one from its own working directory."""
    known = FORMATS[name]
    written = _write(DecisionTable(known.library, Shape(2, 2), {}), name, release)
    with pytest.raises(LibraryError):
        known.activation(release, {end: f"rules{end}" for end in written.texts})


@pytest.mark.parametrize(("name", "release"), DROPPED)
def test_a_release_that_does_not_read_it(name: str, release: str) -> None:
    """It drops the file as a whole, nothing is written for it, and no conversion claims otherwise.

    A release without a catalogue is refused.
    """
    known = FORMATS[name]
    empty = DecisionTable(known.library, Shape(1, 2), {})
    with pytest.raises(LibraryError):
        known.write(empty, release)
    try:
        why = known.unreadable_by(release)
    except LibraryError:
        return
    assert why
    choice = candidates(name, readers(known)[-1], Collective.BCAST, 2)[-1][1]
    table = _always(known.library, Shape(1, 2), choice)
    text = _write(table, name, readers(known)[-1]).text
    parsed = known.parse(text, "f", release)
    assert parsed.dropped
    assert Fault.FILE_DROPPED in {finding.fault for finding in lint(parsed)}
    assert parsed.decide(Call(Collective.BCAST, 2, 1 << 20)).configuration.is_default
    with pytest.raises(LibraryError):
        known.convert(parsed, readers(known)[-1])
