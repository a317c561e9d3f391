"""What a configuration file's format has to offer, and the things it answers with.

One format is what one reader of an MPI library reads: Open MPI's classic rules file, MPICH's tree.
A file is always read for one release: what the library makes of it differs between releases, and a
library that drops a file without a word, or reads something else than its author meant, is the rule
rather than the exception. So a file is *parsed* into what the release makes of it, and *linted* for
what is wrong with it; only what is no file of the format at all is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import Catalogue, compared_sizes
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Harm, Harms, Programs
from colltune.mpi.programs import Outcome as ProgramOutcome


class Severity(StrEnum):
    """How much a finding matters.

    Error: the MPI library refuses what is written, or programs crash, hang or compute what is
    wrong. Warning: something else than what is written runs. Note: what is written runs; the rest
    is taste.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Fault(StrEnum):
    """What can be wrong with a configuration file; each has one severity.

    ``FILE_DROPPED``: the release refuses the file as a whole. ``RULE_DROPPED``: it refuses this
    rule or value. ``ENDS_PROGRAM``, ``HANGS``, ``WRONG_RESULT``, ``RANKS_DISAGREE``: a legal
    program aborts, hangs, computes wrong numbers, or its ranks choose different algorithms.

    ``SOME_PROGRAMS``: the same, of legal programs that a promise leaves out. ``DEAD_RULE``: never
    reached. ``UNSORTED``: stands where the library stops looking, or takes another one first.
    ``INHERITED``: reaches communicators or messages that its author hardly meant. ``WRONG_UNIT``:
    sizes look as if they were in another unit than the library's. ``UNKNOWN``: a collective,
    algorithm, key or parameter that the release does not have, and ignores. ``NO_EFFECT``: a value
    that is ignored. ``FALLS_BACK``: the library runs another algorithm instead. ``OUTRANKED``:
    another component of the library decides first. ``NOT_ACTIVATED``: no variable tells the library
    to read the file. ``OVERRIDDEN``: a variable of the user takes precedence. ``MALFORMED``: not
    what the format asks for, though the library reads on. ``OTHER_RELEASE``: was written for a
    release that takes it otherwise.

    ``NOT_EVERYWHERE``: holds, but not for all calls. ``REMARK``: good to know.
    """

    FILE_DROPPED = "file-dropped"
    RULE_DROPPED = "rule-dropped"
    ENDS_PROGRAM = "ends-program"
    HANGS = "hangs"
    WRONG_RESULT = "wrong-result"
    RANKS_DISAGREE = "ranks-disagree"
    DEAD_RULE = "dead-rule"
    UNSORTED = "unsorted"
    INHERITED = "inherited"
    WRONG_UNIT = "wrong-unit"
    UNKNOWN = "unknown"
    NO_EFFECT = "no-effect"
    FALLS_BACK = "falls-back"
    OUTRANKED = "outranked"
    NOT_ACTIVATED = "not-activated"
    OVERRIDDEN = "overridden"
    MALFORMED = "malformed"
    OTHER_RELEASE = "other-release"
    SOME_PROGRAMS = "some-programs"
    NOT_EVERYWHERE = "not-everywhere"
    REMARK = "remark"

    @property
    def severity(self) -> Severity:
        """How much it matters, wherever it is found."""
        if self in _ERRORS:
            return Severity.ERROR
        return Severity.NOTE if self in _NOTES else Severity.WARNING


_ERRORS = frozenset(
    {Fault.FILE_DROPPED, Fault.RULE_DROPPED, Fault.ENDS_PROGRAM, Fault.HANGS}
    | {Fault.WRONG_RESULT, Fault.RANKS_DISAGREE}
)
_NOTES = frozenset({Fault.NOT_EVERYWHERE, Fault.REMARK})


