"""An MPI library of which its catalogues tell all that can be chosen: the base to start from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from colltune.domain import Collective, Configuration, Portfolio
from colltune.errors import LibraryError
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.offer import Offer
from colltune.mpi.own_settings import honoured
from colltune.mpi.protocol import FANOUTS, SEGSIZES_BYTES, Honoured, MpiLibrary

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)+)\S*")


class CataloguedLibrary(MpiLibrary):
    """Answers from the catalogues whatever `MpiLibrary` is asked.

    A library has to say besides who it is (``name``, ``title``, ``vendor``, ``releases``), where
    its ``catalogues`` lie, which ``formats`` of files it has, how one algorithm is chosen
    (`chosen_by`, `forced_environment`), and which variables users choose by (`user_patterns`).
    Whatever it can do beyond that, such as changing algorithms while a program runs, it overrides.
    """

    @cached_property
    def offer(self) -> Offer:
        """The algorithms of its catalogues; none of them has parameters."""
        return Offer(self.name, self.title, self._entry_of, ranges={}, defaults={})

    def catalogue_of(self, release: str) -> Catalogue:
        """Return the catalogue of the series that `release` belongs to.

        Raises
        ------
        LibraryError
            If there is no catalogue of its series, or it is older than the first one described.
        """
        every = [
            catalogue.load(self.name, series, self.catalogues)
            for series in catalogue.all_series(self.name, self.catalogues)
        ]
        match = _RELEASE.fullmatch(release.strip())
        wanted = _numbers(match[1]) if match else ()
        for found in reversed(every):
            series = _numbers(found.series)
            if wanted[: len(series)] == series and wanted >= _numbers(found.first_release):
                return found
        known = ", ".join(f"{found.first_release} and later {found.series}.x" for found in every)
        raise LibraryError(f"{self.title} {release} is not supported; supported: {known}")

    def _entry_of(self, release: str, collective: Collective) -> CollectiveEntry:
        found = self.catalogue_of(release).collectives.get(collective)
        return found or CollectiveEntry(
            collective, catalogue.NO_ID, catalogue.SizeUnit.MSIZE, (), runtime=False
        )

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """See `colltune.mpi.offer.Offer.portfolio`."""
        return self.offer.portfolio(release, collective, segsizes_bytes, fanouts)

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """See `colltune.mpi.offer.Offer.canonical`."""
        return self.offer.canonical(release, configuration)

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the canonical configuration: which ones run in the same way is not known."""
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
        """See `colltune.mpi.offer.Offer.why_not`."""
        return self.offer.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """See `colltune.mpi.offer.Offer.numbered`."""
        return self.offer.numbered(release, collective, number)

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """See `colltune.mpi.offer.Offer.running_range`."""
        return self.offer.running_range(release, configuration, nprocs, element_bytes).first_bytes

    def safe(
        self,
        release: str,
        configuration: Configuration,
        *,
        builtin_operations_only: bool,
        nprocs: int | None = None,
    ) -> bool:
        """Tell whether the catalogue does not call the algorithm wrong."""
        spelled = self.offer.canonical(release, configuration)
        return spelled.is_default or not self.offer.algorithm_of(release, spelled).wrong

    def one_rule(self, release: str) -> frozenset[Collective]:
        """Return the collectives whose catalogue entry says so."""
        return self.catalogue_of(release).one_rule

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """Return nothing: no control variables of it are known."""
        self.offer.canonical(release, configuration)
        return {}

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """Return False: every configuration needs a launch of its own."""
        self.offer.canonical(release, configuration)
        return False

    def base_environment(self, release: str) -> dict[str, str]:
        """Return nothing."""
        self.catalogue_of(release)
        return {}

    def expected_symbols(self, release: str, configuration: Configuration) -> frozenset[str]:
        """Return nothing: which of its functions ran cannot be seen."""
        self.offer.canonical(release, configuration)
        return frozenset()

    def honour_user(
        self, environment: Mapping[str, str], os_environ: Mapping[str, str]
    ) -> Honoured:
        """See `colltune.mpi.own_settings.honoured`: what matches `user_patterns` decides."""
        return honoured(environment, os_environ, self.user_patterns().decides)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
