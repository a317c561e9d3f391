"""Setups of coll/han: their one spelling, how they are forced, where they run, job files."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.han.writing import job_files
from colltune.mpi.programs import ANY_LEGAL
from colltune.mpi.running import Promises, Refusal
from tests.refusals import refused

RELEASE = "5.0.11"
MPI = LIBRARIES["openmpi"]
PLAIN = Configuration.parse("openmpi.bcast.han_intra")
ADAPT = Configuration.parse(
    "openmpi.allreduce.han_intra:ibalg=linear,ibs=0,iralg=binary,irs=8192,low=sm,segsize=65536,up=adapt"
)


def test_defaults_are_the_librarys_own() -> None:
    """What is not given is what the release uses then; 6.x has larger segments and coll/xhc."""
    assert MPI.at(RELEASE).canonical(PLAIN).parameter_text == "low=tuned,segsize=65536,up=libnbc"
    adapt = Configuration.parse("openmpi.allreduce.han_intra:low=xhc,up=adapt")
    assert MPI.at("6.0.0").canonical(adapt).parameter_text == (
        "ibalg=binomial,ibs=0,iralg=binomial,irs=163740,low=xhc,segsize=524288,up=adapt"
    )


def test_wrong_setups_are_refused(subtests: pytest.Subtests) -> None:
    """Unknown modules, and parameters that a module does not have, are told."""
    for text, release, message in (
        ("bcast.han_intra:up=tuned", RELEASE, "not-one-of-known name=up"),
        ("bcast.han_intra:low=xhc", RELEASE, "not-one-of-known name=low"),
        ("bcast.han_intra:ibalg=linear", RELEASE, "no-parameter-with-up up=libnbc parameter=ibalg"),
        (
            "bcast.han_intra:iralg=linear,up=adapt",
            RELEASE,
            "no-parameter-with-up up=adapt parameter=iralg",
        ),
        ("bcast.han_intra:segsize=-1", RELEASE, "parameter-out-of-bounds name=segsize"),
        ("bcast.han_intra", "4.1.8", "no-such-setup"),
    ):
        with subtests.test(text=text), refused(message, LibraryError):
            MPI.at(release).canonical(Configuration.parse(f"openmpi.{text}"))


def test_modules_are_chosen_at_the_start_by_number() -> None:
    """A name would be taken for a number past the end of the library's table; the rest is live."""
    assert MPI.at(RELEASE).launch_environment(ADAPT) == {
        "OMPI_MCA_coll_han_allreduce_up_module": "1",
        "OMPI_MCA_coll_han_allreduce_low_module": "1",
    }
    assert MPI.at(RELEASE).launch_environment(PLAIN) == {}
    assert not MPI.at(RELEASE).settable_at_runtime(PLAIN)
    assert not MPI.at(RELEASE).settable_at_runtime(ADAPT)
    assert MPI.at(RELEASE).force(ADAPT) == {
        "coll_tuned_allreduce_algorithm": 0,
        "coll_han_priority": 35,
        "coll_han_use_allreduce_algorithm": "intra",
        "coll_han_allreduce_segsize": 65536,
        "coll_adapt_bcast_algorithm": 6,
        "coll_adapt_bcast_segment_size": 0,
        "coll_adapt_reduce_algorithm": 3,
        "coll_adapt_reduce_segment_size": 8192,
    }
    forced = MPI.at(RELEASE).forced_environment(ADAPT)
    assert forced["OMPI_MCA_coll_han_allreduce_up_module"] == "1"
    assert forced["OMPI_MCA_coll_adapt_bcast_algorithm"] == "6"


def test_setups_that_run_alike_are_one() -> None:
    """A segment that holds the message, or coll/adapt's own that holds a segment, cuts nothing."""
    values = dict(MPI.at(RELEASE).effective(ADAPT, 8, 65536).parameters)
    assert (values["segsize"], values["irs"]) == (0, 8192)
    assert MPI.at(RELEASE).effective(ADAPT, 8, 65540) == ADAPT
    assert dict(MPI.at(RELEASE).effective(ADAPT, 8, 4096).parameters)["irs"] == 0


def test_they_need_several_processes_on_several_nodes() -> None:
    """Elsewhere coll/han hands calls on, and a campaign does not measure it under that name."""
    assert not MPI.at(RELEASE).runs(PLAIN, 4).why_not(0)
    assert MPI.at(RELEASE).runs(PLAIN, 4).first_bytes == 0
    assert "needs 4 processes or more" in MPI.at(RELEASE).runs(PLAIN, 3).why_not(8)
    assert MPI.at(RELEASE).runs(PLAIN, 3).first_bytes is None
    for shape in (Shape(1, 8), Shape(8, 1)):
        assert MPI.at(RELEASE).runs(PLAIN, shape).refusal is Refusal.WRONG_SHAPE
    assert MPI.at(RELEASE).runs(PLAIN, Shape(2, 2)).refusal is None
    chain = Configuration.parse("openmpi.bcast.chain")
    assert MPI.at(RELEASE).runs(chain, Shape(1, 8)).refusal is None


