"""A real MPICH runs what is forced, within the limits of the catalogue, and computes it right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from colltune.domain import Collective, Configuration
from colltune.mpi import library
from colltune.mpi.programs import ANY_LEGAL
from colltune.mpi.running import Promises
from tests.integration.real import RealMpich, Traffic

pytestmark = pytest.mark.mpi
MPICH = library("mpich")
SIZES = (0, 8, 960, 20_000)
SILENT = ("set:MPIR_CVAR_COLLECTIVE_FALLBACK=2",)


def written(release: str, configuration: Configuration) -> list[str]:
    """Return the steps that put `configuration` into effect in the running program."""
    return [f"set:{n}={v}" for n, v in MPICH.at(release).force(configuration).items()]


def taken_back(release: str, collective: Collective) -> list[str]:
    """Return the steps that restore the library's own decision."""
    return written(release, Configuration.default("mpich", collective))


def configurations(release: str, collective: Collective) -> Iterator[Configuration]:
    """Yield what can be switched to in a running program."""
    portfolio = MPICH.at(release).portfolio(collective, (0, 1024), (2, 3, 4))
    for c in portfolio.configurations[1:]:
        if MPICH.at(release).settable_at_runtime(c):
            yield c


@pytest.mark.parametrize("nprocs", [2, 3, 4, 5, 7])
def test_every_feasible_configuration_runs_and_is_right(mpich: RealMpich, nprocs: int) -> None:
    """With fall-backs turned into errors, each one of them gives the right result."""
    steps, count = [], 0
    for collective in Collective:
        for c in configurations(mpich.release, collective):
            sizes = [
                s
                for s in ((0,) if collective is Collective.BARRIER else SIZES)
                if not MPICH.at(mpich.release).runs(c, nprocs).why_not(s)
            ]
            steps += written(mpich.release, c)
            steps += [f"{collective}:{size}" for size in sizes]
            steps += taken_back(mpich.release, collective)
            count += len(sizes)
    outcome = mpich.call(nprocs, steps, {})
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr
    assert outcome.stderr.count("MARK") == count > 50


@pytest.mark.parametrize("nprocs", [3, 4])
def test_every_safe_configuration_is_right_in_awkward_programs(
    mpich: RealMpich, nprocs: int
) -> None:
    """In-place calls, operations that do not commute and mixed types fall back where they must."""
    awkward = {
        "allreduce": ("inplace", "noncommutative"),
        "reduce": ("inplace", "noncommutative"),
        "allgather": ("inplace", "types"),
        "allgatherv": ("inplace", "types"),
        "alltoall": ("inplace", "types"),
        "gather": ("inplace", "null"),
        "scatter": ("inplace", "null"),
    }
    steps = []
    for collective in map(Collective, awkward):
        for c in configurations(mpich.release, collective):
            if MPICH.at(mpich.release).runs(c, promises=Promises(ANY_LEGAL)).refusal:
                continue
            steps += [*written(mpich.release, c), *SILENT]
            steps += [f"{collective}:{s}:{v}" for v in awkward[collective] for s in (16, 4096)]
            steps += taken_back(mpich.release, collective)
    outcome = mpich.call(nprocs, steps, {})
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr


@pytest.mark.parametrize(
    ("configuration", "nprocs", "msize_bytes"),
    [
        ("mpich.allgather.recursive_doubling", 3, 64),
        ("mpich.allgatherv.recursive_doubling", 3, 64),
        ("mpich.allreduce.reduce_scatter_allgather", 4, 3),
        ("mpich.reduce.reduce_scatter_gather", 4, 3),
        ("mpich.reduce_scatter.noncommutative", 3, 960),
        ("mpich.reduce_scatter_block.noncommutative", 3, 64),
    ],
)
def test_the_limits_are_real(
    mpich: RealMpich, configuration: str, nprocs: int, msize_bytes: int
) -> None:
    """What the catalogue calls infeasible ends the program when fall-backs are errors."""
    c = Configuration.parse(configuration)
    assert MPICH.at(mpich.release).runs(c, nprocs).why_not(msize_bytes)
    step = f"{c.collective}:{msize_bytes}"
    crashed = mpich.call(nprocs, [*written(mpich.release, c), step], {})
    assert not crashed.ok
    assert "MARK" not in crashed.stderr


def of(*sizes: int) -> tuple[int, ...]:
    """Return one rank's messages."""
    return sizes


