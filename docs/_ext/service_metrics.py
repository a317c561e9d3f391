"""The metrics of the service: names, kinds, labels, meanings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics_core import Metric

from colltune.server.metrics import Metrics, gauges
from colltune.server.service import Service
from colltune.server.settings import Settings
from docs._ext.markdown import code, table, text

_SUFFIX = {"counter": "_total"}


def markdown(_argument: str) -> str:
    """Return a table of all metrics."""
    rows = (
        (code(name + _SUFFIX.get(kind, "")), kind, ", ".join(map(code, labels)), text(what))
        for name, kind, labels, what in sorted(_all())
    )
    return table(("metric", "kind", "labels", "meaning"), rows)


def _all() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    # the client shows names of labels only where something was counted, so they are asked for
    for counter in vars(Metrics()).values():
        if hasattr(counter, "_documentation") and not counter._labelvalues:
            yield counter._name, counter._type, counter._labelnames, counter._documentation
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Settings(registry=str(Path(folder, "registry"))))
        for metric in gauges(service.state, False, 0.0, {}):
            yield metric.name, metric.type, _labels(metric), metric.documentation


def _labels(metric: Metric) -> tuple[str, ...]:
    return tuple(getattr(metric, "_labelnames", ()))
