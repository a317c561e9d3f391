"""A real service in a thread, and a real Chromium that looks at its page."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from colltune.domain import Collective, Context
from colltune.models.bundle import Bundle
from colltune.models.collective_model import CollectiveModel
from colltune.models.fitting import fit
from colltune.production.arms import Production
from colltune.registry import Registry
from tests.models.machines import FORMULAS, measured
from tests.server.registries import confirmed, reported

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from colltune.production.judgement import Judgement

ATTACK = "<script>window.hacked=1</script>"
MACHINE = f'"><img/src=x/onerror=window.hacked=1>{ATTACK}'
ARTIFACTS = "COLLTUNE_TEST_ARTIFACTS"
_PATIENCE_S = 120.0


def chromium() -> str:
    """Return the path of a Chromium; skip the test where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium is installed")


def _bundles() -> Callable[[str, str], Bundle]:
    """Return what makes bundles of the same models, each with another id.

    The machine, its fabric and one of the algorithms have names that attack.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FORMULAS, ATTACK, lambda p, m: 1e-6 + 5e-9 * m)
        both = (Collective.ALLREDUCE, Collective.BCAST)
        fitted = fit(measured(collectives=both, algorithms=(*FORMULAS,)), "knn")
    number = count()

    def bundle_for(library: str, release: str) -> Bundle:
        context = Context(MACHINE, library, release, ATTACK)
        evidence = {"number": next(number)}
        models = [_of_library(model, library) for model in fitted.models]
        return Bundle.new(context, models, fitted.training_shapes, evidence=evidence)

    return bundle_for


def _of_library(model: CollectiveModel, library: str) -> CollectiveModel:
    named = (replace(one, library=library) for one in model.configurations)
    return replace(model, configurations=tuple(named))


@contextmanager
def service(registry: Path, judgement: Judgement | None = None) -> Iterator[str]:
    """Serve `registry` on a free port of the loopback; yield the page's address.

    With a `judgement` its site records production jobs, of which that is known.
    """
    import uvicorn  # noqa: PLC0415

    from colltune.server.app import create_app  # noqa: PLC0415
    from colltune.server.settings import ServiceSettings  # noqa: PLC0415

    store = str(registry.parent / "production.db")
    site = Production(record=True, store=store, archive=registry.parent / "archive")
    recorded: dict[str, Any] = {}
    if judgement:
        recorded = {"production": site, "machine": MACHINE, "judge_s": 3600.0}
    app = create_app(ServiceSettings(registry=str(registry), poll_s=0.05, **recorded))
    config = uvicorn.Config(app, port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        await_that(lambda: server.started, "the service")
        await_that(lambda: bool(app.state.service.state.loaded), "its bundles")
        if judgement:
            app.state.service.production.stop()
            app.state.service.production.judgement = judgement
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(_PATIENCE_S)


@dataclass
class Watched:
    """A page, and what it did that it should not have done."""

    page: Page
    home: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Insist that nothing was complained about, and no other host was asked."""
        assert self.page.evaluate("window.hacked") is None
        assert self.complaints == []
        assert self.elsewhere == []

    def go(self, state: str = "", ready: str = "main h2") -> None:
        """Open the page in a state, and wait until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.home}#{state}")
        self.page.wait_for_selector(ready)


@contextmanager
def watched(browser: Browser, home: str, **how: object) -> Iterator[Watched]:
    """Yield a page; afterwards nothing was complained about, and no other host was asked."""
    context = browser.new_context(**how)  # type: ignore[arg-type]
    context.set_default_timeout(_PATIENCE_S * 1000)
    seen = Watched(context.new_page(), home)
    seen.page.on("console", lambda m: seen.complaints.append(m.text) if m.type == "error" else None)
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on(
        "request",
        lambda r: (
            None if r.url.startswith((home, "about:", "data:")) else seen.elsewhere.append(r.url)
        ),
    )
    try:
        yield seen
        seen.check()
    finally:
        context.close()


def violations(seen: Watched) -> list[str]:
    """Return what axe has to say against a page."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415

    found = Axe().run(seen.page).response["violations"]
    return [f"{one['id']}: {[node['target'] for node in one['nodes'][:3]]}" for one in found]


def keep(page: Page, name: str) -> None:
    """Leave a picture of the whole page for people to look at, in build/screens."""
    folder = Path(os.environ.get(ARTIFACTS) or "build") / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    picture = page.screenshot(path=folder / f"page-{name}.png", full_page=True)
    assert picture.startswith(b"\x89PNG")


def registered(folder: Path) -> tuple[Registry, Bundle]:
    """Return a registry with two slots and some history, and a bundle that may come next."""
    registry, bundle_for = Registry(folder), _bundles()
    first, second = confirmed(bundle_for("openmpi", "4.1.4")), bundle_for("openmpi", "4.1.4")
    for bundle, note in ((first, "first"), (second, f"better {ATTACK}")):
        registry.add(bundle)
        registry.promote(bundle.id, by=f"night {ATTACK}", note=note)
    registry.rollback("openmpi-4.1.4", by="day", note="too slow")
    reported(registry, "openmpi-4.1.4")
    other = bundle_for("mpich", "4.0.2")
    registry.add(other)
    registry.promote(other.id, by="night")
    return registry, second


def await_that(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds; `what` names it if it never does."""
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come up"
        time.sleep(0.01)
