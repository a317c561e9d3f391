"""Alltoallv's threshold with a real MPI: how programs see it, how it is adapted, its trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.mpi.libcolltune.adaptation import (
    Iteration,
    IterationKind,
    IterationVerdict,
    read_adaptations,
)
from tests.integration.real import Real

pytestmark = pytest.mark.mpi
ITERATIONS, AFTER_SET, EVERY = 60, 40, 3


def _run(preloaded: Real, folder: Path) -> str:
    command: list[str | Path] = [preloaded.compiled("thresholds.c"), str(ITERATIONS)]
    outcome = preloaded.run(4, command, {"COLLTUNE_FEEDBACK": str(folder)})
    assert outcome.ok, outcome.explain()
    assert "thresholds held" in outcome.stdout
    return outcome.stderr


def test_the_threshold_is_adapted_alike_everywhere_and_traced(
    preloaded: Real, tmp_path: Path
) -> None:
    """All processes agree after each call; the trace tells every iteration and what was decided."""
    _run(preloaded, tmp_path / "new" / "folder")
    long, short = read_adaptations(tmp_path / "new" / "folder" / "feedback-0.csv")
    assert (long.nprocs, len(long.iterations)) == (4, ITERATIONS + AFTER_SET)
    assert [i.number for i in long.iterations] == list(range(ITERATIONS + AFTER_SET))
    assert len(short.iterations) == 4 + AFTER_SET
    assert long.iterations[EVERY - 1].kind is IterationKind.REFERENCE
    assert all(i.kind is IterationKind.ORDINARY for i in long.iterations[: EVERY - 1])
    _insist_on_rules(long.iterations[:ITERATIONS])
    assert 512 in {i.threshold_bytes for i in long.iterations[ITERATIONS + 1 :]}


def _insist_on_rules(iterations: tuple[Iteration, ...]) -> None:
    best = 0
    for before, now in zip((None, *iterations), iterations, strict=False):
        assert now.time_s > 0
        if now.kind is IterationKind.TEST:
            assert now.number % EVERY == EVERY - 1
            assert before is not None
            assert before.kind is IterationKind.REFERENCE
        else:
            assert now.threshold_bytes == best
            assert now.verdict not in {IterationVerdict.KEPT, IterationVerdict.REJECTED}
        if now.verdict is IterationVerdict.KEPT:
            best = now.threshold_bytes
    assert any(i.kind is IterationKind.TEST for i in iterations)


def test_an_unwritable_folder_costs_a_line_only(preloaded: Real, tmp_path: Path) -> None:
    """The job runs as ever; one process says that the trace is lost."""
    (tmp_path / "file").touch()
    said = _run(preloaded, tmp_path / "file" / "folder")
    lines = [line for line in said.splitlines() if line.startswith("colltune:")]
    assert len(lines) == 1
    assert f"cannot write {tmp_path}/file/folder/feedback-0.csv" in lines[0]
