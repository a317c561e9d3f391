"""Open MPI 4.1.4 and later 4.1.x, 5.0.x, 6.x: coll/tuned, and coll/han."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from colltune.domain import Collective, Configuration, Portfolio
from colltune.mpi.openmpi import activation, portfolio
from colltune.mpi.openmpi.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import FANOUTS, SEGSIZES_BYTES, Honoured, MpiLibrary, UserPatterns


class OpenMpi(MpiLibrary):
    """Open MPI behind `colltune.mpi.protocol.MpiLibrary`; see there and the modules beside."""

    name = LIBRARY
    title = TITLE

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """See `portfolio.portfolio`."""
        return portfolio.portfolio(release, collective, segsizes_bytes, fanouts)

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """See `portfolio.canonical`."""
        return portfolio.canonical(release, configuration)

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """See `portfolio.effective`."""
        return portfolio.effective(release, configuration, nprocs, msize_bytes)

    def why_not(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> str:
        """See `portfolio.why_not`."""
        return portfolio.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """See `offer.Offer.numbered`."""
        return portfolio.OFFER.numbered(release, collective, number)

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """See `offer.Offer.running_range`."""
        return portfolio.OFFER.running_range(
            release, configuration, nprocs, element_bytes
        ).first_bytes

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

    def one_rule(self, release: str) -> frozenset[Collective]:
        """Return the collectives whose catalogue entry says so."""
        return catalogue_of(release).one_rule

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
