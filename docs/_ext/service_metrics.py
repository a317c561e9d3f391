"""The metrics of the service: names, kinds, labels, meanings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics_core import Metric

from colltune.server.metrics import Metrics, gauges
from colltune.server.service import Service
from colltune.server.settings import ServiceSettings
from docs._ext.markdown import code, table, text

_SUFFIX = {"counter": "_total"}


def markdown(_argument: str) -> str:
    """Return a table of all metrics."""
    rows = (
        (code(name), kind, ", ".join(map(code, labels)), text(what))
        for name, kind, labels, what in sorted(metrics())
    )
    return table(("metric", "kind", "labels", "meaning"), rows)


def metrics() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield name, kind, labels and meaning of each metric."""
    # the client shows names of labels only where something was counted, so they are asked for
    for counter in vars(Metrics()).values():
        if hasattr(counter, "_documentation") and not counter._labelvalues:
            name = counter._name + _SUFFIX.get(counter._type, "")
            yield name, counter._type, counter._labelnames, counter._documentation
    with tempfile.TemporaryDirectory() as folder:
        service = Service(ServiceSettings(registry=str(Path(folder, "registry"))))
        for metric in gauges(service.state, False, 0.0, {}):
            yield metric.name, metric.type, _labels(metric), metric.documentation


def _labels(metric: Metric) -> tuple[str, ...]:
    return tuple(getattr(metric, "_labelnames", ()))
