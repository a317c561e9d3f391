"""What predicted costs are made of."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.models.cost_breakdown import _KINDS, FittedCost, Kind, Share, shares
from colltune.models.cost_model import (
    COEFFICIENTS,
    Coefficient,
    Instances,
    Link,
    NetworkParameters,
    Numbers,
    Rails,
    RailUse,
    Traffic,
    term,
    term_matrix,
    traffic_terms,
)

NETWORK = NetworkParameters(
    Link(1e-6, 1e-10), Link(2e-6, 1e-9), reduction_s_per_byte=5e-10, contention=0.5
)
AT = Instances.of(4, 8, 1000)


def exchange(instances: Instances) -> Numbers:
    """Return three rounds within nodes and two between them, eight senders each, and arithmetic."""
    m = instances.msize_bytes
    rounds = traffic_terms(instances, "rounds", Traffic(3, 3 * m, 2, 2 * m, 8))
    sums = term(instances, "sums", Coefficient.REDUCTION, 5 * m)
    return term_matrix(instances, [*rounds, sums])


FITTED = FittedCost(exchange, NETWORK.vector())


def sharing(adapters: int) -> Rails:
    """Return adapters that every message is striped over."""
    return Rails(adapters, RailUse.SHARING)


def test_kinds_of_an_exchange() -> None:
    """Seconds and shares by hand; kinds that cost nothing are left out."""
    found = shares(FITTED.by_coefficient_s(AT, Rails())[0])
    expected = {
        Kind.LATENCY_BETWEEN: 4e-6,
        Kind.BANDWIDTH_BETWEEN: 2e-6,
        Kind.CONTENTION: 7e-6,
        Kind.LATENCY_WITHIN: 3e-6,
        Kind.BANDWIDTH_WITHIN: 3e-7,
        Kind.REDUCTION: 2.5e-6,
    }
    assert [s.kind for s in found] == list(expected)
    for share in found:
        assert share.time_s == pytest.approx(expected[share.kind], rel=1e-12)
        assert share.share == pytest.approx(share.time_s / 1.88e-5, rel=1e-12)


def test_every_parameter_is_of_a_kind() -> None:
    """No coefficient is forgotten in the table of kinds, and no cost is no table."""
    assert set(_KINDS) == set(COEFFICIENTS)
    assert shares(np.zeros(len(COEFFICIENTS))) == ()
    one = shares([1.0, *np.zeros(len(COEFFICIENTS) - 1)])
    assert one == (Share(Kind.SETUP, 1.0, 1.0),)


def test_bytes_of_a_generic_basis() -> None:
    """Where an algorithm's rounds are not known, its bytes are not said to be copies."""
    seconds = [1.0 if c is Coefficient.COPY else 0.0 for c in COEFFICIENTS]
    assert shares(seconds) == (Share(Kind.COPIES, 1.0, 1.0),)
    assert shares(seconds, generic=True) == (Share(Kind.BYTES, 1.0, 1.0),)


def test_adapters_shared_by_all() -> None:
    """Four adapters instead of one: bytes between nodes and contention take a quarter."""
    before = FITTED.by_coefficient_s(AT, sharing(1))[0]
    after = FITTED.by_coefficient_s(AT, sharing(1), sharing(4))[0]
    changed = {
        c: b / a for c, a, b in zip(COEFFICIENTS, before, after, strict=True) if a > 0 and a != b
    }
    assert changed == {Coefficient.INTER_BYTES: 0.25, Coefficient.INTER_CONTENDED: 0.25}


def test_adapters_bound_to_processes() -> None:
    """Bound to four adapters, two processes share one instead of eight: contention is 1 for 7."""
    after = shares(FITTED.by_coefficient_s(AT, Rails(1), Rails(4))[0])
    seconds = {share.kind: share.time_s for share in after}
    assert seconds[Kind.CONTENTION] == pytest.approx(1e-6, rel=1e-12)
    assert seconds[Kind.BANDWIDTH_BETWEEN] == pytest.approx(2e-6, rel=1e-12)
    alone = shares(FITTED.by_coefficient_s(AT, Rails(1), Rails(8))[0])
    assert Kind.CONTENTION not in {share.kind for share in alone}


def test_only_the_ratio_of_adapters_counts() -> None:
    """From two to four adapters what was fitted is halved; the same number changes nothing."""
    two_s = FITTED.by_coefficient_s(AT, sharing(2))[0]
    four_s = FITTED.by_coefficient_s(AT, sharing(2), sharing(4))[0]
    column = COEFFICIENTS.index(Coefficient.INTER_BYTES)
    assert four_s[column] == pytest.approx(two_s[column] / 2, rel=1e-12)
    same_s = FITTED.time_s(AT, sharing(2), sharing(2))
    assert same_s.tolist() == FITTED.time_s(AT, sharing(2)).tolist()


def test_what_the_measured_adapters_cannot_tell() -> None:
    """Contention found although nobody shared an adapter stays as it is with fewer adapters."""
    eight_s = FITTED.by_coefficient_s(AT, Rails(8))[0]
    one_s = FITTED.by_coefficient_s(AT, Rails(8), Rails(1))[0]
    assert one_s.tolist() == eight_s.tolist()
