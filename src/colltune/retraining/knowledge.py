"""Which launches a bundle was fitted to."""

from __future__ import annotations

from dataclasses import dataclass

from colltune.models.bundle import Bundle
from colltune.retraining.arrivals import Arrived
from colltune.retraining.record import Record


@dataclass(frozen=True)
class Knowledge:
    """The launches, as far as they are still among the measurements, and how that is known."""

    launches: frozenset[str]
    how: str


def knowledge(bundle: Bundle, arrived: Arrived, record: Record) -> Knowledge:
    """Return what `bundle` was fitted to.

    A run remembers it of the bundles that it made. Of others it is taken to be what was measured
    before they were made, if all launches tell when; else what lies on their shapes alone.
    """
    tokens = record.trained_on(bundle.id)
    if tokens is not None:
        launches = frozenset(arrived.tokens) - arrived.without(tokens)
        return Knowledge(launches, "the measurements that it was made of")
    times = {
        launch: arrived.provenance.get(launch, {}).get("time_utc") for launch in arrived.tokens
    }
    if all(times.values()):
        before = {launch for launch, at in times.items() if at and at <= bundle.created_utc}
        return Knowledge(frozenset(before), "what was measured before it was made")
    shapes = {(s.nodes, s.ppn) for s in bundle.training_shapes}
    frame = arrived.dataset.frame
    pairs = zip(frame["nodes"].tolist(), frame["ppn"].tolist(), strict=True)
    elsewhere = frame["launch"].astype(str)[[pair not in shapes for pair in pairs]]
    launches = frozenset(arrived.tokens) - set(elsewhere.unique())
    return Knowledge(launches, "the measurements on its own shapes")
