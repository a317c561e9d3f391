"""What Open MPI runs for a call, from variables, rules and the communicator's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from colltune.domain import Collective, Configuration
from colltune.mpi.openmpi.decide import HanRules, decide
from colltune.mpi.openmpi.decide.han_calls import HanLevel, HanMatch
from colltune.mpi.openmpi.decide.tuned import counted_bytes
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.rules import Call, Numbers, Outcome, Rule, Rules
from tests.mpi.component_choices import STARTABLE, UNSTARTABLE

C = Collective
ACTIVE = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_dynamic_rules_filename": "/rules",
}
HAN_ACTIVE = ACTIVE | {
    "OMPI_MCA_coll_han_use_dynamic_file_rules": "1",
    "OMPI_MCA_coll_han_dynamic_rules_filename": "/rules.dispatch",
}


class _Undecided(Rules):
    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        raise NotImplementedError


@dataclass
class Says(_Undecided):
    """A rules file that says one thing to everybody."""

    numbers: Numbers
    source: str = "rules"
    dropped: str = ""

    def match(self, call: Call) -> tuple[Rule, str] | None:
        """Return the one rule."""
        return Rule(3, "0 1 0 0", call.collective, None, numbers=self.numbers), "rules:3 fits."


@dataclass
class Hands(_Undecided, HanRules):
    """A file of coll/han that names one component for everybody."""

    component: str
    algorithm: str = ""
    source: str = "rules.dispatch"
    dropped: str = ""

    def match_at(
        self, collective: Collective, level: HanLevel, comm_size: int, msize_bytes: int
    ) -> HanMatch | None:
        """Return the one rule."""
        rule = Rule(5, "0 tuned", collective, None)
        return HanMatch(rule, self.component, self.algorithm, "rules.dispatch:5 fits.")


def named(text: str) -> Configuration:
    """Return an Open MPI configuration."""
    return Configuration.parse(f"openmpi.{text}")


def test_a_rule_needs_both_variables() -> None:
    """Without the switch, or without the name, the built-in decision holds."""
    call = Call(C.BCAST, 4, 1000)
    for missing in ACTIVE:
        environment = {name: value for name, value in ACTIVE.items() if name != missing}
        found = decide("5.0.11", call, environment, Says(Numbers(3)))
        assert (found.configuration, found.rule) == (named("bcast.default"), None)
    found = decide("5.0.11", call, ACTIVE, Says(Numbers(3)))
    assert (found.configuration, found.component) == (named("bcast.pipeline:segsize=0"), "tuned")
    assert found.rule is not None


def test_file_and_forced_algorithm_have_an_order(subtests: pytest.Subtests) -> None:
    """4.1 asks the file first, 5.0 the forced variable; a rule of 0 leaves it to the latter."""
    for release, file, runs in (
        ("4.1.8", 3, "bcast.pipeline:segsize=0"),
        ("5.0.11", 3, "bcast.binomial:segsize=0"),
        ("4.1.8", 0, "bcast.binomial:segsize=0"),
        ("5.0.11", 0, "bcast.binomial:segsize=0"),
    ):
        with subtests.test(release=release, file=file, runs=runs):
            environment = ACTIVE | {"OMPI_MCA_coll_tuned_bcast_algorithm": "Binomial"}
            found = decide(release, Call(C.BCAST, 4, 1000), environment, Says(Numbers(file)))
            assert found.configuration == named(runs)
            assert found.chosen == named("bcast.pipeline:segsize=0" if file else "bcast.default")


def test_the_highest_priority_owns_communicators_that_span_nodes(subtests: pytest.Subtests) -> None:
    """From 5.0 on that is coll/han, unless variables say otherwise."""
    for environment, component in (
        ({}, "han"),
        ({"coll_han_priority": "0"}, "tuned"),
        ({"coll": "^han"}, "tuned"),
        ({"coll_tuned_priority": "100"}, "tuned"),
        ({"coll": "tuned,basic,libnbc,self,inter"}, "tuned"),
        ({"coll_hcoll_enable": "1"}, "hcoll"),
        ({"coll_ucc_enable": "1"}, "han"),
        ({"coll_ucc_enable": "1", "coll_ucc_priority": "100"}, "ucc"),
        ({"coll": "^tuned,han"}, "basic"),
        ({"coll_han_bcast_dynamic_global_communicator_module": "3"}, "tuned"),
    ):
        with subtests.test(environment=environment, component=component):
            variables = ACTIVE | {f"OMPI_MCA_{name}": value for name, value in environment.items()}
            found = decide("5.0.11", Call(C.BCAST, 6, 100, nodes=3), variables, Says(Numbers(3)))
            assert found.component == component
            assert found.chosen == named("bcast.pipeline:segsize=0")
            assert found.configuration.is_default == (component != "tuned")


def test_without_the_basic_components_no_program_starts(subtests: pytest.Subtests) -> None:
    """Some collectives have no other component; names that are unknown are refused."""
    for name, value in UNSTARTABLE:
        with subtests.test(name=name, value=value):
            found = decide(
                "5.0.11", Call(C.BCAST, 4, 100), ACTIVE | {name: value}, Says(Numbers(3))
            )
            assert "MPI_Init fails" in found.ends_program


def test_other_choices_of_components_start(subtests: pytest.Subtests) -> None:
    """A component that is left out, or not there to be left out, is no harm."""
    for name, value in STARTABLE:
        with subtests.test(name=name, value=value):
            found = decide(
                "5.0.11", Call(C.BCAST, 4, 100), ACTIVE | {name: value}, Says(Numbers(3))
            )
            assert not found.ends_program


def test_one_process_is_served_by_self_or_basic(subtests: pytest.Subtests) -> None:
    """No rule has a say there; coll/self has no reduce_scatter_block."""
    for collective, environment, component in (
        (C.BCAST, {}, "self"),
        (C.REDUCE_SCATTER_BLOCK, {}, "basic"),
        (C.SCAN, {}, "self"),
        (C.SCAN, {"coll_basic_priority": "95"}, "basic"),
        (C.REDUCE_SCATTER, {"coll_basic_priority": "95"}, "basic"),
        (C.REDUCE_SCATTER, {"coll_basic_priority": "75"}, "self"),
        (C.BCAST, {"coll_basic_priority": "200", "coll_self_priority": "150"}, "self"),
        (C.BCAST, {"coll_adapt_priority": "99", "coll_sm_priority": "99"}, "self"),
        (C.REDUCE, {"coll": "^self"}, "basic"),
    ):
        with subtests.test(collective=collective, environment=environment, component=component):
            variables = ACTIVE | {f"OMPI_MCA_{name}": value for name, value in environment.items()}
            found = decide("5.0.11", Call(collective, 1, 64), variables, Says(Numbers(1)))
            assert (found.component, found.rule) == (component, None)
            assert found.configuration.is_default
            assert not found.ends_program


def test_an_exscan_of_one_process_crashes_in_basic() -> None:
    """It sends to a process that is not there."""
    raised = ACTIVE | {"OMPI_MCA_coll_basic_priority": "95"}
    assert not decide("5.0.11", Call(C.EXSCAN, 1, 64), ACTIVE).ends_program
    assert not decide("5.0.11", Call(C.EXSCAN, 2, 64), raised).ends_program
    assert not decide("5.0.11", Call(C.EXSCAN, 1, 0), raised).ends_program
    assert "crashes" in decide("5.0.11", Call(C.EXSCAN, 1, 64), raised).ends_program


def test_adapt_hands_on_what_does_not_commute(subtests: pytest.Subtests) -> None:
    """The next component gets the reduce; coll/tuned then asks its rules."""
    for environment, component in (
        ({}, "tuned"),
        ({"coll_tuned_priority": "5"}, "basic"),
        ({"coll_sm_priority": "95"}, "sm"),
        ({"coll_sm_priority": "97", "coll_tuned_priority": "100"}, "tuned"),
    ):
        with subtests.test(environment=environment, component=component):
            raised = ACTIVE | {"OMPI_MCA_coll_adapt_priority": "96"}
            raised |= {f"OMPI_MCA_{name}": value for name, value in environment.items()}
            call = Call(C.REDUCE, 4, 64, commutative=False, builtin_operation=False)
            found = decide("5.0.11", call, raised, Says(Numbers(1)))
            assert found.component == component
            assert found.configuration.is_default == (component != "tuned")
            if "coll_tuned_priority" not in environment and component == "tuned":
                commuting = decide("5.0.11", Call(C.REDUCE, 4, 64), raised, Says(Numbers(1)))
                assert commuting.component == "adapt"


def test_equal_priorities_have_an_order(subtests: pytest.Subtests) -> None:
    """It is that of the builds that were seen, which the reason says."""
    for release, names, component in (
        ("4.1.8", "sm tuned", "tuned"),
        ("5.0.11", "sm tuned", "sm"),
        ("5.0.11", "adapt tuned", "tuned"),
        ("5.0.11", "adapt basic", "basic"),
        ("4.1.8", "sm basic", "sm"),
    ):
        with subtests.test(release=release, names=names, component=component):
            equal = {f"OMPI_MCA_coll_{name}_priority": "40" for name in names.split()}
            found = decide(release, Call(C.BCAST, 4, 64), ACTIVE | equal, Says(Numbers(1)))
            assert found.component == component
            assert "same priority" in found.reasons[0]


def test_a_call_without_data_runs_nothing(subtests: pytest.Subtests) -> None:
    """One sentence says so, and none that something runs; alltoallv knows no size and runs."""
    for number in (
        0,
        3,
        6,
        99,
    ):
        with subtests.test(number=number):
            found = decide("5.0.11", Call(C.BCAST, 4, 0), ACTIVE, Says(Numbers(number)))
            assert found.returns_at_once
            assert not found.ends_program
            assert not [reason for reason in found.reasons if "runs" in reason]
            assert "returns" in found.reasons[-1]
            without = decide("5.0.11", Call(C.ALLTOALLV, 4, 0), ACTIVE, Says(Numbers(2)))
            assert (without.returns_at_once, without.reasons[-1]) == (
                False,
                "Therefore pairwise runs.",
            )


def test_ignored_send_arguments_are_asked_for() -> None:
    """MPI_IN_PLACE lets Open MPI compare what the program may leave undefined."""
    call = Call(C.ALLTOALL, 4, 100, in_place=True)
    says = Says(Numbers(2))
    assert "--ignored-send-bytes" in " ".join(decide("5.0.11", call, ACTIVE, says).reasons)
    told = replace(call, ignored_send_bytes=100)
    assert "100 bytes per process" in " ".join(decide("5.0.11", told, ACTIVE, says).reasons)
    other = replace(call, collective=C.ALLREDUCE)
    assert "send arguments" not in " ".join(decide("5.0.11", other, ACTIVE, says).reasons)


def test_before_5_0_tuned_owns_everything() -> None:
    """In 4.1 coll/han has priority 0, until a user raises it."""
    call = Call(C.BCAST, 6, 100, nodes=3)
    assert decide("4.1.8", call, ACTIVE, Says(Numbers(3))).component == "tuned"
    raised = ACTIVE | {"OMPI_MCA_coll_han_priority": "100"}
    assert decide("4.1.8", call, raised, Says(Numbers(3))).component == "han"


def test_han_calls_parts_which_the_rules_reach() -> None:
    """The leaders of 3 nodes and the 2 processes of each node meet coll/tuned's rules."""
    found = decide("5.0.11", Call(C.BCAST, 6, 100000, nodes=3), ACTIVE, Says(Numbers(3)))
    assert [(c.comm_size, c.nodes, c.msize_bytes, o.component) for c, o in found.inner] == [
        (3, 3, 65536, "tuned"),
        (2, 1, 65536, "tuned"),
    ]
    assert {o.configuration for _, o in found.inner} == {named("bcast.pipeline:segsize=0")}


