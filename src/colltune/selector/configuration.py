"""A job's configuration: selected, as texts of an MPI library's own files, and on disk."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from colltune.decisions import ENOUGH_CORES, DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError, say
from colltune.files import write_text
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.mpi import MpiLibrary, Release, library
from colltune.mpi.choosing import ELEMENT_BYTES
from colltune.mpi.file_format import Format, Written
from colltune.mpi.formats import format_for
from colltune.mpi.libcolltune import assignment, is_libcolltune
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.mpi.running import Promises
from colltune.selector.argmin import Decisions, ModelSelector
from colltune.selector.decision_table import (
    Integers,
    Intervals,
    between_switches,
    communicator_sizes,
    decision_table,
    grid,
    layouts,
    single_algorithm_table,
    switch_points,
)
from colltune.text import counted

NOT_SLOWER = math.log(1.02)
"""Log of the ratio of runtimes that counts as equal: launches of one day differ by more."""


def all_or_nothing_table(
    selector: ModelSelector,
    shape: Shape,
    collectives: Iterable[Collective],
    *,
    by_layout: bool = True,
) -> DecisionTable:
    """Return decisions for all message sizes, or nothing.

    They are for each layout of the job with `by_layout`, else for the job's own alone.
    """
    asked = [shape]
    if by_layout:
        asked = [s for size in communicator_sizes(shape) for s in layouts(size, shape)]
    rules: dict[tuple[Collective, int], Intervals] = {}
    of_layouts: dict[tuple[Collective, Shape], Intervals] = {}
    for collective in collectives:
        found = _decided(selector, collective, asked, shape)
        for layout, intervals in zip(asked, found, strict=True):
            if len(layouts(layout.nprocs, shape)) == 1 or not by_layout:
                rules[collective, layout.nprocs] = intervals
            else:
                of_layouts[collective, layout] = intervals
    return DecisionTable(selector.bundle.context.library, shape, rules, of_layouts)


def _decided(
    selector: ModelSelector, collective: Collective, asked: Sequence[Shape], job: Shape
) -> list[Intervals]:
    """Return the intervals of each shape, one left to the library where it keeps all."""
    model = selector.bundle.model(collective)
    portfolio, default = selector.portfolio(collective), selector.default(collective)
    default_column = portfolio.index(default)
    nodes, ppn = (np.array([getattr(s, name) for s in asked]) for name in ("nodes", "ppn"))
    largest = int(model.coverage.high[2])
    sizes = grid(largest, model.coverage.sizes)

    def decide(rule: Integers, msize_bytes: Integers) -> tuple[Decisions, Integers]:
        """Return the decisions, and the fastest of what is not the default."""
        decisions = selector.decide(collective, nodes[rule], ppn[rule], msize_bytes)
        others = decisions.rank_s.copy()
        others[:, default_column] = np.inf
        best = others.argmin(axis=1)
        runs = np.isfinite(others[np.arange(len(best)), best])
        return decisions, np.where(runs, best, default_column)

    def never_slower() -> bool:
        """Tell whether the choice is as fast as the default everywhere, and gains on the job."""
        measured = sizes[sizes >= int(model.coverage.low[2])]
        rules = np.repeat(np.arange(len(asked)), len(measured))
        decisions, chosen = decide(rules, np.tile(measured, len(asked)))
        rows = np.arange(len(chosen))
        default_s = decisions.forecast.time_s[:, default_column]
        gain = np.log(default_s) - np.log(decisions.rank_s[rows, chosen])
        own = rules == asked.index(job)
        required = decisions.required[rows, chosen][own].max()
        usable = (chosen != default_column) & ~decisions.beyond
        return bool(usable.all() and (gain >= -NOT_SLOWER).all() and gain[own].mean() > required)

    refuted = any(
        one.jobs and one.collective is collective and one.shape in asked
        for one in selector.bundle.confirmations
    )
    if model.default_column is None or refuted or not never_slower():
        reason = "default kept: no single choice for all sizes and communicators is as fast"
        if refuted:
            reason = "default kept: production jobs refuted a part of what was chosen"
        return [(Interval(0, None, default, reason=reason),)] * len(asked)
    found = switch_points(lambda *rules: decide(*rules)[1], len(asked), sizes)
    return [between_switches(portfolio, switches) for switches in found]


@dataclass(frozen=True)
class Target:
    """What is written for: a format, read by a release of its library.

    ``release`` is that of the library; ``programs`` says for which programs.
    """

    form: Format
    release: str
    programs: Programs = FOR_EVERYBODY

    @property
    def mpi(self) -> MpiLibrary:
        """The library, together with libcolltune where that reads the format."""
        found = library(self.form.library)
        if not self.form.interposed:
            return found
        from colltune.mpi.libcolltune.library import with_libcolltune

        return with_libcolltune(found)

    @property
    def bound(self) -> Release:
        """What the release can do."""
        return self.mpi.at(self.release)

    @property
    def promises(self) -> Promises:
        """What holds wherever a file for it is read."""
        return Promises(self.programs, self.form, ELEMENT_BYTES)

    @classmethod
    def named(cls, name: str, release: str, *, programs: Programs = FOR_EVERYBODY) -> Target:
        """Return the target for a format, or for a library's preferred one, called `name`.

        Raises
        ------
        LibraryError
            If there is none, or `release` is not supported or does not read it.
        """
        form = format_for(name, release)
        if why := form.unreadable_by(release):
            raise say("format-not-read", format=form.name, why=why)
        return cls(form, release, programs)


@dataclass(frozen=True)
class Rendered:
    """The files of a job's configuration as texts, read back as the library would read them.

    ``written.texts`` maps the end of a file's name to its text; the main file has the empty end.
    """

    target: Target
    table: DecisionTable
    written: Written

    def names(self, main: str) -> dict[str, str]:
        """Return the path of each file, by its end, where the main one is `main`."""
        return {end: f"{main}{end}" for end in self.written.texts}

    def environment(self, main: str, interposed: str | None = None) -> dict[str, str]:
        """Return the variables that put the files into effect, where the main one is `main`.

        `interposed` is the path of libcolltune, if that is known; nothing is preloaded where it
        would have nothing to do.
        """
        if self.target.form.interposed and not _chooses(self.table):
            return {}
        paths = self.names(main)
        if interposed is not None and self.target.form.interposed:
            paths["library"] = interposed
        found = self.target.form.activation(self.target.release, paths, self.table.shape)
        return self.target.mpi.for_results(found, self.target.programs.results)

    def parameter_text(self, environment: Mapping[str, str]) -> str:
        """Return a parameter file that does the same as `environment`.

        It says which programs it is for, as some formats of the main file cannot.
        """
        lines = [f"Written by colltune for {self.target.programs.phrase}.", *self.table.warnings]
        comments = "".join(f"# {line}\n" for line in lines)
        return comments + self.target.mpi.parameter_file(environment)


def render(selector: ModelSelector, shape: Shape, target: Target) -> Rendered:
    """Select for a job of `shape` and return its configuration for `target`.

    Raises
    ------
    LibraryError
        If what was written would not be read as it is meant.
    """
    found = rendered(target, table_for(selector, shape, target, describe=False))
    said = (*unsafe_in(selector.bundle, target), *filter(None, [selector.why_kept(shape)]))
    if not said:
        return found
    return replace(found, written=replace(found.written, notes=(*found.written.notes, *said)))


def rendered(target: Target, table: DecisionTable) -> Rendered:
    """Return `table` as texts for `target`, checked by reading the main one back.

    Raises
    ------
    LibraryError
        If it would not be read as it is meant.
    """
    form, release = target.form, target.release
    written = form.write(table, release, programs=target.programs)
    if why := form.parse(written.texts[""], "the written text", release).dropped:
        raise say("written-not-read", format=form.name, release=release, shape=table.shape, why=why)
    notes = (*written.notes, *_nothing(target, table))
    return Rendered(target, table, replace(written, notes=notes))


def unsafe_in(bundle: Bundle, target: Target) -> tuple[str, ...]:
    """Return a note on what of `bundle` is never chosen, since it breaks some programs.

    What is wrong with operations of a program's own alone is usual, and not told.
    """
    programs = replace(target.programs, builtin_operations=True)
    found: dict[str, int] = {}
    for configuration in bundle.configurations():
        try:
            why = target.bound.harms(configuration).sentence(programs)
        except LibraryError:
            continue
        if why:
            what = f"{configuration.collective} {why}"
            found[what] = found.get(what, 0) + 1
    if not found:
        return ()
    more = f", and {counted(len(found) - 1, 'reason')} more" if len(found) > 1 else ""
    return (
        f"{counted(sum(found.values()), 'configuration')} of the bundle may not be used for "
        f"{target.programs.which}: {next(iter(found))}{more}",
    )


def _chooses(table: DecisionTable) -> bool:
    every = (*table.rules.values(), *table.by_layout.values())
    return any(not i.configuration.is_default for rule in every for i in rule)


def _nothing(target: Target, table: DecisionTable) -> tuple[str, ...]:
    """Return a note if `table` leaves everything to the library."""
    if _chooses(table):
        return ()
    everything = f"all collectives are left to the library on {table.shape}"
    if target.form.allows_partial_collective:
        return (everything,)
    return (
        f"{everything}; {target.form.name} takes a collective as a whole or not at all, so "
        "gains for some sizes only are given up",
    )


def target_of(bundle: Bundle, programs: Programs = FOR_EVERYBODY) -> Target:
    """Return what all configurations of `bundle` can be written for.

    `programs` are those that it is for, by default all that a site has.

    Raises
    ------
    LibraryError
        If its release is not supported.
    """
    library, release = bundle.context.library, bundle.context.library_version
    with_own = any(map(is_libcolltune, bundle.configurations()))
    return Target.named(f"{library}-table" if with_own else library, release, programs=programs)


def insist_measured_with(bundle: Bundle, form: Format) -> None:
    """Raise LibraryError if `bundle` was measured with another library than that of `form`."""
    if bundle.context.library != form.library:
        measured = bundle.context.library
        what = "the bundle was measured"
        raise say("says-nothing-about", what=what, library=measured, other=form.library)


def selector_for(
    bundle: Bundle, target: Target, *, guard: bool | Guard = True, cores: int = ENOUGH_CORES
) -> ModelSelector:
    """Return the selector among what may run by a file for `target`.

    `guard` is whether there is one, or a particular one; `cores` are those of a job's node, by
    default enough for all its processes.

    Raises
    ------
    LibraryError
        If the bundle was measured with another library.
    """
    insist_measured_with(bundle, target.form)
    return ModelSelector(
        bundle,
        guard=guard,
        runs=partial(target.bound.runs_at, promises=target.promises),
        cores=cores,
    )


def table_for(
    selector: ModelSelector,
    shape: Shape,
    target: Target,
    *,
    collectives: Collection[Collective] | None = None,
    describe: bool = True,
) -> DecisionTable:
    """Return the decisions for a job of `shape` on `collectives`, by default all of the bundle.

    There are none for a single process, which talks to nobody, and none for a shape that the
    selector decides nothing on.

    With `describe` intervals tell their predictions and reasons, which takes most of the time.
    """
    context = selector.bundle.context
    if collectives is None:
        collectives = selector.bundle.collectives
    if shape.nprocs == 1 or selector.why_kept(shape):
        return DecisionTable(context.library, shape, {})
    table = _table(selector, shape, target, collectives, describe=describe)
    return replace(table, cores_shared=context.cores_shared)


def _table(
    selector: ModelSelector,
    shape: Shape,
    target: Target,
    collectives: Collection[Collective],
    *,
    describe: bool,
) -> DecisionTable:
    if target.form.single_algorithm:
        return single_algorithm_table(selector, shape, collectives)
    if not target.form.allows_partial_collective:
        from colltune.selector.configuration import all_or_nothing_table

        return all_or_nothing_table(
            selector, shape, collectives, by_layout=target.form.knows_layout
        )
    return decision_table(
        selector,
        shape,
        collectives,
        single_rule=target.bound.one_rule,
        by_layout=target.form.knows_layout,
        describe=describe,
    )


@dataclass(frozen=True)
class WrittenConfiguration:
    """The files of a job's configuration and how they are put into effect.

    ``table`` holds the decisions, ``written`` the texts. ``rules_path`` is the main file,
    ``parameter_path`` the one that ``start_line`` names, None where such a file cannot say it;
    ``environment`` does the same. ``programs`` are those that it is for.
    """

    table: DecisionTable
    written: Written
    rules_path: Path
    parameter_path: Path | None
    environment: dict[str, str]
    start_line: str
    programs: Programs = FOR_EVERYBODY

    @property
    def job_line(self) -> str:
        """The one line that a user adds to a job."""
        if not self.environment:
            return "true  # everything is left to the library"
        return "export " + " ".join(map(assignment, self.environment, self.environment.values()))


def write_rendered(
    found: Rendered, path: Path, interposed: Path | None = None, notes: tuple[str, ...] = ()
) -> WrittenConfiguration:
    """Write the main file of `found` to `path`, and the others beside it.

    `interposed` is where libcolltune lies, if that is known; `notes` are further ones for the user.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    main = path.absolute()
    environment = found.environment(str(main), None if interposed is None else str(interposed))
    for end, name in found.names(str(main)).items():
        write_text(Path(name), found.written.texts[end])
    parameter_path, start_line = _written_parameters(found, main, environment)
    return WrittenConfiguration(
        found.table,
        replace(found.written, notes=(*found.written.notes, *notes)),
        main,
        parameter_path,
        environment,
        start_line,
        found.target.programs,
    )


def _written_parameters(
    found: Rendered, main: Path, environment: Mapping[str, str]
) -> tuple[Path | None, str]:
    """Write the file of parameters, and return it with what a user types.

    Where a path has a blank, which such a file of Open MPI's cannot have, the launcher's command
    line has all parameters.
    """
    path = main.with_name(f"{main.name}.params")
    try:
        text = found.parameter_text(environment)
    except LibraryError:
        path.unlink(missing_ok=True)
        return None, f"{shlex.join(found.target.mpi.command(environment))} …"
    write_text(path, text)
    return path, found.target.mpi.start_line(path)
