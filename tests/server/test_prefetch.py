"""Shapes that jobs asked for are rendered before they are asked for again."""

from __future__ import annotations

from pathlib import Path

from colltune.domain import Shape
from colltune.selector.demand import DemandLog
from colltune.server.service import Service
from colltune.server.settings import ServiceSettings
from colltune.server.state import ServiceState
from tests.server.registries import bundle


def _service(bundle_path: Path, demand: Path | None) -> Service:
    service = Service(ServiceSettings(bundle=bundle_path, demand=demand))
    service.watcher.refresh()
    return service


def _rendered(state: ServiceState) -> set[tuple[str, str]]:
    """Return release and shape of what is ready, but for what every bundle is tried with."""
    (loaded,) = state.loaded.values()
    tried = str(max(loaded.bundle.training_shapes))
    rendered = loaded.renderings.items()
    found = {(release, shape) for (_, release, _, shape), _ in rendered}
    return {(release, shape) for release, shape in found if shape != tried}


def test_what_jobs_asked_for_is_rendered_once_each(bundle_path: Path, tmp_path: Path) -> None:
    """Shapes of the release and of others in its series are ready; what has no bundle is passed."""
    log = DemandLog(tmp_path)
    log.note("openmpi", "4.1.4", Shape(8, 4), 3)
    log.note("openmpi", "4.1.5", Shape(6, 4), 2)
    log.note("mpich", "4.1.2", Shape(6, 4))
    log.note("nonsense", "0", Shape(7, 7))
    log.flush()
    service = _service(bundle_path, tmp_path)
    turns = 0
    while service.watcher._render_next(service.state):
        turns += 1
    assert turns == 4
    assert _rendered(service.state) == {("4.1.4", "8x4"), ("4.1.5", "6x4")}


def test_another_bundle_is_prepared_for_anew(bundle_path: Path, tmp_path: Path) -> None:
    """What is in force has changed, so that everything is rendered again."""
    log = DemandLog(tmp_path / "demand")
    log.note("openmpi", "4.1.4", Shape(8, 4))
    log.flush()
    service = _service(bundle_path, tmp_path / "demand")
    other = _service(bundle(largest=16384).save(tmp_path / "other"), None).state
    ahead = service.watcher._render_next
    assert [ahead(service.state), ahead(service.state)] == [True, False]
    assert [ahead(other), ahead(other)] == [True, False]
    assert _rendered(other) == {("4.1.4", "8x4")}


def test_without_demand_nothing_is_prepared(bundle_path: Path, tmp_path: Path) -> None:
    """No folder, one that is not there, and one that cannot be read are all the same."""
    unreadable = tmp_path / "unreadable"
    (unreadable / "demand-a-1-b.jsonl").mkdir(parents=True)
    for folder in (None, tmp_path / "nowhere", unreadable):
        service = _service(bundle_path, folder)
        assert not service.watcher._render_next(service.state)
