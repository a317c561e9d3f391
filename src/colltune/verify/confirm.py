"""Confirms decisions of a bundle: measures what it proposes, and revises it by what came of it.

One way for `colltune confirm` and `colltune tune`; see `colltune.selector.confirming` for what is
proved, and `colltune.bench.strategies.confirm` for what is measured when.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

import numpy as np

from colltune.bench.backends.protocol import Backend, context_of
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell
from colltune.decisions import AS_MEASURED
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import say
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.mpi import LIBRARIES
from colltune.mpi.programs import Programs
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import selector_for, target_of
from colltune.selector.confirming import ContestedInstance, ContestState, confirmations, contests
from colltune.selector.demand import Demand

_MOST_SHAPES = 60
_UNUSED = 0.01
"""Weight of shapes that no job used, though their class was refuted."""
_REFUTED_FIRST = 1e6


@dataclass(frozen=True)
class ToConfirm:
    """Decisions to be confirmed: a collective on a shape, and how much it matters."""

    collective: Collective
    shape: Shape
    msizes_bytes: tuple[int, ...]
    weight: float = 1.0


def insist_on_context(bundle: Bundle, campaign: Campaign, backend: Backend) -> None:
    """Insist that `backend` measures what the bundle is of, before anything is measured."""
    here = context_of(campaign, backend)
    if here != bundle.context:
        raise say("bundle-of-elsewhere", context=bundle.context, here=here)


def asked_by_campaign(bundle: Bundle, campaign: Campaign) -> tuple[ToConfirm, ...]:
    """Return all that a campaign names: its shapes, or what its application uses, by weight."""
    spent: dict[tuple[Collective, Shape], list[int]] = {}
    if campaign.focus is None:
        for collective in campaign.collectives:
            for shape in campaign.shapes:
                spent[collective, shape] = list(campaign.msizes_of(collective))
    else:
        for use in campaign.focus.spent:
            spent.setdefault((use.collective, use.shape), []).append(use.msize_bytes)
    return tuple(
        ToConfirm(collective, shape, tuple(sizes), _weight(campaign, collective, shape, sizes))
        for (collective, shape), sizes in spent.items()
        if collective in bundle.collectives and shape.nprocs > 1
    )


def _weight(
    campaign: Campaign, collective: Collective, shape: Shape, sizes: Sequence[int]
) -> float:
    if campaign.focus is None:
        return 1.0
    return fmean(campaign.focus.weights(Instance(collective, shape, m) for m in sizes))


def asked_by_jobs(bundle: Bundle, demand: Iterable[Demand]) -> tuple[ToConfirm, ...]:
    """Return the shapes that jobs asked for most with the bundle's library, by how often."""
    context = bundle.context
    wanted = [
        one
        for one in demand
        if (one.library, one.release) == (context.library, context.library_version)
        and one.nodes * one.ppn > 1
    ]
    wanted = sorted(wanted, key=lambda one: -one.count)[:_MOST_SHAPES]
    mean = fmean(one.count for one in wanted) if wanted else 1.0
    return tuple(
        ToConfirm(
            collective,
            Shape(one.nodes, one.ppn),
            measured_sizes(bundle, collective),
            one.count / mean,
        )
        for one in wanted
        for collective in bundle.collectives
    )


def measured_sizes(bundle: Bundle, collective: Collective) -> tuple[int, ...]:
    return tuple(bundle.model(collective).coverage.sizes.tolist())


def with_refuted(bundle: Bundle, asked: Iterable[ToConfirm]) -> tuple[ToConfirm, ...]:
    """Return `asked` and, on other shapes, what production refuted."""
    found = {(one.collective, one.shape): one for one in asked}
    for record in bundle.confirmations:
        key = record.collective, record.shape
        if record.jobs and key not in found:
            found[key] = ToConfirm(*key, measured_sizes(bundle, record.collective), _UNUSED)
    return tuple(found.values())


