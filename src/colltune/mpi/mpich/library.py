"""MPICH 4.0 to 5.0 by its control variables and its files of selections.

MPICH looks at its variables at every call, and so do the collectives that it uses inside of others
and inside MPI_Init and MPI_Comm_dup, with sizes of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Limit
from colltune.mpi.configuration_space import (
    CatalogueSpace,
)
from colltune.mpi.in_effect import ProgramStarter, Rank, Setting, of_environment
from colltune.mpi.release import MpiLibrary, UserPatterns
from colltune.mpi.toolchain import Toolchain, module_named

LIBRARY, TITLE = "mpich", "MPICH"
_LEAST_RADIX = 2
_FALLBACK = "MPIR_CVAR_COLLECTIVE_FALLBACK"
# items of the variable, which are plain numbers to MPI_T; the default is silent
_ERROR, _SILENT = 0, 2
_AUTO = 0
_CHECKED = "MPICH decides (the choice of a JSON file is not checked)"
_PREFIX = re.compile(r"\A(?:MPIR_CVAR|MPIR_PARAM|MPICH)_")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_HYDRA_FILE = "HYDRA_CONFIG_FILE"
_GENV = re.compile(r"(?:^|\s)--?g?env\s+(\w+)\s+(\S+)")
# all small or all capital; other words end the program
_SWITCHES = {"1": True, "yes": True, "true": True, "on": True}
_SWITCHES |= {"0": False, "no": False, "false": False, "off": False}
# a variable can be set by three names; the first that is set holds
PREFIXES = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")
_OF_ONE_COLLECTIVE = (
    "?*_ALGORITHM",
    "COMPOSITION",
    "DEVICE_COLLECTIVE",
    "*KVAL",
    "TREE_?*",
    "?*_SIZE",
)
_OF_ALL = ("DEVICE_COLLECTIVES", "*COLL_SELECTION_TUNING_JSON_FILE", "COLLECTIVE_FALLBACK")


class MpichSpace(CatalogueSpace):
    """The algorithms of MPICH's catalogue, by its control variables."""

    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {
        "fanout": (_LEAST_RADIX, 2**16),
        "segsize": (0, 2**31 - 1),
    }
    # the other limits MPICH checks itself at every call, and decides on its own outside of them
    breaks: ClassVar[frozenset[Limit]] = frozenset({Limit.EQUAL_COUNTS})
    otherwise: ClassVar[Mapping[Limit, str]] = {
        Limit.EQUAL_COUNTS: "the program ends",
        # the restrictions in src/mpi/coll/coll_algorithms.txt
        Limit.BUILTIN_OPERATION: _CHECKED,
        Limit.COMMUTATIVE: _CHECKED,
        Limit.ELEMENT_PER_POWER_OF_TWO: _CHECKED,
        Limit.POWER_OF_TWO_PROCESSES: _CHECKED,
    }

    def chosen_by(self, collective: Collective) -> str:
        return self.variable(collective, "INTRA_ALGORITHM")

    def variable(self, collective: Collective, name: str) -> str:
        return f"MPIR_CVAR_{collective.upper()}_{name}"

    def deciding(self, collective: Collective) -> tuple[str, str]:
        """Return who decides; the device goes first on communicators that span nodes."""
        whole = f"{TITLE}'s own decision, or that of a variable or JSON file"
        if collective not in self.catalogue.device_collectives:
            return whole, whole
        return whole, (
            "the device splits it into parts within nodes and between leaders of nodes; the "
            "choice holds within these parts (MPIR_CVAR_DEVICE_COLLECTIVES=none keeps it "
            "whole)"
        )

    def offered(
        self, collective: Collective, segsizes_bytes: Sequence[int], fanouts: Sequence[int]
    ) -> tuple[Configuration, ...]:
        radixes = [fanout for fanout in fanouts if fanout >= _LEAST_RADIX]
        return super().offered(collective, segsizes_bytes, radixes)

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the configuration with the smallest parameters, unless it runs as another one.

        A radix is at most the number of processes (``recexchalgo.c``), in a k-ary tree one less; a
        message that fits one chunk is not cut (``algo_common.h``).
        """
        spelled = self.canonical(configuration)
        if spelled.is_default or self.running_range(spelled, nprocs, 1).why_not(msize_bytes):
            return spelled
        parameters = spelled.numbers
        if "fanout" in parameters:
            most = nprocs - 1 if spelled.algorithm.endswith("_kary") else nprocs
            parameters["fanout"] = max(_LEAST_RADIX, min(parameters["fanout"], most))
        algorithm = self.algorithm_of(spelled)
        segmented = Limit.SEGMENTED in algorithm.limits
        if not segmented and parameters.get("segsize", 0) >= max(1, msize_bytes):
            parameters["segsize"] = 0
        return self.configuration(spelled.collective, algorithm, parameters)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        # the device's own collectives would come first, and use the algorithm within their parts
        spelled = self.canonical(configuration)
        if spelled.is_default:
            return self._choice(spelled.collective, _AUTO, device=1) | {_FALLBACK: _SILENT}
        number = self.algorithm_of(spelled).number
        found = self._choice(spelled.collective, number, device=0) | {_FALLBACK: _ERROR}
        return found | self._values(spelled)

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        # where it cannot run, MPICH decides: to let it fail instead would end the launch in
        # MPI_Init, whose own calls are smaller or on other communicators
        spelled = self.canonical(configuration)
        if spelled.is_default:
            return {}
        algorithm = self.algorithm_of(spelled)
        variables = self._choice(spelled.collective, algorithm.value or algorithm.name, device=0)
        variables |= self._values(spelled)
        return {name: str(value) for name, value in variables.items()}

    def settable_at_runtime(self, configuration: Configuration) -> bool:
        # texts, such as the type of a tree, are read once at the start, numbers at every call
        spelled = self.canonical(configuration)
        if spelled.is_default:
            return True
        return all(isinstance(value, int) for _, value in self.algorithm_of(spelled).settings)

    def _choice(
        self, collective: Collective, value: int | str, device: int
    ) -> dict[str, int | str]:
        return {
            self.chosen_by(collective): value,
            self.variable(collective, "DEVICE_COLLECTIVE"): device,
        }

    def _values(self, spelled: Configuration) -> dict[str, int | str]:
        algorithm, collective = self.algorithm_of(spelled), spelled.collective
        variables = self.parameter_variables(collective, algorithm)
        found: dict[str, int | str] = {variables[n]: value for n, value in spelled.parameters}
        settings = algorithm.settings
        return found | {self.variable(collective, name): value for name, value in settings}


class MpichToolchain(Toolchain):
    # Hydra has MPICH's releases
    launcher_says = r"HYDRA build details:\s*Version:\s*(\d+\.\d+\S*)"
    # its derivatives' mpiexec says the same as MPICH's, their mpicc does not
    compiler_says = r"\Ampi\w+ for MPICH version (\d+\.\d+\S*)"
    program_says = r"MPICH Version:\s*(\d+\.\d+[a-z0-9.]*)"
    suffix = ".mpich"
    compiler_variable = "MPICH_CC"
    root_variable = "MPICH_DIR"
    development = "Debian: libmpich-dev"
    mend = "install it (Debian: mpich and libmpich-dev; PyPI: mpich)"
    modules = module_named(r"(?i:mpich)")
    easybuild = "EBVERSIONMPICH"


class Mpich(MpiLibrary):
    name = LIBRARY
    title = TITLE
    toolchain = MpichToolchain()
    releases = ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2")
    formats: Mapping[str, str] = {
        "mpich-json": "colltune.mpi.mpich.tree_format:MpichJson",
        "mpich-cvars": "colltune.mpi.mpich.variables:MpichVariables",
        "mpich-table": "colltune.mpi.libcolltune.table:MpichTable",
    }
    preferred = ("mpich-json",)
    space = MpichSpace
    prints_choices: Mapping[str, str] = {"MPIR_CVAR_DEBUG_SUMMARY": "1"}
    user_patterns = UserPatterns(
        tuple(
            f"{prefix}{name}"
            for prefix in PREFIXES
            for name in (
                *_OF_ALL,
                *(f"{c.upper()}_{what}" for c in Collective for what in _OF_ONE_COLLECTIVE),
            )
        )
    )

    def same_variable(self, name: str) -> str:
        return _PREFIX.sub(PREFIXES[0], name, count=1)

    def in_effect(
        self, environment: Mapping[str, str], launcher: ProgramStarter | None = None
    ) -> dict[str, Setting]:
        """Return what the environment and Hydra's file set; the file's options go before."""
        home = environment.get("HOME")
        default = str(Path(home, ".mpiexec.hydra.conf")) if home else ""
        return of_environment(environment) | _of_hydra(environment.get(_HYDRA_FILE) or default)

    def same(self, name: str, one: str, other: str) -> bool:
        """Tell whether two values mean the same: switches in the library's words, C's integers."""
        if super().same(name, one, other):
            return True
        if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
            return int(one) == int(other)
        switches = [switch_of(text) for text in (one, other)]
        return switches[0] is not None and switches[0] == switches[1]


def _of_hydra(path: str) -> dict[str, Setting]:
    """Return what the options ``-genv NAME VALUE`` in Hydra's configuration file set."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = {}
    for number, line in enumerate(lines, 1):
        for name, value in _GENV.findall(line.partition("#")[0]):
            found[name] = Setting(value, f"{path}:{number}", Rank.LAUNCHER)
    return found


def switch_of(text: str) -> bool | None:
    """Return what a switch's text means; None for a word that the library does not know."""
    word = text if text in (text.lower(), text.upper()) else ""
    return _SWITCHES.get(word.lower())


MPICH = Mpich()
