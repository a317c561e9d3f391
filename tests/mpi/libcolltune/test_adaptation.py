"""Reading the files of COLLTUNE_FEEDBACK."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.errors import DataError
from colltune.mpi.libcolltune.adaptation import (
    Adaptation,
    Iteration,
    IterationKind,
    IterationVerdict,
    read_adaptations,
)
from tests.refusals import refused

HEADER = """\
# colltune feedback 1
communicator,size,iteration,threshold_bytes,time_s,kind,verdict
"""
ROWS = """\
0,8,0,32768,0.011000000,ordinary,
1,4,0,0,0.000100000,reference,restarted
0,8,1,32768,0.010000000,reference,
0,8,2,65536,0.007000000,test,kept
"""


def _written(folder: Path, text: str) -> Path:
    file = folder / "feedback-0.csv"
    file.write_text(text)
    return file


def test_a_file_is_read(tmp_path: Path) -> None:
    """Iterations come by communicator, in their order, with what was decided."""
    first, second = read_adaptations(_written(tmp_path, HEADER + ROWS))
    assert first == Adaptation(
        0,
        8,
        (
            Iteration(0, 32768, 0.011, IterationKind.ORDINARY, IterationVerdict.NONE),
            Iteration(1, 32768, 0.01, IterationKind.REFERENCE, IterationVerdict.NONE),
            Iteration(2, 65536, 0.007, IterationKind.TEST, IterationVerdict.KEPT),
        ),
    )
    assert second == Adaptation(
        1, 4, (Iteration(0, 0, 0.0001, IterationKind.REFERENCE, IterationVerdict.RESTARTED),)
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ":1: expected '# colltune feedback 1'"),
        ("# colltune feedback 2\n", ":1: expected '# colltune feedback 1'"),
        ("# colltune feedback 1\nno,columns\n", ":2: expected the columns communicator,size"),
        (HEADER + "0,8,0,32768,0.011,ordinary,\n0,8,1,327", ":4: not a row of 7 values"),
        (HEADER + "0,8,0,32768,fast,ordinary,\n", ":3: not a row of 7 values"),
        (HEADER + "0,8,0,32768,0.1,warm-up,\n", "'warm-up' is not a valid"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, where: str) -> None:
    """The error names file and line."""
    with pytest.raises(DataError) as caught:
        read_adaptations(_written(tmp_path, text))
    assert str(tmp_path / "feedback-0.csv") in str(caught.value)
    assert where in str(caught.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """So is one that is not text."""
    with refused("unreadable", DataError):
        read_adaptations(tmp_path / "missing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    with refused("not-text", DataError, why="not UTF-8 text"):
        read_adaptations(tmp_path / "bytes.csv")
