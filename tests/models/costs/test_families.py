"""Which family names belong to, and what holds for every one of them."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Collective, Configuration
from colltune.models.costs.families import FAMILIES, configuration_amounts, family_of
from colltune.models.costs.network import COEFFICIENTS, Coefficient, Instances, Numbers
from colltune.mpi.catalogue import all_series, load

ENTRIES = [(collective, name) for collective, names in FAMILIES.items() for name in names]
NODES, PPN = (1, 1, 1, 2, 2, 3, 8, 12, 128), (1, 2, 7, 1, 4, 6, 32, 48, 1)
BYTES = [
    COEFFICIENTS.index(c)
    for c in (
        Coefficient.INTRA_BYTES,
        Coefficient.INTER_BYTES,
        Coefficient.INTER_CONTENDED,
        Coefficient.REDUCTION,
        Coefficient.COPY,
    )
]
BETWEEN = [k for k, c in enumerate(COEFFICIENTS) if c.startswith("inter.")]


def _configuration(collective: Collective, algorithm: str, **parameters: int) -> Configuration:
    return Configuration("openmpi", collective, algorithm, tuple(parameters.items()))


def _amounts(configuration: Configuration, instances: Instances) -> Numbers:
    """Return the amounts but for the setup of each call."""
    return configuration_amounts(configuration, instances)[:, 1:]


def test_every_family_is_finite_not_negative_and_grows_with_the_message() -> None:
    """No amount is negative or infinite, and none falls when the message grows, from 0 to 1 TiB.

    With an empty message only latencies and gaps are left.
    """
    for collective, name in [*ENTRIES, (Collective.BCAST, "never_heard_of")]:
        configuration = _configuration(collective, name)
        previous = np.zeros((len(NODES), len(COEFFICIENTS)))
        for msize in (0, 1, 100, 65536, 1 << 40):
            found = configuration_amounts(configuration, Instances.of(NODES, PPN, msize))
            assert np.isfinite(found).all(), (collective, name)
            assert (found >= previous - 1e-9).all(), (collective, name, msize)
            assert msize or not found[:, BYTES].any(), (collective, name)
            previous = found


def test_what_is_sent_by_one_process_by_two_and_on_one_node() -> None:
    """A single process sends nothing, two on two nodes do, one node nothing between nodes."""
    for collective, name in ENTRIES:
        configuration = _configuration(collective, name)
        alone, pair = _amounts(configuration, Instances.of([1, 2], 1, 4096))
        assert not alone.any(), (collective, name)
        assert pair.any(), (collective, name)
        on_one = configuration_amounts(configuration, Instances.of(1, [2, 5, 64], 4096))
        assert not on_one[:, BETWEEN].any(), (collective, name)


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
    at = Instances.of(13, 1, 1000)
    usual, four, unset, two = (
        _amounts(_configuration(Collective.BCAST, "chain", **given), at)
        for given in ({}, {"fanout": 4}, {"fanout": 0}, {"fanout": 2})
    )
    np.testing.assert_array_equal(usual, four)
    np.testing.assert_array_equal(usual, unset)
    assert (usual != two).any()
