"""The paragraph that a report begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from colltune.dataset import PerformanceDataset
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Context, Shape
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.report.figures import figures
from colltune.report.summary import summary
from tests.models.machines import NODES, PPN, configuration, measured

BCAST = Collective.BCAST
DEFAULT = Configuration.default("openmpi", BCAST)
WON = Confirmation(
    BCAST, Shape(4, 1), 0, None, Status.CONFIRMED, configuration("binomial"),
    configuration("binomial"), 1.5, 1.2, 2.0, 2, "2026-11-22T10:00:00+00:00",
)  # fmt: skip
LOST = replace(WON, status=Status.WITHDRAWN, configuration=DEFAULT, gain=0.9, lower=0.8, upper=1.0)


def _fitted(data: PerformanceDataset) -> Bundle:
    return fit(data, "knn", jobs=1)


def _named(frame_of: dict[str, str], **grid: object) -> Bundle:
    """Return a bundle whose algorithms have other names."""
    data = measured(**grid)  # type: ignore[arg-type]
    return _fitted(replace(data, frame=data.frame.replace({"algorithm": frame_of})))


def _elsewhere(library: str) -> Bundle:
    return _fitted(replace(measured(), context=Context("k", library, "1.0", "tofu")))


def _all(record: Confirmation) -> Bundle:
    """Return a bundle with `record` for every shape."""
    shapes = [Shape(n, p) for n in NODES for p in PPN]
    return _fitted(measured()).with_confirmations([replace(record, shape=s) for s in shapes])


def _launched(name: str) -> PerformanceDataset:
    data = measured()
    return replace(data, frame=data.frame.assign(launch=name))


@dataclass(frozen=True)
class Case:
    """A bundle, the data given with it, and what the paragraph says and does not say."""

    bundle: Callable[[], Bundle]
    data: Callable[[], PerformanceDataset] | None = None
    held_out: bool = False
    told: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()


PREDICTED = lambda: _fitted(measured())  # noqa: E731
CASES = {
    "nothing confirmed, no data": Case(
        PREDICTED,
        told=(
            "1 collective of made-up, openmpi 4.1.4, on 8 shapes (nodes x processes per node) from"
            " 2x1 to 16x4, with messages of 1 B to 4 MiB.",
            "it would tell launches and days",
            "of 48 decisions",
            "Nothing is confirmed yet",
            "Only predicted: ",
            "Held out when it was fitted: 48 decisions reached",
            "Next: Run `colltune confirm`",
        ),
        untold=("Confirmed:", "in-sample", "one node"),
    ),
    "in-sample data": Case(
        PREDICTED,
        measured,
        told=("192 rows from 1 launch on days that they do not tell.", "are in-sample"),
        untold=("Held-out decisions, on",),
    ),
    "data of other shapes": Case(
        lambda: _fitted(measured(nodes=(2, 4))),
        lambda: measured(nodes=(4, 8)),
        told=("decisions, on shapes that the bundle was not fitted to: 12 decisions gained",),
        untold=("in-sample", "when it was fitted: "),
    ),
    "held out": Case(
        PREDICTED,
        measured,
        held_out=True,
        told=(
            "on node counts left out of the fit, one at a time: 48 decisions gained",
            "of the times lie in the interval that promises 90%.",
        ),
        untold=("in-sample", "when it was fitted: "),
    ),
    "everything confirmed": Case(
        lambda: _all(WON),
        told=(
            "48 of 48 decisions",
            "Confirmed: 1.50x [1.20, 2.00] in 8 ranges of message sizes, for jobs on 2x1, 2x4, 4x1,"
            " 4x4 and 4 more",
            "Nothing rests on a prediction alone.",
            "Next: Deploy it",
        ),
        untold=("Only predicted", "Nothing is confirmed"),
    ),
    "one shape confirmed": Case(
        lambda: _fitted(measured()).with_confirmations([WON]),
        told=("Confirmed: 1.50x [1.20, 2.00] in 1 range", "for jobs on 4x1,", "Only predicted: ",
              "or run `colltune confirm` first"),
    ),
    "everything withdrawn": Case(
        lambda: _all(LOST),
        told=(
            "Nothing. All 48 decisions keep the library's default.",
            "8 ranges did not prove faster and keep the default.",
            "There is nothing to deploy.",
        ),
        untold=("Confirmed:", "Only predicted", "Nothing is confirmed", "Run `colltune confirm`"),
    ),
    "the default was not measured": Case(
        lambda: _fitted(measured(algorithms=("linear", "binomial"))),
        told=("For 48 decisions no gain is known", "Measure the algorithm `default` too"),
        untold=("Only predicted", "Confirmed:"),
    ),
    "the default alone": Case(
        lambda: _fitted(measured(algorithms=("default",))),
        told=("Nothing. All 48 decisions keep", "Nobody knows:"),
        untold=("Only predicted", "Run `colltune confirm`"),
    ),
    "one node": Case(
        lambda: _fitted(measured(nodes=(1,), ppn=(4,))),
        told=("on 1 shape (nodes x processes per node), 1x4, with", "says nothing of a network"),
    ),
    "libcolltune": Case(
        lambda: _named({"binomial": "colltune.binomial"}),
        told=("of them run algorithms of libcolltune, which `colltune env` preloads.",),
        untold=("coll/han",),
    ),
    "coll/han": Case(
        lambda: _named({"binomial": "han_intra"}),
        told=("of them set up coll/han, which works across nodes only.",),
        untold=("libcolltune",),
    ),
    "imported from another library": Case(
        lambda: _elsewhere("fjmpi"),
        told=("of k, fjmpi 1.0 over tofu", "colltune writes no files for fjmpi"),
        untold=("Run `colltune confirm`",),
    ),
    "launches with days": Case(
        PREDICTED,
        lambda: _launched("2025_03_26___19_49_06/2"),
        told=("192 rows from 1 launch on 2025-03-26.",),
    ),
    "launches without names": Case(
        PREDICTED, lambda: _launched(""), told=("192 rows from unnamed launches on days that",)
    ),
    "no size but 0": Case(lambda: _fitted(measured(msizes=(0,))), told=("with messages of 0 B.",)),
    "no evidence": Case(
        lambda: replace(_fitted(measured()), evidence={}),
        told=("Nobody knows: the bundle states no held-out decisions.",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_paragraph_says_what_holds_for_each_kind_of_bundle(case: Case) -> None:
    """It says what holds, nothing that does not, and keeps its five parts."""
    data = case.data() if case.data else None
    found = figures(case.bundle(), data, held_out=case.held_out, jobs=1)
    parts = summary(found)
    assert list(parts) == ["Measured", "What changes", "What it is worth", "How sure", "Next"]
    text = " ".join(f"{lead}: {told}" for lead, told in parts.items())
    assert [told for told in case.told if told not in text] == [], text
    assert [told for told in case.untold if told in text] == [], text
    assert "nan" not in text


def test_confirmed_and_predicted_gains_share_no_number() -> None:
    """A confirmed shape no longer counts among what is only predicted."""

    def predicted(bundle: Bundle) -> str:
        return summary(figures(bundle))["What it is worth"].partition("Only predicted: ")[2]

    bundle = _fitted(measured())
    count = int(predicted(bundle).partition(" changed")[0].split()[-1])
    less = int(predicted(bundle.with_confirmations([WON])).partition(" changed")[0].split()[-1])
    assert 0 < less < count
