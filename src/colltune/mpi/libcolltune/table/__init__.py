"""Decision tables of libcolltune as formats, one for each MPI library, and their lint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError, say
from colltune.mpi import LIBRARIES
from colltune.mpi.choosing import ELEMENT_BYTES, Chooser
from colltune.mpi.file_format import Format, Written, absolute_path, refuse_dropped
from colltune.mpi.libcolltune import PRELOAD, is_libcolltune
from colltune.mpi.libcolltune.library import (
    DECIDING,
    FILE_STEM,
    TABLE,
    WithLibcolltune,
    with_libcolltune,
)
from colltune.mpi.libcolltune.space import FORCE
from colltune.mpi.libcolltune.table.text import (
    AGAIN,
    LIBRARY_CHOICE,
    Broken,
    Content,
    TableConfiguration,
    looks_like,
    read,
    rendered,
    version_of,
    where,
)
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Programs
from colltune.mpi.release import Release, UserPatterns
from colltune.mpi.rules import (
    LARGEST_SIZE,
    Call,
    Entries,
    Entry,
    Fault,
    Finding,
    Layout,
    Numbers,
    Outcome,
    Rule,
    Rules,
    Severity,
    harm_findings,
)
from colltune.mpi.running import Promises
from colltune.text import counted


class TableWriter(Chooser):
    """Makes the content of one table; ``notes`` tell what is left to the library and why."""

    def __init__(self, bound: Release, *, promises: Promises) -> None:
        super().__init__(bound, ": processes know messages of different sizes,", promises)

    def content(self, table: DecisionTable) -> Content:
        mpi = self.bound.mpi
        every = [*self.by_size(table), *self.by_layout(table)]
        told = {(entry.collective, entry.first_size) for entry in every if entry.chooses}
        # a layout has a block where another one of its size, or the size itself, chooses
        kept = [entry for entry in every if (entry.collective, entry.first_size) in told]
        used = (r.configuration for e in kept for r in e.rules if r.configuration)
        choices = self._choices(dict.fromkeys(c for c in used if not c.is_default))
        number = {choice.configuration: choice.number for choice in choices.values()}

        def numbered(rule: Rule) -> Rule:
            chosen = rule.configuration
            told = number.get(chosen, LIBRARY_CHOICE) if chosen else LIBRARY_CHOICE
            return rule._replace(numbers=Numbers(told))

        patterns, ours = mpi.user_patterns, self.bound.base_environment()
        return Content(
            table.library,
            self.bound.name,
            table.shape,
            unless=tuple(p for p in patterns.deciding if p not in DECIDING),
            but=tuple(dict.fromkeys((*patterns.harmless, *ours))),
            choices=choices,
            entries=tuple(replace(e, rules=tuple(map(numbered, e.rules))) for e in kept),
        )

    def _choices(self, used: Iterable[Configuration]) -> dict[int, TableConfiguration]:
        choices: dict[int, TableConfiguration] = {}
        for number, configuration in enumerate(used, 1):
            forced: Mapping[str, int | str] = {}
            if not is_libcolltune(configuration):
                forced = self.bound.force(configuration)
            settings = tuple((name, str(value)) for name, value in sorted(forced.items()))
            choices[number] = TableConfiguration(number, configuration, settings)
        return choices


@dataclass(frozen=True, eq=False)
class ParsedTable(Rules):
    """See `rules.Rules`; ``content`` is empty where the table is ``dropped``."""

    bound: Release
    format: str
    source: str
    content: Content
    dropped: str = ""
    form_findings: tuple[Finding, ...] = ()

    @property
    def release(self) -> str:  # type: ignore[override]
        return self.bound.name

    @cached_property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        return tuple(rule for entry in self.content.entries for rule in entry.rules)

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        """The rules: those for exactly a layout go before those for the size."""
        found: dict[Collective, tuple[Entry, ...]] = {}
        for entry in sorted(self.content.entries, key=lambda one: one.layout is Layout.ANY):
            found[entry.collective] = (*found.get(entry.collective, ()), entry)
        return found

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        own = Configuration.default(self.bound.mpi.name, call.collective)
        off = self.dropped or (self._why_off(environment) if environment is not None else "")
        if off:
            return Outcome(own, None, (f"The library decides: {off}.",), own)
        forced = self._forced(call, environment or {})
        if forced is not None:
            return Outcome(forced, None, (f"{FORCE} names {forced.id}.",), own)
        match = self.match(call)
        if match is None:
            on = f"{call.collective} on {call.comm_size} processes"
            return Outcome(own, None, (f"The table has no rules for {on}.",), own)
        rule, reason = match
        chosen = rule.configuration or own
        why_not = self._why_not(chosen, call)
        if why_not:
            return Outcome(own, rule, (reason, f"The library decides: {why_not}."), chosen)
        return Outcome(chosen, rule, (reason,), chosen)

    def why(self, call: Call, entry: Entry, rule: Rule) -> str:
        return f"{call.collective} {where(entry)}, from {rule.first} bytes on."

    def table(self) -> DecisionTable:
        rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {}
        by_layout: dict[tuple[Collective, Shape], tuple[Interval, ...]] = {}
        for one in self.content.entries:
            if isinstance(one.layout, Shape):
                by_layout[one.collective, one.layout] = _intervals(one)
            else:
                rules[one.collective, one.first_size] = _intervals(one)
        return DecisionTable(self.bound.mpi.name, self.content.shape, rules, by_layout)

    def _why_not(self, chosen: Configuration, call: Call) -> str:
        if chosen.is_default:
            return ""
        calls = Promises(element_bytes=call.element_bytes)
        return self.bound.runs(chosen, call.comm_size, calls).why_not(call.msize_bytes)

    def _why_off(self, environment: Mapping[str, str]) -> str:
        """Return why a job with these variables does not ask the table."""
        preloaded = environment.get(PRELOAD, "").replace(" ", ":").split(":")
        if not any(PurePath(path).name.startswith(FILE_STEM) for path in preloaded):
            return f"{PRELOAD} does not name {FILE_STEM}"
        if not environment.get(TABLE):
            return f"{TABLE} is not set"
        patterns = UserPatterns(self.content.unless, self.content.but)
        for name, value in environment.items():
            if patterns.decides(name):
                return f"{name}={value} is set"
        return ""

    def _forced(self, call: Call, environment: Mapping[str, str]) -> Configuration | None:
        """Return what ``COLLTUNE_FORCE`` names for the call's collective."""
        for word in environment.get(FORCE, "").split(";"):
            fields = word.strip().split(":")[0].split(".")
            if len(fields) == 3 and fields[1] == call.collective:
                return Configuration.parse(word.strip())
        return None


