"""Reading what the call tracer printed."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration
from colltune.errors import ProgramError
from colltune.mpi import library, trace
from colltune.mpi.installation import Installation
from tests.refusals import refused

BINOMIAL = "ompi_coll_base_bcast_intra_binomial"
RECORDED = f"""TRACE MPI_Barrier
TRACE ompi_coll_base_barrier_intra_recursivedoubling
TRACE MPI_Bcast
TRACE {BINOMIAL}
MARK bcast 4 1024
some warning of the library
TRACE MPI_Allreduce
TRACE ompi_coll_base_allreduce_intra_ring_segmented
TRACE ompi_coll_base_allreduce_intra_ring
TRACE MPI_Barrier
TRACE ompi_coll_base_barrier_intra_bruck
[rank 0] MARK allreduce 4 8
MARK alltoall 4 8
MARK bcast 4 1
MARK nonsense 4 1
"""


def test_the_first_function_of_a_call_is_the_selected_one() -> None:
    """Fallbacks, other calls and foreign lines do not count; a call nobody saw has no function."""
    assert trace.observed(RECORDED) == [
        (Collective.BCAST, 4, 1024, BINOMIAL),
        (Collective.ALLREDUCE, 4, 8, "ompi_coll_base_allreduce_intra_ring_segmented"),
        (Collective.ALLTOALL, 4, 8, ""),
        (Collective.BCAST, 4, 1, ""),
    ]


def test_all_functions_of_a_call_are_told_with_their_words() -> None:
    """Fallbacks stand behind what was selected; words are signed, and missing where not asked."""
    text = f"TRACE MPI_Bcast 1 2\nTRACE {BINOMIAL} 4096 -1\nTRACE x\nMARK bcast 4 8 0\n"
    assert trace.marked(text) == [
        (Collective.BCAST, 4, 8, ((BINOMIAL, (4096, -1)), ("x", ()))),
    ]
    assert [len(call.functions) for call in trace.marked(RECORDED)] == [1, 2, 0, 0]


def test_what_libcolltune_chose_is_told() -> None:
    """Its own algorithms stand by their id; a communicator made for the library's is left out."""
    own = "colltune.bcast.hierarchical:groups=4,inner=binomial"
    steered = "CHOICE openmpi.bcast.binomial\n"
    made = "TRACE MPI_Bcast\nTRACE ompi_coll_base_allreduce_intra_ring\n"
    ran = f"TRACE {BINOMIAL}\n"
    mark = "MARK bcast 4 8\n"
    seen = [
        (f"CHOICE {own}\n{mark}", own),
        (f"{made}{ran}CHOICE {own}\n{mark}", own),
        (f"{made}{ran}{steered}{mark}", BINOMIAL),
        (f"{steered}{mark}", "openmpi.bcast.binomial"),
        (f"{made}{ran}{mark}", "ompi_coll_base_allreduce_intra_ring"),
    ]
    for text, symbol in seen:
        assert trace.observed(f"{text}{mark}") == [
            (Collective.BCAST, 4, 8, symbol),
            (Collective.BCAST, 4, 8, ""),
        ]


def test_only_algorithms_and_entry_points_are_traced() -> None:
    """Parts, dispatchers and helpers of the library are left alone."""
    traced = [
        "MPI_Allreduce",
        "MPI_Reduce_scatter_block",
        "mca_coll_han_bcast_intra_simple",
        "ompi_coll_base_bcast_intra_binomial",
        "ompi_coll_base_reduce_scatter_block_basic_linear",
    ]
    others = [
        "MPI_Init",
        "PMPI_Bcast",
        "mca_coll_han_bcast_intra_dynamic",
        "mca_coll_han_comm_query",
        "ompi_coll_base_bcast_intra_generic",
        "ompi_coll_base_topo_build_chain",
        "ompi_coll_base_file_getnext_long",
    ]
    assert trace.traced_symbols([*others, *traced]) == traced


def test_every_symbol_of_the_catalogue_is_traced() -> None:
    """What a configuration is expected to run is something the tracer looks for."""
    openmpi = library("openmpi")
    symbols = {
        symbol
        for collective in Collective
        for c in openmpi.at("5.0.11").portfolio(collective).configurations
        for symbol in openmpi.at("5.0.11").expected_symbols(c)
    }
    assert len(symbols) > 50
    assert trace.traced_symbols(sorted(symbols)) == sorted(symbols)


def test_the_default_can_run_anything() -> None:
    """The library's own decision has no expected function, a configuration exactly one."""
    openmpi = library("openmpi")
    default = openmpi.at("4.1.8").expected_symbols(Configuration.parse("openmpi.bcast.default"))
    binomial = openmpi.at("4.1.8").expected_symbols(Configuration.parse("openmpi.bcast.binomial"))
    assert (default, binomial) == (frozenset(), frozenset({BINOMIAL}))


def test_each_symbol_has_a_stub_and_a_name() -> None:
    """The assembler defines every symbol and hands on its own number."""
    text = trace.assembler(["MPI_Bcast", "MPI_Barrier"])
    assert text.count("call colltune_trace_hit@PLT") == 2
    assert [f"\n{name}:\n" in text for name in ("MPI_Bcast", "MPI_Barrier")] == [True, True]
    assert text.index("mov edi, 0") < text.index("\nMPI_Barrier:\n") < text.index("mov edi, 1")


def test_other_processors_are_refused_honestly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are no stubs the reason is told and nothing is compiled."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    nowhere = Installation("openmpi", "5.0.11", tmp_path, tmp_path, tmp_path, "")
    with refused("trace-unavailable", ProgramError):
        trace.build(nowhere, tmp_path)
    assert list(tmp_path.iterdir()) == []