def test_han_hands_on_what_it_does_not_serve(subtests: pytest.Subtests) -> None:
    """One process per node, uneven nodes, operations that do not commute, other collectives."""
    for call, component, handed_on in (
        (Call(C.BCAST, 3, 8, nodes=3), "tuned", True),
        (Call(C.BCAST, 5, 8, nodes=3), "tuned", True),
        (Call(C.ALLREDUCE, 5, 8, nodes=3), "han", False),
        (Call(C.ALLREDUCE, 6, 8, nodes=3, commutative=False), "tuned", True),
        (Call(C.ALLTOALL, 6, 8, nodes=3), "tuned", False),
    ):
        with subtests.test(call=call, component=component):
            found = decide("5.0.11", call, ACTIVE, Says(Numbers(1)))
            assert (found.component, found.handed_on) == (component, handed_on)


def test_in_41_han_does_not_survive_an_allreduce_that_it_sends_away() -> None:
    """A component that has it crashes the program, one that has not leaves it to coll/tuned."""
    call = Call(C.ALLREDUCE, 6, 64, nodes=3)
    raised = HAN_ACTIVE | {"OMPI_MCA_coll_han_priority": "40"}
    for component, ends in (("tuned", True), ("basic", True), ("libnbc", False), ("han", False)):
        outcome = decide("4.1.8", call, raised, Says(Numbers(3)), Hands(component))
        assert bool(outcome.ends_program) is ends
        later = decide("5.0.11", call, raised, Says(Numbers(3)), Hands(component))
        assert not later.ends_program
    others = Call(C.BCAST, 6, 64, nodes=3)
    assert not decide("4.1.8", others, raised, Says(Numbers(3)), Hands("tuned")).ends_program
    sent = {"OMPI_MCA_coll_han_allreduce_dynamic_global_communicator_module": "3"}
    assert decide("4.1.8", call, {"OMPI_MCA_coll_han_priority": "40"} | sent).ends_program


