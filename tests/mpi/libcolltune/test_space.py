"""The algorithms of libcolltune as configurations."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.in_effect import of_environment
from colltune.mpi.libcolltune import assignment
from colltune.mpi.libcolltune.library import WithLibcolltune, with_libcolltune
from colltune.mpi.libcolltune.space import ALGORITHMS, LIBCOLLTUNE
from colltune.mpi.programs import ANY_LEGAL
from colltune.mpi.release import MpiLibrary
from colltune.mpi.running import Promises, Refusal
from tests.refusals import refused

OPENMPI = with_libcolltune(LIBRARIES["openmpi"])
RELEASE = "5.0.11"


def _parsed(text: str) -> Configuration:
    return Configuration.parse(f"colltune.{text}")


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_stays_what_it_is(name: str) -> None:
    """Preloaded, nothing is forgotten of what holds for it, such as whether a machine decides."""
    mpi, both = LIBRARIES[name], with_libcolltune(LIBRARIES[name])
    kept = MpiLibrary.__annotations__.keys() - {"space"}
    differs = {each for each in kept if getattr(mpi, each) != getattr(both, each)}
    assert differs == {"formats", "user_patterns"}
    assert set(mpi.user_patterns.deciding) < set(both.user_patterns.deciding)
    its_own = {each for each in vars(type(mpi)) if each in vars(MpiLibrary) and each[:1] != "_"}
    asked = its_own - {"preferred", *vars(WithLibcolltune)}
    assert asked <= set(MpiLibrary.__annotations__)


def test_every_parameter_is_written_out() -> None:
    """The one spelling has all parameters, with the values that the C side takes where none is."""
    spelled = LIBCOLLTUNE.canonical(_parsed("bcast.hierarchical:inner=pipeline"))
    assert spelled.id == (
        "colltune.bcast.hierarchical:groups=0,inner=pipeline,outer=same,segsize=32768"
    )
    assert LIBCOLLTUNE.canonical(spelled) == spelled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bcast.ring", "no-algorithm known=hierarchical"),
        ("barrier.tree", "no-algorithm known=none"),
        ("bcast.hierarchical:fanout=2", "no-parameter parameter=fanout"),
        ("bcast.hierarchical:inner=ring", "wrong-parameter"),
        ("bcast.hierarchical:inner=3", "wrong-parameter"),
        ("bcast.hierarchical:groups=few", "wrong-parameter"),
        ("bcast.hierarchical:groups=-1", "wrong-parameter"),
        ("allgather.hierarchical:leaders=65", "wrong-parameter"),
        ("allreduce.doubling:leaders=1", "no-parameter parameter=leaders known=none"),
    ],
)
def test_what_it_does_not_have_is_refused(text: str, said: str) -> None:
    """An unknown algorithm, parameter or value is an error that tells what there is."""
    with refused(said, LibraryError):
        LIBCOLLTUNE.canonical(_parsed(text))


@pytest.mark.parametrize(
    ("given", "nprocs", "runs_as"),
    [
        ("groups=4,inner=binomial", 16, "groups=0,inner=binomial"),
        ("groups=8,inner=binomial", 16, "groups=8,inner=binomial"),
        ("groups=16,inner=binomial", 16, "groups=1,inner=binomial"),
        ("groups=64,inner=chain,outer=flat", 16, "groups=1,inner=flat"),
        ("groups=1,inner=chain,outer=flat", 16, "groups=1,inner=chain"),
        ("groups=2,inner=chain,outer=chain", 16, "groups=2,inner=chain"),
        ("groups=2,inner=chain,segsize=8192", 16, "groups=2,inner=chain"),
        ("groups=2,inner=chain,outer=pipeline,segsize=8192", 16, ""),
    ],
)
def test_what_runs_in_the_same_way_is_one_configuration(
    given: str, nprocs: int, runs_as: str
) -> None:
    """Groups of one or of all, sqrt(p) of them, and idle segments have one plainest spelling."""
    wanted = LIBCOLLTUNE.canonical(_parsed(f"bcast.hierarchical:{runs_as or given}"))
    assert LIBCOLLTUNE.effective(_parsed(f"bcast.hierarchical:{given}"), nprocs) == wanted
    assert LIBCOLLTUNE.effective(wanted, nprocs) == wanted


def test_leaders_need_nodes_and_processes() -> None:
    """On one node, and for more leaders than processes, only the plainest runs as itself."""
    plain = _parsed("allgather.hierarchical")
    doubling = _parsed("allgather.hierarchical:exchange=recursive_doubling")
    four = _parsed("allreduce.ring:leaders=4")
    assert not LIBCOLLTUNE.limit_on(plain, Shape(1, 8))
    assert "within a node" in LIBCOLLTUNE.limit_on(doubling, Shape(1, 8))
    assert not LIBCOLLTUNE.limit_on(doubling, Shape(2, 2))
    assert "4 leaders" in LIBCOLLTUNE.limit_on(four, Shape(2, 2))
    assert not LIBCOLLTUNE.limit_on(four, Shape(2, 4))


def test_doubling_is_for_one_node() -> None:
    """Between nodes the library reduces, and so nothing chooses doubling there."""
    doubling = _parsed("allreduce.doubling")
    release = OPENMPI.at(RELEASE)
    assert LIBCOLLTUNE.canonical(doubling).id == "colltune.allreduce.doubling"
    assert doubling in LIBCOLLTUNE.offered(Collective.ALLREDUCE)
    assert not release.runs(doubling, Shape(1, 8)).refusal
    assert release.runs(doubling, Shape(2, 4)).refusal is Refusal.WRONG_SHAPE


@pytest.mark.parametrize("collective", dict.fromkeys(a.collective for a in ALGORITHMS))
def test_all_that_is_offered_is_spelled_well(collective: Collective) -> None:
    """Offered configurations are canonical, differ, and end the portfolio of any library."""
    offered = LIBCOLLTUNE.offered(collective)
    assert offered
    assert len(set(offered)) == len(offered) < 64
    assert [LIBCOLLTUNE.canonical(c) for c in offered] == list(offered)
    for mpi in LIBRARIES.values():
        both = with_libcolltune(mpi).at(mpi.current).portfolio(collective)
        alone = mpi.at(mpi.current).portfolio(collective)
        assert both.configurations == (*alone.configurations, *offered)


def test_the_librarys_own_decision_is_not_offered_again() -> None:
    """The library's broadcast in one group would be its default under another name."""
    offered = LIBCOLLTUNE.offered(Collective.BCAST)
    assert not [c for c in offered if c.matches("*groups=1,inner=library*")]


