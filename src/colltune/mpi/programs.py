"""Which programs a configuration is for, and what each algorithm was seen to do to legal programs.

A legal program can do more than the usual one: receive into a column what was sent as a row, name
the same data by different types on different ranks, reduce with an operation that does not commute.
Each of these is a `Mode`. What every algorithm does in every mode is measured, and stands in
``catalogue/programs/<library>-<release>.json``, one file for each release that was measured. It is
JSON because every decision reads it, and loading a reader of TOML costs a tenth of a cold
``select``. Its keys:

``library``, ``release``, ``processes``, ``calls``
    What was measured, on which numbers of processes, and how many calls.
``over`` (optional)
    The library over which libcolltune's algorithms were measured; ``release`` is that one's.
``<collective>.modes``
    In which modes. A mode that is not listed was not measured.
``<collective>.algorithms.<kind>``
    A table for each kind of configuration that was measured (see `kind_of`): by mode the outcome,
    where it is not right. What the library's own decision cannot do, either, is not held against
    an algorithm; it stands under ``default``.
``<collective>.bits``
    Which bits reductions give (see `colltune.mpi.bits`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path

from colltune.domain import DEFAULT_ALGORITHM, INTERPOSED, Collective, Configuration
from colltune.errors import DataError, say
from colltune.files.reading import json_of
from colltune.mpi.bits import BitFacts, MeasuredBits, name_of

FOLDER = Path(__file__).parent / "catalogue" / "programs"
SAME = "same-types"
BUILT_IN = "builtin-operations"
ANY = "any-legal"
ANY_RESULTS = "any"
RANKS_AGREE = "ranks_agree"
"""The mode in which all ranks of an allreduce hold the same bits."""


class Results(StrEnum):
    """What is promised of the numbers that reductions give."""

    ANY = ANY_RESULTS
    RANKS_AGREE = "ranks-agree"
    SAME_BITS = "same-bits"


class ProgramOutcome(StrEnum):
    """What an algorithm does to a legal program."""

    RIGHT = "right"
    WRONG = "wrong"
    ABORTS = "aborts"
    HANGS = "hangs"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Mode:
    """Something that a legal program may do."""

    name: str
    """name"""
    program: str
    """what it does, in words that follow `programs that`"""
    left_out_by: str = ""
    """promise that leaves them out: same-types, builtin-operations, any (results); empty: none"""


MODES: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("tidy", "name the same data by one of MPI's own types, in one piece of memory"),
        Mode("few_elements", "communicate no data, or one element"),
        Mode("layouts", "send and receive with types of different layout"),
        Mode("mixed_types", "name the same data by different types on different ranks", SAME),
        Mode("gaps", "use types with gaps, or that put data in another order"),
        Mode("lower_bounds", "use types that begin below the buffer's address"),
        Mode("zero_size", "use types that hold no data"),
        Mode("absolute", "use MPI_BOTTOM and types with absolute addresses"),
        Mode("odd_addresses", "have their data at odd addresses"),
        Mode("constant", "send from memory that cannot be written"),
        Mode("in_place", "call with MPI_IN_PLACE"),
        Mode("uneven", "give each rank another count, some of them 0, with gaps between blocks"),
        Mode("roots", "name other roots than rank 0, with NULL for what is ignored elsewhere"),
        Mode("communicators", "call on duplicates and parts of communicators"),
        Mode("between_groups", "call on intercommunicators"),
        Mode("in_a_row", "call several times in a row, with one rank late"),
        Mode("pending", "have messages under way on the same communicator"),
        Mode("operations", "reduce with MPI's operations on several of its types"),
        Mode("pairs", "reduce with MPI_MINLOC or MPI_MAXLOC"),
        Mode("non_commutative", "reduce with an operation that does not commute", BUILT_IN),
        Mode("own_operations", "reduce with an operation of their own that commutes", BUILT_IN),
        Mode(RANKS_AGREE, "rely on it that all ranks get the same bits of a sum", ANY_RESULTS),
        Mode("large", "communicate more than 2^31 bytes in one call"),
    )
}


@dataclass(frozen=True)
class Programs:
    """What is promised of the programs that a configuration is for.

    ``same_types``: all ranks name the data of a call by the same type and count.
    ``builtin_operations``: programs reduce with MPI's built-in operations alone.
    ``results``: what is promised to them of the numbers that reductions give.
    """

    same_types: bool = False
    builtin_operations: bool = False
    results: Results = Results.RANKS_AGREE

    @classmethod
    def parse(cls, text: str, results: Results = Results.RANKS_AGREE) -> Programs:
        """Return what ``any-legal`` or a list of promises such as ``same-types`` says.

        One of them can be what is promised of results (``results=same-bits``), by default
        `results`.

        Raises
        ------
        DataError
            If it is neither.
        """
        words = [word.strip() for word in text.split(",")]
        told = [word.removeprefix(_RESULTS) for word in words if word.startswith(_RESULTS)]
        words = [word for word in words if not word.startswith(_RESULTS)]
        if not set(words) <= {SAME, BUILT_IN} and words != [ANY]:
            raise say("not-programs", value=text[:60])
        return cls(SAME in words, BUILT_IN in words, parse_results(told[-1]) if told else results)

    @classmethod
    def named(
        cls,
        text: str | None,
        results: str | None,
        environment: Mapping[str, str],
        otherwise: Programs,
    ) -> Programs:
        """Return what two options say, else the variables in `environment`, else `otherwise`."""
        found = otherwise
        if said := text or environment.get(VARIABLE, ""):
            try:
                found = cls.parse(said, otherwise.results)
            except DataError as error:
                raise error.of("--programs" if text else VARIABLE) from None
        if said := results or environment.get(RESULTS_VARIABLE, ""):
            try:
                return replace(found, results=parse_results(said))
            except DataError as error:
                raise error.of("--results" if results else RESULTS_VARIABLE) from None
        return found

    @property
    def which(self) -> str:
        """Which programs these are, in words."""
        told = [_PHRASES[name] for name in self._promised]
        return f"programs that {' and '.join(told)}" if told else "any legal program"

    @property
    def phrase(self) -> str:
        """Which programs these are, and what is promised to them, in words."""
        return f"{self.which}; {_RESULTS_PHRASES[self.results]}"

    @property
    def _promised(self) -> list[str]:
        return [SAME] * self.same_types + [BUILT_IN] * self.builtin_operations

    def __str__(self) -> str:
        usual = self.results is Results.RANKS_AGREE
        results = [] if usual else [f"{_RESULTS}{self.results}"]
        return ",".join([*(self._promised or [ANY]), *results])

    def keep(self, promise: str) -> bool:
        """Tell whether all of these programs keep `promise`, or do without that one of results."""
        return promise in (*self._promised, self.results)

    def include(self, mode: Mode) -> bool:
        """Tell whether some of these programs run in `mode`."""
        return not self.keep(mode.left_out_by)


def parse_results(text: str) -> Results:
    """Return the promise of results that `text` names; DataError if there is none."""
    try:
        return Results(text)
    except ValueError:
        raise say("not-results", value=text[:60], known=", ".join(Results)) from None


_RESULTS = "results="
_RESULTS_PHRASES = {
    Results.ANY: "results may be rounded otherwise, on each rank",
    Results.RANKS_AGREE: "all ranks get the same result, which may be rounded otherwise",
    Results.SAME_BITS: "results have the bits that they have without the file",
}
_PHRASES = {
    SAME: "name the data of a call by the same type and count on all ranks",
    BUILT_IN: "reduce with MPI's own operations alone",
}
ANY_LEGAL = Programs()
SAME_TYPES = Programs(same_types=True)
MOST_PROMISED = Programs(same_types=True, builtin_operations=True, results=Results.ANY)
FOR_EVERYBODY = ANY_LEGAL
"""By default, where a site hands files to all jobs."""
FOR_A_PROGRAM = SAME_TYPES
"""By default, where somebody makes files for a program."""
VARIABLE = "COLLTUNE_PROGRAMS"
RESULTS_VARIABLE = "COLLTUNE_RESULTS"
FOR_TWO = "two_proc"
"""The algorithm that ends programs on more than 2 processes, by the catalogue: what was measured of
it holds for 2."""


def kind_of(configuration: Configuration) -> str:
    """Return the kind of a configuration: its algorithm, and whether it cuts messages."""
    return configuration.algorithm + (" segmented" if configuration.numbers.get("segsize") else "")


@dataclass(frozen=True)
class Measured:
    """What was measured of a release: outcomes other than right, by collective, kind and mode.

    ``over`` names the library over which libcolltune's algorithms were measured.
    """

    library: str
    release: str
    processes: tuple[int, ...]
    calls: int
    modes: Mapping[Collective, tuple[str, ...]]
    outcomes: Mapping[Collective, Mapping[str, Mapping[str, ProgramOutcome]]]
    over: str = ""
    bits: Mapping[Collective, MeasuredBits] = field(default_factory=dict)

    def outcome(self, configuration: Configuration, mode: str) -> ProgramOutcome:
        """Return what `configuration` does to programs of `mode`.

        Whether ranks agree is known of each by itself, where its bits were measured.
        """
        bits = self.bits.get(configuration.collective) if mode == RANKS_AGREE else None
        if bits and (agree := bits.ranks_agree(name_of(configuration))) is not None:
            return ProgramOutcome.RIGHT if agree else ProgramOutcome.WRONG
        kinds = self.outcomes.get(configuration.collective, {})
        kind = kind_of(configuration)
        if kind not in kinds or mode not in self.modes[configuration.collective]:
            return ProgramOutcome.NOT_MEASURED
        return kinds[kind].get(mode, ProgramOutcome.RIGHT)


def parse(text: str, source: str) -> Measured:
    """Return what the file `text` says; `source` names it in messages.

    Raises
    ------
    LibraryError
        If it is not such a file.
    """
    try:
        told = json_of(text)
        library, release = str(told.pop("library")), str(told.pop("release"))
        processes, calls = tuple(map(int, told.pop("processes"))), int(told.pop("calls"))
        over = str(told.pop("over", ""))
        modes, outcomes, bits = {}, {}, {}
        for name, table in told.items():
            collective = Collective(name)
            modes[collective] = tuple(MODES[mode].name for mode in table["modes"])
            outcomes[collective] = {
                kind: {MODES[mode].name: ProgramOutcome(seen) for mode, seen in seen_in.items()}
                for kind, seen_in in table.get("algorithms", {}).items()
            }
            if "bits" in table:
                bits[collective] = MeasuredBits.parse(table["bits"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise say("not-measured-outcomes", file=source, why=error) from error
    return Measured(library, release, processes, calls, modes, outcomes, over, bits)


def text_of(measured: Measured) -> str:
    """Return the file from which `parse` makes `measured`."""
    told: dict[str, str | int | list[int]] = {"library": measured.library}
    if measured.over:
        told["over"] = measured.over
    told |= {
        "release": measured.release,
        "processes": [*measured.processes],
        "calls": measured.calls,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in told.items()]
    for collective, kinds in measured.outcomes.items():
        modes = json.dumps(measured.modes[collective])
        rows = (f"   {json.dumps(kind)}: {json.dumps(seen)}" for kind, seen in kinds.items())
        algorithms = ",\n".join(rows)
        bits = ""
        if found := measured.bits.get(collective):
            bits = ',\n  "bits": {\n' + "\n".join(f"   {line}" for line in found.lines()) + "\n  }"
        lines.append(
            f' "{collective}": {{\n  "modes": {modes},\n'
            f'  "algorithms": {{\n{algorithms}\n  }}{bits}\n }}'
        )
    return "{\n" + ",\n".join(lines) + "\n}\n"


@cache
def releases(library: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the releases of a library that were measured, the oldest first."""
    files = folder.glob(f"{library}-*.json")
    return tuple(sorted((file.stem.removeprefix(f"{library}-") for file in files), key=_numbers))