def _intervals(entry: Entry) -> tuple[Interval, ...]:
    return tuple(
        Interval(rule.first, None if rule.last == LARGEST_SIZE else rule.last, rule.configuration)
        for rule in entry.rules
        if rule.configuration is not None
    )


class TableFormat(Format):
    """See `file_format.Format`; a table is read only beside the release that it was made for."""

    knows_layout = True
    interposed = True

    @property
    def mpi(self) -> WithLibcolltune:
        return with_libcolltune(LIBRARIES[self.library])

    def recognises(self, text: str) -> bool:
        return looks_like(text, self.library)

    def release_in(self, text: str) -> str | None:
        words = text.split("\n", 2)[1].split() if self.recognises(text) else []
        return words[2] if len(words) == 3 else None

    def limit(self, release: str, configuration: Configuration) -> str:
        if configuration.is_default or self.mpi.at(release).settable_at_runtime(configuration):
            return ""
        here = f"{self.mpi.title} {release}"
        return f"{here} cannot switch to {configuration.id} while a program runs"

    def parse(self, text: str, source: str, release: str) -> Rules:
        self.mpi.catalogue_of(release)
        version_of(text, source)
        try:
            content = read(text)
        except Broken as broken:
            return self._dropped(source, release, broken.line, broken.message)
        if content.library != self.library:
            why = f"it is for {content.library}, not for {self.library}"
            return self._dropped(source, release, 2, why)
        if content.release != release:
            why = f"it is for {self.mpi.title} {content.release}, not for {release}"
            return self._dropped(source, release, 2, why)
        return ParsedTable(self.mpi.at(release), self.name, source, content)

    def _dropped(self, source: str, release: str, line: int, why: str) -> ParsedTable:
        message = f"{why}, so libcolltune ignores the table, and the library decides"
        finding = Finding(line, Fault.FILE_DROPPED, message, AGAIN)
        nothing = Content(self.library, release, Shape(1, 1))
        dropped = f"line {line}: {why}" if line else why
        return ParsedTable(self.mpi.at(release), self.name, source, nothing, dropped, (finding,))

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParsedTable)
        found = () if parsed.dropped else _findings(parsed)
        return tuple(sorted((*parsed.form_findings, *found)))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return `table` for libcolltune; algorithms of the library are chosen by MPI_T."""
        self.mpi.catalogue_of(release)
        promises = Promises(programs, self, ELEMENT_BYTES, one_node=table.shape.nodes == 1)
        writer = TableWriter(self.mpi.at(release), promises=promises)
        text = rendered(writer.content(table))
        return Written(self.name, release, {"": text}, tuple(writer.notes))

    def convert(self, parsed: Rules, release: str) -> Written:
        self.mpi.catalogue_of(release)
        if not isinstance(parsed, ParsedTable) or parsed.format != self.name:
            raise say(
                "communicators-not-named", file=parsed.source, format=parsed.format, again=AGAIN
            )
        refuse_dropped(parsed)
        return self.write(parsed.table(), release, programs=MOST_PROMISED)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables that preload libcolltune and name the table."""
        path = absolute_path(paths[""], "a table")
        ours = {PRELOAD: paths.get("library", f"{FILE_STEM}.so"), TABLE: path}
        return ours | self.mpi.at(release).base_environment()


