"""Open MPI 4.1.4 and later 4.1.x, 5.0.x, 6.x: coll/tuned, and coll/han."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.catalogued import CataloguedLibrary
from colltune.mpi.openmpi import activation, han_setups, portfolio
from colltune.mpi.openmpi.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import SEGSIZES_BYTES, Honoured, UserPatterns
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
        "openmpi-json": "colltune.mpi.openmpi.json_rules:OpenMpiJson",
        "openmpi-han": "colltune.mpi.openmpi.han:OpenMpiHan",
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

    def further(
        self, release: str, collective: Collective, segsizes_bytes: Sequence[int] = SEGSIZES_BYTES
    ) -> tuple[Configuration, ...]:
        """Return coll/han's setups; see `han_setups.offered`."""
        return tuple(han_setups.offered(release, collective, segsizes_bytes))

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """See `colltune.mpi.offer.Offer.canonical` and `han_setups.canonical`."""
        if han_setups.is_setup(configuration):
            return han_setups.canonical(release, configuration)
        return self.offer.canonical(release, configuration)

    def why_not(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> str:
        """See `colltune.mpi.offer.Offer.why_not` and `han_setups.why_not`."""
        if han_setups.is_setup(configuration):
            return han_setups.why_not(release, configuration, nprocs)
        return self.offer.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def why_not_on(self, release: str, configuration: Configuration, shape: Shape) -> str:
        """See `han_setups.why_not_on`."""
        return han_setups.why_not_on(shape) if han_setups.is_setup(configuration) else ""

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """See `colltune.mpi.offer.Offer.running_range`; coll/han's setups run with all sizes."""
        if han_setups.is_setup(configuration):
            return None if han_setups.why_not(release, configuration, nprocs) else 0
        return super().running_from(release, configuration, nprocs, element_bytes)

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """See `portfolio.effective` and `han_setups.effective`."""
        if han_setups.is_setup(configuration):
            return han_setups.effective(release, configuration, msize_bytes)
        return portfolio.effective(release, configuration, nprocs, msize_bytes)

    def safe(
        self,
        release: str,
        configuration: Configuration,
        *,
        builtin_operations_only: bool,
        nprocs: int | None = None,
    ) -> bool:
        """Tell whether `portfolio.why_unsafe` has nothing to say.

        coll/han hands on what its pipelined algorithms cannot do.
        """
        if han_setups.is_setup(configuration):
            han_setups.canonical(release, configuration)
            return True
        return not portfolio.why_unsafe(
            release,
            configuration,
            builtin_operations_only=builtin_operations_only,
            nprocs=nprocs,
        )

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """See `activation.force` and `han_setups.variables`."""
        if han_setups.is_setup(configuration):
            unforced = activation.force(release, _default_of(configuration))
            return unforced | han_setups.variables(release, configuration)
        return activation.force(release, configuration)

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """See `activation.settable_at_runtime`; of coll/tuned the algorithm makes no difference.

        What coll/han's setups are made of is read when MPI starts and at every call; it is not
        enough to write it while a communicator is made.
        """
        if han_setups.is_setup(configuration):
            han_setups.canonical(release, configuration)
            return False
        return activation.settable_at_runtime(release, configuration.collective)

    def launch_environment(
        self, release: str, configuration: Configuration
    ) -> dict[str, str] | None:
        """Return coll/han's modules, where those of a setup are not the usual ones.

        The rest of a setup must hold during the calls, as `force` asks for.
        """
        if han_setups.is_setup(configuration):
            return activation.environment(han_setups.launch_variables(release, configuration))
        return super().launch_environment(release, configuration)

    def base_environment(self, release: str) -> dict[str, str]:
        """See `activation.base_environment`."""
        return activation.base_environment(release)

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """See `activation.forced_environment`; of a setup of coll/han all its parameters."""
        if han_setups.is_setup(configuration):
            wanted = activation.environment(han_setups.parameters(release, configuration))
            return activation.base_environment(release) | wanted
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
        if han_setups.is_setup(configuration):
            han_setups.canonical(release, configuration)
            return frozenset({f"mca_coll_han_{configuration.collective}_intra"})
        if configuration.is_default:
            return frozenset()
        return frozenset({portfolio.algorithm_of(release, configuration).symbol})


def _default_of(configuration: Configuration) -> Configuration:
    return Configuration.default(LIBRARY, configuration.collective)