def measured(library: str, folder: Path = FOLDER) -> tuple[Measured, ...]:
    """Return what was measured of a library's releases, the oldest first."""
    return tuple(of_release(library, one, folder) for one in releases(library, folder))


@cache
def of_release(library: str, release: str, folder: Path = FOLDER) -> Measured:
    """Return what was measured of a release that is one of `releases`."""
    file = folder / f"{library}-{release}.json"
    return parse(file.read_text(encoding="utf-8"), file.name)


def nearest(release: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return which of the `known` releases, the oldest first, tell what `release` does.

    Itself, or else the nearest one of its series, or else the nearest older and the nearest newer
    one.
    """
    wanted = _numbers(release)
    if release in known or not wanted:
        return (release,) if release in known else tuple(known)
    same = [one for one in known if _numbers(one)[:2] == wanted[:2]]
    if same:
        return (min(same, key=lambda one: _distance(_numbers(one), wanted)),)
    older = [one for one in known if _numbers(one) < wanted]
    newer = [one for one in known if _numbers(one) > wanted]
    return (*older[-1:], *newer[:1])


def _numbers(release: str) -> tuple[int, ...]:
    """Return the numbers that a release begins with, ``5.0.7rc2`` those of 5.0.7."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", release.strip())
    return tuple(map(int, found[1].split("."))) if found else ()


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip_longest(one, other, fillvalue=0))


