"""What earlier runs left in the registry: the latest report on retraining.

Format history of the report's content
--------------------------------------
1. ``format_version``, ``outcome``, ``drift``, ``left_out``, ``slots`` (by name: `SlotRecord`) and
   ``bundles``: by id of a bundle the tokens of the launches that it was fitted to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from colltune.models.bundle import Bundle
from colltune.registry import Registry
from colltune.retraining.arrivals import Arrived

FORMAT_VERSION = 1
KIND = "retrain"
_BUNDLES_KEPT = 12


@dataclass(frozen=True)
class SlotRecord:
    """What the latest run that came to an end found and did in one slot.

    ``tokens`` are those of all launches that it saw, ``settings`` what decided, ``in_force`` the
    bundle that was in force afterwards; ``facts`` is what else the report says.
    """

    data: str
    settings: Mapping[str, Any]
    in_force: str | None
    tokens: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        known = {"data": self.data, "settings": dict(self.settings), "in_force": self.in_force}
        return {**known, **self.facts, "launches": list(self.tokens)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> SlotRecord:
        facts = dict(found)
        data, settings, in_force, tokens = (
            facts.pop(name) for name in ("data", "settings", "in_force", "launches")
        )
        in_force = None if in_force is None else str(in_force)
        return cls(str(data), dict(settings), in_force, tuple(map(str, tokens)), facts)


@dataclass(frozen=True)
class RetrainRecord:
    """What is known from earlier runs: ``bundles`` by id, the tokens they were fitted to."""

    slots: Mapping[str, SlotRecord] = field(default_factory=dict)
    bundles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def latest(registry: Registry) -> RetrainRecord:
    """Return what the latest report says; a report of another version says nothing."""
    content = registry.latest_report(KIND) or {}
    if content.get("format_version") != FORMAT_VERSION:
        return RetrainRecord()
    try:
        return RetrainRecord(
            {str(name): SlotRecord.from_dict(found) for name, found in content["slots"].items()},
            {str(name): tuple(map(str, tokens)) for name, tokens in content["bundles"].items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        return RetrainRecord()


def content(
    record: RetrainRecord, slots: Mapping[str, SlotRecord], fitted: Mapping[str, Iterable[str]]
) -> dict[str, Any]:
    """Return the report after a run that came to `slots` and fitted bundles to launches' tokens.

    Other slots stay as they were; of bundles the latest dozen is remembered.
    """
    bundles = {**record.bundles, **{name: tuple(sorted(t)) for name, t in fitted.items()}}
    # the ones fitted now go last, and so stay longest
    latest_first = [*fitted, *(name for name in reversed(list(bundles)) if name not in fitted)]
    in_force = {slot.in_force for slot in (*record.slots.values(), *slots.values())}
    kept = {*latest_first[:_BUNDLES_KEPT], *in_force}
    return {
        "format_version": FORMAT_VERSION,
        "slots": {name: s.as_dict() for name, s in {**record.slots, **slots}.items()},
        "bundles": {name: list(tokens) for name, tokens in bundles.items() if name in kept},
    }


class TrainingLaunches(NamedTuple):
    """The launches, as far as they are still among the measurements, and how that is known."""

    launches: frozenset[str]
    how: str


def training_launches(bundle: Bundle, arrived: Arrived, record: RetrainRecord) -> TrainingLaunches:
    """Return what `bundle` was fitted to.

    A run remembers it of the bundles that it made. Of others it is taken to be what was measured
    before they were made, if all launches tell when; else what lies on their shapes alone.
    """
    known = frozenset(arrived.tokens)
    if bundle.id in record.bundles:
        launches = known - arrived.without(frozenset(record.bundles[bundle.id]))
        return TrainingLaunches(launches, "the measurements that it was fitted to")
    times = {launch: arrived.provenance.get(launch, {}).get("time_utc") for launch in known}
    if all(times.values()):
        before = {launch for launch, at in times.items() if at and at <= bundle.created_utc}
        return TrainingLaunches(frozenset(before), "the measurements before its fit")
    shapes = {(s.nodes, s.ppn) for s in bundle.training_shapes}
    frame = arrived.dataset.frame
    pairs = zip(frame["nodes"].tolist(), frame["ppn"].tolist(), strict=True)
    elsewhere = frame["launch"].astype(str)[[pair not in shapes for pair in pairs]]
    launches = known - set(elsewhere.unique())
    return TrainingLaunches(launches, "the measurements on its own shapes")