def test_either_is_asked_about_its_own() -> None:
    """Questions about libcolltune's algorithms never reach the library, all others do."""
    ours, theirs = _parsed("bcast.hierarchical"), Configuration.parse("openmpi.bcast.binomial")
    assert OPENMPI.at(RELEASE).canonical(ours) == LIBCOLLTUNE.canonical(ours)
    assert OPENMPI.at(RELEASE).canonical(theirs) == OPENMPI.mpi.at(RELEASE).canonical(theirs)
    assert OPENMPI.at(RELEASE).runs(ours, 7).first_bytes == 0
    assert not OPENMPI.at(RELEASE).runs(ours, 7).why_not(0)
    assert not OPENMPI.at(RELEASE).runs(ours, promises=Promises(ANY_LEGAL)).refusal
    spelled = LIBCOLLTUNE.canonical(ours).id
    assert OPENMPI.at(RELEASE).force(ours) == {"colltune.bcast": spelled}
    assert OPENMPI.at(RELEASE).forced_environment(ours) == {"COLLTUNE_FORCE": spelled}
    assert OPENMPI.at(RELEASE).expected_symbols(ours) == {spelled}
    assert OPENMPI.at(RELEASE).force(theirs) == OPENMPI.mpi.at(RELEASE).force(theirs)
    with refused("of-another-library", LibraryError, library="openmpi"):
        OPENMPI.mpi.at(RELEASE).canonical(ours)


def test_all_can_be_told_at_run_time() -> None:
    """libcolltune's algorithms are switched within a launch even where the library's cannot be."""
    for mpi in LIBRARIES.values():
        release = with_libcolltune(mpi).at(mpi.current)
        assert release.settable_at_runtime(_parsed("bcast.hierarchical")), mpi.name


def test_a_table_of_the_users_own_wins() -> None:
    """Who names a table, rules or a configuration himself is left alone."""
    ours = {"LD_PRELOAD": "/x/libcolltune.so", "COLLTUNE_TABLE": "/site/table"}
    assert not OPENMPI.user_overrides(ours, of_environment({})).reason
    assert not OPENMPI.user_overrides(
        ours, of_environment({"COLLTUNE_TABLE": "/site/table"})
    ).reason
    for name in ("COLLTUNE_TABLE", "COLLTUNE_RULES", "COLLTUNE_FORCE"):
        found = OPENMPI.user_overrides(ours, of_environment({name: "mine"}))
        assert name in found.reason
        assert not found.environment
    assert OPENMPI.user_overrides(
        ours, of_environment({"OMPI_MCA_coll_tuned_bcast_algorithm": "1"})
    ).reason


def test_what_the_user_preloads_goes_first() -> None:
    """The library is added behind what is preloaded already; other variables stay plain."""
    assert assignment("LD_PRELOAD", "/a b/lib.so") == (
        "LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}\"'/a b/lib.so'"
    )
    assert assignment("COLLTUNE_TABLE", "/t") == "COLLTUNE_TABLE=/t"
