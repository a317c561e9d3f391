"""The measured outcomes that colltune brings along: what they cover, and how they are stored."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.domain import DEFAULT_ALGORITHM, INTERPOSED, Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.programs import (
    FOLDER,
    MODES,
    SAME,
    Measured,
    ProgramOutcome,
    kind_of,
    measured,
    parse,
    text_of,
)
from colltune.verify.legal_programs import configurations
from tests.refusals import refused

FILES = sorted(FOLDER.glob("*.json"))
EVERY = [one for library in (*LIBRARIES, INTERPOSED) for one in measured(library)]
NAMES = [f"{one.library}-{one.over}-{one.release}" for one in EVERY]


@pytest.mark.parametrize("one", EVERY, ids=NAMES)
def test_no_algorithm_of_a_measured_release_is_missing(one: Measured) -> None:
    """Each kind of configuration of the catalogue was measured, and so was the default."""
    release = LIBRARIES[one.over or one.library].at(one.release)
    for collective in Collective:
        found = configurations(release, collective, own=bool(one.over))
        kinds = {kind_of(each) for each in found}
        if kinds:
            assert kinds | {DEFAULT_ALGORITHM} == set(one.outcomes[collective]), collective


@pytest.mark.parametrize("one", EVERY, ids=NAMES)
def test_the_usual_call_is_measured_everywhere(one: Measured) -> None:
    """The default is right in the tidy mode, and all algorithms were tried in it."""
    for collective, kinds in one.outcomes.items():
        assert {"tidy", "communicators"} <= set(one.modes[collective])
        assert "tidy" not in kinds[DEFAULT_ALGORITHM]
        untried = {
            kind for kind, seen in kinds.items() if seen.get("tidy") is ProgramOutcome.NOT_MEASURED
        }
        assert untried <= (set() if 2 in one.processes else {"two_proc"})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_are_written_as_they_are_read(file: object) -> None:
    """Nothing in a file is lost between reading and writing it."""
    path = next(each for each in FILES if each == file)
    text = path.read_text(encoding="utf-8")
    assert text_of(parse(text, path.name)) == text


def test_each_file_of_outcomes_is_read() -> None:
    """No file in the folder is passed over for its name."""
    read = {f"{name.replace('--', '-')}.json" for name in NAMES}
    assert read == {file.name for file in FOLDER.iterdir()}


def test_outcomes_are_read_without_a_reader_of_toml() -> None:
    """A cold decision among measured algorithms loads neither that nor a catalogue."""
    code = (
        "import sys\n"
        "from colltune.domain import Configuration\n"
        "from colltune.mpi.programs import harms_of\n"
        "asked = Configuration.parse('openmpi.bcast.binomial:segsize=0')\n"
        "assert harms_of(asked, '5.0.11').is_known\n"
        "assert not {'tomllib', 'colltune.mpi.catalogue'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def known(library: str, release: str, configuration: str, mode: str) -> ProgramOutcome:
    """Return what is known of a configuration of a measured release."""
    one = next(each for each in measured(library) if each.release == release)
    return one.outcome(Configuration.parse(configuration), mode)


@pytest.mark.parametrize(
    ("release", "configuration", "mode"),
    [
        ("5.0.11", f"openmpi.bcast.{algorithm}", "mixed_types")
        for algorithm in (
            "chain:fanout=2,segsize=1024",
            "pipeline:segsize=1024",
            "binary_tree:segsize=1024",
            "binomial:segsize=1024",
            "knomial:segsize=1024",
            "scatter_allgather",
            "scatter_allgather_ring",
            "split_binary_tree:segsize=1024",
        )
    ]
    + [
        ("5.0.11", "openmpi.gather.linear_sync:segsize=1024", "mixed_types"),
        ("5.0.11", "openmpi.allreduce.ring", "non_commutative"),
        ("5.0.11", "openmpi.reduce_scatter.recursive_halving", "non_commutative"),
        ("5.0.11", "openmpi.allgather.sparbit", "in_place"),
        ("5.0.11", "openmpi.reduce_scatter.non-overlapping", "in_place"),
    ],
)
def test_what_breaks_users_programs_is_known(release: str, configuration: str, mode: str) -> None:
    """Faults that users met stand in the outcomes."""
    assert known("openmpi", release, configuration, mode) not in (
        ProgramOutcome.RIGHT,
        ProgramOutcome.NOT_MEASURED,
    )


def test_an_algorithm_that_nobody_measured_is_not_said_to_be_right() -> None:
    """Neither an unknown algorithm nor an unknown mode is right."""
    one = EVERY[0]
    configuration = Configuration.parse(f"{one.library}.bcast.no_such_algorithm")
    assert one.outcome(configuration, "tidy") is ProgramOutcome.NOT_MEASURED
    default = Configuration.default(one.library, Collective.BCAST)
    assert one.outcome(default, "no_such_mode") is ProgramOutcome.NOT_MEASURED


def test_only_promises_leave_modes_out() -> None:
    """Types that differ between ranks are the one thing that same-types leaves out."""
    assert [mode.name for mode in MODES.values() if mode.left_out_by == SAME] == ["mixed_types"]


OUTCOMES = st.dictionaries(
    st.sampled_from(sorted(MODES)), st.sampled_from(ProgramOutcome), max_size=3
)


@given(
    st.dictionaries(
        st.sampled_from(Collective),
        st.dictionaries(st.text("abc_12 ", min_size=1), OUTCOMES, max_size=3),
        max_size=3,
    ),
    st.sampled_from(["", "openmpi"]),
)
def test_outcomes_survive_writing(
    outcomes: dict[Collective, dict[str, dict[str, ProgramOutcome]]], over: str
) -> None:
    """Whatever was measured is read as it was written."""
    modes = {collective: tuple(MODES) for collective in outcomes}
    one = Measured("mpich", "5.0.2", (2, 3), 17, modes, outcomes, over)
    assert parse(text_of(one), "a file") == one


@pytest.mark.parametrize("text", ["", '{"library": "mpich"}', "[]", "no json"])
def test_other_files_are_refused(text: str) -> None:
    """What is no file of outcomes is an error that names it."""
    with refused("not-measured-outcomes", LibraryError, file="here.json"):
        parse(text, "here.json")
