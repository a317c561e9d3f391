"""MPICH 4.0 to 5.0 by its control variables and its files of selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from colltune.domain import Collective, Configuration, Portfolio
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.catalogued import CataloguedLibrary
from colltune.mpi.mpich import control, own_settings
from colltune.mpi.mpich.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import FANOUTS, SEGSIZES_BYTES, Honoured, UserPatterns
from colltune.mpi.vendors import MpichVendor


class Mpich(CataloguedLibrary):
    """MPICH behind `colltune.mpi.protocol.MpiLibrary`; see there and `control`."""

    name = LIBRARY
    title = TITLE
    vendor = MpichVendor()
    releases = ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2")
    formats: ClassVar[Mapping[str, str]] = {
        "mpich-json": "colltune.mpi.mpich.tree_format:MpichJson",
        "mpich-cvars": "colltune.mpi.mpich.variables_format:MpichVariables",
        "mpich-table": "colltune.mpi.interposed.table.format:MpichTable",
    }
    preferred = ("mpich-json",)
    offer = control.OFFER

    def catalogue_of(self, release: str) -> Catalogue:
        """See `releases.catalogue_of`."""
        return catalogue_of(release)

    def chosen_by(self, collective: Collective) -> str:
        """Return its control variable, ``MPIR_CVAR_BCAST_INTRA_ALGORITHM``."""
        return f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """See `control.portfolio`."""
        return control.portfolio(release, collective, tuple(segsizes_bytes), tuple(fanouts))

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """See `control.effective`."""
        return control.effective(release, configuration, nprocs, msize_bytes)

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

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """See `control.forced_environment`."""
        return control.forced_environment(release, configuration)
