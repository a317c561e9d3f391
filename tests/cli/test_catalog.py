"""colltune rules catalog: the catalogues as people and programs read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective
from colltune.mpi import LIBRARIES
from colltune.mpi.reference import formats_of, release_of
from tests.cli.conftest import Verb


def test_all_libraries_are_listed(colltune: Verb) -> None:
    """Without an argument every library stands there with its series."""
    out = colltune("rules", "catalog").out
    for mpi in LIBRARIES.values():
        line = next(line for line in out.splitlines() if line.startswith(mpi.name))
        assert mpi.title in line
        assert all(series in line for series in mpi.series)


def test_a_release_lists_its_collectives(colltune: Verb) -> None:
    """Each collective stands there with numbers and names; what is never used is marked."""
    out = colltune("rules", "catalog", "openmpi@5.0.8").out
    assert "Open MPI 5.0.8 (series 5.0, known from 5.0.0 on)" in out
    assert "alltoallv (id 4)              1 basic_linear, 2 pairwise\n" in out
    assert "7 sparbit!" in out
    assert "self 75, sync 50, inter 40, han 35, ftagree 30, tuned 30" in out


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_a_release_lists_the_files_that_it_reads(colltune: Verb, library: str) -> None:
    """Each format that the newest release reads stands on a line with its title."""
    out = colltune("rules", "catalog", library).out
    for name, known in formats_of(release_of(LIBRARIES[library], None)).items():
        assert f"  {name}: {known.title}\n" in out


def test_a_collective_is_explained(colltune: Verb) -> None:
    """Id, sizes, deciding component, algorithms, ranges, limits and symbols stand there."""
    out = colltune("rules", "catalog", "openmpi@5.0.8", "MPI_Gather").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "id in rules files 9" in lines
    assert "rules per process count one only, for all message sizes" in lines
    assert "decides on one node coll/tuned, priority 30" in lines
    assert "decides coll/tuned, priority 30" in " ".join(
        colltune("rules", "catalog", "openmpi@4.1.8", "gather").out.split()
    )
    assert "size in openmpi-han bytes for one process (count x size of the type)" in lines
    assert "3 linear_sync linear_synch segsize=0" in lines
    assert (
        "segsize 0 0 2147483647 coll_tuned_gather_algorithm_segmentsize all that have it" in lines
    )
    assert "binomial ompi_coll_base_gather_intra_binomial" in lines
    assert "with several rules ranks disagree" in " ".join(lines)


def test_presets_are_listed_as_a_range(colltune: Verb) -> None:
    """Algorithms that have numbers only take one line, with those that are never used."""
    lines = [
        " ".join(line.split())
        for line in colltune("rules", "catalog", "intelmpi@2021.15").out.split("\n")
    ]
    assert "bcast presets 1 to 22" in lines
    assert "allgather presets 1 to 6, 5!" in lines


def test_limits_are_explained(colltune: Verb) -> None:
    """What an algorithm needs, what happens otherwise, and why one is never used."""
    out = colltune("rules", "catalog", "openmpi@5.0.8", "allgather").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "recursive_doubling a power of two of processes bruck runs" in lines
    assert "two_proc exactly 2 processes the call fails, which ends the program" in lines
    assert "sparbit never used in-place calls give wrong results" in lines


def test_json_has_all_of_it(colltune: Verb) -> None:
    """--json gives the same facts, by keys."""
    answer = colltune("rules", "catalog", "mpich@4.3", "bcast", "--json").json
    assert answer["release"] == "4.3.0"
    (bcast,) = answer["collectives"]
    tree = bcast["algorithms"][5]
    assert tree["number"] == 6
    assert tree["value"] == "pipelined_tree"
    assert tree["parameters"][1] == {
        "name": "segsize",
        "default": 8192,
        "low": 0,
        "high": 2**31 - 1,
        "variable": "MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE",
    }
    assert [c["needs"] for c in tree["conditions"]] == [
        "a segment size above 0",
        "a message of two segments or more",
    ]
    known = formats_of(LIBRARIES["mpich"].at("4.3.0"))
    assert answer["formats"] == {name: each.title for name, each in known.items()}
    libraries = colltune("rules", "catalog", "--json").json
    assert [each["library"] for each in libraries][:3] == ["openmpi", "mpich", "intelmpi"]
    whole = colltune("rules", "catalog", "openmpi@5.0.8", "--json").json
    assert [each["collective"] for each in whole["collectives"]] == sorted(Collective)


def test_unknown_names_end_with_status_8(colltune: Verb) -> None:
    """Unknown libraries, releases and collectives are told with what is near to them."""
    for words, complaint in (
        (["opnmpi"], "no catalogue of the MPI library 'opnmpi' (did you mean openmpi?)"),
        (["openmpi@2.0.1"], "known: openmpi@4.1, openmpi@5.0"),
        (["openmpi@"], "openmpi@ names no release"),
        (["openmpi", "allredcue"], "did you mean allreduce?"),
        (["openmpi", ""], "unknown collective ''"),
        (["\N{SNOWMAN}@\N{SNOWMAN}"], "no catalogue of the MPI library"),
    ):
        answer = colltune("rules", "catalog", *words)
        assert answer.status == 8, words
        assert complaint in answer.err, words


def test_ranges_that_differ_are_told_by_algorithm(colltune: Verb) -> None:
    """From Open MPI 6 on a radix starts at 2, a number of chains at 1."""
    out = colltune("rules", "catalog", "openmpi@6.0", "reduce").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "fanout 4 1 32 coll_tuned_reduce_algorithm_chain_fanout chain" in lines
    assert "fanout 4 2 32 coll_tuned_reduce_algorithm_chain_fanout knomial" in lines
    assert "algorithms of han 0 default, 1 intra, 2 simple, 3 reproducible" in lines


def test_check_goes_with_libraries_only(colltune: Verb) -> None:
    """--check of one collective, and --mpi without --check, are wrong usage."""
    assert colltune("rules", "catalog", "openmpi", "bcast", "--check").status == 2
    assert colltune("rules", "catalog", "openmpi", "--mpi", "/opt/mpi").status == 2


def test_a_missing_mpi_is_told(colltune: Verb) -> None:
    """--check of a folder without an MPI ends with status 5 and names it."""
    answer = colltune("rules", "catalog", "--check", "--mpi", "/no/such/folder")
    assert answer.status == 5
    assert "/no/such/folder" in answer.err


def test_a_check_tells_what_differs(colltune: Verb, tmp_path: Path) -> None:
    """The status is 0 where all agrees, 1 where a number of presets differs."""
    for bcast, status in (("22", 0), ("23", 1)):
        known = LIBRARIES["intelmpi"].catalogue_of("2021.15").collectives
        presets = {c: max(a.number for a in entry.algorithms) for c, entry in known.items()}
        answers = "".join(f"I_MPI_ADJUST_{c.upper()}) n={n};;\n" for c, n in presets.items())
        for name, text in {
            "mpirun": 'echo "Intel(R) MPI Library for Linux* OS, Version 2021.15 Build"',
            "impi_info": f"case $2 in I_MPI_ADJUST_BCAST) n={bcast};;\n{answers}esac\n"
            'echo "    range: 0-$n "',
        }.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        words = ("catalog", "--check", "--mpi", tmp_path / "mpirun")
        answer = colltune(*words)
        assert answer.status == status, bcast
        assert ("agrees with the catalogue of Intel MPI 2021.15" in answer.out) == (status == 0), (
            bcast
        )
        assert ("presets 1 to 22  presets 1 to 23" in answer.out) == (status == 1), bcast
        told = colltune(*words, "--json").json
        assert told["catalogue"] == "2021.15", bcast
        assert len(told["differences"]) == status, bcast


def test_derivatives_have_no_catalogue(colltune: Verb) -> None:
    """To ask for one, for a release of it, or for a comparison ends with status 8 and says why."""
    for words in (("cray-mpich",), ("cray-mpich@8.1",), ("mvapich", "--check")):
        answer = colltune("rules", "catalog", *words)
        assert answer.status == 8, words
        assert "neither measures with it nor writes files for it" in answer.err, words
