"""The detail.out of ompi-collectives-tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset.importers import IMPORTERS, SourceFile
from colltune.dataset.importers.detail import parse
from colltune.dataset.importers.protocol import ImportedRow
from colltune.domain import Collective
from colltune.errors import DataError
from tests.dataset.importers.samples import CONTEXT, DETAIL, SHAPE, loaded, request
from tests.refusals import refused

HEADER = "#Nnodes    Message_size "


def _rows(text: str, collective: Collective = Collective.BCAST) -> tuple[ImportedRow, ...]:
    return parse(text.splitlines(keepends=True), "f", collective).rows


def test_each_column_is_an_algorithm() -> None:
    """0 is the library's own decision, repeated at the end; a size without data has no row."""
    rows = _rows(DETAIL)
    assert [(row.nprocs, row.msize_bytes, row.algorithm) for row in rows] == [
        (8, 8, "default"),
        (8, 8, "1"),
        (8, 8, "6"),
        (8, 1024, "default"),
        (8, 1024, "1"),
    ]
    times = [row.summary.time_s for row in rows if row.summary]
    assert times == pytest.approx([4e-6, 3e-6, 3.5e-6, 7e-6, 9e-6])


def test_old_files_name_the_algorithms() -> None:
    """Names stand for themselves and `tuned` for the library's own decision."""
    text = f"{HEADER}basic_linear binomial tuned\n2 1 64.33(0.94) 107.24(0.83) 107.78(0.61)\n"
    assert [row.algorithm for row in _rows(text)] == ["basic_linear", "binomial", "default"]


def test_a_barrier_has_no_size() -> None:
    """Whatever the table says, a barrier's size is 0."""
    assert {row.msize_bytes for row in _rows(DETAIL, Collective.BARRIER)} == {0}


def test_the_collective_is_told_or_the_folders_name(tmp_path: Path) -> None:
    """The file does not tell it; ompi-collectives-tuning keeps it in a folder of its name."""
    with refused("collective-not-said", DataError):
        loaded("detail", DETAIL, tmp_path, request(CONTEXT | SHAPE))
    folder = tmp_path / "allreduce"
    folder.mkdir()
    dataset = loaded("detail", DETAIL, folder, request(CONTEXT | SHAPE)).dataset
    assert dataset.collectives == (Collective.ALLREDUCE,)
    told = request(CONTEXT | SHAPE | {"collective": "bkast"})
    with refused("unknown", DataError, what="collective", name="bkast"):
        IMPORTERS["detail"].load(SourceFile(folder / "file.txt"), told)


def test_a_configuration_cannot_be_told_as_well(tmp_path: Path) -> None:
    """The table names the algorithms itself."""
    settings = CONTEXT | SHAPE | {"collective": "bcast", "configuration": "openmpi.bcast.chain"}
    with refused("algorithm-is-named", DataError):
        loaded("detail", DETAIL, tmp_path, request(settings))


def test_malformed_rows_name_their_line(subtests: pytest.Subtests) -> None:
    """A row that does not fit the header is refused with file and line."""
    for row in (
        "8 16 1.0 2.0",
        "8 16 1.0 2.0 3.0 1.0 1.0",
        "8 16 1.0 2.0 3.0 4.0",
        "8 16 1.0 x 3.0",
        "0 16 1.0 2.0 3.0",
        "8 1.5 1.0 2.0 3.0",
        "8",
    ):
        with subtests.test(row=row), refused("malformed-row", DataError, line=4):
            _rows(f"{DETAIL}{row}\n")


def test_other_tables_are_refused() -> None:
    """best.out, a second table with other columns, rows before a header, and no table at all."""
    with refused("best-out", DataError, line=1):
        _rows("#Nranks    Message_size Best_Algorithm  Best_Latency\n")
    with refused("other-algorithms", DataError, line=4):
        _rows(f"{DETAIL}{HEADER}0 1\n")
    with refused("algorithms-listed-wrong", DataError, line=1):
        _rows(f"{HEADER}1 1\n")
    with refused("malformed-row", DataError, line=1):
        _rows("8 8 1.0\n")
    with refused("not-output", DataError):
        _rows("\n")
