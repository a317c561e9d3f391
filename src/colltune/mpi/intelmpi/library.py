"""Intel MPI 2019 and 2021: the presets of I_MPI_ADJUST_* and of the files for I_MPI_TUNING.

The variables are read once, so that every configuration needs a launch of its own. Intel MPI does
not tell which algorithm runs, and takes a number that it does not have for 1. No algorithm has
parameters; a number is an algorithm's name, too.

As the files name them, presets are numbers, 0 for none. 0 is the library's built-in logic. It does
not look into the tuning data that the library ships, so it is the library's own decision, but not
the one that a program without any file gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Limit
from colltune.mpi.configuration_space import (
    CatalogueSpace,
)
from colltune.mpi.release import MpiLibrary, Release, UserPatterns
from colltune.mpi.toolchain import Toolchain, before, module_named

LIBRARY, TITLE = "intelmpi", "Intel MPI"
BUILT_IN = 0
BUILT_IN_LOGIC = (
    "preset 0 is the library's built-in logic, which ignores the tuning data that Intel ships"
)
_TOO_HIGH = 1
"""What runs in place of a number that the release does not have."""


# "2019 Update 9" is 2019.9
_NUMBERS = r"(\d+(?:\.\d+)*)(?: Update (\d+))?"


def variable(collective: Collective) -> str:
    """Return the environment variable of a collective, ``I_MPI_ADJUST_BCAST``."""
    return f"I_MPI_ADJUST_{collective.upper()}"


class PresetSpace(CatalogueSpace):
    """The presets of a release; Intel MPI falls back by itself wherever one cannot run."""

    breaks: ClassVar[frozenset[Limit]] = frozenset({Limit.COMMUTATIVE})

    def chosen_by(self, collective: Collective) -> str:
        return variable(collective)

    def deciding(self, collective: Collective) -> tuple[str, str]:
        tuned = "the vendor's tuning file; a preset combines algorithms within and between nodes"
        return tuned, tuned

    def highest(self, collective: Collective) -> int:
        """Return the highest preset, 0 if there is none to choose from."""
        return max((a.number for a in self.entry_of(collective).algorithms), default=0)

    def as_read(self, collective: Collective, number: int) -> int:
        """Return the preset that the library takes a number for."""
        return number if 0 <= number <= self.highest(collective) else _TOO_HIGH

    def preset(self, collective: Collective, number: int | None) -> Configuration | None:
        """Return the configuration of a preset, the default for 0; None if there is none."""
        if not number:
            return Configuration.default(LIBRARY, collective)
        algorithm = self.entry_of(collective).numbered(number)
        return None if algorithm is None else self.configuration(collective, algorithm, {})

    def preset_of(self, configuration: Configuration) -> int:
        """Return the number of a configuration's preset, 0 for the default."""
        spelled = self.canonical(configuration)
        return BUILT_IN if spelled.is_default else self.algorithm_of(spelled).number

    def chosen(self, collective: Collective, number: int) -> Configuration:
        """Return the configuration that a rule with `number` stands for in the library's eyes."""
        found = self.preset(collective, self.as_read(collective, number))
        return found or Configuration.default(LIBRARY, collective)

    def running(self, configuration: Configuration, comm_size: int) -> tuple[Configuration, str]:
        """Return what runs where `configuration` is chosen, and why if it is another one."""
        if configuration.is_default:
            return configuration, ""
        algorithm = self.algorithm_of(configuration)
        if algorithm.wrong or not algorithm.fallback:
            return configuration, ""
        runs = self.running_range(configuration, comm_size, 1)
        instead = self.entry_of(configuration.collective).named(algorithm.fallback)
        if runs.first_bytes is not None or instead is None:
            return configuration, ""
        fallen = self.configuration(configuration.collective, instead, {})
        return fallen, f"{runs.reason}; {instead.name} runs instead"

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        """Return the one variable, without conditions on sizes or processes."""
        preset = self.preset_of(configuration)
        return {variable(configuration.collective): str(preset)} if preset != BUILT_IN else {}


class IntelMpiToolchain(Toolchain):
    launcher_says = rf"Intel\(R\) MPI Library for Linux\* OS, Version {_NUMBERS}"
    compiler_says = rf"Intel\(R\) MPI Library {_NUMBERS} for Linux"
    program_says = rf"Intel\(R\) MPI Library {_NUMBERS}"
    suffix = ".intelmpi"
    compiler_variable = "I_MPI_CC"
    root_variable = "I_MPI_ROOT"
    place_variables = ("I_MPI_ROOT",)
    development = "PyPI: impi-devel; oneAPI: intel-oneapi-mpi-devel"
    mend = "load its environment (setvars.sh or module load), or install it (PyPI: impi-devel)"
    modules = module_named(r"(?:^|/)(?:impi|intel-mpi|intelmpi|intel-oneapi-mpi)/|^mpi/20(?:19|21)")
    easybuild = "EBVERSIONIMPI"

    def variables(self, mpirun: Path, user: Mapping[str, str]) -> dict[str, str]:
        """Return nothing where the user has loaded it, else what its setvars.sh would set."""
        prefix = mpirun.resolve().parent.parent
        root = prefix.parent if prefix.name == "intel64" else prefix
        loaded = user.get(self.root_variable)
        if loaded and Path(loaded).resolve() == root.resolve():
            return {}
        fabrics = (prefix / "lib/libfabric", prefix / "libfabric/lib", root / "libfabric/lib")
        own = ("opt/mpi/libfabric/lib", "lib/release", "lib")
        folders = [*fabrics, *(prefix / folder for folder in own)]
        libraries = [str(folder) for folder in folders if folder.is_dir()]
        found = {
            self.root_variable: str(root),
            "LD_LIBRARY_PATH": before(libraries, user.get("LD_LIBRARY_PATH")),
            "PATH": before([str(mpirun.resolve().parent)], user.get("PATH")),
        }
        for folder in folders:
            if (folder / "prov").is_dir():
                found["FI_PROVIDER_PATH"] = str(folder / "prov")
        return found


class IntelMpi(MpiLibrary):
    name = LIBRARY
    title = TITLE
    decides_by_machine = True
    toolchain = IntelMpiToolchain()
    releases = ("2019.9", "2021.6", "2021.11", "2021.15", "2021.18.1")
    formats: Mapping[str, str] = {
        "intelmpi-json": "colltune.mpi.intelmpi.tuning:TuningFormat",
        "intelmpi-adjust": "colltune.mpi.intelmpi.adjust:AdjustFormat",
        "intelmpi-table": "colltune.mpi.libcolltune.table:IntelMpiTable",
    }
    preferred = ("intelmpi-json",)
    space = PresetSpace
    user_patterns = UserPatterns(("I_MPI_ADJUST_*", "I_MPI_TUNING*"))
    # presets were only ever added within 2021, so that the catalogue before a release holds for it
    same_numbers = 1

    def bound(self, release: str) -> Release:
        return Release(self, self.presets(release))

    def same(self, name: str, one: str, other: str) -> bool:
        """Tell whether two values name the same file, or are alike without their blanks."""
        alike = "".join(one.split()) == "".join(other.split())
        return alike or super().same(name, one, other)

    @staticmethod
    @lru_cache(maxsize=128)
    def presets(release: str) -> PresetSpace:
        return PresetSpace(LIBRARY, TITLE, release, INTEL_MPI.catalogue_of(release))


INTEL_MPI = IntelMpi()
