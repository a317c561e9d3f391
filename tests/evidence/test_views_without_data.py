"""What is shown of nothing, one launch and one job is never "no difference"."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from colltune.cli import confirm, status
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.evidence.launches import LaunchGain, Noise, Sums
from colltune.page.file import production_file
from colltune.production.judgement import ProductionVerdict, SavedNodeHours
from colltune.production.status import status_of
from colltune.selector.confirming import Cell, ContestedInstance, confirmations, judge
from colltune.text import printed
from colltune.verify.gains import Gain, regressions
from tests.page.reading import facts_of
from tests.production.judged import EVENTS, JUDGEMENT, SETTINGS, finding

INSTANCE = Instance(Collective.BCAST, Shape(2, 2), 64)
CHAIN = Configuration("openmpi", Collective.BCAST, "chain")
DEFAULT = Configuration.default("openmpi", Collective.BCAST)
CONTEST = ContestedInstance(INSTANCE, DEFAULT, (CHAIN,), 0, 127, 1.2, 1e-5)
TIMES = st.lists(st.sampled_from([math.nan, math.inf, 0.0, 1e-5, 2.3e-5, 1.7e-3]), max_size=6).map(
    tuple
)
LAUNCHES = st.dictionaries(st.sampled_from(["a"]), TIMES, max_size=1)
INTERVAL = re.compile(r"\d[^\d]+ (to|\.\.) \d|\[\d")


@given(LAUNCHES, LAUNCHES)
def test_a_single_launch_is_shown_without_an_interval(
    default: dict[str, tuple[float, ...]], other: dict[str, tuple[float, ...]]
) -> None:
    """Neither is it confirmed: in the table, in JSON, and in the record of the bundle."""
    times: dict[Cell, dict[str, tuple[float, ...]]] = {
        (DEFAULT, INSTANCE): default,
        (CHAIN, INSTANCE): other,
    }
    (judged,) = judge([CONTEST], times)
    assert judged.status is not Status.CONFIRMED
    if judged.gain is not None:
        told = json.loads(json.dumps(printed(judged.gain), allow_nan=False))
        assert told["lower"] is told["upper"] is None
        assert told["launches"] == 1
    assert not INTERVAL.search(str(confirm._row(judged)[5]))
    for record in confirmations([judged], "2026-11-22T10:00:00+00:00"):
        assert (record.lower, record.upper) == (None, None)
        assert not INTERVAL.search(record.reason)
        assert "lower" in json.loads(json.dumps(record.as_json()))


@given(st.floats(-2, 2), st.floats(0.01, 1.0))
def test_a_single_pair_is_no_regression(log: float, sd: float) -> None:
    """However slow the file was in it."""
    told = Sums.of([LaunchGain(log, math.nan, 1)])
    assert told is not None
    gain = Gain(told, Noise(sd, 4.0))
    assert (gain.lower, gain.upper, gain.interval()) == (None, None, None)
    assert regressions({INSTANCE: gain}) == regressions({}) == frozenset()


def test_decisions_that_were_not_compared_are_not_shown_as_level() -> None:
    """Page, table and JSON say how many there are, and give none a factor."""
    compared = replace(JUDGEMENT, findings=(), collectives={})
    verdicts = (
        ProductionVerdict.NOT_COMPARED,
        ProductionVerdict.OPEN,
        ProductionVerdict.PROVEN,
        ProductionVerdict.REFUTED,
    )
    found = tuple(
        replace(finding(verdict, 1.0), gain=None, lower=None, upper=None) for verdict in verdicts
    )
    texts = []
    for judgement in (compared, replace(compared, findings=found)):
        told = status_of(judgement, SETTINGS, EVENTS, "hydra")
        assert (told.proven, told.refuted) == ((), ())
        lines = "\n".join(map(str, status._lines(told)))
        texts += [lines, str(facts_of(production_file(told, EVENTS)))]
    for text in texts:
        assert "1.00x" not in text
        assert not re.search(r"\b1\.00 \(", text)
    counted = status_of(replace(compared, not_compared=1), SETTINGS, (), "hydra")
    assert counted.not_compared_count == 1


def test_before_any_job_nothing_is_shown_to_be_saved() -> None:
    """Not 0 node-hours, which would be a figure."""
    for judgement in (None, replace(JUDGEMENT, saved=SavedNodeHours(0.0, 0.0, 0.0))):
        assert status_of(judgement, SETTINGS, EVENTS, "hydra").saved is None
