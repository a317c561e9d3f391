"""A job's variables out of options and parameter files."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.cli.options import job_variables
from colltune.errors import DataError, LibraryError
from colltune.mpi.job_variables import variables_of


def test_lines_of_parameter_files() -> None:
    """Shell, parameter-file and --tune lines set the variables that the library then sees."""
    for text, found in (
        ("export A=1 B='x y'  # why\n", {"A": "1", "B": "x y"}),
        ("I_MPI_ADJUST_BCAST=3:0-8;1\n", {"I_MPI_ADJUST_BCAST": "3:0-8;1"}),
        ("coll_tuned_use_dynamic_rules = 1\n", {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}),
        ("mtl = ^ofi\r\n\r\n", {"OMPI_MCA_mtl": "^ofi"}),
        ("--mca a 1 --mca b 'x y'\n-mca a 2", {"OMPI_MCA_a": "2", "OMPI_MCA_b": "x y"}),
        ("-x MPIR_CVAR_A=b\n", {"MPIR_CVAR_A": "b"}),
        ("OMPI_MCA_coll=^han\n# comment\n", {"OMPI_MCA_coll": "^han"}),
        ("", {}),
    ):
        assert variables_of(text, "f") == found, text


def test_other_lines_are_refused() -> None:
    """The message names file and line."""
    for line in ("nonsense", "--mca only_name", "export 1=2", "a b = c", "'x"):
        with pytest.raises(LibraryError, match=r"f:2: .* sets no parameter"):
            variables_of(f"# first\n{line}\n", "f")


def test_options_go_before_the_file(tmp_path: Path) -> None:
    """Pairs override the file; without either nothing is known of the job."""
    path = tmp_path / "params"
    path.write_text("export A=1 B=2\n")
    assert job_variables(["A=3"], path) == {"A": "3", "B": "2"}
    assert job_variables(["A=b=c"], None) == {"A": "b=c"}
    assert job_variables(None, None) is None
    with pytest.raises(DataError, match="--environment 'A' is not NAME=VALUE"):
        job_variables(["A"], None)
    with pytest.raises(LibraryError, match="cannot be read"):
        job_variables(None, tmp_path / "no")
