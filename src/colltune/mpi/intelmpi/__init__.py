"""Intel MPI 2019 and 2021: the presets of I_MPI_ADJUST_* and of the files for I_MPI_TUNING.

The variables are read once, so that every configuration needs a launch of its own. Intel MPI does
not tell which algorithm runs, and takes a number that it does not have for 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colltune.domain import Collective, Configuration, Portfolio
from colltune.mpi.intelmpi import activation, presets
from colltune.mpi.intelmpi.presets import OFFER
from colltune.mpi.intelmpi.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import FANOUTS, SEGSIZES_BYTES, Honoured, MpiLibrary, UserPatterns

__all__ = ["OFFER", "IntelMpi"]


class IntelMpi(MpiLibrary):
    """Intel MPI behind `colltune.mpi.protocol.MpiLibrary`; see there."""

    name = LIBRARY
    title = TITLE

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """See `offer.Offer.portfolio`; no algorithm has parameters."""
        return OFFER.portfolio(release, collective, segsizes_bytes, fanouts)

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """See `offer.Offer.canonical`; a number is an algorithm's name, too."""
        return OFFER.canonical(release, configuration)

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the canonical configuration: which ones run in the same way cannot be seen."""
        return OFFER.canonical(release, configuration)

    def why_not(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> str:
        """See `offer.Offer.why_not`."""
        return OFFER.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """See `offer.Offer.numbered`."""
        return OFFER.numbered(release, collective, number)

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """See `offer.Offer.running_range`."""
        return OFFER.running_range(release, configuration, nprocs, element_bytes).first_bytes

    def safe(
        self,
        release: str,
        configuration: Configuration,
        *,
        builtin_operations_only: bool,
        nprocs: int | None = None,
    ) -> bool:
        """Tell whether `presets.why_unsafe` has nothing to say."""
        return not presets.why_unsafe(
            release,
            OFFER.canonical(release, configuration),
            builtin_operations_only=builtin_operations_only,
            nprocs=nprocs,
        )

    def one_rule(self, release: str) -> frozenset[Collective]:
        """Return the collectives whose catalogue entry says so."""
        return catalogue_of(release).one_rule

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """Return nothing: there are no such control variables."""
        OFFER.canonical(release, configuration)
        return {}

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """Return False, also for the default, which cannot be restored where it was left."""
        OFFER.canonical(release, configuration)
        return False

    def base_environment(self, release: str) -> dict[str, str]:
        """Return nothing."""
        catalogue_of(release)
        return {}

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """Return the one variable, without conditions on sizes or processes.

        Raises
        ------
        LibraryError
            If the configuration is unknown in this release.
        """
        preset = presets.preset_of(release, configuration)
        if preset == presets.BUILT_IN:
            catalogue_of(release)
            return {}
        return {presets.variable(configuration.collective): str(preset)}

    def expected_symbols(self, release: str, configuration: Configuration) -> frozenset[str]:
        """Return nothing: its functions are not to be looked at."""
        OFFER.canonical(release, configuration)
        return frozenset()

    def honour_user(
        self, environment: Mapping[str, str], os_environ: Mapping[str, str]
    ) -> Honoured:
        """See `activation.honour_user`."""
        return activation.honour_user(environment, os_environ)

    def user_patterns(self) -> UserPatterns:
        """See `activation.USER_PATTERNS`."""
        return activation.USER_PATTERNS
