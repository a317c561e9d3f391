"""Learning for a machine from measurements of other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.decisions import Selection
from colltune.domain import Collective, Instance, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle, load
from colltune.models.error_model import Agreement
from colltune.models.fitting import fit
from colltune.models.learners import LEARNERS, PREFERRED
from colltune.models.transfer import TRUST, fit_with_priors
from colltune.selector.argmin import ModelSelector
from tests.models.made_up_corpus import (
    MSIZES,
    NETWORKS,
    NODES,
    PPN,
    Network,
    all_times,
    context,
    corpus_of,
)
from tests.refusals import refused

OAK, ELM, ASH = NETWORKS
GRID = [Instance(Collective.BCAST, Shape(n, p), m) for n in NODES for p in PPN for m in MSIZES]


@pytest.fixture(scope="module", autouse=True)
def _few_trees() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few = "tests.models.made_up_corpus:few_trees"
        entry = replace(LEARNERS[PREFERRED], location=few, in_folds={})
        patch.setitem(LEARNERS, PREFERRED, entry)
        yield


def _few(seed: int) -> Callable[[Instance], bool]:
    """Return a choice of 5 % of the grid, complete rows of it."""
    rows = np.random.default_rng(seed).permutation(len(GRID))[: round(0.05 * len(GRID))]
    chosen = {GRID[row] for row in rows.tolist()}
    return lambda instance: instance in chosen


def _log_gains(bundle: Bundle, network: Network) -> np.typing.NDArray[np.float64]:
    """Return log(t_default / t_selected) on the whole grid, without scatter."""
    gains = []
    for selection in _selections(bundle):
        instance = selection.instance
        times = all_times(network, instance.shape.nprocs, instance.msize_bytes)
        gains.append(np.log(times["default"] / times[selection.configuration.algorithm]))
    return np.array(gains)


def _selections(bundle: Bundle) -> list[Selection]:
    return ModelSelector(bundle).select_many(GRID)


_fit = partial(fit_with_priors, jobs=1)


@cache
def _never_measured() -> Bundle:
    return _fit(None, [corpus_of(ELM), corpus_of(ASH)], context(OAK))


@cache
def _gain_of_few(seed: int) -> float:
    """Return the mean log gain with 5 % of the grid and no prior."""
    return float(_log_gains(fit(_own(seed), PREFERRED, jobs=1), OAK).mean())


def _own(seed: int) -> PerformanceDataset:
    return corpus_of(OAK, keep=_few(seed))


def test_a_machine_that_was_never_measured_gains_without_harm() -> None:
    """Other machines' data alone give more than half of what can be gained, and hardly harm."""
    gains = _log_gains(_never_measured(), OAK)
    best = []
    for instance in GRID:
        times = all_times(OAK, instance.shape.nprocs, instance.msize_bytes)
        best.append(np.log(times["default"] / min(times.values())))
    assert gains.mean() > 0.5 * np.mean(best)
    assert (gains < -np.log(1.05)).mean() <= 0.03


def test_selections_for_such_a_machine_say_so() -> None:
    """Nothing measured here: all selections are extrapolated and name the reason."""
    bundle = _never_measured()
    assert bundle.context == context(OAK)
    assert bundle.training_shapes == ()
    assert bundle.evidence["transfer"]["measured_here"] is False
    for selection in _selections(bundle):
        assert selection.extrapolated
        assert selection.reason.endswith("; judged by other machines' measurements")


def test_gains_that_may_be_another_machines_alone_are_not_followed() -> None:
    """Nothing measured here: a gain is doubted by 20 % at least, and not where it was measured."""
    asked = [32, 32], [1, 1], [64, 1 << 20]
    for own, least in ((None, 1.2), (corpus_of(OAK), 1.0)):
        bundle = _fit(own, [corpus_of(ELM), corpus_of(ASH)], context(OAK))
        doubt = bundle.model(Collective.BCAST).forecast(*asked).doubt
        assert doubt.min() == pytest.approx(np.log(least))


def test_the_priors_provenance_stands_in_the_bundle() -> None:
    """Contexts, digests, shapes and counts of the priors are the bundle's evidence."""
    facts = _never_measured().evidence["transfer"]["priors"]
    assert [f["context"]["machine"] for f in facts] == ["elm", "ash"]
    assert [f["measurements"] for f in facts] == [len(GRID) * 5] * 2
    assert facts[0]["shapes"] == [[n, p] for n in NODES for p in PPN]
    assert len({f["sha256"] for f in facts}) == 2


def test_a_saved_bundle_still_knows_what_was_not_measured_here(tmp_path: Path) -> None:
    """Selections are the same after saving and reading."""
    bundle = _never_measured()
    again = load(bundle.save(tmp_path / "b"))
    assert again.evidence == bundle.evidence
    assert _selections(again) == _selections(bundle)