def test_gather_is_simple_by_default_from_50_on() -> None:
    """4.1 runs coll/han's pipelined algorithm, like for the others."""
    raised = {"OMPI_MCA_coll_han_priority": "40"}
    for release, algorithm in (("4.1.8", "intra"), ("5.0.11", "simple")):
        reasons = decide(release, Call(C.GATHER, 6, 64, nodes=3), raised).reasons
        assert any(f"its {algorithm} algorithm" in reason for reason in reasons)


def test_the_rules_of_han_go_before_those_of_tuned() -> None:
    """They send a call to coll/tuned, whose rules then count, or keep it."""
    call = Call(C.BCAST, 6, 100, nodes=3)
    to_tuned = decide("5.0.11", call, HAN_ACTIVE, Says(Numbers(3)), Hands("tuned"))
    assert (to_tuned.component, to_tuned.configuration.algorithm) == ("tuned", "pipeline")
    kept = decide("5.0.11", call, HAN_ACTIVE, Says(Numbers(3)), Hands("han", "simple"))
    assert (kept.component, kept.chosen.is_default) == ("han", True)
    assert kept.rule is not None
    assert kept.rule.line == 5
    assert kept.inner[0][0].msize_bytes == 100


def test_an_algorithm_outside_its_limits_falls_back(subtests: pytest.Subtests) -> None:
    """The library silently runs another one, and what was chosen is still told."""
    for call, number, runs in (
        (Call(C.ALLGATHER, 6, 8), 3, "allgather.bruck"),
        (Call(C.ALLGATHER, 5, 8), 5, "allgather.ring"),
        (Call(C.BCAST, 8, 7), 8, "bcast.basic_linear"),
        (Call(C.BCAST, 8, 8), 8, "bcast.scatter_allgather"),
        (Call(C.BCAST, 8, 63, element_bytes=8), 9, "bcast.basic_linear"),
        (Call(C.ALLREDUCE, 8, 7), 4, "allreduce.recursive_doubling"),
        (Call(C.ALLREDUCE, 8, 4), 5, "allreduce.recursive_doubling"),
        (Call(C.ALLREDUCE, 8, 100), 5, "allreduce.ring"),
        (Call(C.ALLREDUCE, 6, 3), 6, "allreduce.basic_linear"),
        (Call(C.ALLREDUCE, 6, 4), 6, "allreduce.rabenseifner"),
        (Call(C.ALLREDUCE, 6, 400, commutative=False), 6, "allreduce.basic_linear"),
        (Call(C.REDUCE_SCATTER_BLOCK, 6, 4, commutative=False), 3, None),
        (Call(C.BCAST, 4, 1), 4, "bcast.chain:fanout=1,segsize=0"),
    ):
        with subtests.test(call=call, number=number, runs=runs):
            found = decide("5.0.11", call, ACTIVE, Says(Numbers(number)))
            assert found.configuration == named(runs or "reduce_scatter_block.basic_linear")
            entry = catalogue_of("5.0.11").collectives[call.collective]
            assert entry.named(found.chosen.algorithm) == entry.numbered(number)
            assert not found.ends_program


