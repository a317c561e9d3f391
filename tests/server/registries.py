"""Bundles to promote, small enough to fit in no time, and what retraining reports of them."""

from __future__ import annotations

from dataclasses import replace

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Context, Shape
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.registry import Registry
from tests.models.machines import MSIZES, measured


def bundle(release: str = "4.1.4", largest: int = 4194304) -> Bundle:
    """Return a bundle for a release of Open MPI; each `largest` message gives another one."""
    msizes = tuple(m for m in MSIZES if m <= largest)
    data = measured(collectives=(Collective.BCAST,), msizes=msizes)
    return fit(replace(data, context=Context("made-up", "openmpi", release)), "knn")


SCORE = {
    "instances": 90,
    "shapes": 12,
    "geometric_mean_speedup": 1.2,
    "geometric_mean_speedup_interval": [1.1, 1.3],
    "harm_share": 0.01,
}


def confirmed(bundle: Bundle) -> Bundle:
    """Return a bundle two of whose decisions were confirmed, and one withdrawn."""
    library = bundle.context.library
    binomial = Configuration(library, Collective.BCAST, "binomial")
    default = Configuration.default(library, Collective.BCAST)
    records = [
        Confirmation(
            Collective.BCAST,
            Shape(8, 4),
            first_bytes,
            2 * first_bytes,
            status,
            binomial if status is Status.CONFIRMED else default,
            binomial,
            gain,
            gain / 1.1,
            gain * 1.1,
            3,
            "2026-11-22T03:00:00+00:00",
        )
        for status, first_bytes, gain in (
            (Status.CONFIRMED, 1024, 2.0),
            (Status.CONFIRMED, 16384, 1.5),
            (Status.WITHDRAWN, 262144, 0.9),
        )
    ]
    return bundle.with_confirmations(records)


def reported(registry: Registry, slot: str) -> None:
    """Put reports of a retraining that kept the bundle in force, with drift and a campaign."""
    wanted = {"collective": "bcast", "requests": 3, "extrapolated": 2, "abstained": 1}
    record = {
        "outcome": "kept",
        "reason": "worse",
        "new_measurements": 7,
        "was_in_force": registry.current()[slot].bundle_id,
        "candidate": "0" * 64,
        "comparison": {"candidate": {"all": {}}, "in_force": {"all": SCORE}},
        "campaign": {
            "nodes": [8, 16],
            "ppn": [32],
            "collectives": ["bcast"],
            "wanted": [wanted | {"shape": f"{nodes}x32"} for nodes in range(8, 28)],
            "expected_s": 600.0,
            "budget_s": 14400.0,
            "covered": 0.8,
        },
    }
    registry.put_report("retrain", {"slots": {slot: record}})
    shift = {"of": "all", "since": "fit", "ratio": 1.3, "allocations": 11, "alarm": True}
    drift = {"alarm": True, "judged": 40, "shifts": [shift]}
    registry.put_report("drift", {"alarm": True, "slots": {slot: drift}})
