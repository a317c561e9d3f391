"""What libcolltune makes of a decision table, beside one release of the MPI library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Call, Finding, Outcome, Rule
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import FILE_STEM, TABLE
from colltune.mpi.libcolltune.space import FORCE
from colltune.mpi.libcolltune.table.text import Content, RuleBlock
from colltune.mpi.release import Release
from colltune.mpi.user_overrides import UserPatterns


@dataclass(frozen=True, eq=False)
class ParsedTable:
    """See `file_format.ParsedFile`; ``content`` is empty where the table is ``dropped``."""

    bound: Release
    format: str
    source: str
    content: Content
    dropped: str = ""
    form_findings: tuple[Finding, ...] = ()

    @property
    def release(self) -> str:
        return self.bound.name

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
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
            return f"{PRELOAD} names no {FILE_STEM}"
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
