"""A job's configuration as the page offers it: files, what to type, and what to know about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from colltune.decisions import Interval, Status
from colltune.domain import Collective, Instance, Shape
from colltune.json_text import DescribedRecord, digits
from colltune.page.facts import BundleFacts
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Rendered
from colltune.selector.decision_table import largest_msize
from colltune.server.state import is_any_replaced

FOLDER = "@folder@"
"""Stands in values for the absolute folder that the files will be in."""
_ONE_FOR_ALL = (
    "the file holds one choice for all communicators of this size, or for all sizes, on which"
    " they agree; by itself: "
)


@dataclass(frozen=True)
class IntervalView(DescribedRecord):
    """What is used for messages from ``first_bytes`` to ``last_bytes``; null: without end."""

    first_bytes: int
    last_bytes: int | None
    name: str
    is_default: bool
    gain: float | None
    """predicted at its geometric middle"""
    status: str
    reason: str


@dataclass(frozen=True)
class JobCollective(DescribedRecord):
    """What a job's own shape gets for one collective."""

    name: str
    mpi_name: str
    measured: bool
    """whether this shape was measured"""
    extrapolated: bool
    """outside the measured shapes"""
    intervals: tuple[IntervalView, ...]


@dataclass(frozen=True)
class JobFile(DescribedRecord):
    """One file of a job's configuration."""

    name: str
    url: str
    """relative to the page"""
    text: str


@dataclass(frozen=True)
class JobView(BundleFacts):
    """A job's configuration, how it is put into effect, and what to know about it."""

    library: str
    release: str
    """for which the file is written"""
    nodes: int
    ppn: int
    format: str
    promise: str
    """which programs it is for, and what is promised of their results"""
    changes_anything: bool
    """if not, no file is needed"""
    files: tuple[JobFile, ...]
    environment: dict[str, str]
    """variables; ``@folder@`` stands for the absolute folder of the files"""
    command: tuple[str, ...]
    """the same as options of mpirun or mpiexec, values as in `environment`"""
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    """what was left to the library, and why"""
    collectives: tuple[JobCollective, ...]


def job_view(
    selector: ModelSelector, slot: str, rendered: Rendered, asked: Mapping[str, str]
) -> JobView:
    target, shape = rendered.target, rendered.table.shape
    library, release = target.form.library, target.release
    all_rules = (*rendered.table.rules.values(), *rendered.table.by_layout.values())
    main = f"colltune-{library}-{release}-{shape}.rules"
    environment = {
        name: value.replace(f"/{FOLDER}", FOLDER)
        for name, value in rendered.environment(f"/{FOLDER}/{main}").items()
    }
    return JobView(
        slot=slot,
        bundle=selector.bundle.id,
        library=library,
        release=release,
        nodes=shape.nodes,
        ppn=shape.ppn,
        format=rendered.written.format,
        promise=target.programs.phrase,
        changes_anything=bool(environment) and is_any_replaced(all_rules),
        files=_files(rendered, main, asked),
        environment=environment,
        command=rendered.target.mpi.command(environment),
        warnings=tuple(_warnings(selector, shape, release)),
        notes=rendered.written.notes,
        collectives=tuple(_collectives(selector, rendered)),
    )


def _files(rendered: Rendered, main: str, asked: Mapping[str, str]) -> tuple[JobFile, ...]:
    target, shape = rendered.target, rendered.table.shape
    query: dict[str, str | int] = {"nodes": shape.nodes, "ppn": shape.ppn, **asked}
    path = f"v1/config/{quote(target.form.library, safe='')}/{quote(target.release, safe='')}"
    return tuple(
        JobFile(
            name=f"{main}{end}",
            url=f"{path}?{urlencode(query | ({'part': end} if end else {}))}",
            text=text,
        )
        for end, text in rendered.written.texts.items()
    )


def _warnings(selector: ModelSelector, shape: Shape, release: str) -> Iterator[str]:
    """Yield what makes the configuration less sure than that of a measured shape."""
    bundle = selector.bundle
    measured_release = bundle.context.library_version
    if release != measured_release:
        yield (
            f"The file is for release {release}, but the runtimes were measured with "
            f"{measured_release}."
        )
    outside, between, unknown = [], [], []
    for model in bundle.models:
        name = model.collective.mpi_name
        if model.default_column is None:
            unknown.append(name)
        if model.coverage.is_outside(shape):
            outside.append(name)
        elif not _measured(selector, model.collective, shape):
            between.append(name)
    for names, text in (
        (
            outside,
            f"{shape} is outside the measured shapes of {{}}: the default is replaced only for a"
            " larger gain, and never far outside.",
        ),
        (
            between,
            f"{shape} itself was not measured for {{}}: the predictions come from neighbouring"
            " shapes.",
        ),
        (
            unknown,
            "The library's default was not measured for {}: it is unknown whether the choice "
            "is faster.",
        ),
    ):
        if names:
            *all_but_last, last = names
            listed = f"{', '.join(all_but_last)} and {last}" if all_but_last else last
            yield text.format(listed)


def _measured(selector: ModelSelector, collective: Collective, shape: Shape) -> bool:
    shapes = selector.bundle.model(collective).coverage.shapes
    return bool((shapes == (shape.nodes, shape.ppn)).all(axis=1).any())


def _collectives(selector: ModelSelector, rendered: Rendered) -> Iterator[JobCollective]:
    table, shape = rendered.table, rendered.table.shape
    for collective in selector.bundle.collectives:
        found = table.by_layout.get((collective, shape)) or table.rules.get(
            (collective, shape.nprocs), ()
        )
        yield JobCollective(
            name=collective.value,
            mpi_name=collective.mpi_name,
            measured=_measured(selector, collective, shape),
            extrapolated=selector.bundle.model(collective).coverage.is_outside(shape),
            intervals=tuple(_intervals(selector, collective, shape, found)),
        )


def _intervals(
    selector: ModelSelector, collective: Collective, shape: Shape, found: Sequence[Interval]
) -> Iterator[IntervalView]:
    """Describe the intervals of a table by what is selected at their middles."""
    bound = largest_msize(selector, collective)
    middles = [Instance(collective, shape, interval.middle(bound)) for interval in found]
    for interval, selection in zip(found, selector.select_many(middles), strict=True):
        agreed = selection.configuration == interval.configuration
        known = agreed and not math.isclose(selection.gain, 1.0)
        yield IntervalView(
            first_bytes=interval.first_bytes,
            last_bytes=interval.last_bytes,
            name=interval.configuration.short,
            is_default=interval.configuration.is_default,
            gain=digits(selection.gain) if known else None,
            status=(selection.status if agreed else Status.PREDICTED).value,
            reason=selection.reason if agreed else _ONE_FOR_ALL + selection.reason,
        )