def test_what_ends_the_program(subtests: pytest.Subtests) -> None:
    """A two-process algorithm for more of them, and a number that does not exist."""
    for call, number, ends in (
        (Call(C.ALLTOALL, 3, 8), 5, True),
        (Call(C.ALLTOALL, 2, 8), 5, False),
        (Call(C.ALLTOALL, 3, 0), 5, False),
        (Call(C.BARRIER, 3, 0), 5, True),
        (Call(C.BCAST, 3, 8), 10, True),
    ):
        with subtests.test(call=call, number=number, ends=ends):
            assert bool(decide("4.1.8", call, ACTIVE, Says(Numbers(number))).ends_program) == ends


def test_requests_come_from_the_rule_or_from_one_variable() -> None:
    """A rule without a limit has that of alltoall's variable, even one for reduce."""
    limited = ACTIVE | {"OMPI_MCA_coll_tuned_alltoall_algorithm_max_requests": "4"}
    call = Call(C.REDUCE, 4, 100)
    for environment, requests, text in [
        (ACTIVE, None, "reduce.binomial:segsize=0"),
        (limited, None, "reduce.binomial:requests=4,segsize=0"),
        (limited, 0, "reduce.binomial:segsize=0"),
        (ACTIVE, 2, "reduce.binomial:requests=2,segsize=0"),
    ]:
        found = decide("5.0.11", call, environment, Says(Numbers(5, requests=requests)))
        assert found.configuration == named(text)


