"""How Open MPI is told: parameters, their files and environment, and the user's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.openmpi.portfolio import algorithm_of, canonical
from colltune.mpi.openmpi.releases import catalogue_of, entry_of
from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import Honoured, UserPatterns

_PREFIX = "OMPI_MCA_"
_USE_RULES = "coll_tuned_use_dynamic_rules"
# hcoll outranks everything where it is installed; elsewhere the parameter has no effect
_NO_HCOLL = ("coll_hcoll_enable", "0")
_FORCED_NAMES = {
    "segsize": "segmentsize",
    "fanout": "chain_fanout",
    "requests": "max_requests",
}
# these components decide who runs a collective; verbosity and the like do not
_COMPONENTS = ("tuned", "han", "hcoll", "ucc", "adapt", "sm")
USER_PATTERNS = UserPatterns(
    deciding=(f"{_PREFIX}coll", *(f"{_PREFIX}coll_{name}_*" for name in _COMPONENTS)),
    harmless=("*_verbose", "*_dump_dynamic_rules", "*_max_dynamic_errors"),
)
_TRUE, _FALSE = frozenset({"1", "true", "yes", "enabled"}), frozenset({"0", "false", "no"})


def force(release: str, configuration: Configuration) -> dict[str, int | str]:
    """Return control variables (MPI_T) or parameters that make new communicators use it.

    They need `base_environment`. Those of the default restore the library's own decision.
    """
    catalogue = catalogue_of(release)
    collective = configuration.collective
    spelled = canonical(release, configuration)
    stem = f"coll_tuned_{collective}_algorithm"
    variables: dict[str, int | str] = {stem: 0}
    if not spelled.is_default:
        algorithm = algorithm_of(release, spelled)
        names = _FORCED_NAMES | dict(algorithm.variables)
        variables[stem] = algorithm.number
        for name, value in spelled.parameters:
            variables[f"{stem}_{names[name]}"] = value
    if catalogue.han_priority is not None and collective in catalogue.han_collectives:
        variables["coll_han_priority"] = catalogue.han_priority if spelled.is_default else 0
    return variables


def settable_at_runtime(release: str, collective: Collective) -> bool:
    """Tell whether `force` works through MPI_T; if not, only for a whole launch."""
    return entry_of(release, collective).runtime


def base_environment(release: str) -> dict[str, str]:
    """Return the environment in which `force` takes effect, for a whole launch."""
    catalogue_of(release)
    return environment({_USE_RULES: "1", **dict([_NO_HCOLL])})


def forced_environment(release: str, configuration: Configuration) -> dict[str, str]:
    """Return the environment of a launch in which every communicator uses `configuration`.

    It is empty for the default: without hcoll's switch, which would take a decision of the library.
    """
    variables = force(release, configuration)
    if configuration.is_default:
        return {}
    forced = environment({name: str(value) for name, value in variables.items()})
    return base_environment(release) | forced


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
    parameters = {_USE_RULES: "1", "coll_tuned_dynamic_rules_filename": _absolute(rules_path)}
    if dispatch_path is not None and spans_nodes and catalogue.han_priority is not None:
        parameters["coll_han_use_dynamic_file_rules"] = "1"
        parameters["coll_han_dynamic_rules_filename"] = _absolute(dispatch_path)
    return parameters | dict([_NO_HCOLL])


def parameter_file(variables: Mapping[str, str]) -> str:
    """Return the text for ``mpirun --tune`` and ``OMPI_MCA_mca_base_envar_file_prefix``.

    `variables` are parameters, or the environment variables that set them.
    """
    lines = []
    for variable, value in variables.items():
        name = variable.removeprefix(_PREFIX)
        if not value or any(c.isspace() or c in "\"'#" for c in value):
            raise LibraryError(
                f"{name}: {value!r} cannot stand in a parameter file; use a path without blanks,"
                " quotes and #"
            )
        lines.append(f"--mca {name} {value}\n")
    return "".join(lines)


def environment(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that set `parameters`; mpirun and srun hand them on."""
    return {f"{_PREFIX}{name}": value for name, value in parameters.items()}


def honour_user(new_environment: Mapping[str, str], os_environ: Mapping[str, str]) -> Honoured:
    return honoured(new_environment, os_environ, USER_PATTERNS.decides, same_value=_plain)


def _plain(value: str) -> str:
    word = value.strip().lower()
    if word in _TRUE:
        return "1"
    return "0" if word in _FALSE else value


def _absolute(path: Path) -> str:
    if not path.is_absolute():
        raise LibraryError(f"{path}: the path of a rules file must be absolute")
    return str(path)
