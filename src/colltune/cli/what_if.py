"""`colltune what-if`: the selection with other nodes, processes per node or network adapters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, message_text, output
from colltune.cli.cost_tables import (
    GENERIC,
    costs_of,
    predicted_text,
    side_by_side,
    terms_table,
)
from colltune.cli.options import (
    BundleArgument,
    BundleAt,
    ForPrograms,
    ForResults,
    Guarded,
    Json,
    Quiet,
    Size,
    Where,
    bundle_to_read,
    parse_shape,
    programs_of,
)
from colltune.cli.progress import progress
from colltune.domain import Instance, Shape, parse_collective
from colltune.errors import UsageError, say
from colltune.text import counted, time_text

if TYPE_CHECKING:
    from colltune.models.bundle import Bundle
    from colltune.mpi.programs import Programs
    from colltune.selector.what_if import NowAndThen, WhatIf, WhatIfAnswer


class RailOption(StrEnum):
    """How processes use several adapters: all of them for each message, or one each."""

    SHARING = "sharing"
    BINDING = "binding"


def what_if(
    named: BundleArgument = None,
    *,
    bundle: BundleAt = None,
    collective: Annotated[str, typer.Option(help="bcast, allreduce, …")],
    msize: Annotated[
        int,
        typer.Option(
            help="Message size: 65536, 64k, 64KiB (k is 1024); the buffer, or the block per"
            " process.",
            click_type=Size(),
        ),
    ],
    nodes: Annotated[
        int | None, typer.Option(help="New number of nodes; default: as now.", min=1)
    ] = None,
    ppn: Annotated[
        int | None, typer.Option(help="New number of processes per node; default: as now.", min=1)
    ] = None,
    rails: Annotated[
        int | None,
        typer.Option(help="New number of network adapters per node; default: as now.", min=1),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="NODESxPPN",
            help="Shape of the job now; default: the measured shape nearest to the new one.",
        ),
    ] = None,
    now_rails: Annotated[
        int | None,
        typer.Option(
            help="Adapters per node in the measurements; default: from the data, else 1.", min=1
        ),
    ] = None,
    rail_use: Annotated[
        RailOption,
        typer.Option(
            help="How adapters are used: messages are striped over all of them, or each process is "
            "bound to one."
        ),
    ] = RailOption.SHARING,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Measurements to fit a cost model to, if the bundle has none; repeatable.",
        ),
    ] = None,
    where: Where = None,
    guard: Guarded = True,
    programs: ForPrograms = None,
    results: ForResults = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show what would be selected with more nodes, other processes per node, or more adapters.

    The bundle's models answer for nodes, processes and message size. Adapters need a cost model:
    that of the bundle (learner cost_model), or one that is fitted to --data.

    Example: colltune what-if --bundle bundle --collective allreduce --nodes 64 --ppn 32
    --msize 1M --rails 4
    """
    from colltune.models.bundle import load
    from colltune.models.costs.network import Rails
    from colltune.models.costs.network import RailUse as Use
    from colltune.selector.what_if import Situation, WhatIf

    bundle = bundle_to_read(bundle, named, quiet=json)
    if where and not data:
        raise say("works-only-with", UsageError, option="--where", other="--data")
    wanted, promised = parse_collective(collective), programs_of(programs, results)
    with progress("predicting", quiet=quiet or json):
        loaded = load(bundle, (wanted,))
        costs, source = costs_of(loaded, wanted, data or [], where or [])
        measured = Rails(now_rails or 1, Use(rail_use))
        asked = WhatIf(loaded, measured, costs, guard=guard, programs=promised)
        shapes = _shapes(asked, now, nodes, ppn)
        then = measured if rails is None else measured._replace(adapters=rails)
        pair = [
            Situation(Instance(wanted, shape, msize), there)
            for shape, there in zip(shapes, (measured, then), strict=True)
        ]
        found = asked.compared(*pair, cost_model=source, rails_assumed=now_rails is None)
    output(found, _lines(loaded, found, promised), json=json)


def _shapes(
    asked: WhatIf, now: str | None, nodes: int | None, ppn: int | None
) -> tuple[Shape, Shape]:
    """Return the shape now and then."""
    if now is not None:
        before = parse_shape(now)
        return before, Shape(nodes or before.nodes, ppn or before.ppn)
    if nodes is None or ppn is None:
        give = "--nodes and --ppn, or the present shape with --now NODESxPPN"
        raise say("missing", what="the shape", give=give)
    after = Shape(nodes, ppn)
    return asked.nearest_measured(after), after


_HEADS = ("now", "then")


def _lines(bundle: Bundle, found: NowAndThen, programs: Programs) -> Iterator[str | TextTable]:
    """Yield the report for people."""
    answers = (found.now, found.then)
    instance = answers[0].situation.instance
    size = message_text(instance.collective, instance.msize_bytes)
    yield f"{instance.collective.mpi_name} of {size}; {bundle.context}; for {programs.phrase}"
    yield ""
    cells = zip(_LABELS, *map(_cells, answers), strict=True)
    yield side_by_side(_HEADS, [list(row) for row in cells])
    yield ""
    for head, answer in zip(_HEADS, answers, strict=True):
        yield f"{head}: {answer.selection.reason}"
    for head, answer in zip(_HEADS, answers, strict=True):
        if answer.outside:
            yield f"outside the measured range, {head}: {'; '.join(answer.outside)}"
    if found.cost_model is not None:
        yield from _terms(answers, found.cost_model)
        yield from _designs(answers)
    if found.notes:
        yield ""
        yield from (f"note: {note}" for note in found.notes)


_LABELS = (
    *("job", "rails per node", "chosen", "predicted", "the default", "gain over default"),
    "extrapolated",
)


def _cells(answer: WhatIfAnswer) -> list[str]:
    shape, rails = answer.situation.instance.shape, answer.situation.rails
    selection = answer.selection
    return [
        f"{counted(shape.nodes, 'node')} x {shape.ppn}",
        f"{rails.adapters}" if rails.adapters == 1 else f"{rails.adapters}, {rails.use}",
        selection.configuration.short,
        predicted_text(selection.prediction),
        predicted_text(selection.default),
        f"{selection.gain:.2f}x",
        "yes" if selection.extrapolated else "no",
    ]


def _terms(answers: Sequence[WhatIfAnswer], source: str) -> Iterator[str | TextTable]:
    parts = [("chosen configuration", [a.chosen_terms for a in answers])]
    if not all(a.selection.configuration.is_default for a in answers):
        parts.append(("default", [a.default_terms for a in answers]))
    for what, terms in parts:
        yield ""
        yield f"cost terms of the {what}, from {source}:"
        yield terms_table(_HEADS, terms) if any(terms) else "  not known"
    if any(a.default_terms for a in answers):
        yield GENERIC


def _designs(answers: Sequence[WhatIfAnswer]) -> Iterator[str | TextTable]:
    """Yield what published designs would take, where there are any for the collective."""
    names = list(dict.fromkeys(d.name for a in answers for d in a.designs))
    if not names:
        return
    yield ""
    yield "published designs (not candidates), by formula with medians of the fitted parameters:"
    found = [{d.name: f"{time_text(d.time_s)}, {d.optimum}" for d in a.designs} for a in answers]
    yield side_by_side(_HEADS, [[name, *(f.get(name, "-") for f in found)] for name in names])