def test_they_are_offered_where_han_is_on(subtests: pytest.Subtests) -> None:
    """All modules with the segment sizes asked for, beside coll/tuned's; none of 4.1."""
    for release, count in (
        ("4.1.8", 0),
        ("5.0.11", 8),
        ("6.0.0", 8),
    ):
        with subtests.test(release=release, count=count):
            for collective in MPI.catalogue_of(release).collectives:
                setups = MPI.at(release).job_wide_configurations(collective, (0, 4096))
                assert len(setups) == (count if collective in han_setups.COLLECTIVES else 0)
                assert [MPI.at(release).canonical(c) for c in setups] == list(setups)
                for setup in setups:
                    assert MPI.at(release).expected_symbols(setup) == {
                        f"mca_coll_han_{collective}_intra"
                    }
                    assert not MPI.at(release).runs(setup, promises=Promises(ANY_LEGAL)).refusal


def _table(*steps: tuple[int, Configuration]) -> DecisionTable:
    ends = [first - 1 for first, _ in steps[1:]] + [None]
    intervals = tuple(Interval(f, e, c) for (f, c), e in zip(steps, ends, strict=True))
    return DecisionTable("openmpi", Shape(4, 2), {(Collective.BCAST, 8): intervals})


DEFAULT = Configuration.default("openmpi", Collective.BCAST)
SETUP = Configuration.parse("openmpi.bcast.han_intra:low=sm,segsize=4096,up=libnbc")


def test_parameters_tell_a_setup_whole() -> None:
    """Where one setup holds for all messages, a file of parameters is enough."""
    written = FORMATS["openmpi-parameters"].write(_table((0, SETUP)), RELEASE)
    assert written.notes == ()
    assert written.text.splitlines()[3:] == [
        "--mca coll_han_priority 35",
        "--mca coll_han_use_bcast_algorithm intra",
        "--mca coll_han_bcast_segsize 4096",
        "--mca coll_han_bcast_low_module 1",
    ]


def test_rules_of_han_name_the_parameters_that_they_need() -> None:
    """The file says from which size on; segment size and modules are one set per job."""
    form = FORMATS["openmpi-han"]
    written = form.write(_table((0, DEFAULT), (8192, SETUP)), RELEASE)
    assert "8192 han @intra" in written.text
    (note,) = written.notes
    assert "--mca coll_han_bcast_segsize 4096 --mca coll_han_bcast_low_module 1" in note
    other = Configuration.parse("openmpi.bcast.han_intra:low=sm,segsize=8192,up=libnbc")
    several = form.write(_table((0, SETUP), (8192, other)), RELEASE)
    assert "@intra" not in several.text
    assert "one setup of coll/han, but the table has 2" in several.notes[0]


def test_files_by_message_size_cannot_name_a_setup(subtests: pytest.Subtests) -> None:
    """Nothing of it is chosen for a file that cannot say it."""
    for name, named in (
        ("openmpi-classic", False),
        ("openmpi-json", False),
        ("openmpi-table", False),
        ("openmpi-han", True),
        ("openmpi-parameters", True),
    ):
        with subtests.test(name=name, named=named):
            assert (not FORMATS[name].limit(RELEASE, SETUP)) is named
            chain = Configuration.parse("openmpi.bcast.chain:fanout=2,segsize=0")
            # a file for coll/han names components alone
            assert bool(FORMATS[name].limit(RELEASE, chain)) is (name == "openmpi-han")


def test_a_classic_file_leaves_a_setup_out() -> None:
    """A table that has one all the same is written without it, and the note tells."""
    written = FORMATS["openmpi-classic"].write(_table((0, SETUP)), RELEASE)
    assert "han_intra" in written.notes[0]


def test_a_job_gets_rules_and_parameters() -> None:
    """Golden: coll/han's pipelined algorithm for the job's size, and one setup per collective."""
    bcast = Configuration.parse(
        "openmpi.bcast.han_intra:ibalg=linear,ibs=0,low=tuned,segsize=4096,up=adapt"
    )
    setups = {Collective.BCAST: bcast, Collective.ALLREDUCE: ADAPT}
    files = job_files(RELEASE, Shape(4, 2), setups, Path("/etc/han.rules"))
    golden = Path(__file__).parents[1] / "golden" / "openmpi"
    assert files.rules == (golden / "han-job.rules").read_text()
    assert files.parameter_file == (golden / "han-job.tune").read_text()


def test_a_job_that_contradicts_itself_is_refused() -> None:
    """coll/adapt's broadcast is one for all collectives; relative paths differ by rank."""
    bcast = Configuration.parse("openmpi.bcast.han_intra:ibalg=binary,up=adapt")
    setups = {Collective.BCAST: bcast, Collective.ALLREDUCE: ADAPT}
    with refused("setups-contradict", LibraryError, name="coll_adapt_bcast_algorithm"):
        job_files(RELEASE, Shape(4, 2), setups, Path("/etc/han.rules"))
    with refused("path-not-absolute", LibraryError):
        job_files(RELEASE, Shape(4, 2), setups, Path("han.rules"))
