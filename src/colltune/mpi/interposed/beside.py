"""An MPI library together with libcolltune: both's configurations in one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration, Portfolio, Shape
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.interposed import own
from colltune.mpi.offer import Offer
from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import (
    FANOUTS,
    SEGSIZES_BYTES,
    Honoured,
    MpiLibrary,
    UserPatterns,
)

FILE_STEM = "libcolltune"
"""Begins the name of the compiled library."""
PRELOAD = "LD_PRELOAD"
TABLE = "COLLTUNE_TABLE"
FORCE = "COLLTUNE_FORCE"
RULES = "COLLTUNE_RULES"
DECIDING = (FORCE, RULES, TABLE)
"""By which variables libcolltune is told what to run."""
FORCED_PREFIX = "colltune."
"""Begins the name by which `Beside.force` tells the benchmark to call ``colltune_force``."""


class Beside(MpiLibrary):
    """An MPI library as it is with libcolltune preloaded.

    Whatever is asked about an algorithm of libcolltune is answered here, the rest by `mpi`.
    """

    formats: ClassVar[Mapping[str, str]] = {}

    def __init__(self, mpi: MpiLibrary) -> None:
        self.mpi = mpi
        self.name, self.title, self.vendor = mpi.name, mpi.title, mpi.vendor
        self.releases = mpi.releases

    @property
    def current(self) -> str:
        """See `MpiLibrary.current`."""
        return self.mpi.current

    @property
    def offer(self) -> Offer:
        """What the library's own catalogues offer."""
        return self.mpi.offer

    @property
    def catalogues(self) -> Path:
        """See `MpiLibrary.catalogues`."""
        return self.mpi.catalogues

    def catalogue_of(self, release: str) -> Catalogue:
        """Return the catalogue of the library's release."""
        return self.mpi.catalogue_of(release)

    def chosen_by(self, collective: Collective) -> str:
        """Return the library's own variable."""
        return self.mpi.chosen_by(collective)

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """Return the library's configurations and libcolltune's behind them."""
        found = self.mpi.portfolio(release, collective, segsizes_bytes, fanouts)
        both = (*found.configurations, *own.offered(collective))
        return Portfolio(found.library, found.release, collective, both)

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """Return the one spelling of a configuration of either."""
        if own.is_own(configuration):
            return own.canonical(configuration)
        return self.mpi.canonical(release, configuration)

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the configuration with the smallest parameters that runs in the same way."""
        if own.is_own(configuration):
            return own.effective(configuration, nprocs)
        return self.mpi.effective(release, configuration, nprocs, msize_bytes)

    def why_not(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> str:
        """Return why a configuration would not run as itself there; empty if it would.

        Those of libcolltune run on any number of processes.
        """
        if own.is_own(configuration):
            own.canonical(configuration)
            return ""
        return self.mpi.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def why_not_on(self, release: str, configuration: Configuration, shape: Shape) -> str:
        """Return why it would not run as itself on `shape`; empty if nothing speaks against it."""
        if own.is_own(configuration):
            return own.why_not_on(configuration, shape)
        return self.mpi.why_not_on(release, configuration, shape)

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """Return the smallest message in bytes with which it runs as itself; None if with none."""
        if own.is_own(configuration):
            own.canonical(configuration)
            return 0
        return self.mpi.running_from(release, configuration, nprocs, element_bytes)

    def safe(
        self,
        release: str,
        configuration: Configuration,
        *,
        builtin_operations_only: bool,
        nprocs: int | None = None,
    ) -> bool:
        """Tell whether a configuration is right for every legal program.

        Those of libcolltune are: they leave to the library what they cannot do, such as operations
        that do not commute.
        """
        if own.is_own(configuration):
            own.canonical(configuration)
            return True
        return self.mpi.safe(
            release,
            configuration,
            builtin_operations_only=builtin_operations_only,
            nprocs=nprocs,
        )

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """Return the library's control variables, or what the benchmark hands to colltune_force.

        The latter is ``colltune.<collective>`` with the configuration's id.
        """
        if own.is_own(configuration):
            spelled = own.canonical(configuration)
            return {f"{FORCED_PREFIX}{spelled.collective}": spelled.id}
        return self.mpi.force(release, configuration)

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """Tell whether `force` works, as it does for all of libcolltune."""
        if own.is_own(configuration):
            own.canonical(configuration)
            return True
        return self.mpi.settable_at_runtime(release, configuration)

    def launch_environment(
        self, release: str, configuration: Configuration
    ) -> dict[str, str] | None:
        """Return what a launch needs for `force`: nothing for libcolltune's own algorithms."""
        if own.is_own(configuration):
            own.canonical(configuration)
            return {}
        return self.mpi.launch_environment(release, configuration)

    def base_environment(self, release: str) -> dict[str, str]:
        """Return the library's own; libcolltune must be preloaded besides."""
        return self.mpi.base_environment(release)

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """Return the environment of a launch in which a configuration runs wherever it can.

        For one of libcolltune, which must be preloaded besides, it is ``COLLTUNE_FORCE``.
        """
        if own.is_own(configuration):
            return {FORCE: own.canonical(configuration).id}
        return self.mpi.forced_environment(release, configuration)

    def expected_symbols(self, release: str, configuration: Configuration) -> frozenset[str]:
        """Return the library's functions that can run it; libcolltune tells its own by their id."""
        if own.is_own(configuration):
            return frozenset({own.canonical(configuration).id})
        return self.mpi.expected_symbols(release, configuration)

    def one_rule(self, release: str) -> frozenset[Collective]:
        """Return the collectives of which processes know messages of different sizes."""
        self.mpi.catalogue_of(release)
        return frozenset({Collective.ALLTOALLV})

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """Return the library's own algorithm of that number."""
        return self.mpi.numbered(release, collective, number)

    def parameter_file(self, environment: Mapping[str, str]) -> str:
        """Return export lines; see `assignment`."""
        return "".join(f"export {assignment(*pair)}\n" for pair in environment.items())

    def start_line(self, parameter_path: Path) -> str:
        """Return what a user types, with what makes the launcher hand the variables on."""
        start = f". {shlex.quote(str(parameter_path))} && "
        if self.vendor.launcher == "mpirun":
            return f"{start}mpirun -x {PRELOAD} -x {TABLE} …"
        return f"{start}mpiexec …"

    def honour_user(
        self, environment: Mapping[str, str], os_environ: Mapping[str, str]
    ) -> Honoured:
        """Return what may be set beside the user's own environment; see `own_settings.honoured`."""
        by_own = honoured(environment, os_environ, lambda name: name in DECIDING)
        return by_own if by_own.reason else self.mpi.honour_user(environment, os_environ)

    def user_patterns(self) -> UserPatterns:
        """Return the library's patterns, and the variables that tell libcolltune what to run."""
        patterns = self.mpi.user_patterns()
        return UserPatterns((*patterns.deciding, *DECIDING), patterns.harmless)


def assignment(name: str, value: str) -> str:
    """Return ``NAME=value`` for a shell; what is preloaded stands behind what the user preloads."""
    kept = f'"${{{PRELOAD}:+${PRELOAD}:}}"' if name == PRELOAD else ""
    return f"{name}={kept}{shlex.quote(value)}"


def beside(mpi: MpiLibrary) -> Beside:
    """Return a library together with libcolltune."""
    return Beside(mpi)
