"""The dashboard and the alerts for Grafana ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune import process
from colltune.site.folder import example
from docs._ext.service_metrics import metrics

_PARTS = re.compile(r"(colltune_\w+)(?:\{([^}]*)\})?|by \(([^)]*)\)")
_GIVEN = {"job", "instance", "le"}
"""Labels that Prometheus sets, or the client for a histogram."""


def _expressions() -> Iterator[str]:
    dashboard = json.loads(example("grafana"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from re.findall(r"expr: (.*)", example("alerts"))


def test_every_metric_and_label_exists() -> None:
    """No expression names a metric, or a label of one, that the service does not have."""
    known = {name: {*labels} for name, _, labels, _ in metrics()}
    expressions = list(_expressions())
    assert len(expressions) > 25
    for expression in expressions:
        labels = set(_GIVEN)
        asked = set()
        for name, conditions, grouped in _PARTS.findall(expression):
            if name:
                labels |= known[name.removesuffix("_bucket")]
            asked |= set(re.findall(r"(\w+)\s*=", conditions)) | set(re.findall(r"\w+", grouped))
        assert asked <= labels, expression


def test_panels_lie_side_by_side() -> None:
    """Each panel has its number, and none covers another."""
    panels = json.loads(example("grafana"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        x, y, w, h = (panel["gridPos"][name] for name in "xywh")
        cells = {(at, line) for at in range(x, x + w) for line in range(y, y + h)}
        assert x + w <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.slow
def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    """Its own checker finds no fault with the rules and the configuration."""
    if shutil.which("promtool") is None:
        pytest.skip("no promtool is installed")
    for name in ("alerts", "prometheus"):
        (tmp_path / f"{name}.yml").write_text(example(name))
    told = process.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], timeout_s=60)
    assert told.ok, told.explain()