def test_what_a_rule_is_compared_with(subtests: pytest.Subtests) -> None:
    """Each collective counts in its own way; some forget the size in place."""
    for call, counted in (
        (Call(C.BCAST, 4, 100), 100),
        (Call(C.ALLGATHER, 4, 100), 400),
        (Call(C.ALLGATHER, 4, 100, in_place=True), 0),
        (Call(C.ALLGATHERV, 4, 100), 100),
        (Call(C.ALLGATHERV, 4, 100, in_place=True), 0),
        (Call(C.ALLGATHER, 4, 100, in_place=True, ignored_send_bytes=50), 200),
        (Call(C.ALLGATHERV, 4, 100, in_place=True, ignored_send_bytes=50), 50),
        (Call(C.ALLTOALL, 4, 100, in_place=True, ignored_send_bytes=50), 200),
        (Call(C.ALLTOALL, 4, 100, ignored_send_bytes=50), 400),
        (Call(C.ALLREDUCE, 4, 100, in_place=True), 100),
        (Call(C.ALLTOALLV, 4, 100), 0),
        (Call(C.SCAN, 4, 100, element_bytes=8), 32),
        (Call(C.REDUCE_SCATTER_BLOCK, 4, 100), 400),
    ):
        with subtests.test(call=call, counted=counted):
            assert (
                counted_bytes(catalogue_of("5.0.11").collectives[call.collective], call) == counted
            )


def test_a_forced_value_that_does_not_exist_is_ignored() -> None:
    """The library prints a help text and decides by itself."""
    for value in ("10", "nonsense", "-1"):
        environment = ACTIVE | {"OMPI_MCA_coll_tuned_bcast_algorithm": value}
        assert decide("5.0.11", Call(C.BCAST, 4, 8), environment).configuration.is_default


def test_forced_parameters_have_their_own_variables() -> None:
    """Bcast takes its number of chains from chain_fanout, 4 unless told."""
    environment = ACTIVE | {
        "OMPI_MCA_coll_tuned_bcast_algorithm": "2",
        "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "0x400",
    }
    call = Call(C.BCAST, 9, 10000)
    found = decide("4.1.8", call, environment)
    assert found.configuration == named("bcast.chain:fanout=4,segsize=1024")
    more = environment | {"OMPI_MCA_coll_tuned_bcast_algorithm_chain_fanout": "2"}
    found = decide("4.1.8", call, more)
    assert found.configuration == named("bcast.chain:fanout=2,segsize=1024")


def test_reasons_are_sentences() -> None:
    """Every reason is a sentence, so that they make a paragraph."""
    for call in (Call(C.BCAST, 6, 9, nodes=3), Call(C.BCAST, 6, 9), Call(C.SCAN, 1, 1)):
        reasons = decide("5.0.11", call, ACTIVE, Says(Numbers(8))).reasons
        assert reasons
        for reason in reasons:
            assert reason.endswith(".")
            assert reason[0].isupper() or reason.startswith(("coll/", "rules:", "scatter_"))