@dataclass(frozen=True)
class Harm:
    """What a configuration does to legal programs of one mode."""

    mode: Mode
    """which programs"""
    outcome: ProgramOutcome
    """wrong, aborts or hangs"""
    seen_in: str = ""
    """release that was measured; empty: the catalogue tells"""

    def __str__(self) -> str:
        return f"{_DOES[self.outcome]} programs that {self.mode.program}"


_DOES = {
    ProgramOutcome.WRONG: "gives wrong results in",
    ProgramOutcome.ABORTS: "ends",
    ProgramOutcome.HANGS: "hangs",
}


@dataclass(frozen=True)
class Harms:
    """What a configuration does to legal programs, as far as that is known.

    ``found`` are the modes in which it is not right; ``measured`` the releases that tell;
    ``is_known`` whether it was measured with any of them, ``ranks_known`` whether, of an allreduce,
    the ranks' bits were compared. Where no release of the library was measured at all, only the
    catalogue can tell.
    """

    kind: str = ""
    release: str = ""
    found: tuple[Harm, ...] = ()
    measured: tuple[str, ...] = ()
    is_known: bool = False
    ranks_known: bool = True

    def done_to(self, programs: Programs) -> tuple[Harm, ...]:
        """Return what it does to `programs`."""
        return tuple(harm for harm in self.found if programs.include(harm.mode))

    def sentence(self, programs: Programs) -> str:
        """Return which of `programs` it breaks; empty if none.

        What was never measured is unsafe unless all ranks name the same data alike; so is an
        allreduce by which nobody compared the ranks' results, unless any are good enough.
        """
        for harm in self.done_to(programs):
            return f"{self.what(harm)} {harm}{self.where(harm)}"
        there = " and ".join(self.measured)
        if self.measured and not self.is_known and not programs.same_types:
            return f"what {self.kind} does to legal programs was not measured with {there}"
        if self.measured and not self.ranks_known and programs.results is not Results.ANY:
            return f"whether all ranks get the same by {self.kind} was not measured with {there}"
        return ""

    def what(self, harm: Harm) -> str:
        """Return the algorithm, with its segments where these were measured."""
        name, _, cut = self.kind.partition(" ")
        return f"{name} with segments" if cut and harm.seen_in else name

    def where(self, harm: Harm) -> str:
        """Return in which release a harm was seen, in brackets."""
        if not harm.seen_in:
            return ""
        near = "" if harm.seen_in == self.release else ", the nearest that was measured"
        return f" (seen in {harm.seen_in}{near})"


