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

from figures.figure import Figure
from tests.integration import (
    differential_intelmpi,
    differential_mpich,
    differential_nodes,
    install,
    openmpi_scenarios,
    real,
)

Agreements = Iterator[tuple[str, int, tuple[str, ...]]]
_MPICH_CALLS, _SEED = 120, 1


def _mpich(folder: Path) -> Agreements:
    """Yield the agreement of MPICH's messages with those of the algorithm said to run."""
    mpich = real.visible_mpich(folder)
    trials = list(differential_mpich.trials(mpich, folder, _MPICH_CALLS, _SEED))
    others = tuple(f"{t.call}: said {t.said.id}" for t in trials if not t.agrees)
    yield "a selection tree, on one node each and on two nodes", len(trials), others


COMPARISONS: dict[str, tuple[Callable[[Path], Agreements], ...]] = {
    "openmpi": (openmpi_scenarios.agreements, differential_nodes.agreements),
    "mpich": (_mpich,),
    "intelmpi": (differential_intelmpi.agreements,),
}
"""Each yields what was compared, how often, and the disagreements, for the MPI under test."""
_SHOWN = 5


def run() -> Figure:
    """Return the calls that ran as was said over all calls compared, of all libraries here."""
    agreed = total = 0
    for library, comparisons in COMPARISONS.items():
        for named in _installations(library):
            here = [0, 0]
            with _under_test(library, named):
                for agreements in comparisons:
                    here = [sum(pair) for pair in zip(here, _counted(agreements), strict=True)]
            name = Path(named).name if named else f"{library} on PATH"
            print(f"{name}: {here[0]} of {here[1]} agree", flush=True)
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


def _counted(agreements: Callable[[Path], Agreements]) -> tuple[int, int]:
    """Print all comparisons of one kind; return how many agreed, of how many."""
    agreed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            for what, compared, disagreements in agreements(Path(folder)):
                print(f"  {what}: {compared - len(disagreements)} of {compared}", flush=True)
                for disagreement in disagreements[:_SHOWN]:
                    print(f"    {disagreement}")
                agreed, total = agreed + compared - len(disagreements), total + compared
        except pytest.skip.Exception as reason:
            print(f"  nothing compared: {reason.msg}")
    return agreed, total
