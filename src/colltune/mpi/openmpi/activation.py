"""How Open MPI is told: its MCA parameters, in the environment and in files for mpirun."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from colltune.errors import LibraryError
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.variables import PREFIX

USE_RULES = "coll_tuned_use_dynamic_rules"
# hcoll outranks everything where it is installed; elsewhere the parameter has no effect
NO_HCOLL = {"coll_hcoll_enable": "0"}


def activation(
    release: str,
    rules_path: Path,
    *,
    spans_nodes: bool,
    dispatch_path: Path | None = None,
) -> dict[str, str]:
    """Return the parameters (name -> value) that put the rules file into effect.

    `dispatch_path` is where coll/han's dispatch file was written, if there is one. Both files must
    be readable at the same path on every node.
    """
    catalogue = catalogue_of(release)
    parameters = {USE_RULES: "1", "coll_tuned_dynamic_rules_filename": _absolute(rules_path)}
    if dispatch_path is not None and spans_nodes and catalogue.han_priority is not None:
        parameters["coll_han_use_dynamic_file_rules"] = "1"
        parameters["coll_han_dynamic_rules_filename"] = _absolute(dispatch_path)
    return parameters | NO_HCOLL


def parameter_file(variables: Mapping[str, str]) -> str:
    """Return the text for ``mpirun --tune`` and ``OMPI_MCA_mca_base_envar_file_prefix``.

    `variables` are parameters, or the environment variables that set them.
    """
    lines = []
    for variable, value in variables.items():
        name = variable.removeprefix(PREFIX)
        if not value or any(c.isspace() or c in "\"'#" for c in value):
            raise LibraryError(
                f"{name}: {value!r} cannot stand in a parameter file; use a path without blanks,"
                " quotes and #"
            )
        lines.append(f"--mca {name} {value}\n")
    return "".join(lines)


def environment(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that set `parameters`; mpirun and srun hand them on."""
    return {f"{PREFIX}{name}": value for name, value in parameters.items()}


def _absolute(path: Path) -> str:
    if not path.is_absolute():
        raise LibraryError(f"{path}: the path of a rules file must be absolute")
    return str(path)
