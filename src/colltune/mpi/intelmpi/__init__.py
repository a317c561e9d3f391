"""Intel MPI 2019 and 2021: the presets of I_MPI_ADJUST_* and of the files for I_MPI_TUNING.

The variables are read once, so that every configuration needs a launch of its own. Intel MPI does
not tell which algorithm runs, and takes a number that it does not have for 1. No algorithm has
parameters; a number is an algorithm's name, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.catalogued import CataloguedLibrary
from colltune.mpi.intelmpi import activation, presets
from colltune.mpi.intelmpi.presets import OFFER
from colltune.mpi.intelmpi.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.protocol import UserPatterns
from colltune.mpi.vendors import IntelMpiVendor

__all__ = ["OFFER", "IntelMpi"]


class IntelMpi(CataloguedLibrary):
    """Intel MPI behind `colltune.mpi.protocol.MpiLibrary`; see there."""

    name = LIBRARY
    title = TITLE
    vendor = IntelMpiVendor()
    releases = ("2019.9", "2021.6", "2021.11", "2021.15", "2021.18.1")
    formats: ClassVar[Mapping[str, str]] = {
        "intelmpi-json": "colltune.mpi.intelmpi.tuning:TuningFormat",
        "intelmpi-adjust": "colltune.mpi.intelmpi.adjust:AdjustFormat",
        "intelmpi-table": "colltune.mpi.interposed.table.format:IntelMpiTable",
    }
    preferred = ("intelmpi-json",)
    offer = OFFER

    def catalogue_of(self, release: str) -> Catalogue:
        """See `releases.catalogue_of`."""
        return catalogue_of(release)

    def chosen_by(self, collective: Collective) -> str:
        """See `presets.variable`."""
        return presets.variable(collective)

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

    def user_patterns(self) -> UserPatterns:
        """See `activation.USER_PATTERNS`."""
        return activation.USER_PATTERNS
