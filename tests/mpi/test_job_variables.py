"""A job's variables out of parameter files."""

from __future__ import annotations

import pytest

from colltune.errors import LibraryError
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
