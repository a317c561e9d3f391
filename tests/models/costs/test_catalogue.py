"""Which family names belong to, and what holds for every one of them."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Collective, Configuration
from colltune.models.cost_model import COEFFICIENTS, Coefficient, term_matrix
from colltune.models.costs.catalogue import FAMILIES, cost_terms, family_of
from colltune.mpi.catalogue import all_series, load

ENTRIES = [(collective, name) for collective, names in FAMILIES.items() for name in names]
NODES, PPN = (1, 1, 1, 2, 2, 3, 8, 12, 128), (1, 2, 7, 1, 4, 6, 32, 48, 1)


def _configuration(collective: Collective, algorithm: str, **parameters: int) -> Configuration:
    return Configuration("openmpi", collective, algorithm, tuple(parameters.items()))


@pytest.mark.parametrize(("collective", "name"), [*ENTRIES, (Collective.BCAST, "never_heard_of")])
def test_every_family_is_finite_not_negative_and_grows_with_the_message(
    collective: Collective, name: str
) -> None:
    """No amount is negative or infinite, and none falls when the message grows, from 0 to 1 TiB."""
    previous = None
    for msize in (0, 1, 100, 65536, 1 << 40):
        instances, terms = cost_terms(_configuration(collective, name), NODES, PPN, msize)
        matrix = term_matrix(instances, terms)
        assert np.isfinite(matrix).all()
        assert (matrix >= 0).all()
        if previous is not None:
            assert (matrix >= previous - 1e-9).all()
        previous = matrix


@pytest.mark.parametrize(("collective", "name"), ENTRIES)
def test_one_process_is_free_and_two_are_not(collective: Collective, name: str) -> None:
    """Nothing is sent by a single process, and something by two on two nodes."""
    instances, terms = cost_terms(_configuration(collective, name), [1, 2], 1, 4096)
    alone, pair = term_matrix(instances, terms)
    assert not alone.any()
    assert pair.any()


@pytest.mark.parametrize(("collective", "name"), ENTRIES)
def test_no_message_no_bytes(collective: Collective, name: str) -> None:
    """With an empty message only latencies and gaps are left."""
    instances, terms = cost_terms(_configuration(collective, name), NODES, PPN, 0)
    matrix = term_matrix(instances, terms)
    for coefficient in (
        Coefficient.INTRA_BYTES,
        Coefficient.INTER_BYTES,
        Coefficient.INTER_CONTENDED,
        Coefficient.REDUCTION,
        Coefficient.COPY,
    ):
        assert not matrix[:, COEFFICIENTS.index(coefficient)].any()


@pytest.mark.parametrize(("collective", "name"), ENTRIES)
def test_on_one_node_nothing_goes_between_nodes(collective: Collective, name: str) -> None:
    """A single node never pays for the network."""
    instances, terms = cost_terms(_configuration(collective, name), 1, [2, 5, 64], 4096)
    matrix = term_matrix(instances, terms)
    between = [k for k, c in enumerate(COEFFICIENTS) if c.startswith("inter.")]
    assert not matrix[:, between].any()


def test_every_algorithm_of_open_mpi_has_a_family() -> None:
    """No algorithm of Open MPI's catalogues falls to the generic basis, the default does."""
    for series in all_series("openmpi"):
        for collective, entry in load("openmpi", series).collectives.items():
            for algorithm in entry.algorithms:
                assert not family_of(_configuration(collective, algorithm.name)).is_generic
            assert family_of(Configuration.default("openmpi", collective)).is_generic


def test_what_is_generic_among_mpichs_algorithms() -> None:
    """Of MPICH only what picks other algorithms itself, and four of its newer ones, is generic."""
    unknown = {
        algorithm.name
        for series in all_series("mpich")
        for collective, entry in load("mpich", series).collectives.items()
        for algorithm in entry.algorithms
        if family_of(Configuration("mpich", collective, algorithm.name)).is_generic
    }
    own = {"ccl", "k_reduce_scatter_allgather", "recexch", "recursive_multiplying"}
    assert unknown == {"nb", "smp"} | own


@pytest.mark.parametrize(
    ("library", "algorithm", "family"),
    [
        ("smpi", "NTSL", "pipeline"),
        ("smpi", "SMP_linear", "pipeline in two levels"),
        ("fjmpi", "default-split-binary-tree", "split-binary"),
        ("openmpi", "over.scatter_allgather", "scatter-recursive-doubling-allgather"),
        ("openmpi", "default", "generic"),
    ],
)
def test_names_are_compared_without_case_hyphens_and_prefixes(
    library: str, algorithm: str, family: str
) -> None:
    """Spellings of data sets find the family; the default decision has none of its own."""
    configuration = Configuration(library, Collective.BCAST, algorithm)
    assert family_of(configuration).name == family


def test_parameters_of_the_configuration_go_before_the_familys() -> None:
    """A chain has 4 parts unless the configuration says otherwise; a value of 0 means unset."""
    amounts = [
        term_matrix(*cost_terms(_configuration(Collective.BCAST, "chain", **given), 13, 1, 1000))
        for given in ({}, {"fanout": 4}, {"fanout": 0}, {"fanout": 2})
    ]
    np.testing.assert_array_equal(amounts[0], amounts[1])
    np.testing.assert_array_equal(amounts[0], amounts[2])
    assert (amounts[0] != amounts[3]).any()
