"""colltune rules catalog: the catalogues as people and programs read them."""

from __future__ import annotations

from pathlib import Path

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


def test_a_release_lists_the_files_that_it_reads(colltune: Verb) -> None:
    """Each format that the newest release reads stands on a line with its title."""
    for library, mpi in LIBRARIES.items():
        out = colltune("rules", "catalog", library).out
        for name, known in formats_of(release_of(mpi, None)).items():
            assert f"  {name}: {known.title}\n" in out


TOLD: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "openmpi@5.0.8",
        (
            "Open MPI 5.0.8 (series 5.0, first known release 5.0.0)",
            "alltoallv (id 4) 1 basic_linear, 2 pairwise",
            "7 sparbit!",
            "self 75, sync 50, inter 40, han 35, ftagree 30, tuned 30",
        ),
    ),
    (
        "openmpi@5.0.8 MPI_Gather",
        (
            "id in rules files 9",
            "rules per process count one rule only, for all message sizes",
            "decides on one node coll/tuned, priority 30",
            "size in openmpi-han bytes for one process (count x size of the type)",
            "3 linear_sync linear_synch segsize=0",
            "coll_tuned_gather_algorithm_segmentsize all collectives that have it",
            "binomial ompi_coll_base_gather_intra_binomial",
            "with several rules ranks disagree",
        ),
    ),
    ("openmpi@4.1.8 gather", ("decides coll/tuned, priority 30",)),
    ("intelmpi@2021.15", ("bcast presets 1 to 22", "allgather presets 1 to 6, 5!")),
    (
        "openmpi@5.0.8 allgather",
        (
            "recursive_doubling a power of two of processes bruck runs",
            "two_proc exactly 2 processes the call fails, which ends the program",
            "sparbit never used in-place calls give wrong results",
        ),
    ),
    (
        "openmpi@6.0 reduce",
        (
            "fanout 4 1 32 coll_tuned_reduce_algorithm_chain_fanout chain",
            "fanout 4 2 32 coll_tuned_reduce_algorithm_chain_fanout knomial",
            "algorithms of han 0 default, 1 intra, 2 simple, 3 reproducible",
        ),
    ),
)


def test_releases_and_collectives_are_explained(colltune: Verb) -> None:
    """Ids, sizes, deciding components, algorithms, presets, ranges, limits and symbols are told."""
    for words, told in TOLD:
        out = " ".join(colltune("rules", "catalog", *words.split()).out.split())
        assert [text for text in told if text not in out] == [], words


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


def test_wrong_questions(colltune: Verb) -> None:
    """What is unknown is told with what is near to it; what does not go together is wrong usage."""
    for words, status, code in (
        (["opnmpi"], 8, "no-catalogue name=opnmpi"),
        (["openmpi@2.0.1"], 8, "unknown-release"),
        (["openmpi@"], 8, "missing"),
        (["openmpi", "allredcue"], 8, "unknown-algorithm"),
        (["openmpi", ""], 8, "unknown-algorithm"),
        (["\N{SNOWMAN}@\N{SNOWMAN}"], 8, "no-catalogue"),
        (["cray-mpich"], 8, "derivative"),
        (["cray-mpich@8.1"], 8, "derivative"),
        (["mvapich", "--check"], 8, "derivative"),
        (["openmpi", "bcast", "--check"], 2, "exclusive other=COLLECTIVE"),
        (["openmpi", "--only-bits"], 2, "works-only-with"),
        (["openmpi", "--nodes", "2"], 2, "works-only-with"),
        (["openmpi", "--mpi", "/opt/mpi"], 2, "works-only-with option=--mpi"),
        (["--check", "--mpi", "/no/such/folder"], 5, "program-missing"),
    ):
        answer = colltune("rules", "catalog", *words)
        assert answer.status == status, words
        assert answer.says(code), (words, answer.code, answer.err)


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