def harms_of(configuration: Configuration, release: str) -> Harms:
    """Return what was measured of `configuration`, spelled as its space does, with `release`."""
    return _harms_of(configuration, release, FOLDER)


@lru_cache(maxsize=8192)
def _harms_of(configuration: Configuration, release: str, folder: Path) -> Harms:
    names = nearest(release, releases(configuration.library, folder))
    told = [of_release(configuration.library, name, folder) for name in names]
    known, ranks_known = False, configuration.collective is not Collective.ALLREDUCE
    found: dict[str, Harm] = {}
    for one in reversed(told):
        for mode in MODES.values():
            outcome = one.outcome(configuration, mode.name)
            if outcome is not ProgramOutcome.NOT_MEASURED:
                ranks_known |= mode.name == RANKS_AGREE
                known |= mode.name != RANKS_AGREE
            if outcome in _DOES:
                found.setdefault(mode.name, Harm(mode, outcome, one.release))
    kind = kind_of(configuration)
    return Harms(kind, release, tuple(found.values()), names, known, ranks_known)


def bits_of(configuration: Configuration, library: str, release: str) -> tuple[BitFacts, ...]:
    """Return what tells of the bits that a reduction gives with a release of a library.

    That is what was measured of the release itself, or else of the next older and the next newer
    one of its series. Empty: nothing is known. `configuration` is spelled as its space does.
    """
    return _bits_of(configuration, library, release, FOLDER)


@lru_cache(maxsize=8192)
def _bits_of(
    configuration: Configuration, library: str, release: str, folder: Path
) -> tuple[BitFacts, ...]:
    owner = configuration.library
    known = {one: _told_of(owner, library, one) for one in releases(library, folder)}
    found = []
    for name in _around(release, list(known)):
        if not (folder / f"{owner}-{known[name]}.json").exists():
            return ()
        told = of_release(owner, known[name], folder)
        bits = told.bits.get(configuration.collective)
        facts = None if bits is None else bits.facts.get(name_of(configuration))
        if bits is None or facts is None:
            return ()
        # what changes from call to call by default can be met by nothing else
        default = bits.facts.get(DEFAULT_ALGORITHM)
        found.append(facts if default is None or default.steady else BitFacts(facts.differ))
    return tuple(found)


def _told_of(owner: str, library: str, release: str) -> str:
    """Return how the files of an owner of algorithms name a release of the library below."""
    return f"{library}-{release}" if owner == INTERPOSED else release


def _around(release: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return `release`, or else its next older and next newer one of the series, if both are."""
    if release in known:
        return (release,)
    wanted = _numbers(release)
    same = [one for one in known if _numbers(one)[:2] == wanted[:2]]
    older = [one for one in same if _numbers(one) < wanted]
    newer = [one for one in same if _numbers(one) > wanted]
    return (older[-1], newer[0]) if older and newer else ()
