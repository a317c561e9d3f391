"""Files with which a job's coll/han runs one setup per collective: its rules and parameters.

The rules can tell communicator and message sizes apart, but only whether coll/han runs, by which of
its algorithms; its segment size and modules are parameters, of which there is one set per job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.openmpi import activation, han_setups
from colltune.mpi.openmpi.han import writing
from colltune.mpi.openmpi.han.parsed import parameters
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY

_BY_RULES = ("coll_han_priority", "coll_han_use_")


@dataclass(frozen=True)
class JobFiles:
    """The text of the rules, and the parameters (name -> value) that belong to them."""

    rules: str
    parameters: Mapping[str, str]

    @property
    def parameter_file(self) -> str:
        """The parameters as ``mpirun --tune`` reads them."""
        return activation.parameter_file(self.parameters)


def job_files(
    release: str, shape: Shape, setups: Mapping[Collective, Configuration], rules_path: Path
) -> JobFiles:
    """Return the files for jobs of `shape`, whose rules will lie at `rules_path`."""
    if not rules_path.is_absolute():
        raise LibraryError(f"{rules_path}: the path of a rules file must be absolute")
    chosen: dict[tuple[Collective, int], tuple[Interval, ...]] = {
        (collective, shape.nprocs): (Interval(0, None, _intra(collective)),)
        for collective in setups
    }
    rules, _ = writing.write(DecisionTable(LIBRARY, shape, chosen), release)
    found = parameters(release, str(rules_path))
    for setup in setups.values():
        for name, value in OPENMPI.han_setups(release).parameters(setup).items():
            if name.startswith(_BY_RULES):
                continue
            if found.setdefault(name, value) != value:
                raise LibraryError(
                    f"{setup.id}: {name} would have to be {value} and {found[name]} in one job"
                )
    return JobFiles(rules, found)


def _intra(collective: Collective) -> Configuration:
    return Configuration(LIBRARY, collective, han_setups.ALGORITHM)
