"""Amounts of messages, network parameters and adapters."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.models.costs.network import (
    COEFFICIENTS,
    Coefficient,
    Instances,
    Link,
    NetworkParameters,
    Rails,
    RailUse,
    total_seconds,
)

NETWORK = NetworkParameters(
    intra=Link(1e-6, 1e-10, 2e-7),
    inter=Link(3e-6, 2e-10, 5e-7),
    reduction_s_per_byte=3e-10,
    copy_s_per_byte=4e-11,
    setup_s=7e-6,
    contention=0.5,
)


def test_parameters_and_their_vector_are_the_same() -> None:
    """The vector of coefficients, made into parameters again, gives those it came from."""
    assert NetworkParameters.of(NETWORK.vector()) == NETWORK


def test_a_message_costs_alpha_plus_beta_times_bytes() -> None:
    """Three messages of 100 bytes between nodes cost three latencies and 300 bytes (Hockney)."""
    instances = Instances.of(2, 1, 100)
    sent = instances.messages(between=3, bytes_between=300)
    expected = 3 * 3e-6 + 300 * 2e-10
    np.testing.assert_allclose(total_seconds(sent, NETWORK), expected)


def test_overlapping_messages_cost_one_latency_and_gaps() -> None:
    """Messages that do not wait for each other cost alpha once and a gap each (LogGP)."""
    instances = Instances.of(2, 4, 100)
    sent = instances.messages(3, 300, overlapping=True)
    expected = 1e-6 + 3 * 2e-7 + 300 * 1e-10
    np.testing.assert_allclose(total_seconds(sent, NETWORK), expected)


def test_binding_divides_senders_and_sharing_divides_bytes() -> None:
    """Bound rails serve fewer of 8 senders each, shared ones carry all of them H times as fast."""
    for rails, bytes_factor in (
        (Rails(1), 1 + 0.5 * 7),
        (Rails(2, RailUse.BINDING), 1 + 0.5 * 3),
        (Rails(2, RailUse.SHARING), (1 + 0.5 * 7) / 2),
        (Rails(8, RailUse.BINDING), 1.0),
        (Rails(16, RailUse.BINDING), 1.0),
    ):
        instances = Instances.of(2, 8, 1000, rails)
        sent = instances.messages(between=1, bytes_between=1000, senders=8)
        expected = 3e-6 + 1000 * 2e-10 * bytes_factor
        assert total_seconds(sent, NETWORK) == pytest.approx([expected]), rails


def test_matrix_columns_are_the_coefficients() -> None:
    """Amounts stand in the columns of their coefficients, and nothing else is counted."""
    instances = Instances.of(2, 1, [10, 20])
    matrix = instances.messages(1, [10, 20])
    assert matrix.shape == (2, len(COEFFICIENTS))
    expected = np.zeros_like(matrix)
    expected[:, COEFFICIENTS.index(Coefficient.INTRA_LATENCY)] = 1
    expected[:, COEFFICIENTS.index(Coefficient.INTRA_BYTES)] = [10, 20]
    np.testing.assert_array_equal(matrix, expected)
