"""How other programs call the algorithms of MPI libraries that have a catalogue."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from colltune.domain import DEFAULT_ALGORITHM, Collective, Configuration, Instance
from colltune.errors import LibraryError, say
from colltune.mpi import LIBRARIES
from colltune.mpi.job_files import read_script

_OFF = ("", "0", "false", "no", "off")


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", "_", word.strip().lower())


@dataclass(frozen=True)
class KnownAlgorithms:
    """Fulfils `colltune.dataset.importers.Algorithms` for a library's `release`.

    Of a library or release without a catalogue nothing is known: its configurations are taken as
    they are written, and algorithms that are only numbers are refused. With ``as_written``, so are
    names that it knows; only numbers become names. With ``any_name`` unknown names are, too.
    """

    release: str
    as_written: bool = False
    any_name: bool = False

    def at(self, release: str) -> KnownAlgorithms:
        """Return what is known of another release."""
        return replace(self, release=release)

    def library(self, word: str) -> str:
        """Return the name of the library that a file calls `word`; an unknown one as it is."""
        bare = _plain(word).replace("_", "")
        bare = {"ompi": "openmpi", "impi": "intelmpi"}.get(bare, bare.removesuffix("library"))
        return next((name for name in LIBRARIES if name == bare), word)

    def configuration(
        self,
        library: str,
        collective: Collective,
        word: str,
        parameters: tuple[tuple[str, int | str], ...] = (),
    ) -> Configuration:
        """Return the configuration that a file calls `word`, which may be a number.

        Names may be written with capitals, and with blanks or hyphens between their words.
        """
        known = self._covers(library, collective)
        number = re.fullmatch(r"(?:alg(?:o|orithm)?[ _]?)?(\d+)", word.strip().lower())
        if number is None:
            name = _plain(word) if known or _plain(word) == DEFAULT_ALGORITHM else word
            if known:
                entry = LIBRARIES[library].at(self.release).space.entry_of(collective)
                names = (algorithm.name for algorithm in entry.algorithms)
                bare = name.replace("_", "")
                other = word if self.any_name else name
                name = next((each for each in names if each.replace("_", "") == bare), other)
            written = Configuration(library, collective, name, parameters)
            if self.any_name:
                return written
            found = self.canonical(written)
            return written if self.as_written else found
        word = number[1]
        if not known:
            where = f"{library} {self.release}"
            raise say("number-without-name", number=word, collective=collective, library=where)
        named = LIBRARIES[library].at(self.release).space.numbered(collective, int(word))
        return self.canonical(Configuration(library, collective, named.algorithm, parameters))

    def chosen(self, library: str, collective: Collective, script: str) -> Configuration | None:
        """Return what the variables of a job's script choose; None: nothing, or it is unknown."""
        if not self._covers(library, collective):
            return None
        found = {each.name: each.value for each in read_script(script).known}
        space = LIBRARIES[library].at(self.release).space
        by_name = {name.removeprefix("OMPI_MCA_"): value for name, value in found.items()}
        needed = (name for name in space.base_environment() if name.endswith("_dynamic_rules"))
        word = by_name.get(space.chosen_by(collective))
        if word is None or any(found.get(name, "0").lower() in _OFF for name in needed):
            return None
        try:
            chosen = self.configuration(library, collective, word)
            if chosen.is_default:
                return None
            variables = space.parameter_variables(collective, space.algorithm_of(chosen))
            told = {n: by_name[v] for n, v in variables.items() if by_name.get(v, "").isdecimal()}
            parameters = tuple((name, int(value)) for name, value in told.items())
            return self.configuration(library, collective, chosen.algorithm, parameters)
        except LibraryError:
            return None

    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of `configuration`, as the library's catalogue has it."""
        if not self._covers(configuration.library, configuration.collective):
            return configuration
        return LIBRARIES[configuration.library].at(self.release).canonical(configuration)

    def why_not(self, configuration: Configuration, instance: Instance) -> str:
        """Return why the library would have run something else; empty if it would not."""
        if configuration.is_default or not self._covers(
            configuration.library, configuration.collective
        ):
            return ""
        release = LIBRARIES[configuration.library].at(self.release)
        return release.runs(configuration, instance.shape.nprocs).why_not(instance.msize_bytes)

    def _covers(self, library: str, collective: Collective) -> bool:
        """Whether there is a catalogue of that collective in that release."""
        if library not in LIBRARIES:
            return False
        try:
            LIBRARIES[library].at(self.release).portfolio(collective)
        except LibraryError:
            return False
        return True
