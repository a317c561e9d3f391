"""MPICH 4.0 to 5.0 by its control variables; its configuration files cannot be written yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colltune.domain import Collective, Configuration, Portfolio
from colltune.mpi.mpich import control, own_settings
from colltune.mpi.mpich.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import FANOUTS, SEGSIZES_BYTES, Honoured, MpiLibrary, UserPatterns


class Mpich(MpiLibrary):
    """MPICH behind `colltune.mpi.protocol.MpiLibrary`; see there and `control`."""

    name = LIBRARY
    title = TITLE

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """See `control.portfolio`."""
        return control.portfolio(release, collective, tuple(segsizes_bytes), tuple(fanouts))

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """See `offer.Offer.canonical`."""
        return control.OFFER.canonical(release, configuration)

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """See `control.effective`."""
        return control.effective(release, configuration, nprocs, msize_bytes)

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
        return control.OFFER.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """See `offer.Offer.numbered`."""
        return control.OFFER.numbered(release, collective, number)

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """See `offer.Offer.running_range`."""
        return control.OFFER.running_range(
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
        """Tell whether `control.why_unsafe` has nothing to say, with any operations."""
        return not control.why_unsafe(release, configuration)

    def one_rule(self, release: str) -> frozenset[Collective]:
        """Return the collectives whose catalogue entry says so."""
        return catalogue_of(release).one_rule

    def honour_user(
        self, environment: Mapping[str, str], os_environ: Mapping[str, str]
    ) -> Honoured:
        """See `own_settings.honour_user`."""
        return own_settings.honour_user(environment, os_environ)

    def user_patterns(self) -> UserPatterns:
        """See `own_settings.USER_PATTERNS`."""
        return own_settings.USER_PATTERNS

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """See `control.force`."""
        return control.force(release, configuration)

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """See `control.settable_at_runtime`."""
        return control.settable_at_runtime(release, configuration)

    def base_environment(self, release: str) -> dict[str, str]:
        """Return nothing: all variables can be written at any time."""
        catalogue_of(release)
        return {}

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """See `control.forced_environment`."""
        return control.forced_environment(release, configuration)

    def expected_symbols(self, release: str, configuration: Configuration) -> frozenset[str]:
        """Return nothing: MPICH hides its functions."""
        control.OFFER.canonical(release, configuration)
        return frozenset()
