"""How often a real MPI library runs what `decide` says: with random files, variables and calls.

Takes every MPI that `make test-mpi` has installed, and where there is none of a library, the one
that the tests find.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.figure import Figure
from tests.integration import install, openmpi_scenarios

Agreements = Iterator[tuple[str, int, tuple[str, ...]]]
COMPARISONS: dict[str, Callable[[Path], Agreements]] = {
    "openmpi": openmpi_scenarios.agreements,
}
"""Each yields what was compared, how often, and the disagreements, for the MPI under test."""
_SHOWN = 5


def run() -> Figure:
    """Return the calls that ran as was said over all calls compared, of all libraries here."""
    agreed = total = 0
    for library, agreements in COMPARISONS.items():
        for named in _installations(library):
            with _under_test(library, named), tempfile.TemporaryDirectory() as folder:
                try:
                    counts = [_counted(*found) for found in agreements(Path(folder))]
                except pytest.skip.Exception as reason:
                    print(f"{library}: nothing compared: {reason.msg}")
                    continue
            here = [sum(column) for column in zip(*counts, strict=True)]
            print(f"{library} {named or 'on PATH'}: {here[0]} of {here[1]} agree", flush=True)
            agreed, total = agreed + here[0], total + here[1]
    if not total:
        sys.exit("differential_agreement: no MPI here; `make test-mpi` installs some")
    return Figure("differential_agreement", agreed / total, "fraction", agreed, total)


def _installations(library: str) -> list[str]:
    """Return the folders of a library's releases; an empty name for the one that tests find."""
    variable = install.VARIABLES[library]
    if variable in os.environ:
        return [os.environ[variable]]
    return [one[variable] for one in install.rounds() if variable in one] or [""]


@contextmanager
def _under_test(library: str, named: str) -> Iterator[None]:
    variable = install.VARIABLES[library]
    with pytest.MonkeyPatch.context() as patch:
        if named:
            patch.setenv(variable, named)
        yield


def _counted(what: str, compared: int, disagreements: tuple[str, ...]) -> tuple[int, int]:
    """Print one comparison; return how many agreed, of how many."""
    agreed = compared - len(disagreements)
    print(f"  {what}: {agreed} of {compared}", flush=True)
    for disagreement in disagreements[:_SHOWN]:
        print(f"    {disagreement}")
    return agreed, compared
