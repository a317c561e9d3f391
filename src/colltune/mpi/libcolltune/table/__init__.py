"""Decision tables of libcolltune as formats, one for each MPI library, and their lint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.choosing import ELEMENT_BYTES, Chooser, Steps, chooses
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
    Entry,
    RuleBlock,
    Step,
    looks_like,
    read,
    rendered,
    version_of,
)
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Programs
from colltune.mpi.release import Release, UserPatterns
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules, Severity, harm_findings
from colltune.text import counted


class TableWriter(Chooser):
    """Makes the content of one table; ``notes`` tell what is left to the library and why."""

    def __init__(self, bound: Release, *, programs: Programs) -> None:
        super().__init__(
            bound,
            ": processes know messages of different sizes,",
            programs=programs,
        )

    def content(self, table: DecisionTable) -> Content:
        mpi = self.bound.mpi
        found: dict[tuple[Collective, int, Shape | None], Steps] = {
            (collective, size, None): steps
            for (collective, size), steps in self.by_size(table).items()
        }
        layouts = self.by_layout(table)
        told = {(collective, size) for collective, size, _ in found}
        told |= {(c, shape.nprocs) for (c, shape), steps in layouts.items() if chooses(steps)}
        # a layout has a block where another one of its size, or the size itself, chooses
        kept = found | {
            (collective, shape.nprocs, shape): steps
            for (collective, shape), steps in layouts.items()
            if (collective, shape.nprocs) in told
        }
        entries = self._entries({s.configuration for steps in kept.values() for s in steps})
        number = {entry.configuration: entry.number for entry in entries.values()}
        patterns, ours = mpi.user_patterns, self.bound.base_environment()
        return Content(
            table.library,
            self.bound.name,
            table.shape,
            unless=tuple(p for p in patterns.deciding if p not in DECIDING),
            but=tuple(dict.fromkeys((*patterns.harmless, *ours))),
            entries=entries,
            blocks=tuple(
                RuleBlock(
                    collective,
                    size,
                    tuple(
                        Step(s.first_bytes, number.get(s.configuration, LIBRARY_CHOICE))
                        for s in steps
                    ),
                    layout,
                )
                for (collective, size, layout), steps in kept.items()
            ),
        )

    def _entries(self, used: set[Configuration]) -> dict[int, Entry]:
        entries: dict[int, Entry] = {}
        for number, configuration in enumerate((c for c in self.written if c in used), 1):
            forced: Mapping[str, int | str] = {}
            if not is_libcolltune(configuration):
                forced = self.bound.force(configuration)
            settings = tuple((name, str(value)) for name, value in sorted(forced.items()))
            entries[number] = Entry(number, configuration, settings)
        return entries

    def why_not_told(self, spelled: Configuration) -> str:
        return why_not_told(self.bound, spelled)


def why_not_told(bound: Release, configuration: Configuration) -> str:
    """Return why libcolltune cannot choose a configuration; empty if it can."""
    if configuration.is_default or bound.settable_at_runtime(configuration):
        return ""
    return (
        f"{bound.mpi.title} {bound.name} cannot switch to {configuration.id} while a program runs"
    )


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
        return tuple(
            Rule(
                step.line,
                f"{step.first_bytes} {step.number}",
                block.collective,
                self._chosen(block, step.number),
            )
            for block in self.content.blocks
            for step in block.steps
        )

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        own = Configuration.default(self.bound.mpi.name, call.collective)
        off = self.dropped or (self._why_off(environment) if environment is not None else "")
        if off:
            return Outcome(own, None, (f"The library decides: {off}.",), own)
        forced = self._forced(call, environment or {})
        if forced is not None:
            return Outcome(forced, None, (f"{FORCE} names {forced.id}.",), own)
        block = self._block(call)
        if block is None:
            where = f"{call.collective} on {call.comm_size} processes"
            return Outcome(own, None, (f"The table has no rules for {where}.",), own)
        step = [step for step in block.steps if step.first_bytes <= call.msize_bytes][-1]
        chosen = self._chosen(block, step.number)
        rule = next(rule for rule in self.rules if rule.line == step.line)
        reason = (
            f"{self.source}:{step.line}: {call.collective} {block.where}, from"
            f" {step.first_bytes} bytes on."
        )
        why_not = self._why_not(chosen, call)
        if why_not:
            return Outcome(own, rule, (reason, f"The library decides: {why_not}."), chosen)
        return Outcome(chosen, rule, (reason,), chosen)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Every rule is for exactly one size."""
        sizes = {b.comm_size for b in self.content.blocks if b.collective is collective}
        return tuple(sorted({end for size in sizes for end in (size, size + 1)}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        block = self._block(Call(collective, comm_size, 0, nodes))
        return (0,) if block is None else tuple(step.first_bytes for step in block.steps)

    def table(self) -> DecisionTable:
        rules = {b.key: self._intervals(b) for b in self.content.blocks}
        return DecisionTable(
            self.bound.mpi.name,
            self.content.shape,
            {(c, size): i for (c, size), i in rules.items() if isinstance(size, int)},
            {(c, shape): i for (c, shape), i in rules.items() if isinstance(shape, Shape)},
        )

    def _intervals(self, block: RuleBlock) -> tuple[Interval, ...]:
        lasts = [*(step.first_bytes - 1 for step in block.steps[1:]), None]
        return tuple(
            Interval(step.first_bytes, last, self._chosen(block, step.number))
            for step, last in zip(block.steps, lasts, strict=True)
        )

    def _chosen(self, block: RuleBlock, number: int) -> Configuration:
        entry = self.content.entries.get(number)
        if entry is None:
            return Configuration.default(self.bound.mpi.name, block.collective)
        return entry.configuration

    @cached_property
    def _blocks(self) -> dict[tuple[Collective, int | Shape], RuleBlock]:
        return {block.key: block for block in self.content.blocks}

    def _block(self, call: Call) -> RuleBlock | None:
        """Return the block that holds: that of exactly this layout goes before that of the size."""
        found = None
        if call.nodes and call.comm_size % call.nodes == 0:
            layout = Shape(call.nodes, call.comm_size // call.nodes)
            found = self._blocks.get((call.collective, layout))
        return found or self._blocks.get((call.collective, call.comm_size))

    def _why_not(self, chosen: Configuration, call: Call) -> str:
        if chosen.is_default:
            return ""
        size, element_bytes = call.comm_size, call.element_bytes
        try:
            return self.bound.why_not(chosen, size, call.msize_bytes, element_bytes=element_bytes)
        except LibraryError as error:  # an algorithm that nobody has
            return str(error)

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

    def why_not_expressed(self, release: str, configuration: Configuration) -> str:
        bound = self.mpi.at(release)
        return why_not_told(bound, bound.canonical(configuration))

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
        writer = TableWriter(self.mpi.at(release), programs=programs)
        text = rendered(writer.content(table))
        return Written(self.name, release, {"": text}, tuple(writer.notes))

    def convert(self, parsed: Rules, release: str) -> Written:
        self.mpi.catalogue_of(release)
        if not isinstance(parsed, ParsedTable) or parsed.format != self.name:
            raise LibraryError(
                f"{parsed.source}: a table holds for the communicators of one job, which "
                f"{parsed.format} does not name; {AGAIN}"
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
    found = [f for entry in content.entries.values() for f in _of_entry(entry, bound)]
    yield from found
    unknown = {finding.line for finding in found if finding.severity is Severity.ERROR}
    known = {n: e for n, e in content.entries.items() if e.line not in unknown}
    for block in content.blocks:
        if block.comm_size > content.shape.nprocs:
            message = (
                f"a job of {content.shape} has no communicator of "
                f"{counted(block.comm_size, 'process', 'es')}"
            )
            yield Finding(block.line, Fault.DEAD_RULE, message, "remove the block")
        for step in block.steps:
            if step.number in known:
                yield from _of_step(block, step, known[step.number], bound)


def _of_entry(entry: Entry, bound: Release) -> Iterator[Finding]:
    configuration, title = entry.configuration, f"{bound.mpi.title} {bound.name}"
    try:
        spelled = bound.canonical(configuration)
    except LibraryError as error:
        message = f"{error}; its rules are left to the library"
        yield Finding(entry.line, Fault.RULE_DROPPED, message, AGAIN)
        return
    if is_libcolltune(spelled):
        if entry.settings:
            message = f"{spelled.id} needs no control variables, so they are ignored"
            yield Finding(entry.line, Fault.NO_EFFECT, message, "remove them")
        return
    if not bound.settable_at_runtime(spelled):
        message = f"{title} cannot switch to {spelled.id} while a program runs"
        yield Finding(entry.line, Fault.RULE_DROPPED, message, AGAIN)
        return
    wanted = {(name, str(value)) for name, value in bound.force(spelled).items()}
    if wanted != set(entry.settings):
        message = f"{spelled.id} is chosen by other control variables in {title}"
        yield Finding(entry.line, Fault.OTHER_RELEASE, message, AGAIN)
    harms = bound.harms(spelled)
    yield from harm_findings(entry.line, spelled.id, harms)
    why = bound.why_unsafe(spelled, programs=MOST_PROMISED)
    if why and not harms.done_to(MOST_PROMISED):
        yield Finding(entry.line, Fault.WRONG_RESULT, f"{spelled.id}: {why}", AGAIN)


def _of_step(block: RuleBlock, step: Step, entry: Entry, bound: Release) -> Iterator[Finding]:
    at, configuration = max(step.first_bytes, 1), entry.configuration
    runs = bound.runs(
        configuration, block.comm_size, shape=block.layout, element_bytes=ELEMENT_BYTES
    )
    if why := runs.why_not(at):
        fault = Fault.FALLS_BACK if runs.first_bytes is None else Fault.NOT_EVERYWHERE
        message = f"the library decides: {why}"
        yield Finding(step.line, fault, message, AGAIN)


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
