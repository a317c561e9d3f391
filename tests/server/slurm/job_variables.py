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
from colltune.mpi.mpich.tree_writer import DEVICE
from colltune.mpi.openmpi.tuned_format import DISPATCH
from colltune.server.slurm.job_file import VARIABLES
from colltune.verify.legal_programs import configurations

HEAD = """\
# The variables that the service may tell a job to set, by library: by a value, or by naming a file
# of the job. They are all that the formats of configuration files need, by the catalogues. Made by
# python -m tests.server.slurm.job_variables
"""
CHOOSES = re.compile(r"(?:OMPI_MCA_coll_|MPIR_CVAR_|I_MPI_ADJUST_|I_MPI_TUNING)[A-Za-z0-9_]*")
MAIN = "/jobs/1/rules"


def listed() -> str:
    """Return the text of the list."""
    found = {f"{name} {line}" for name, library in LIBRARIES.items() for line in _of(library)}
    # a file of parameters could set anything
    lines = sorted(line for line in found if CHOOSES.fullmatch(line.split()[2]))
    return HEAD + "".join(f"{line}\n" for line in lines)


def _of(library: MpiLibrary) -> Iterator[str]:
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
                yield f"{'file' if value.startswith(MAIN) else 'value'} {name}"
            if not found:
                # a list of variables, of which every one is set
                for collective in library.catalogue_of(release).collectives:
                    # those that are never used too, so that the list outlives what is measured
                    for configuration in configurations(library.at(release), collective):
                        for name in library.at(release).forced_environment(configuration):
                            yield f"value {name}"


if __name__ == "__main__":
    Path(str(resources.files("colltune.server.slurm"))).joinpath(VARIABLES).write_text(listed())
