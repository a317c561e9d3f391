"""A bundle's page as a file, in a real Chromium: every view, bright and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Shape
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.mpi.programs import FOR_A_PROGRAM
from colltune.page.evidence import decision_evidence
from colltune.page.file import bundle_file, bundle_page, production_file
from colltune.production.status import status_of
from colltune.selector.argmin import legal_selector
from tests.integration.browsing import Watched, chromium, keep, violations, watched
from tests.models.machines import configuration, measured
from tests.production.judged import EVENTS, JUDGEMENT, SETTINGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
PHONE = {"width": 360, "height": 780}
DESK = {"width": 1200, "height": 800}
VIEWS = ("gains", "map", "evidence")
FOURTEEN = tuple(Collective)[:14]
WON = Confirmation(
    Collective.BCAST, Shape(4, 1), 0, 4096, Status.CONFIRMED, configuration("binomial"),
    configuration("binomial"), 1.5, 1.2, 2.0, 2, "2026-11-22T10:00:00+00:00",
)  # fmt: skip
LOST = replace(
    WON, status=Status.WITHDRAWN, configuration=Configuration.default("openmpi", Collective.BCAST),
    first_bytes=4097, last_bytes=None, gain=1.1, lower=0.2, upper=9.0,
)  # fmt: skip


class Written(NamedTuple):
    """A file, and how many collectives have a picture in its first view."""

    path: Path
    pictures: int


def _with_data(bundle: Bundle) -> str:
    evidence = decision_evidence(bundle, measured(), held_out=True, jobs=1)
    shown = bundle_page(legal_selector(bundle, FOR_A_PROGRAM), FOR_A_PROGRAM, evidence)
    return bundle_file(bundle, shown)


def _without(bundle: Bundle) -> str:
    shown = bundle_page(legal_selector(bundle, FOR_A_PROGRAM), FOR_A_PROGRAM)
    return bundle_file(bundle, shown)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    """Return files of many kinds of bundles."""
    folder = tmp_path_factory.mktemp("pages")
    bcast = fit(measured(), "knn", jobs=1)
    unknown = fit(measured(algorithms=("linear", "binomial")), "knn", jobs=1)
    nothing = fit(measured(algorithms=("default",)), "knn", jobs=1)
    one = fit(measured(nodes=(2,), ppn=(4,)), "knn", jobs=1)
    many = fit(measured(collectives=FOURTEEN), "knn", jobs=1)
    texts = {
        "one collective": (_with_data(bcast.with_confirmations([WON, LOST])), 1),
        # made-up algorithms of an allreduce are not known to give all ranks the same result
        "many collectives": (_without(many), len(FOURTEEN) - 1),
        "one shape": (_without(one.with_confirmations([replace(WON, shape=Shape(2, 4))])), 1),
        "no default": (_without(unknown), 1),
        "nothing to gain": (_without(nothing), 0),
    }
    found = {}
    for name, (text, pictures) in texts.items():
        path = folder / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        found[name] = Written(path, pictures)
    return found


KINDS = ("one collective", "many collectives", "one shape", "no default", "nothing to gain")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield one Chromium for all tests."""
    program = chromium()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


def wide(seen: Watched) -> bool:
    """Tell whether a page is wider than its window."""
    return bool(seen.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_view_is_shown(
    browser: Browser, files: dict[str, Written], kind: str, look: str
) -> None:
    """Without a network, wider than no window, and so that all people can read it."""
    path, pictures = files[kind]
    scheme = "dark" if look == "dark" else "light"
    size = PHONE if look == "phone" else DESK
    with watched(browser, path.as_uri(), viewport=size, color_scheme=scheme) as seen:
        for view in VIEWS:
            seen.go(f"view={view}", "main > *")
            assert not wide(seen), view
            assert violations(seen) == [], view
            keep(seen.page, f"file-{kind.replace(' ', '-')}-{view}-{look}")
        seen.go("", "main .lead")
        assert seen.page.locator(".gain svg").count() == pictures


def test_a_range_says_how_sure_it_is_by_more_than_colour(
    browser: Browser, files: dict[str, Written]
) -> None:
    """By a letter below, by a mark above, in its title, and in the table."""
    with watched(browser, files["one collective"].path.as_uri(), viewport=DESK) as seen:
        seen.go("view=gains&nodes=4&ppn=1", ".gain svg")
        page = seen.page
        letters = page.locator(".gain .letter").all_text_contents()
        assert letters == ["C", "W"]
        assert page.locator(".s-confirmed .band").count() == 1
        titles = page.locator(".gain svg title").all_text_contents()
        assert ["confirmed" in titles[0], "withdrawn" in titles[1]] == [True, True]
        page.get_by_text("Each range").click()
        rows = page.locator(".gain tbody tr")
        assert [rows.nth(k).locator("td").first.inner_text() for k in range(2)] == [
            "confirmed",
            "withdrawn",
        ]


def test_what_is_not_known_is_no_gain(browser: Browser, files: dict[str, Written]) -> None:
    """Without a measured default there is a caution, no mark, and no factor."""
    with watched(browser, files["no default"].path.as_uri(), viewport=DESK) as seen:
        seen.go("", ".gain svg")
        assert "NOT COMPARED" in seen.page.locator(".notice").first.inner_text()
        assert seen.page.locator(".gain .mark").count() == 0
        assert set(seen.page.locator(".gain .letter").all_text_contents()) == {"N"}


def test_another_shape_is_chosen_by_keyboard(browser: Browser, files: dict[str, Written]) -> None:
    """The address keeps it, and a link to it shows the same."""
    with watched(browser, files["one collective"].path.as_uri(), viewport=DESK) as seen:
        seen.go("", ".gain svg")
        page = seen.page
        page.locator("select[name=shape]").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_url("**ppn=1**")
        shown = page.locator(".gain h3").inner_text()
        assert "2 × 1" in shown
        seen.go(page.url.partition("#")[2], ".gain svg")
        assert page.locator(".gain h3").inner_text() == shown


def test_the_map_works_without_a_service(browser: Browser, files: dict[str, Written]) -> None:
    """Fields tell what they are; what only a service can answer is not offered."""
    with watched(browser, files["many collectives"].path.as_uri(), viewport=DESK) as seen:
        seen.go("view=map&collective=bcast", "td.f")
        page = seen.page
        page.locator("td.f").nth(20).click()
        assert "×" in page.locator(".readout").inner_text()
        assert page.locator(".ask").count() == 0
        assert page.get_by_role("radio", name="Change").count() == 0
        assert page.locator("nav a").count() == len(VIEWS)


def test_it_can_be_printed(browser: Browser, files: dict[str, Written]) -> None:
    """On paper the pictures stay, and what only a screen can do goes."""
    with watched(browser, files["one collective"].path.as_uri(), viewport=DESK) as seen:
        seen.go("", ".gain svg")
        seen.page.emulate_media(media="print")
        assert not seen.page.locator("nav").is_visible()
        assert seen.page.locator(".gain svg").first.is_visible()


def test_a_month_of_production_is_shown(browser: Browser, tmp_path: Path) -> None:
    """Its file needs no service either; there is no bundle in it."""
    status = status_of(JUDGEMENT, SETTINGS, EVENTS, "hydra")
    path = tmp_path / "month.html"
    path.write_text(production_file(status, EVENTS), encoding="utf-8")
    with watched(browser, path.as_uri(), viewport=DESK) as seen:
        for view in ("production", "history"):
            seen.go(f"view={view}", "main h2")
            assert violations(seen) == []
            keep(seen.page, f"file-month-{view}")
