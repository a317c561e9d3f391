"""What production jobs spend in collectives: one profile of the site as if of one application.

It is read where the profile of an application is, so that measuring goes where nodes are busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.dataset.profile import Job, Kind, Profile, Use, added_up
from colltune.domain import Collective, Shape
from colltune.errors import SiteError
from colltune.production.settings import Production

if TYPE_CHECKING:
    from colltune.production.store import Store

_KIND = ["slot", "collective", "nprocs", "layout", "first_bytes", "job_layout"]
_SUMS = ["calls", "timed", "process_s"]


def usage(settings: Production, slot: str, since: float = 0.0) -> Profile | None:
    """Return what jobs of `slot` spent from the time `since` on, None where none told yet.

    Merged days tell, or before there are any the newest reports. ``process_s`` are seconds of whole
    nodes, shared among their processes: what a site has to spend. The first size of a bin, a power
    of two, stands for all of it.
    """
    if not settings.record:
        raise SiteError("production is not recorded here. Set record = true in [production].")
    if "://" not in settings.store and not Path(settings.store).exists():
        return None
    from colltune.production.store import Store

    store = Store(settings.store, settings.archive)
    try:
        uses = list(_merged(store, slot, since)) or list(_newest(store, slot))
    finally:
        store.close()
    library, _, release = slot.partition("-")
    site = Job(library, release, "site", "-", "-", "", 1, None, 1, 0.0, (0.0, 0.0, 0.0))
    return added_up([site], uses) if uses else None


def _merged(store: Store, slot: str, since: float) -> Iterator[Use]:
    rows = store.archive_rows(since, [*_KIND, *_SUMS])
    summed = rows.group_by(_KIND).aggregate([(name, "sum") for name in _SUMS])
    for row in summed.to_pylist():
        if row["slot"] == slot:
            kind = Kind(
                Collective(row["collective"]),
                row["nprocs"],
                _shape(row["layout"]),
                row["first_bytes"],
            )
            yield _use(kind, _shape(row["job_layout"]), *(row[f"{name}_sum"] for name in _SUMS))


def _newest(store: Store, slot: str) -> Iterator[Use]:
    for summary in store.newest():
        for run in summary.runs:
            if f"{run.job.library}-{run.job.release}" == slot:
                for use in run.uses:
                    sums = (use.process_calls, use.timed, use.process_s)
                    yield _use(use.kind, run.job.shape, *sums)


def _shape(layout: str) -> Shape | None:
    return Shape.parse(layout) if layout else None


def _use(kind: Kind, job: Shape | None, calls: int, timed: int, process_s: float) -> Use:
    ppn = (job or kind.shape or Shape(1, 1)).ppn
    sizes = (calls * kind.first_bytes, kind.first_bytes, kind.last_bytes)
    return Use(kind, calls, *sizes, timed, 0.0, 0.0, 0.0, 0.0, process_s / ppn)