class Finding(NamedTuple):
    """One finding of the lint: where (``line`` from 1 on, 0 for the file as a whole), what, mend.

    ``message`` says what the library does with it; ``mend`` what to write instead. Of
    ``SOME_PROGRAMS``, ``promise`` is the one that leaves them out.
    """

    line: int
    fault: Fault
    message: str
    mend: str
    promise: str = ""

    @property
    def severity(self) -> Severity:
        """How much it matters."""
        return self.fault.severity


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings by line, each once."""
    return tuple(sorted(set(findings)))


_FAULTS = {
    ProgramOutcome.WRONG: Fault.WRONG_RESULT,
    ProgramOutcome.ABORTS: Fault.ENDS_PROGRAM,
    ProgramOutcome.HANGS: Fault.HANGS,
}


def harm_findings(line: int, what: str, harms: Harms) -> Iterator[Finding]:
    """Yield what an algorithm on a `line`, called `what` in messages, does to legal programs."""
    always = harms.done_to(MOST_PROMISED)
    if always:
        fault = _FAULTS[min((harm.outcome for harm in always), key=list(_FAULTS).index)]
        yield Finding(line, fault, f"{what} {_told(harms, always)}", "choose another algorithm")
    others: dict[str, list[Harm]] = {}
    for harm in harms.found:
        if harm not in always:
            others.setdefault(harm.mode.left_out_by, []).append(harm)
    for promise, some in others.items():
        mend = f"use it only where all programs keep the promise {promise}"
        yield Finding(line, Fault.SOME_PROGRAMS, f"{what} {_told(harms, some)}", mend, promise)


def _told(harms: Harms, some: Sequence[Harm]) -> str:
    texts = dict.fromkeys(map(str, some))
    return f"{'; '.join(texts)}{harms.where(some[0])}"


@dataclass(frozen=True)
class Call:
    """A call of a collective, as far as any library looks at it.

    Parameters
    ----------
    collective
        What is called.
    comm_size
        Processes of the communicator.
    msize_bytes
        Message size in the unit of `colltune.domain`: what the caller passes.
    nodes
        Over how many nodes these processes lie (evenly, as far as that is possible).
    is_world
        Whether it is MPI_COMM_WORLD (some libraries know less about its layout).
    in_place
        Whether MPI_IN_PLACE is passed.
    commutative, builtin_operation
        Of the operation of a reduction.
    element_bytes
        Size of the datatype: some algorithms need an element per process.
    ignored_send_bytes
        What the send arguments of an in-place call describe, per process: count times size of the
        type, of allgatherv what is received in the send type. MPI ignores them, Open MPI does not.
        None where that is not known; they are taken to be empty then.
    """

    collective: Collective
    comm_size: int
    msize_bytes: int
    nodes: int = 1
    is_world: bool = True
    in_place: bool = False
    commutative: bool = True
    builtin_operation: bool = True
    element_bytes: int = 1
    ignored_send_bytes: int | None = None


class Rule(NamedTuple):
    """The smallest part of a file that names an algorithm: its line, its text, what it names.

    ``configuration`` is the default where the rule leaves the decision to the library, and None
    where it names something that the release does not have.

    ``line`` counts from 1, ``text`` is what stands there.
    """

    line: int
    text: str
    collective: Collective
    configuration: Configuration | None


@dataclass(frozen=True)
class Outcome:
    """What runs for a call, and why.

    Parameters
    ----------
    configuration
        What runs; the default stands for the library's own decision.
    rule
        The rule that said so; None where none did.
    reasons
        Sentences, in the order in which the library goes.
    chosen
        What the rule says; differs from `configuration` where the library falls back to another
        algorithm or the rule has no say.
    component
        Which part of the library decides (``tuned``, ``han``), empty where there is only one.
    ends_program
        Why the call, or the program at its start, would fail; empty if it runs.
    inner
        Calls on parts of the communicator that a hierarchical component makes in its place.
    returns_at_once
        Whether the call has no data and returns before anything runs; `configuration` is what is
        asked for then.
    handed_on
        Whether another component gets the call first, and hands it on as it is.
    """

    configuration: Configuration
    rule: Rule | None
    reasons: tuple[str, ...]
    chosen: Configuration
    component: str = ""
    ends_program: str = ""
    inner: tuple[tuple[Call, Outcome], ...] = ()
    returns_at_once: bool = False
    handed_on: bool = False


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


class ParsedFile(Protocol):
    """What one release makes of one configuration file."""

    @property
    def format(self) -> str:
        """Key of `colltune.mpi.formats.FORMATS`."""
        ...

    @property
    def release(self) -> str:
        """For which release it was read."""
        ...

    @property
    def source(self) -> str:
        """Name of the file in messages."""
        ...

    @property
    def dropped(self) -> str:
        """Why the release ignores the file as a whole; empty if it reads it."""
        ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules in the order of the file, also those that are never reached."""
        ...

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`.

        `environment` holds the variables of the job as the user would export them; by default
        exactly those that put the file into effect.
        """
        ...

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return the communicator sizes from which on another decision may hold, ascending."""
        ...

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return the message sizes (our ``msize_bytes``) at which the decision may change.

        Ascending, from 0 on; for communicators of `comm_size` processes over `nodes` nodes.
        """
        ...


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


def not_converted(
    listed: Iterable[Listed], written: Sequence[Rule], notes: Sequence[str]
) -> list[str]:
    """Return a note on each variable that neither a rule `written` nor one of `notes` tells of.

    `listed` are the variables of the file that was converted.
    """
    kept = {rule.collective for rule in written}

    def told(each: Listed) -> bool:
        names = (each.text.partition("=")[0], each.collective or each.text)
        here = (note for note in notes if note.startswith(f"line {each.line}:"))
        return any(name in note for note in here for name in names)

    return [
        f"line {each.line}: {each.text[:80]} is not converted"
        for each in listed
        if each.collective not in kept and not told(each)
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

    def why_not_expressed(self, release: str, configuration: Configuration) -> str:
        """Return why a file cannot name `configuration`; empty if it can.

        Raises
        ------
        LibraryError
            If it is unknown in `release`.
        """
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

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        """Return what `release` makes of a file; `source` names it in messages.

        A file that the release drops, or does not read as its author meant, is parsed all the same;
        `lint` tells.

        Raises
        ------
        LibraryError
            If it cannot be taken for a file of this format at all, or the release is not supported.
        """
        ...

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
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

    def listed(self, parsed: ParsedFile) -> tuple[Listed, ...]:
        """Return the variables of `parsed` that a conversion must keep or name; by default none."""
        return ()

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """Return what `parsed`, a file of the same library, means, in this format for `release`.

        The notes tell what cannot be kept, each with the line it stands on.

        Raises
        ------
        LibraryError
            If the file is one of another library, or is dropped by its own release.
        """
        ...

    def with_others(
        self, parsed: ParsedFile, environment: Mapping[str, str], activation: Mapping[str, str]
    ) -> ParsedFile:
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


def refuse_dropped(parsed: ParsedFile, ends_program: str = "") -> None:
    """Refuse to convert a file that its own release drops, or that ends programs at their start.

    Raises
    ------
    LibraryError
        If `parsed` is dropped, or `ends_program` tells why programs end.
    """
    if parsed.dropped or ends_program:
        raise LibraryError(
            f"{parsed.source}: there is nothing to convert: {parsed.dropped or ends_program}"
        )


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
        raise LibraryError(f"{path}: the path of {what} must be absolute")
    return path