def unconfirmed(
    bundle: Bundle, asked: Iterable[ToConfirm], *, undecided: bool = False
) -> tuple[ToConfirm, ...]:
    """Return `asked` without what was measured before; what production refuted stays.

    So does what is `undecided`, if that is asked for.
    """

    def known(one: ToConfirm, msize_bytes: int) -> bool:
        return any(
            not record.jobs and not (undecided and record.is_undecided)
            for record in _records(bundle, one.collective, one.shape, msize_bytes)
        )

    return tuple(
        replace(one, msizes_bytes=tuple(m for m in one.msizes_bytes if not known(one, m)))
        for one in asked
    )


def proposals(
    bundle: Bundle, backend: Backend, asked: Iterable[ToConfirm], programs: Programs
) -> tuple[ContestedInstance, ...]:
    """Return what is to be measured so that what is `asked` is proved, for `programs`."""
    selector = _selector(bundle, programs)

    def measurable(configuration: Configuration, instance: Instance) -> bool:
        return backend.feasible(Cell(configuration, instance))

    found = [
        contest
        for one in asked
        for contest in contests(
            selector,
            one.collective,
            one.shape,
            _fitting(bundle, one),
            weight=one.weight,
            measurable=measurable,
        )
    ]
    return tuple(_with_record(bundle, contest) for contest in found)


def _with_record(bundle: Bundle, contest: ContestedInstance) -> ContestedInstance:
    """Return the contest with what is known of it from before; what jobs refuted goes first."""
    at = contest.instance
    for record in _records(bundle, at.collective, at.shape, at.msize_bytes):
        if record.jobs:
            return replace(contest, weight=contest.weight * _REFUTED_FIRST)
        if record.sums:
            return replace(contest, before=record)
    return contest


def _records(
    bundle: Bundle, collective: Collective, shape: Shape, msize_bytes: int
) -> Iterator[Confirmation]:
    """Yield what is on record of a message: one at most."""
    for record in bundle.confirmations:
        is_there = (record.collective, record.shape) == (collective, shape)
        if is_there and record.holds(np.array(msize_bytes)):
            yield record


def _fitting(bundle: Bundle, asked: ToConfirm) -> tuple[int, ...]:
    """Return the sizes asked for that can be measured, one within each refuted range."""
    blocks = asked.shape.nprocs if asked.collective.has_block_per_rank else 1
    refuted = [
        round(math.sqrt(max(1, record.first_bytes) * record.last_bytes))
        for record in bundle.confirmations
        if record.jobs and record.last_bytes
        if (record.collective, record.shape) == (asked.collective, asked.shape)
    ]
    sizes = sorted({*asked.msizes_bytes, *refuted})
    return tuple(m for m in sizes if m * blocks <= Campaign.max_buffer_bytes)


def _selector(bundle: Bundle, programs: Programs) -> ModelSelector:
    """Return what proposes only what can be written for the library."""
    if bundle.context.library in LIBRARIES:
        return selector_for(bundle, target_of(bundle, programs), cores=AS_MEASURED)
    return ModelSelector(bundle)


def campaign_for(bundle: Bundle, total_s: float) -> Campaign:
    context, trained = bundle.context, bundle.training_shapes
    sizes = {c: measured_sizes(bundle, c) for c in bundle.collectives}
    return Campaign(
        bundle.collectives,
        tuple(sorted({size for of_one in sizes.values() for size in of_one})),
        msizes_bytes_of=sizes,
        machine=context.machine,
        fabric=context.fabric,
        library=context.library,
        total_s=total_s,
        nodes=tuple({shape.nodes for shape in trained}),
        ppn=tuple({shape.ppn for shape in trained}),
    )


def confirming(campaign: Campaign, found: tuple[ContestedInstance, ...]) -> Campaign:
    """Return the campaign that measures the contests `found`, of one launch per shape."""
    return campaign.changed(
        collectives=tuple(dict.fromkeys(contest.collective for contest in found)),
        contests=found,
        subshapes=False,
        only=(),
        skip=(),
    )


def revised(bundle: Bundle, judgements: Iterable[ContestState]) -> Bundle:
    """Return `bundle` as it decides by what was measured just now."""
    now_utc = datetime.now(UTC).isoformat(timespec="seconds")
    return bundle.with_confirmations(confirmations(judgements, now_utc))