FINGERPRINTS: dict[str, Traffic] = {
    "bcast.binomial": (of(960, 960), of(), of(960), of()),
    "bcast.scatter_ring_allgather": (
        of(480, 240, 240, 240, 240),
        of(240, 240, 240),
        of(240, 240, 240, 240),
        of(240, 240, 240),
    ),
    "bcast.scatter_recursive_doubling_allgather": (
        of(480, 240, 240, 480),
        of(240, 480),
        of(240, 240, 480),
        of(240, 480),
    ),
    "bcast.tree_kary:fanout=2": (of(960, 960), of(960), of(), of()),
    "bcast.tree_kary:fanout=3": (of(960, 960, 960), of(), of(), of()),
    "bcast.pipelined_tree_kary:fanout=3,segsize=320": (of(*[320] * 9), of(), of(), of()),
    "bcast.pipelined_chain:segsize=320": (*[of(320, 320, 320)] * 3, of()),
    "allreduce.recursive_doubling": (of(960, 960),) * 4,
    "allreduce.reduce_scatter_allgather": (of(480, 240, 240, 480),) * 4,
    "allreduce.ring": (of(*[240] * 6),) * 4,
    "allreduce.recexch:fanout=4": (of(960, 960, 960),) * 4,
    "allreduce.recursive_multiplying:fanout=4": (of(960, 960, 960),) * 4,
    "allgather.ring": (of(960, 960, 960),) * 4,
    "allgather.brucks": (of(960, 1920),) * 4,
    "allgather.k_brucks:fanout=4": (of(960, 960, 960),) * 4,
    "alltoall.brucks": (of(1920, 1920),) * 4,
    "alltoall.pairwise": (of(960, 960, 960),) * 4,
    "reduce_scatter_block.recursive_halving": (of(1920, 960),) * 4,
    "reduce_scatter_block.pairwise": (of(960, 960, 960),) * 4,
}


def test_the_messages_are_those_of_the_algorithm(mpich: RealMpich) -> None:
    """Sizes, numbers and senders of the messages are as the algorithm's name promises."""
    known = [
        name
        for name in FINGERPRINTS
        if any(
            c.algorithm == Configuration.parse(f"mpich.{name}").algorithm
            for c in configurations(mpich.release, Configuration.parse(f"mpich.{name}").collective)
        )
    ]
    steps = []
    for name in known:
        c = Configuration.parse(f"mpich.{name}")
        steps += [*written(mpich.release, c), f"{c.collective}:960"]
        steps += taken_back(mpich.release, c.collective)
    seen = mpich.traffic(4, steps)
    assert dict(zip(known, seen, strict=True)) == {name: FINGERPRINTS[name] for name in known}
    assert len(known) >= 10


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "bcast", "reduce"])
def test_a_launch_runs_what_a_running_program_does(mpich: RealMpich, collective: str) -> None:
    """The environment of a configuration leads to the same messages as its control variables."""
    call = f"{collective}:4096"
    for c in configurations(mpich.release, Collective(collective)):
        if not MPICH.at(mpich.release).runs(c, 4).why_not(4096):
            back = taken_back(mpich.release, c.collective)
            (within,) = mpich.traffic(4, [*written(mpich.release, c), call, *back])
            (launched,) = mpich.traffic(4, [call], MPICH.at(mpich.release).forced_environment(c))
            assert within == launched, c.id


def test_a_type_of_tree_needs_a_launch(mpich: RealMpich) -> None:
    """A knomial tree sends other messages than a k-ary one, by the environment alone."""
    knomial = Configuration.parse("mpich.bcast.tree_knomial_1:fanout=2")
    portfolio = MPICH.at(mpich.release).portfolio(Collective.BCAST)
    if knomial not in portfolio.configurations:
        pytest.skip(f"MPICH {mpich.release} has no trees")
    assert not MPICH.at(mpich.release).settable_at_runtime(knomial)
    (seen,) = mpich.traffic(7, ["bcast:960"], MPICH.at(mpich.release).forced_environment(knomial))
    kary = MPICH.at(mpich.release).forced_environment(
        Configuration.parse("mpich.bcast.tree_kary:fanout=2")
    )
    assert [len(rank) for rank in seen] != [
        len(rank) for rank in mpich.traffic(7, ["bcast:960"], kary)[0]
    ]
    assert sum(map(len, seen)) == 6


def test_taking_back_restores_the_default(mpich: RealMpich) -> None:
    """After the default's variables a call sends what it sends in a program without any."""
    forced = Configuration.parse("mpich.bcast.scatter_ring_allgather")
    there_and_back = [
        *written(mpich.release, forced),
        *taken_back(mpich.release, Collective.BCAST),
    ]
    sizes = [f"bcast:{size}" for size in (8, 960, 70_000)]
    assert mpich.traffic(4, [*there_and_back, *sizes]) == mpich.traffic(4, sizes)


def test_across_nodes_the_algorithm_is_flat(mpich: RealMpich) -> None:
    """Two nodes of two: pieces are those of four processes, not of two leaders."""
    two_nodes = {
        "MPIR_CVAR_NUM_CLIQUES": "2",
        "UCX_TLS": "posix,self",
        "MPIR_CVAR_CH4_NETMOD": "ucx",
    }
    ring = Configuration.parse("mpich.bcast.scatter_ring_allgather")
    for environment, steps in (
        (MPICH.at(mpich.release).forced_environment(ring), []),
        ({}, written(mpich.release, ring)),
    ):
        (seen,) = mpich.traffic(4, [*steps, "bcast:960"], environment, two_nodes)
        across = {size for rank in seen for size in rank}
        assert across
        assert across <= {240, 480}
        assert 240 in across
