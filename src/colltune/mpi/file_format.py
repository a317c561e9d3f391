"""What a configuration file's format has to offer, and the things it answers with.

One format is what one reader of an MPI library reads: Open MPI's classic rules file, MPICH's tree.
A file is always read for one release: what the library makes of it differs between releases, and a
library that drops a file without a word, or reads something else than its author meant, is the rule
rather than the exception. So a file is *parsed* into what the release makes of it, and *linted* for
what is wrong with it; only what is no file of the format at all is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Protocol

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import Catalogue, compared_sizes
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import Finding, Rule, Rules


@dataclass(frozen=True)
class Written:
    """The text of a configuration: one file, or several that belong together.

    Parameters
    ----------
    format
        A key of `colltune.mpi.formats.FORMATS`.
    release
        For which release of the library.
    texts
        The files' texts by the end of their names: ``""`` is the main file, ``".dispatch"`` one
        beside it of the same name with that end.
    notes
        What was left to the library, or could not be kept, and why.
    """

    format: str
    release: str
    texts: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """The main file."""
        return self.texts[""]


@dataclass(frozen=True)
class Listed:
    """A variable that a list or a script sets.

    Parameters
    ----------
    line
        Where it is set, from 1 on.
    text
        ``NAME=value``, or its name with the reason why its value is not known.
    collective
        Whose algorithm it chooses; None for all other variables.
    """

    line: int
    text: str
    collective: Collective | None = None

    @property
    def name(self) -> str:
        """The variable's name."""
        return re.split("[= ]", self.text, maxsplit=1)[0]


class Note(str):
    """A sentence on a line of a file that was converted, of which something was not kept.

    Parameters
    ----------
    line
        Which line.
    about
        The variable that is set there, or the collective whose algorithm it chooses.
    what
        What was not kept, and why.
    """

    line: int
    about: str

    def __new__(cls, line: int, about: str, what: str) -> Note:
        found = super().__new__(cls, f"line {line}: {what}")
        found.line, found.about = line, about
        return found


def not_converted(
    listed: Iterable[Listed], written: Sequence[Rule], notes: Sequence[str]
) -> list[Note]:
    """Return a note on each variable that neither a rule `written` nor one of `notes` tells of.

    `listed` are the variables of the file that was converted.
    """
    kept = {rule.collective for rule in written}
    told = {(note.line, note.about) for note in notes if isinstance(note, Note)}
    return [
        Note(each.line, each.name, f"{each.text[:80]} is not converted")
        for each in listed
        if each.collective not in kept
        and not {(each.line, each.name), (each.line, each.collective)} & told
    ]


class Format(Protocol):
    """One format of one library: how its files are recognised, parsed, written and converted.

    ``single_algorithm`` tells that it holds one configuration per collective, for all communicators
    and message sizes; ``knows_layout`` that its rules can tell how processes lie on nodes;
    ``knows_comm_size`` that they can tell communicators of different sizes apart;
    ``allows_partial_collective`` that some sizes of a collective can be left to the library;
    ``lists_variables`` that it holds variables of the environment, as job scripts do.
    ``interposed`` that libcolltune reads it, which is preloaded and has algorithms of its own.
    ``remarks`` are the notes that hold for whatever is written in the format.

    In all methods `release` is the one that reads the file, and `text` the whole of a file; bytes
    that are no UTF-8 are surrogates in it.
    """

    name: str
    library: str
    title: str
    single_algorithm: bool = False
    knows_layout: bool = False
    allows_partial_collective: bool = True
    knows_comm_size: bool = True
    interposed: bool = False
    lists_variables: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def compared(self) -> Mapping[Collective, str]:
        """What is compared with the sizes in a file, in plain words, by collective.

        Collectives that have no rules are left out. By default what ``sizes.toml`` beside the
        catalogues says.
        """
        return compared_sizes().get(self.name, {})

    def recognises(self, text: str) -> bool:
        """Tell whether `text` looks like a file of this format, good or bad."""
        ...

    def release_in(self, text: str) -> str | None:
        """Return the release that `text` itself says it is for; None if it does not."""
        return None

    def limit(self, release: str, configuration: Configuration) -> str:
        """Return why no file names `configuration`, as `release` spells it; empty if one can."""
        if configuration.library == self.library:
            return ""
        return f"{self.name} cannot express {configuration.id}"

    def catalogue_of(self, release: str) -> Catalogue:
        """Return the library's catalogue for `release`.

        Raises
        ------
        LibraryError
            If the release is not supported.
        """
        return LIBRARIES[self.library].catalogue_of(release)

    def unreadable_by(self, release: str) -> str:
        """Return why `release` does not read this format; empty if it does, as by default.

        Raises
        ------
        LibraryError
            If the release is not supported at all.
        """
        self.catalogue_of(release)
        return ""

    def parse(self, text: str, source: str, release: str) -> Rules:
        """Return what `release` makes of a file; `source` names it in messages.

        A file that the release drops, or does not read as its author meant, is parsed all the same;
        `lint` tells.

        Raises
        ------
        LibraryError
            If it cannot be taken for a file of this format at all, or the release is not supported.
        """
        ...

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        """Return everything that is wrong with a file that this format parsed, by line."""
        ...

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return `table` in this format.

        Whatever the table does not say, and whatever cannot be written safely, is left to the
        library; the notes tell the latter. `programs` says for which programs.

        Raises
        ------
        LibraryError
            If the release is not supported or does not read this format, or the table is one of
            another library.
        """
        ...

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        """Return the variables of `parsed` that a conversion must keep or name; by default none."""
        return ()

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return what `parsed`, a file of the same library, means, in this format for `release`.

        The notes tell what cannot be kept, each with the line it stands on.

        Raises
        ------
        LibraryError
            If the file is one of another library, or is dropped by its own release.
        """
        ...

    def with_others(
        self, parsed: Rules, environment: Mapping[str, str], activation: Mapping[str, str]
    ) -> Rules:
        """Return `parsed` together with other files that a job's `environment` names.

        Of use where another file bears on what `parsed` decides; `activation` puts the latter into
        effect. By default there is none.
        """
        return parsed

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the environment variables that put a written configuration into effect.

        `paths` has the absolute path of each of ``Written.texts``, and as ``library`` that of
        libcolltune where the format is `interposed`; without a `job` it is unknown whether the job
        spans nodes.

        Raises
        ------
        LibraryError
            If a path is relative, which every rank would take from its own working directory.
        """
        ...


def refuse_dropped(parsed: Rules, ends_program: str = "") -> None:
    """Refuse to convert a file that its own release drops, or that ends programs at their start.

    Raises
    ------
    LibraryError
        If `parsed` is dropped, or `ends_program` tells why programs end.
    """
    if parsed.dropped or ends_program:
        raise say("nothing-to-convert", file=parsed.source, why=parsed.dropped or ends_program)


def text_at(path: str) -> str | None:
    """Return the text of a list of variables at `path`; None if it is not there."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def absolute_path(path: str, what: str) -> str:
    """Return `path`, that of `what` (a rules file), which the ranks have to find from anywhere.

    Raises
    ------
    LibraryError
        If it is relative, which every rank would take from its own working directory.
    """
    if not PurePath(path).is_absolute():
        raise say("path-not-absolute", path=path, what=what)
    return path