def test_few_measurements_are_worth_more_with_priors() -> None:
    """With 5 % of the grid measured, priors raise the mean gain over three draws by 10 %."""
    priors = [corpus_of(ELM), corpus_of(ASH)]
    seeds = range(3)
    with_priors = [_log_gains(_fit(_own(seed), priors, context(OAK)), OAK).mean() for seed in seeds]
    without = [_gain_of_few(seed) for seed in seeds]
    assert np.mean(with_priors) > np.mean(without) + 0.1


def test_a_prior_that_is_all_wrong_costs_little() -> None:
    """A machine where everything is reversed is not trusted, and costs less than 3 %."""
    wrong = corpus_of(ELM, reversed_order=True)
    lost = []
    for seed in range(3):
        bundle = _fit(_own(seed), [wrong], context(OAK))
        assert bundle.evidence["transfer"]["trust"]["bcast"] < 0.1
        lost.append(_gain_of_few(seed) - _log_gains(bundle, OAK).mean())
    assert np.mean(lost) < 0.03


def test_machines_that_contradict_each_other_are_trusted_less() -> None:
    """Without cells of its own a machine trusts priors as far as they predict each other."""
    agreeing = _never_measured().evidence["transfer"]["trust"]["bcast"]
    against = [corpus_of(ELM), corpus_of(ASH, reversed_order=True)]
    contradicting = _fit(None, against, context(OAK)).evidence["transfer"]["trust"]["bcast"]
    assert contradicting < 0.2 < TRUST < agreeing


def test_one_prior_is_trusted_as_machines_usually_can_be() -> None:
    """A single other machine, and nothing measured here, leaves the usual trust."""
    bundle = _fit(None, [corpus_of(ELM)], context(OAK), "knn")
    assert bundle.evidence["transfer"]["trust"] == {"bcast": TRUST}
    assert bundle.model(Collective.BCAST).learner == "knn"


def test_what_was_measured_here_is_not_extrapolated() -> None:
    """The range measured here, and not that of the priors, is the known one."""
    own = corpus_of(OAK, nodes=(2, 4, 8))
    bundle = _fit(own, [corpus_of(ELM)], context(OAK), "knn")
    outside = [s.instance.shape.nodes for s in _selections(bundle) if s.extrapolated]
    assert set(outside) == {32}
    assert bundle.training_shapes == own.shapes()


def test_collectives_without_priors_are_learned_as_ever() -> None:
    """A collective that no prior has keeps the model of its own cells alone."""
    own = corpus_of(OAK, collective=Collective.REDUCE)
    bundle = _fit(own, [corpus_of(ELM)], context(OAK), "knn")
    alone = fit(own, "knn").model(Collective.REDUCE).predictor.arrays()
    assert bundle.collectives == (Collective.BCAST, Collective.REDUCE)
    for name, array in bundle.model(Collective.REDUCE).predictor.arrays().items():
        np.testing.assert_array_equal(array, alone[name])


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (corpus_of(OAK), "prior-is-data"),
        (corpus_of(ELM, library="mpich"), "prior-of-another-library"),
        (corpus_of(ELM, keep=lambda i: False), "nothing-usable"),
        (corpus_of(ELM, algorithms=["linear", "binomial"]), "nothing-from-priors"),
        (corpus_of(ELM, algorithms=["default"]), "nothing-from-priors"),
        (corpus_of(ELM, nodes=[4], ppn=[1]), "nothing-from-priors"),
    ],
)
def test_priors_of_no_use_are_refused(prior: PerformanceDataset, message: str) -> None:
    """Each prior that nothing can be learned from ends with its reason."""
    with refused(message, DataError):
        _fit(None, [prior], context(OAK))


def test_priors_that_share_no_algorithm_are_refused() -> None:
    """A prior that knows only other algorithms than those measured here cannot be judged."""
    own = corpus_of(OAK, algorithms=["default", "linear"])
    with refused("nothing-from-priors", DataError):
        _fit(own, [corpus_of(ELM, algorithms=["default", "pipeline"])], context(OAK))


def test_priors_of_another_library_are_taken_if_asked_for() -> None:
    """With any_library algorithms are matched by name, under the target's library."""
    prior = corpus_of(ELM, library="mpich")
    bundle = _fit(None, [prior], context(OAK), "knn", any_library=True)
    assert {c.library for c in bundle.configurations()} == {"openmpi"}
    assert bundle.evidence["transfer"]["priors"][0]["context"]["library"] == "mpich"


def test_trust_is_the_slope_of_measured_on_predicted() -> None:
    """Regrets half as large as predicted earn half the trust, opposite ones none."""
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0, 1, (200, 5))
    predicted[::7, 2] = np.nan
    for factor, trust in ((1.0, 1.0), (0.5, 0.5), (-1.0, 0.0)):
        agreement = Agreement.of(predicted, factor * predicted + 3.0)
        assert agreement.trust(0.6) == pytest.approx(trust, abs=0.02)


def test_nothing_compared_leaves_the_trust_as_it_was() -> None:
    """Without a comparison trust is what it is drawn to."""
    assert Agreement().trust(0.6) == 0.6
    unknown = np.full((3, 2), np.nan)
    assert Agreement.of(unknown, unknown) == Agreement(0.0, 0.0)
