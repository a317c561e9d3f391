"""What became of a rule, from what was seen and what the release decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.mpi.in_effect import of_environment
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.programs import Results
from colltune.mpi.trace import Function
from colltune.verify import probe_calls
from colltune.verify.canary import VARYING, CallEnding, CallSeen
from colltune.verify.observing import Observer
from colltune.verify.probe_calls import JobLayout
from colltune.verify.rule_status import Assessment, Assessor, Evidence, JobSettings, RuleStatus
from tests.verify.fake_format import FakeFile, FakeFormat, dead_rules

RELEASE = "5.0.11"
PIPELINE = Function("ompi_coll_base_bcast_intra_pipeline", (4096, 4, 0, 0, 0, 0))
BINOMIAL = Function("ompi_coll_base_bcast_intra_binomial", (0, 0, 0, 0, 0, 0))
HAN = Function("mca_coll_han_bcast_intra")
OBSERVER = Observer("openmpi", RELEASE)
ONE_NODE, TWO_NODES = JobLayout((4,)), JobLayout((2, 2))


def _file(text: str) -> FakeFile:
    parsed = FakeFormat().parse(text, "my.rules", RELEASE)
    assert isinstance(parsed, FakeFile)
    return parsed


FILE = _file("fake\nbcast pipeline:segsize=4096\n")


def _judged(
    ran: Function | None,
    *,
    parsed: FakeFile = FILE,
    layout: JobLayout = ONE_NODE,
    user: dict[str, str] | None = None,
    ending: CallEnding = CallEnding.OK,
    observer: Observer = OBSERVER,
    activation: dict[str, str] | None = None,
) -> Assessment:
    """Return what becomes of the first rule where all its calls run `ran` and end so."""
    given = parsed.activation() if activation is None else activation
    settings = JobSettings.of(OPENMPI, of_environment(user or {}), given)
    search = probe_calls.find(parsed, layout, given, settings.environment)
    seen = CallSeen(ending, "", (ran,) if ran else ())
    without = CallSeen(CallEnding.OK, "", (BINOMIAL,))
    evidence = [Evidence(probe, seen, without) for probe in search.probes.get(0, ())]
    assess = Assessor(parsed, settings, observer, layout, search.complete, dead_rules(parsed))
    return assess.assess(parsed.rules[0], evidence)[0]


def test_what_the_rule_says_ran() -> None:
    """The algorithm and its segment size were seen: applied."""
    assert _judged(PIPELINE) == Assessment(RuleStatus.APPLIED, "", "pipeline:segsize=4096")


def test_another_segment_size_is_not_what_the_rule_says() -> None:
    """The right function with a wrong parameter is not enough."""
    other = PIPELINE._replace(words=(1024, 4, 0, 0, 0, 0))
    assessed = _judged(other)
    assert assessed.status is RuleStatus.OVERRIDDEN
    assert "segsize=1024 instead of 4096" in assessed.why


def test_a_variable_of_the_user_is_named() -> None:
    """Of all his settings, the one that makes the difference is blamed."""
    name = "OMPI_MCA_coll_tuned_bcast_algorithm"
    user = {
        name: "6",
        "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "0",
        "OMPI_MCA_coll_x": "1",
    }
    assessed = _judged(BINOMIAL, user=user)
    assert assessed.status is RuleStatus.OVERRIDDEN
    assert assessed.why.startswith(f"by {name}=6 (")
    assert "OMPI_MCA_coll_x" not in assessed.why


def test_something_unknown_is_told_as_such() -> None:
    """Where the settings explain nothing, what ran is told, and nobody is accused."""
    assessed = _judged(BINOMIAL)
    assert assessed == Assessment(
        RuleStatus.OVERRIDDEN, "by an unknown cause: binomial:segsize=0 ran", "binomial:segsize=0"
    )
    unseen = _judged(None)
    assert "none of the functions that can be traced ran" in unseen.why


def test_han_outranks_tuned_across_nodes() -> None:
    """On two nodes coll/han has the say unless it is turned off; within a node the rule applies."""
    activation = {n: v for n, v in FILE.activation().items() if "han" not in n}

    class Untold(FakeFile):
        """A file that leaves coll/han on."""

        def activation(self) -> dict[str, str]:
            return activation

    parsed = Untold(**{f: getattr(FILE, f) for f in ("release", "source", "rules")})
    assessed = _judged(HAN, parsed=parsed, layout=TWO_NODES)
    assert assessed.status is RuleStatus.OVERRIDDEN
    assert assessed.why.startswith("by coll/han: ")
    assert assessed.ran == "coll/han bcast_intra"


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (CallEnding.WRONG, "computes wrong numbers"),
        (CallEnding.REFUSED, "refuses the call"),
        (CallEnding.CRASH, "ends within the call"),
        (CallEnding.HANG, "does not return"),
    ],
)
def test_a_call_that_breaks_is_harmful(ending: CallEnding, text: str) -> None:
    """Whatever goes wrong with the file and not without it is told, with the call."""
    assessed = _judged(PIPELINE, ending=ending)
    assert assessed.status is RuleStatus.HARMFUL
    assert text in assessed.why
    assert assessed.why.startswith("bcast of ")


SUMMING = _file("fake\nallreduce ring\n")
RING = Function("ompi_coll_base_allreduce_intra_ring")


def _summed(
    bits: str, usual: str, results: Results, ending: CallEnding = CallEnding.OK
) -> RuleStatus:
    """Return what becomes of a rule of allreduce whose calls give these bits, and those without."""
    activation = SUMMING.activation()
    settings = JobSettings.of(OPENMPI, of_environment({}), activation)
    search = probe_calls.find(SUMMING, ONE_NODE, activation, settings.environment)
    seen, without = CallSeen(ending, "", (RING,), bits), CallSeen(CallEnding.OK, "", (), usual)
    evidence = [Evidence(probe, seen, without) for probe in search.probes[0]]
    assess = Assessor(SUMMING, settings, OBSERVER, ONE_NODE, results=results)
    return assess.assess(SUMMING.rules[0], evidence)[0].status


@pytest.mark.parametrize(
    ("bits", "usual", "results", "status"),
    [
        ("a", "a", Results.SAME_BITS, RuleStatus.APPLIED),
        ("a", "b", Results.SAME_BITS, RuleStatus.OTHER_BITS),
        (VARYING, "b", Results.SAME_BITS, RuleStatus.OTHER_BITS),
        ("a", VARYING, Results.SAME_BITS, RuleStatus.APPLIED),
        ("", "", Results.SAME_BITS, RuleStatus.APPLIED),
        ("a", "b", Results.RANKS_AGREE, RuleStatus.APPLIED),
        ("a", "b", Results.ANY, RuleStatus.APPLIED),
    ],
)
def test_bits_count_where_they_are_promised(
    bits: str, usual: str, results: Results, status: RuleStatus
) -> None:
    """Sums that are rounded otherwise break same-bits, unless the library varies by itself."""
    assert _summed(bits, usual, results) is status


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (Results.ANY, RuleStatus.APPLIED),
        (Results.RANKS_AGREE, RuleStatus.HARMFUL),
        (Results.SAME_BITS, RuleStatus.HARMFUL),
    ],
)
def test_ranks_that_disagree_are_harmful(results: Results, status: RuleStatus) -> None:
    """Unless any result will do."""
    assert _summed("", "b", results, CallEnding.DISAGREE) is status


def test_nothing_is_claimed_that_cannot_be_seen() -> None:
    """Without a tracer a rule that nothing speaks against is unobserved, with the reason."""
    blind = replace(OBSERVER, unavailable="no x86-64")
    assert _judged(None, observer=blind) == Assessment(RuleStatus.UNOBSERVED, "no x86-64")


def test_a_dropped_file_ignores_all_rules() -> None:
    """What the release drops is ignored for that reason, whatever ran."""
    dropped = replace(FILE, dropped="its first size is not 0")
    assessed = _judged(PIPELINE, parsed=dropped)
    assert assessed == Assessment(RuleStatus.IGNORED, "its first size is not 0")


def test_a_larger_communicator_is_out_of_reach() -> None:
    """A rule for more processes than the job has says how many it needs."""
    assessed = _judged(None, parsed=replace(FILE, least=16))
    assert assessed.status is RuleStatus.UNREACHABLE
    assert "needs a communicator of 16 processes" in assessed.why


def test_a_dead_rule_is_ignored_for_the_reason_that_the_lint_gives() -> None:
    """What nothing reaches is no matter of the job's size."""
    assessed = _judged(None, parsed=_file("fake\nreduce dead\n"))
    assert assessed == Assessment(RuleStatus.IGNORED, "nothing reaches it")


def test_a_rule_that_leaves_the_decision_runs_what_runs_without_it() -> None:
    """The default is applied if the same function ran in the launch without the file."""
    parsed = _file("fake\nbcast default\n")
    assert _judged(BINOMIAL, parsed=parsed).status is RuleStatus.APPLIED
    assessed = _judged(PIPELINE, parsed=parsed)
    assert assessed.status is RuleStatus.OVERRIDDEN
    assert "which runs binomial" in assessed.why
