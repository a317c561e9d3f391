"""A real MPICH takes the selection files that colltune writes, and runs what they are said to."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.mpi.formats import FORMATS
from tests.integration import differential_mpich
from tests.integration.real import RealMpich, on_request
from tests.mpi.linting import lint

pytestmark = pytest.mark.mpi
FORMAT = FORMATS["mpich-json"]
ROUNDS = 15


@pytest.fixture(autouse=True, scope="module")
def _requested() -> None:
    on_request("COLLTUNE_TEST_MPICH")


def activated(mpich: RealMpich, folder: Path, table: DecisionTable) -> dict[str, str]:
    """Return the variables that put a table into effect."""
    written = FORMAT.write(table, mpich.release)
    paths = {end: str(folder / f"tree{end}.json") for end in written.texts}
    for end, path in paths.items():
        Path(path).write_text(written.texts[end], encoding="utf-8")
    return FORMAT.activation(mpich.release, paths, table.shape)


def test_what_ran_is_what_was_said(mpich: RealMpich, tmp_path: Path) -> None:
    """On one process per node and on two nodes, every call sends what its algorithm sends."""
    done = list(differential_mpich.trials(mpich, tmp_path, n_calls=80, seed=7))
    assert len(done) == 160
    assert [trial for trial in done if not trial.agrees] == []
    chosen = [trial for trial in done if not trial.said.is_default]
    assert len(chosen) > 60
    assert len({trial.said.algorithm for trial in chosen}) > 8
    assert {trial.call.nodes for trial in chosen} >= {2, 3, 4}


def test_the_fingerprints_tell_algorithms_apart(mpich: RealMpich, tmp_path: Path) -> None:
    """A choice that is not the library's own leads to other messages than no file at all."""
    calls = ["allgather:960", "bcast:960", "alltoall:960", "barrier:0"]
    table = differential_mpich.one_choice(
        {4: ["allgather.ring", "bcast.scatter_ring_allgather", "alltoall.brucks"]}
    )
    with_file = mpich.traffic(4, calls, activated(mpich, tmp_path, table))
    without = mpich.traffic(4, calls)
    assert [a == b for a, b in zip(with_file, without, strict=True)] == [False, False, False, True]


@pytest.mark.parametrize(("nprocs", "nodes"), [(3, 1), (5, 2)])
def test_every_collective_is_right(
    mpich: RealMpich, tmp_path: Path, nprocs: int, nodes: int
) -> None:
    """Blocking, non-blocking, persistent, between groups: all results are those of no file."""
    command = [mpich.compiled("everything.c"), str(ROUNDS)]
    layout = differential_mpich.Layout(nodes, {"MPIR_CVAR_NUM_CLIQUES": str(nodes)})
    rng = random.Random(nprocs)
    table = differential_mpich.random_table(rng, mpich.release, layout)
    for variables in (activated(mpich, tmp_path, table), nothing_chosen(mpich, tmp_path)):
        outcome = mpich.run(nprocs, command, {**variables, **layout.variables}, preload="")
        assert outcome.ok, outcome.explain()
        assert f"DONE {ROUNDS} rounds, 0 wrong" in outcome.stdout


def nothing_chosen(mpich: RealMpich, folder: Path) -> dict[str, str]:
    """Return the variables of complete trees that leave all to the library."""
    return activated(mpich, folder, DecisionTable("mpich", Shape(1, 2), {}))


def test_a_tree_of_the_library_itself_changes_nothing(mpich: RealMpich, tmp_path: Path) -> None:
    """With everything left to the library, all messages are those without a file.

    On 8 processes MPICH takes its own `comm_size<8` for alltoall as `<=`.
    """
    sizes = (0, 8, 9, 256, 257, 2049, 16_384, 33_000, 90_000, 525_000)
    steps = [
        f"{collective}:{size // 8 * 8 if collective is Collective.REDUCE_SCATTER else size}"
        for collective in Collective
        for size in (sizes if collective is not Collective.BARRIER else (0,))
    ]
    variables = nothing_chosen(mpich, tmp_path)
    for nprocs, layout in ((8, differential_mpich.FLAT), (4, differential_mpich.TWO_NODES)):
        seen = [mpich.traffic(nprocs, steps, more, layout.variables) for more in (variables, {})]
        assert seen[0] == seen[1]


@pytest.mark.parametrize("fault", ["no end", "unknown", "missing"])
def test_what_is_said_to_end_a_program_does(mpich: RealMpich, tmp_path: Path, fault: str) -> None:
    """The library aborts, or crashes, where the findings say so."""
    text = FORMAT.write(DecisionTable("mpich", Shape(1, 2), {}), mpich.release).text
    document = json.loads(text)
    if fault == "no end":
        binomial: dict[str, object] = {"algorithm=MPIR_Bcast_intra_binomial": {}}
        document["collective=bcast"]["comm_type=intra"] = {"avg_msg_size<=8": binomial}
    elif fault == "unknown":
        document["collective=bcast"]["comm_type=intra"] = {"algorithm=MPIR_Bcast_intra_fast": {}}
    elif fault == "missing":
        del document["collective=alltoall"]
    text = json.dumps(document)
    path = tmp_path / "faulty.json"
    path.write_text(text, encoding="utf-8")
    found = FORMAT.parse(text, str(path), mpich.release)
    assert any(finding.fault in ("ends-program", "unknown") for finding in lint(found))
    variables = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(path)}
    outcome = mpich.call(2, ["bcast:4", "alltoall:64"], variables)
    assert not outcome.ok
