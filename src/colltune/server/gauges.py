"""What holds at this moment, as metrics: bundles, the registry, and what was reported to it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from colltune.server.state import State
from colltune.server.watcher import Watcher

_MOST_ROWS = 200


def gauges(state: State, watcher: Watcher) -> list[Metric]:
    """Return what holds now; a report that is not understood is left out."""
    found: list[Metric] = [
        _gauge("colltune_ready", "Whether requests are answered.", bool(state.loaded)),
        _gauge("colltune_registry_reachable", "Whether the registry is read.", watcher.reachable),
        _gauge(
            "colltune_registry_look_age_seconds",
            "Time since the last look at the registry ended; grows if its file system hangs.",
            time.monotonic() - watcher.looked_at,
        ),
        *_bundles(state),
    ]
    reports = watcher.reports
    found += _drift(reports.get("drift") or {})
    found += _verified(reports.get("verify") or {})
    return found


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=float(value))


def _bundles(state: State) -> Iterator[Metric]:
    info = GaugeMetricFamily("colltune_bundle_info", "Bundles in force.", labels=("slot", "bundle"))
    age = GaugeMetricFamily(
        "colltune_bundle_age_seconds", "Time since a bundle was fitted.", labels=("slot",)
    )
    since = GaugeMetricFamily(
        "colltune_bundle_in_force_seconds", "Time since it came into force.", labels=("slot",)
    )
    refused = GaugeMetricFamily(
        "colltune_bundle_refused", "Whether a bundle was refused and is due.", labels=("slot",)
    )
    for slot, loaded in state.loaded.items():
        info.add_metric((slot, loaded.bundle.id), 1.0)
        age.add_metric((slot,), _age_s(loaded.bundle.created_utc))
        since.add_metric((slot,), _age_s(loaded.since_utc))
    for slot in {*state.loaded, *state.problems}:
        refused.add_metric((slot,), float(slot in state.problems))
    yield from (info, age, since, refused)


def _age_s(iso: str) -> float:
    """Return the time since then; a clock that went back makes no age negative."""
    try:
        then = datetime.fromisoformat(iso)
    except ValueError:
        return math.nan
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (datetime.now(UTC) - then).total_seconds())


def _drift(report: Mapping[str, Any]) -> Iterator[Metric]:
    alarm = GaugeMetricFamily(
        "colltune_drift_alarm", "Whether runtimes drifted beyond chance.", labels=("slot",)
    )
    ratio = GaugeMetricFamily(
        "colltune_drift_ratio",
        "New over old runtime, as last judged.",
        labels=("slot", "collective"),
    )
    for slot, told in _pairs(report.get("slots")):
        alarm.add_metric((slot,), float(bool(told.get("alarm"))))
        ratio.add_metric((slot, ""), _number(told.get("ratio")))
        for shift in _list(told.get("shifts")):
            name = str(shift.get("of", ""))
            if ":" not in name and shift.get("since") == "fit":
                ratio.add_metric((slot, name), _number(shift.get("ratio")))
    yield from (alarm, ratio)


def _verified(report: Mapping[str, Any]) -> Iterator[Metric]:
    rules = GaugeMetricFamily(
        "colltune_verified_rules",
        "Rules by what `colltune verify` last saw of them.",
        labels=("library", "release", "collective", "status"),
    )
    release = (str(report.get("library", "")), str(report.get("release", "")))
    for collective, counts in _pairs(report.get("collectives")):
        for status, count in list(counts.items())[:_MOST_ROWS]:
            rules.add_metric((*release, collective, str(status)), _number(count))
    yield rules


def _pairs(value: object) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, Mapping):
        return []
    found = [(str(k), v) for k, v in value.items() if isinstance(v, Mapping)]
    return found[:_MOST_ROWS]


def _list(value: object) -> list[Mapping[str, Any]]:
    rows = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, Mapping)][:_MOST_ROWS]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