def _findings(table: ParsedTable) -> Iterator[Finding]:
    content, bound = table.content, table.bound
    found = [f for choice in content.choices.values() for f in _of_choice(choice, bound)]
    yield from found
    unknown = {finding.line for finding in found if finding.severity is Severity.ERROR}
    known = {n for n, choice in content.choices.items() if choice.line not in unknown}
    for entry in content.entries:
        if entry.first_size > content.shape.nprocs:
            message = (
                f"a job of {content.shape} has no communicator of "
                f"{counted(entry.first_size, 'process', 'es')}"
            )
            yield Finding(entry.line, Fault.DEAD_RULE, message, "remove the block")
        for rule in entry.rules:
            if rule.numbers.algorithm in known:
                yield from _of_rule(entry, rule, bound)


def _of_choice(choice: TableConfiguration, bound: Release) -> Iterator[Finding]:
    configuration, title = choice.configuration, f"{bound.mpi.title} {bound.name}"
    try:
        spelled = bound.canonical(configuration)
    except LibraryError as error:
        message = f"{error}; its rules are left to the library"
        yield Finding(choice.line, Fault.RULE_DROPPED, message, AGAIN)
        return
    if is_libcolltune(spelled):
        if choice.settings:
            message = f"{spelled.id} needs no control variables, so they are ignored"
            yield Finding(choice.line, Fault.NO_EFFECT, message, "remove them")
        return
    if not bound.settable_at_runtime(spelled):
        message = f"{title} cannot switch to {spelled.id} while a program runs"
        yield Finding(choice.line, Fault.RULE_DROPPED, message, AGAIN)
        return
    wanted = {(name, str(value)) for name, value in bound.force(spelled).items()}
    if wanted != set(choice.settings):
        message = f"{spelled.id} is chosen by other control variables in {title}"
        yield Finding(choice.line, Fault.OTHER_RELEASE, message, AGAIN)
    harms = bound.harms(spelled)
    yield from harm_findings(choice.line, spelled.id, harms)
    why = bound.runs(spelled, promises=Promises(MOST_PROMISED)).reason
    if why and not harms.done_to(MOST_PROMISED):
        yield Finding(choice.line, Fault.WRONG_RESULT, f"{spelled.id}: {why}", AGAIN)


def _of_rule(entry: Entry, rule: Rule, bound: Release) -> Iterator[Finding]:
    at, configuration = max(rule.first, 1), rule.configuration
    assert configuration is not None  # a table defines what its rules name
    place = entry.layout if isinstance(entry.layout, Shape) else entry.first_size
    runs = bound.runs(configuration, place, Promises(element_bytes=ELEMENT_BYTES))
    if why := runs.why_not(at):
        fault = Fault.FALLS_BACK if runs.first_bytes is None else Fault.NOT_EVERYWHERE
        message = f"the library decides: {why}"
        yield Finding(rule.line, fault, message, AGAIN)


class OpenMpiTable(TableFormat):
    name = "openmpi-table"
    library = "openmpi"
    title = "libcolltune's decision table for Open MPI"


class MpichTable(TableFormat):
    name = "mpich-table"
    library = "mpich"
    title = "libcolltune's decision table for MPICH"


class IntelMpiTable(TableFormat):
    """Tables beside Intel MPI, whose own algorithms they cannot choose."""

    name = "intelmpi-table"
    library = "intelmpi"
    title = "libcolltune's decision table for Intel MPI"
