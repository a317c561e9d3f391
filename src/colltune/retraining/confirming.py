"""Confirms the bundle in force where jobs asked most: within the night's own allocation.

See `colltune.selector.confirming` for what is proved.
"""

from __future__ import annotations

from typing import Any

from colltune.bench.backends import NativeBackend
from colltune.bench.backends.protocol import Backend
from colltune.bench.runner import run_campaign
from colltune.decisions import Status
from colltune.models.bundle import Bundle
from colltune.mpi import installation
from colltune.retraining.site_file import Backfill
from colltune.selector.demand import read_demand
from colltune.verify.confirm import (
    asked_by_jobs,
    campaign_for,
    confirming,
    insist_on_context,
    proposals,
    revised,
    unconfirmed,
)


def confirmed(bundle: Bundle, wishes: Backfill) -> tuple[Bundle, dict[str, Any]]:
    """Return `bundle` as it decides by what is measured now, and what came of it, JSON-able."""
    asked = unconfirmed(bundle, asked_by_jobs(bundle, read_demand(wishes.demand)))
    if not any(one.msizes_bytes for one in asked):
        return bundle, {}
    backend = backend_for(bundle, wishes)
    campaign = campaign_for(bundle, wishes.confirm_s)
    insist_on_context(bundle, campaign, backend)
    found = proposals(bundle, backend, asked)
    if not found:
        return bundle, {}
    assert wishes.measurements is not None
    report = run_campaign(confirming(campaign, found), backend, wishes.measurements)
    statuses = [judgement.status for judgement in report.judgements]
    facts = {status.value: statuses.count(status) for status in Status}
    return revised(bundle, report.judgements), {**facts, "wall_s": report.wall_s}


def backend_for(bundle: Bundle, wishes: Backfill) -> Backend:
    """Return what measures the bundle's library here."""
    return NativeBackend(installation.find(wishes.mpi, bundle.context.library))
