"""What the catalogues know of the algorithms in imported measurements."""

from __future__ import annotations

from dataclasses import dataclass

from colltune.domain import Collective, Configuration, Instance
from colltune.errors import DataError, LibraryError


@dataclass(frozen=True)
class KnownAlgorithms:
    """Fulfils `colltune.dataset.importers.Algorithms` for a library's `release`.

    Of a library or release without a catalogue nothing is known: its configurations are taken as
    they are written, and algorithms that are only numbers are refused.
    """

    release: str

    def configuration(self, library: str, collective: Collective, word: str) -> Configuration:
        """Return the configuration that a file calls `word`, which may be a number.

        Raises
        ------
        LibraryError
            If the release has no such algorithm.
        DataError
            If it is a number, and the release has no catalogue.
        """
        from colltune.mpi import LIBRARIES

        if not word.isdecimal():
            return self.canonical(Configuration(library, collective, word))
        if library not in LIBRARIES or not self._covers(library, collective):
            raise DataError(
                f"algorithm {word} of {collective}: no catalogue of {library} {self.release} tells"
                " the name of a number; --set library and library_version to what was measured"
            )
        named = LIBRARIES[library].numbered(self.release, collective, int(word))
        return self.canonical(Configuration(library, collective, named.algorithm))

    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of `configuration`, as the library's catalogue has it.

        Raises
        ------
        LibraryError
            If the release has no such algorithm or parameter.
        """
        from colltune.mpi import LIBRARIES

        if not self._covers(configuration.library, configuration.collective):
            return configuration
        return LIBRARIES[configuration.library].canonical(self.release, configuration)

    def why_not(self, configuration: Configuration, instance: Instance) -> str:
        """Return why the library would have run something else; empty if it would not."""
        from colltune.mpi import LIBRARIES

        if configuration.is_default or not self._covers(
            configuration.library, configuration.collective
        ):
            return ""
        nprocs, msize_bytes = instance.shape.nprocs, instance.msize_bytes
        return LIBRARIES[configuration.library].why_not(
            self.release, configuration, nprocs, msize_bytes
        )

    def _covers(self, library: str, collective: Collective) -> bool:
        """Whether there is a catalogue of that collective in that release."""
        from colltune.mpi import LIBRARIES

        if library not in LIBRARIES:
            return False
        try:
            LIBRARIES[library].portfolio(self.release, collective)
        except (LibraryError, KeyError):
            return False
        return True
