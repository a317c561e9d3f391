"""The format ``mpich-cvars``: a list of variables, one algorithm per collective for every call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Format, Listed, Written, absolute_path, text_at
from colltune.mpi.job_variables import mentions
from colltune.mpi.mpich.library import LIBRARY, MPICH, TITLE
from colltune.mpi.mpich.tree import Leaf, leaves
from colltune.mpi.mpich.tree_file import ParsedTree
from colltune.mpi.mpich.variables import NAME, NAMED, ParsedVariables, lint, parse
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Programs
from colltune.mpi.rules import Finding, Rules
from colltune.mpi.running import Promises

_EMPTY = "# MPICH decides by itself: MPIR_CVAR_COLLECTIVE_FALLBACK=silent is its default\n"


class MpichVariables(Format):
    name = NAME
    library = LIBRARY
    title = "MPICH's control variables"
    single_algorithm = True
    lists_variables = True

    def recognises(self, text: str) -> bool:
        """Tell whether a line sets one of MPICH's variables; an empty list has one of ours."""
        ours = "(?:MPIR_CVAR|MPIR_PARAM|MPICH)_"
        return text.replace("\r\n", "\n") == _EMPTY or mentions(text, ours)

    def parse(self, text: str, source: str, release: str) -> ParsedVariables:
        return parse(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParsedVariables)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return the variables of the choices that are the same wherever a table chooses.

        The device's own collectives are switched off for these collectives, as when they are
        measured; where an algorithm cannot run, the library decides.
        """
        self.catalogue_of(release)
        if table.library != LIBRARY:
            raise LibraryError(f"a table of {table.library} cannot be written for {TITLE}")
        notes: list[str] = []
        found = {}
        for collective, choices in _choices(table).items():
            if len(choices) > 1:
                what = "needs more than one variable; left to the library"
                notes.append(f"{collective}: {what}")
            elif why := _why_not(release, choices[0], table, programs):
                notes.append(f"{collective}: {why}; left to the library")
            else:
                found[collective] = choices[0]
        written = _written(release, found, notes)
        if written.text == _EMPTY:
            return written
        told = f"# Written by colltune for {programs.phrase}.\n"
        return replace(written, texts={"": told + written.text})

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        """Return what only the job knows; all else is told where it is converted."""
        assert isinstance(parsed, ParsedVariables)
        return tuple(
            Listed(each.line, f"{each.name} (which depends on {each.unknown})")
            for each in parsed.script.found
            if each.unknown and NAMED.match(each.name)
        )

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return the choices of a list or a tree, as far as each holds for all calls."""
        self.catalogue_of(release)
        notes: list[str] = []
        if isinstance(parsed, ParsedVariables):
            choices = dict.fromkeys(parsed.choices(notes))
        elif isinstance(parsed, ParsedTree):
            if parsed.reading.fatal:
                raise LibraryError(f"{parsed.source}: ends the program: {parsed.reading.fatal}")
            choices = dict.fromkeys(_everywhere(parsed, notes))
        else:
            raise LibraryError(f"{parsed.source}: {parsed.format} is not a format of {TITLE}")
        found = {}
        for configuration, line in choices:
            try:
                why = MPICH.at(release).harms(configuration).sentence(MOST_PROMISED)
            except LibraryError as error:
                why = str(error)
            if why:
                notes.append(f"line {line}: {why}; left to the library")
                continue
            found[configuration.collective] = configuration
        return _written(release, found, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return what the list sets: no variable names a list, so that all of it is exported.

        Where the list cannot be read, there is nothing to return.
        """
        for path in paths.values():
            absolute_path(path, "a list of variables")
        if (text := text_at(paths[""])) is None:
            return {}
        return dict(parse(text, paths[""], release).variables.environment)


def _choices(table: DecisionTable) -> dict[Collective, list[Configuration]]:
    found: dict[Collective, list[Configuration]] = {}
    for rules in (table.rules, table.by_layout):
        for (collective, _), intervals in rules.items():
            known = found.setdefault(collective, [])
            known += (i.configuration for i in intervals if i.configuration not in known)
    return found


def _why_not(
    release: str, configuration: Configuration, table: DecisionTable, programs: Programs
) -> str:
    """Return why a choice cannot be written for everything; empty if it can."""
    sizes = [size for c, size in table.rules if c is configuration.collective]
    found = MPICH.at(release).runs_at(configuration, sizes, Promises(programs))
    return next((runs.reason for runs in found if runs.refusal is not None), "")


def _everywhere(parsed: ParsedTree, notes: list[str]) -> Iterator[tuple[Configuration, int]]:
    """Yield what a tree chooses for all calls of a collective, with its line."""
    for collective in Collective:
        found: dict[Leaf, Leaf] = {}
        for path, leaf in leaves(parsed.tree):
            keys = {test.key for test in path}
            if f"collective={collective}" in keys and "comm_type=inter" not in keys:
                found.setdefault(leaf, leaf)
        if all(leaf.left_to_library for leaf in found.values()):
            continue
        first = next(leaf for leaf in found.values() if not leaf.left_to_library)
        configuration = parsed.named(collective, first)
        if len(found) > 1 or configuration is None:
            notes.append(
                f"line {first.line}: the decision for {collective} depends on the call; left "
                "to the library"
            )
            continue
        yield configuration, first.line


def _written(release: str, found: Mapping[Collective, Configuration], notes: list[str]) -> Written:
    lines = [
        f"{name}={value}\n"
        for collective in sorted(found)
        for name, value in sorted(MPICH.at(release).forced_environment(found[collective]).items())
    ]
    return Written(NAME, release, {"": "".join(lines) or _EMPTY}, tuple(notes))
