"""Which programs a configuration is for, and what each algorithm was seen to do to legal programs.

A legal program can do more than the usual one: receive into a column what was sent as a row, name
the same data by different types on different ranks, reduce with an operation that does not commute.
Each of these is a `Mode`. What every algorithm does in every mode is measured, and stands in
``catalogue/programs/<library>-<release>.toml``, one file for each release that was measured:

``library``, ``release``, ``processes``, ``calls``
    What was measured, on which numbers of processes, and how many calls.
``<collective>.modes``
    In which modes. A mode that is not listed was not measured.
``<collective>.algorithms.<kind>``
    A table for each kind of configuration that was measured (see `kind_of`): by mode the outcome,
    where it is not right. What the library's own decision cannot do, either, is not held against
    an algorithm; it stands under ``default``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.errors import DataError, LibraryError
from colltune.files.reading import toml_of

FOLDER = Path(__file__).parent / "catalogue" / "programs"
SAME = "same-types"
BUILT_IN = "builtin-operations"
ANY = "any-legal"


class Outcome(StrEnum):
    """What an algorithm does to a legal program."""

    RIGHT = "right"
    WRONG = "wrong"
    ABORTS = "aborts"
    HANGS = "hangs"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Mode:
    """Something that a legal program may do.

    ``program`` is what it does, in words that follow "programs that"; ``left_out_by`` the promise
    (`SAME`, `BUILT_IN`) of which it is not a case, empty where no promise leaves it out.
    """

    name: str
    program: str
    left_out_by: str = ""


MODES: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("layouts", "send and receive with types of different layout"),
        Mode("mixed_types", "name the same data by different types on different ranks", SAME),
        Mode("non_commutative", "reduce with an operation that does not commute", BUILT_IN),
    )
}


@dataclass(frozen=True)
class Programs:
    """What is promised of the programs that a configuration is for.

    ``same_types``: all ranks name the data of a call by the same type and count.
    ``builtin_operations``: programs reduce with MPI's built-in operations alone.
    """

    same_types: bool = False
    builtin_operations: bool = False

    @classmethod
    def parse(cls, text: str) -> Programs:
        """Return what ``any-legal`` or a list of promises such as ``same-types`` says.

        Raises
        ------
        DataError
            If it is neither.
        """
        words = [word.strip() for word in text.split(",")]
        if words == [ANY]:
            return cls()
        if not set(words) <= {SAME, BUILT_IN}:
            raise DataError(
                f"{text[:60]!r} does not say which programs are meant. "
                f"Write {ANY}, {SAME}, {BUILT_IN} or {SAME},{BUILT_IN}."
            )
        return cls(SAME in words, BUILT_IN in words)

    def __str__(self) -> str:
        promised = [SAME] * self.same_types + [BUILT_IN] * self.builtin_operations
        return ",".join(promised) or ANY

    def include(self, mode: Mode) -> bool:
        """Tell whether some of these programs run in `mode`."""
        return mode.left_out_by not in str(self).split(",")


ANY_LEGAL = Programs()
SAME_TYPES = Programs(same_types=True)
MOST_PROMISED = Programs(same_types=True, builtin_operations=True)


def kind_of(configuration: Configuration) -> str:
    """Return the kind of a configuration: its algorithm, and whether it cuts messages."""
    return configuration.algorithm + (" segmented" if configuration.numbers.get("segsize") else "")


@dataclass(frozen=True)
class Measured:
    """What was measured of a release: outcomes other than right, by collective, kind and mode."""

    library: str
    release: str
    processes: tuple[int, ...]
    calls: int
    modes: Mapping[Collective, tuple[str, ...]]
    outcomes: Mapping[Collective, Mapping[str, Mapping[str, Outcome]]]

    def outcome(self, configuration: Configuration, mode: str) -> Outcome:
        """Return what `configuration` does to programs of `mode`."""
        kinds = self.outcomes.get(configuration.collective, {})
        kind = kind_of(configuration)
        if kind not in kinds or mode not in self.modes[configuration.collective]:
            return Outcome.NOT_MEASURED
        return kinds[kind].get(mode, Outcome.RIGHT)


def parse(text: str, source: str) -> Measured:
    """Return what the file `text` says; `source` names it in messages.

    Raises
    ------
    LibraryError
        If it is not such a file.
    """
    try:
        told = toml_of(text)
        library, release = str(told.pop("library")), str(told.pop("release"))
        processes, calls = tuple(map(int, told.pop("processes"))), int(told.pop("calls"))
        modes, outcomes = {}, {}
        for name, table in told.items():
            collective = Collective(name)
            modes[collective] = tuple(MODES[mode].name for mode in table["modes"])
            outcomes[collective] = {
                kind: {MODES[mode].name: Outcome(seen) for mode, seen in seen_in.items()}
                for kind, seen_in in table["algorithms"].items()
            }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LibraryError(f"{source}: not a file of measured outcomes: {error}") from error
    return Measured(library, release, processes, calls, modes, outcomes)


@cache
def measured(library: str, folder: Path = FOLDER) -> tuple[Measured, ...]:
    """Return what was measured of a library's releases, the oldest first."""
    files = folder.glob(f"{library}-*.toml")
    found = (parse(file.read_text(encoding="utf-8"), file.name) for file in files)
    return tuple(sorted(found, key=lambda one: _numbers(one.release)))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
