"""The domain types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.domain import (
    Collective,
    Configuration,
    Instance,
    LaunchStatistics,
    Measurement,
    Portfolio,
    RunStatus,
    Shape,
    parse_collective,
    parse_parameters,
)
from colltune.errors import DataError
from tests.refusals import refused

names = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
words = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
configurations = st.builds(
    Configuration,
    library=names,
    collective=st.sampled_from(Collective),
    algorithm=names,
    parameters=st.dictionaries(names, st.integers(0, 1 << 30) | words, max_size=3).map(
        lambda d: tuple(d.items())
    ),
)


@given(configurations)
def test_configuration_id_round_trips(configuration: Configuration) -> None:
    """An id holds all of a configuration, whatever order the parameters came in."""
    assert Configuration.parse(configuration.id) == configuration


@given(configurations)
def test_what_datasets_store_round_trips(configuration: Configuration) -> None:
    """Two columns hold a configuration, our own library's beside those of the MPI library."""
    columns = configuration.stored_algorithm, configuration.parameter_text
    library, collective = configuration.library, configuration.collective
    assert Configuration.stored(library, collective, *columns) == configuration


def test_ours_are_told_from_the_librarys() -> None:
    """An algorithm of our own library has that in front where the context is another's."""
    ours = Configuration.parse("colltune.bcast.hierarchical:groups=4,inner=chain")
    assert ours.stored_algorithm == "colltune.hierarchical"
    assert ours.short == "colltune.hierarchical groups=4,inner=chain"
    stored = ours.stored_algorithm, ours.parameter_text
    assert Configuration.stored("openmpi", Collective.BCAST, *stored) == ours


def test_configurations_sort_by_numbers_then_words() -> None:
    """Values of one parameter sort by size; a word comes after every number."""
    texts = ["o.bcast.a:x=w", "o.bcast.a:x=10", "o.bcast.a:x=9", "o.bcast.a:x=v"]
    ids = [c.id for c in sorted(map(Configuration.parse, texts))]
    assert ids == ["o.bcast.a:x=9", "o.bcast.a:x=10", "o.bcast.a:x=v", "o.bcast.a:x=w"]


def test_configuration_id_is_readable() -> None:
    """The id shows library, collective, algorithm and sorted parameters."""
    chain = Configuration("openmpi", Collective.BCAST, "chain", (("segsize", 65536), ("fanout", 4)))
    assert chain.id == "openmpi.bcast.chain:fanout=4,segsize=65536"
    assert chain.segsize_bytes == 65536
    assert chain.matches("*.bcast.chain:*segsize=65536")
    assert not chain.matches("*.allreduce.*")


@pytest.mark.parametrize("text", ["", "bcast", "openmpi.bcast", "openmpi.bcast.chain:fanout"])
def test_bad_configuration_id_is_refused(text: str) -> None:
    """What is no id is refused."""
    with pytest.raises(DataError):
        Configuration.parse(text)


def test_unknown_collective_names_the_known() -> None:
    """The error for an unknown collective lists the known ones; MPI's names are understood."""
    assert parse_collective("MPI_Reduce_scatter_block") is Collective.REDUCE_SCATTER_BLOCK
    with refused("unknown", DataError, what="collective", name="bkast"):
        parse_collective("bkast")


def test_parameters_are_sorted_integers_and_words() -> None:
    """Parameters parse to sorted pairs; anything but name=integer and name=word is refused."""
    assert parse_parameters("inner=binomial,groups=2") == (("groups", 2), ("inner", "binomial"))
    assert parse_parameters("segsize=4,fanout=2") == (("fanout", 2), ("segsize", 4))
    for text in ("segsize=4k", "segsize=large", "inner=Binomial", "inner="):
        with refused("malformed", DataError, value=text):
            parse_parameters(text)


def test_shape_has_processes() -> None:
    """nprocs is nodes times ppn, and empty shapes do not exist."""
    assert Shape(34, 32).nprocs == 1088
    with pytest.raises(DataError):
        Shape(0, 4)


def test_filtered_portfolio_keeps_the_default() -> None:
    """Globs thin out a portfolio but never remove the library's own decision."""
    default = Configuration.default("openmpi", Collective.BCAST)
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    linear = Configuration("openmpi", Collective.BCAST, "linear")
    portfolio = Portfolio("openmpi", "5.0", Collective.BCAST, (default, chain, linear))
    assert portfolio.filtered(only=["*.chain"]).configurations == (default, chain)
    assert portfolio.filtered(skip=["*"]).configurations == (default,)


def test_summary_of_raw_times() -> None:
    """Statistics are derived from the raw repetitions."""
    assert LaunchStatistics.of([4.0, 1.0, 2.0, 3.0]) == LaunchStatistics(4, 2.5, 2.5, 1.0, 4.0, 4.0)


def test_ok_measurement_needs_times() -> None:
    """A measurement that is ok has times; one that crashed has none."""
    instance = Instance(Collective.BCAST, Shape(1, 2), 8)
    default = Configuration.default("openmpi", Collective.BCAST)
    with pytest.raises(DataError):
        Measurement(instance, default, "l")
    assert Measurement(instance, default, "l", RunStatus.CRASH).summary is None
