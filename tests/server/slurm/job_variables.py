"""What a job may be told, by what all formats and catalogues of each library can set.

`python -m tests.server.slurm.job_variables` writes the list that the hooks have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from colltune.domain import Shape
from colltune.mpi import LIBRARIES, MpiLibrary
from colltune.mpi.formats import FORMATS
from colltune.mpi.mpich.functions import TREE_TYPES
from colltune.mpi.mpich.tree_format import DEVICE
from colltune.mpi.openmpi.tuned_format import DISPATCH
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.running import Promises
from colltune.server.slurm.job_file import ANY_NUMBER, VARIABLES
from colltune.verify.legal_programs import configurations

HEAD = """\
# The variables that the service may tell a job to set, by library: by naming a file of the job, or
# by a value of these (# is any number; of a setting in parts, what stands before each colon). They
# are all that the formats of configuration files need, by the catalogues, and no value is one that
# breaks programs in each release that has it. Made by python -m tests.server.slurm.job_variables
"""
CHOOSES = re.compile(r"(?:OMPI_MCA_coll_|MPIR_CVAR_|I_MPI_ADJUST_|I_MPI_TUNING)[A-Za-z0-9_]*")
MAIN = "/jobs/1/rules"


def listed() -> str:
    """Return the text of the list."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for name, library in LIBRARIES.items():
        for kind, variable, value in _of(library):
            # a file of parameters could set anything
            if CHOOSES.fullmatch(variable):
                found.setdefault((name, kind, variable), set()).add(value)
    rows = (f"{' '.join(key)} {_values(key[-1], told)}" for key, told in sorted(found.items()))
    return HEAD + "".join(f"{row.rstrip()}\n" for row in rows)


def _values(variable: str, told: set[str]) -> str:
    """Return the values for the list; those of parameters are any number."""
    if variable.endswith(("_KVAL", "_SIZE")):
        return ANY_NUMBER
    if variable.endswith("_TREE_TYPE"):
        told = {*TREE_TYPES}
    return "|".join(sorted(told - {""}, key=lambda value: (len(value), value)))


def _of(library: MpiLibrary) -> Iterator[tuple[str, str, str]]:
    """Yield kinds, names and values of variables; the value is empty where it is no safe one."""
    for form in (FORMATS[name] for name in library.formats):
        if form.interposed:
            continue
        for release in library.releases:
            if form.unreadable_by(release):
                continue
            paths = {"": MAIN} | {end: f"{MAIN}{end}" for end in (DISPATCH, DEVICE)}
            found = form.activation(release, paths, Shape(2, 2))
            found |= form.activation(release, {"": MAIN}, Shape(2, 2))
            for name, value in found.items():
                is_file = value.startswith(MAIN)
                yield "file" if is_file else "value", name, "" if is_file else value
            bound = library.at(release)
            if not found:
                # a list of variables, of which every one is set
                for collective in library.catalogue_of(release).collectives:
                    # those that are never used too, so that the list outlives what is measured
                    for configuration in configurations(bound, collective):
                        promises = Promises(MOST_PROMISED)
                        is_safe = not bound.runs(configuration, promises=promises).refusal
                        for name, value in bound.forced_environment(configuration).items():
                            yield "value", name, value if is_safe else ""


if __name__ == "__main__":
    Path(str(resources.files("colltune.server.slurm"))).joinpath(VARIABLES).write_text(listed())
