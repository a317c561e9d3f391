"""Open MPI 4.1.4 and later 4.1.x, 5.0.x, 6.x: coll/tuned, and coll/han."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.catalogued import CataloguedLibrary
from colltune.mpi.openmpi import activation, portfolio
from colltune.mpi.openmpi.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import Honoured, UserPatterns
from colltune.mpi.vendors import OpenMpiVendor


class OpenMpi(CataloguedLibrary):
    """Open MPI behind `colltune.mpi.protocol.MpiLibrary`; see there and the modules beside.

    6.0 reads classic files differently, so that a file is taken for one of 5.0.
    """

    name = LIBRARY
    title = TITLE
    vendor = OpenMpiVendor()
    releases = ("4.1.4", "4.1.8", "5.0.6", "5.0.11", "6.0.0")
    formats: ClassVar[Mapping[str, str]] = {
        "openmpi-classic": "colltune.mpi.openmpi.classic:OpenMpiClassic",
        "openmpi-json": "colltune.mpi.openmpi.ranges:OpenMpiJson",
        "openmpi-han": "colltune.mpi.openmpi.han.format:OpenMpiHan",
        "openmpi-parameters": "colltune.mpi.openmpi.parameters:OpenMpiParameters",
        "openmpi-table": "colltune.mpi.interposed.table.format:OpenMpiTable",
    }
    current = "5.0.11"
    preferred = ("openmpi-json", "openmpi-classic")
    offer = portfolio.OFFER

    def catalogue_of(self, release: str) -> Catalogue:
        """See `releases.catalogue_of`."""
        return catalogue_of(release)

    def chosen_by(self, collective: Collective) -> str:
        """Return its parameter of coll/tuned, ``coll_tuned_bcast_algorithm``."""
        return f"coll_tuned_{collective}_algorithm"

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """See `portfolio.effective`."""
        return portfolio.effective(release, configuration, nprocs, msize_bytes)

    def safe(
        self,
        release: str,
        configuration: Configuration,
        *,
        builtin_operations_only: bool,
        nprocs: int | None = None,
    ) -> bool:
        """Tell whether `portfolio.why_unsafe` has nothing to say."""
        return not portfolio.why_unsafe(
            release,
            configuration,
            builtin_operations_only=builtin_operations_only,
            nprocs=nprocs,
        )

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """See `activation.force`."""
        return activation.force(release, configuration)

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """See `activation.settable_at_runtime`; the algorithm makes no difference."""
        return activation.settable_at_runtime(release, configuration.collective)

    def base_environment(self, release: str) -> dict[str, str]:
        """See `activation.base_environment`."""
        return activation.base_environment(release)

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """See `activation.forced_environment`."""
        return activation.forced_environment(release, configuration)

    def parameter_file(self, environment: Mapping[str, str]) -> str:
        """See `activation.parameter_file`."""
        return activation.parameter_file(environment)

    def start_line(self, parameter_path: Path) -> str:
        """Return the line with mpirun's own option."""
        return f"mpirun --tune {shlex.quote(str(parameter_path))} …"

    def honour_user(
        self, environment: Mapping[str, str], os_environ: Mapping[str, str]
    ) -> Honoured:
        """See `activation.honour_user`."""
        return activation.honour_user(environment, os_environ)

    def user_patterns(self) -> UserPatterns:
        """See `activation.USER_PATTERNS`."""
        return activation.USER_PATTERNS

    def expected_symbols(self, release: str, configuration: Configuration) -> frozenset[str]:
        """Return the function that runs `configuration`; empty for the default, which varies."""
        if configuration.is_default:
            return frozenset()
        return frozenset({portfolio.algorithm_of(release, configuration).symbol})
