"""The page in a real Chromium, on a real service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from colltune import process
from colltune.models.bundle import Bundle
from colltune.registry import Registry
from tests.integration.browsing import (
    ATTACK,
    MACHINE,
    Watched,
    await_that,
    chromium,
    keep,
    registered,
    service,
    violations,
    watched,
)
from tests.production.judged import JUDGEMENT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
PHONE = {"width": 360, "height": 780}
MAP = "view=map&slot=openmpi-4.1.4&collective=bcast"
JOB = "view=job&slot=openmpi-4.1.4&nodes=8&ppn=4"
OTHER = "evil.example"
CELL = 'td[aria-selected="true"]'


class Site(NamedTuple):
    """A service to look at."""

    home: str
    registry: Registry
    next_bundle: Bundle


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield one Chromium for all tests."""
    program = chromium()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as driver:
        rebound = f"--host-resolver-rules=MAP {OTHER} 127.0.0.1"
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox", rebound])
        yield running
        running.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a running service."""
    folder = tmp_path_factory.mktemp("site") / "registry"
    registry, following = registered(folder)
    with service(folder) as home:
        yield Site(home, registry, following)


@pytest.fixture(scope="module")
def proving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a service whose production jobs were judged, with a bundle on trial."""
    folder = tmp_path_factory.mktemp("proving") / "registry"
    registry, following = registered(folder)
    registry.step(following.id, 0.25, by="night", note="no harm in 203 jobs")
    known = replace(
        JUDGEMENT,
        left_out={ATTACK: 7},
        steps=(replace(JUDGEMENT.steps[0], bundle_id=following.id),),
    )
    with service(folder, known) as home:
        yield home


@pytest.fixture(scope="module")
def screen(browser: Browser, site: Site) -> Iterator[Watched]:
    """Yield a page on a desktop that many tests use."""
    with watched(browser, site.home, viewport={"width": 1280, "height": 900}) as seen:
        yield seen


@pytest.fixture
def desk(screen: Watched) -> Iterator[Watched]:
    """Yield a page on a desktop; afterwards nothing was complained about."""
    yield screen
    screen.check()


def texts(page: Page, selector: str) -> list[str]:
    """Return the texts of all elements that fit."""
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def test_it_shows_what_is_in_force(desk: Watched, site: Site) -> None:
    """Machine, library, bundle, objective and the map are there; names that attack are text."""
    desk.go("view=map")
    page = desk.page
    assert texts(page, "#machine") == [MACHINE]
    assert page.get_by_role("combobox", name="Library", exact=True).locator(
        "option"
    ).all_inner_texts() == [
        "MPICH 4.0.2",
        "Open MPI 4.1.4",
    ]
    facts = page.locator("#facts").inner_text()
    assert site.registry.current()["mpich-4.0.2"].bundle_id[:12] in facts
    assert "median of the runtime" in facts
    assert ATTACK in facts
    assert page.locator("main script, main img, header img").count() == 0
    assert page.locator("table[role=grid] td[role=gridcell]").count() > 100


def test_a_click_tells_all_configurations(desk: Watched) -> None:
    """A field that is clicked tells every configuration's prediction, and the link keeps it."""
    desk.go(MAP)
    page = desk.page
    page.locator("td.f").nth(200).click()
    page.wait_for_selector(".panel table")
    rows = page.locator(".panel tbody tr")
    assert rows.count() == 5
    assert any(ATTACK in text for text in rows.all_inner_texts())
    assert page.locator(".panel svg .mark").count() == 5
    assert page.locator(".panel .headline").inner_text()
    assert "against default" in page.locator(".panel thead").inner_text()
    address = page.url
    heading = page.locator(".panel h2").inner_text()
    assert re.search(r"at=\d+x\d+x\d+", address)
    desk.go(address.partition("#")[2], ready=".panel h2")
    assert page.locator(".panel h2").inner_text() == heading
    assert page.locator(CELL).count() == 1


def test_all_of_it_works_without_a_mouse(desk: Watched) -> None:
    """Tab reaches the grid once, arrows walk, Enter tells the predictions of where one is."""
    desk.go(MAP)
    page = desk.page
    assert page.locator('td[tabindex="0"]').count() == 1
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('td.f')"):
            break
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End", "ArrowLeft", "Home", "PageDown"):
        page.keyboard.press(key)
    here = page.locator("td.f:focus")
    assert (here.get_attribute("data-r"), here.get_attribute("data-c")) == ("9", "0")
    assert page.locator('td[tabindex="0"]').count() == 1
    label = here.get_attribute("aria-label")
    assert label
    assert page.locator(".readout").inner_text() == label
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel h2")
    where = label.split(":")[0].split(",")[0]
    assert where in page.locator(".panel h2").inner_text()
    assert here.get_attribute("aria-selected") == "true"
    assert page.locator("#told").inner_text().startswith("MPI_Bcast on")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "nodes"


def test_fields_can_show_gains_and_reasons(desk: Watched) -> None:
    """The same map by gain and by reason, each with a code in every field and a legend."""
    desk.go(MAP)
    page = desk.page
    assert "default: the library decides" in page.locator(".legend").inner_text()
    page.get_by_role("radio", name="Gain").check()
    page.wait_for_selector("td.g0, td.g1, td.g2, td.g3, td.g4")
    assert all(re.fullmatch(r"·|\d+(\.\d)?", text) for text in texts(page, "td.f"))
    page.get_by_role("radio", name="Reason").check()
    page.wait_for_selector("td.rG")
    assert set(texts(page, "td.f")) <= set("GMUFWEONX")
    assert "replaced: predicted faster" in page.locator(".legend").inner_text()
    assert page.evaluate("document.activeElement.value") == "reason"
    columns = page.locator(".map thead th").count()
    page.get_by_label("Measured sizes only").check()
    await_that(lambda: page.locator(".map thead th").count() < columns, "the smaller map")
    assert page.locator(".map thead th.unseen").count() == 0


def test_any_instance_can_be_asked_about(desk: Watched) -> None:
    """Shapes and sizes that are not in the map are predicted, too; nonsense is refused."""
    desk.go(MAP)
    page = desk.page
    for name, text in (("nodes", "5"), ("ppn", "3"), ("msize", "1.5 MiB")):
        page.locator(f".ask [name={name}]").fill(text)
    page.get_by_role("button", name="Predict").click()
    page.wait_for_selector(".panel h2")
    assert "5 × 3, 1.5 MiB" in page.locator(".panel h2").inner_text()
    assert "Not measured itself" in page.locator(".verdict").inner_text()
    page.locator(".ask [name=msize]").fill("many")
    page.get_by_role("button", name="Predict").click()
    assert "Whole numbers" in page.locator("#notices").inner_text()


def test_a_job_gets_its_file_and_lines(desk: Watched, site: Site) -> None:
    """The form gives the very file of the service, and lines that a shell takes as they are."""
    desk.go("view=job&slot=openmpi-4.1.4")
    page = desk.page
    page.get_by_label("Nodes").fill("8")
    page.get_by_label("Processes per node").fill("4")
    page.get_by_role("button", name="Show the configuration").click()
    page.wait_for_selector(".download")
    with page.expect_download() as download:
        page.locator(".download").click()
    name = download.value.suggested_filename
    content = download.value.path().read_text(encoding="utf-8")
    assert content == page.locator("details pre").text_content()
    assert "v1/config/openmpi/4.1.4?nodes=8&ppn=4" in page.locator(".recipe").inner_text()
    wanted = f"OMPI_MCA_coll_tuned_dynamic_rules_filename=/home/me/$(echo no)'s x/{name}"
    page.get_by_label("Folder").fill("~/$(echo no)'s x/")
    line = texts(page, ".snippet pre")[1]
    assert line.startswith("export ")
    told = process.run(["sh", "-c", f"{line}; env"], timeout_s=20, env={"HOME": "/home/me"})
    assert wanted in told.stdout.splitlines()
    page.get_by_label("Folder").fill("relative")
    assert "absolute" in page.locator(".recipe").inner_text()
    assert len(texts(page, ".snippet pre")) == 0


def test_lines_can_be_copied(browser: Browser, site: Site) -> None:
    """The button puts the line on the clipboard, and says so."""
    allowed = ["clipboard-read", "clipboard-write"]
    with watched(browser, site.home, permissions=allowed) as seen:
        seen.go(JOB, ready=".snippet")
        seen.page.get_by_role("button", name="Copy: Or the launcher's").click()
        seen.page.wait_for_selector("#notices .notice")
        assert seen.page.locator("#notices").inner_text() == "Copied."
        copied = seen.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("mpirun --mca coll_tuned_use_dynamic_rules 1")
        # without TLS a browser has no such clipboard
        seen.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        seen.page.get_by_role("button", name="Copy: The environment").click()
        seen.page.get_by_label("Folder").fill("")
        seen.page.keyboard.press("Control+V")
        assert seen.page.get_by_label("Folder").input_value().startswith("export OMPI_MCA_")


def test_unmeasured_jobs_are_warned_and_small_ones_need_no_file(desk: Watched) -> None:
    """It says what is not known about a shape, why the default is kept, and when to do nothing."""
    desk.go("view=job&slot=openmpi-4.1.4&nodes=40&ppn=4", ready=".answer")
    answer = desk.page.locator(".answer").inner_text()
    assert "is outside the measured shapes" in answer
    assert "outside what was measured" in answer
    desk.go("view=job&slot=openmpi-4.1.4&nodes=1&ppn=1", ready=".answer")
    assert "no file is needed" in desk.page.locator(".answer").inner_text()
    assert desk.page.locator(".download").count() == 0


def test_libraries_can_be_switched(desk: Watched, site: Site) -> None:
    """Another release's bundle is shown when it is picked, and going back works."""
    desk.go(MAP)
    page = desk.page
    before = page.locator("#facts code").inner_text()
    library = page.get_by_role("combobox", name="Library", exact=True)
    library.focus()
    library.select_option("mpich-4.0.2")
    after = site.registry.current()["mpich-4.0.2"].bundle_id[:12]
    await_that(lambda: page.locator("#facts code").inner_text() == after, after)
    assert "slot=mpich-4.0.2" in page.url
    page.wait_for_selector("main:not([aria-busy])")
    assert page.evaluate("document.activeElement.name") == "in-force"
    page.go_back()
    await_that(lambda: page.locator("#facts code").inner_text() == before, before)


def test_the_history_tells_promotions_and_rollbacks(desk: Watched) -> None:
    """Who brought which bundle into force when and why, the latest first."""
    desk.go("view=history")
    rows = texts(desk.page, "tbody tr:has(th)")
    assert len(rows) == 4
    assert "rolled back" in rows[1]
    assert "in force" in rows[1]
    assert "too slow" in rows[1]
    assert f"better {ATTACK}" in rows[2]
    desk.page.locator("summary").first.click()
    desk.page.wait_for_selector("td.below table")
    assert texts(desk.page, "td.below tbody th")[0] == "MPI_Bcast"


def test_what_was_in_force_before_can_be_looked_at(desk: Watched, site: Site) -> None:
    """The history leads to each bundle's decisions, which are never taken for those in force."""
    desk.go("view=history")
    page = desk.page
    older = site.next_bundle.id
    page.get_by_role("link", name=older[:12]).first.click()
    page.wait_for_selector("td.f")
    assert page.locator("#facts code").inner_text() == older[:12]
    assert "not in force" in page.locator("#notices").inner_text()
    desk.go(f"{JOB}&bundle={older[:16]}", ready=".download")
    assert f"bundle={older[:16]}" in (page.locator(".download").get_attribute("href") or "")
    page.get_by_role("button", name="Back to what is in force").click()
    page.wait_for_selector("#notices:not(:has(.notice))", state="attached")
    page.wait_for_selector(".download")
    assert "bundle" not in page.url
    desk.go("view=map&bundle=0123abcd", ready=".notice.bad")
    page.get_by_role("button", name="Show what is in force").click()
    page.wait_for_selector("td.f")
    assert [text for text in desk.complaints if "404" not in text] == []
    desk.complaints.clear()


def test_garbage_in_the_address_is_survived(desk: Watched) -> None:
    """A link that makes no sense shows what there is, and says what it could not show."""
    desk.go("view=nothing&slot=none-1&collective=zzz&show=x&at=1x2&format=<b>")
    assert "Nothing is in force for none-1" in desk.page.locator("#notices").inner_text()
    assert "no instance" in desk.page.locator(".panel").inner_text()
    assert desk.page.locator("td.f").count() > 100


def test_a_service_that_is_not_ready_is_waited_for(desk: Watched) -> None:
    """The reason is shown, and the page comes by itself when the service is ready."""
    problem = '{"title": "Service Unavailable", "status": 503, "detail": "no bundle yet <b>"}'
    desk.page.route(
        "**/v1/view",
        lambda route: route.fulfill(status=503, body=problem, headers={"Retry-After": "1"}),
        times=1,
    )
    desk.go()
    assert "not ready yet" in desk.page.locator("main").inner_text()
    assert "no bundle yet <b>" in desk.page.locator("main").inner_text()
    desk.page.wait_for_selector(".front")
    assert [text for text in desk.complaints if "503" not in text] == []
    desk.complaints.clear()


def test_a_lost_connection_is_told(desk: Watched) -> None:
    """Without network it says so, keeps its menus, and goes on when asked to try again."""
    desk.go(MAP)
    page = desk.page
    page.context.set_offline(True)
    page.get_by_label("Collective").select_option("allreduce")
    page.wait_for_selector(".notice.bad")
    assert "cannot be reached" in page.locator("main").inner_text()
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("td.f")
    assert "MPI_Allreduce" in page.locator("main h2").first.inner_text()
    assert [text for text in desk.complaints if "ERR_INTERNET" not in text] == []
    desk.complaints.clear()


def test_the_report_looks_as_it_should(browser: Browser, site: Site) -> None:
    """Its styles and pictures are not taken away by the content policy, and nothing is loaded."""
    with watched(browser, site.home) as seen:
        seen.page.goto(f"{site.home}v1/bundles/{site.next_bundle.id}/report")
        assert seen.page.locator("h1").inner_text().startswith("colltune")
        seen.page.wait_for_selector(".gain svg")
        centred = "getComputedStyle(document.querySelector('main') ?? document.body).maxWidth"
        assert seen.page.evaluate(centred) != "none"
        refused = "document.body.appendChild(document.createElement('script')).text = 'hacked = 1'"
        seen.page.evaluate(refused)
        assert any("Content Security Policy" in text for text in seen.complaints)
        seen.complaints.clear()


def test_a_page_of_another_name_gets_nothing(browser: Browser, site: Site) -> None:
    """A name that is given the service's address (DNS rebinding) is not one of the service."""
    page = browser.new_page()
    answer = page.goto(site.home.replace("127.0.0.1", OTHER) + "v1/bundles")
    assert answer is not None
    assert answer.status == 421
    page.close()


def test_the_front_tells_what_an_administrator_asks(desk: Watched) -> None:
    """Health, requests, confirmed gains apart from predicted ones, drift, what is next, and who."""
    tuned = f"{desk.home}v1/config/openmpi/4.1.4?nodes=8&ppn=4"
    desk.page.request.get(tuned)
    desk.go("slot=openmpi-4.1.4", ready=".front h2")
    page = desk.page
    await_that(lambda: page.get_by_text("Computing…").count() == 0, "the gains")
    cards = dict(zip(texts(page, ".card h2"), texts(page, ".card"), strict=True))
    assert texts(page, ".health h2") == ["Needs attention"]
    assert "openmpi-4.1.4: the machine has drifted" in page.locator(".health").inner_text()
    assert re.search(r"([1-9]\d*) of \1 requests were tuned", cards["Jobs today"])
    gain = cards["Gain with Open MPI 4.1.4"]
    measured, _, predicted = gain.partition("All of it")
    assert "1.73×" in measured
    assert "1.57× to 1.91×" in measured
    assert "1.73×" not in predicted
    assert "1.20× (1.10× to 1.30×)" in predicted
    assert "1.30×" in cards["Drift of the machine"]
    assert "bcast on 8, 16 nodes" in cards["Measured next"]
    assert "“too slow”" in cards["Who promoted what, and why"]
    before = page.locator(".figure").first.inner_text()
    desk.page.request.get(tuned)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await_that(lambda: page.locator(".figure").first.inner_text() != before, "the next figure")
    desk.go("slot=mpich-4.0.2", ready=".front")
    cards = dict(zip(texts(page, ".card h2"), texts(page, ".card"), strict=True))
    for title in ("Gain with MPICH 4.0.2", "Drift of the machine", "Measured next"):
        assert "Nothing yet." in cards[title]


def test_what_a_promotion_changed_is_shown_as_a_map(desk: Watched) -> None:
    """Fields are marked where the bundle before decides otherwise, here where it was measured."""
    desk.go(f"{MAP}&show=change", ready=".legend")
    page = desk.page
    assert "Compared with the bundle" in page.locator("main .notice").inner_text()
    marked = [text for text in texts(page, "td.f") if text != "·"]
    assert 0 < len(marked) < 50
    assert set(marked) <= set("+≠−")
    page.locator("td.f").get_by_text(marked[0], exact=True).first.hover()
    assert "; was " in page.locator(".readout").inner_text()


VIEWS = {
    "front": ("slot=openmpi-4.1.4", ".front h2"),
    "gains": ("view=gains&slot=openmpi-4.1.4", ".gain svg"),
    "evidence": ("view=evidence&slot=openmpi-4.1.4", "main table"),
    "map": (f"{MAP}&at=8x4x65536", ".panel table"),
    "change": (f"{MAP}&show=change", ".legend"),
    "job": (JOB, ".answer"),
    "history": ("view=history", "main table"),
}


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_view_fits_and_is_kept_as_a_picture(browser: Browser, site: Site, look: str) -> None:
    """Nothing but the boxes made for it scrolls sideways, on a desk and at 390 pixels."""
    how = {"color_scheme": "dark" if look == "dark" else "light"}
    size = PHONE | {"width": 390} if look == "phone" else {"width": 1280, "height": 900}
    with watched(browser, site.home, viewport=size, **how) as seen:
        for name, (state, ready) in VIEWS.items():
            seen.go(state, ready=ready)
            seen.page.wait_for_load_state("networkidle")
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= size["width"], name
            assert violations(seen) == [], name
            keep(seen.page, f"{name}-{look}")


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_production_is_shown(browser: Browser, proving: str, look: str) -> None:
    """Node-hours, gains as bars, the steps of a roll-out, what was refuted, arms; and it fits."""
    size = PHONE | {"width": 390} if look == "phone" else {"width": 1280, "height": 900}
    scheme = "dark" if look == "dark" else "light"
    with watched(browser, proving, viewport=size, color_scheme=scheme) as seen:
        seen.go("view=production", ready="main svg")
        page = seen.page
        text = page.locator("main").inner_text()
        assert "412 node-hours (380 to 450) saved in 2026-11" in text
        assert "2 decisions proven, 1 refuted, 1 not known yet" in text
        assert page.locator("main svg .mark").count() == 3
        assert page.locator("main svg .slower .name").text_content() == "MPI_Alltoall"
        assert texts(page, ".steps [aria-current]") == ["25\u00a0%\n140 of 200 jobs"]
        assert "all jobs are 1.20x slower" in page.locator("main .notice.warn").inner_text()
        assert ATTACK in text
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        keep(page, f"production-{look}")
        seen.go("view=front", ready=".front")
        await_that(lambda: "node-hours" in page.locator(".front").inner_text(), "its card")
        page.goto(f"{proving}v1/production/report")
        page.wait_for_selector("main svg")
        assert "412 node-hours (380 to 450) saved in 2026-11" in page.locator("main").inner_text()
        keep(page, f"production-report-{look}")


def test_a_trial_that_was_stopped_is_told_with_the_reason(browser: Browser, tmp_path: Path) -> None:
    """Nobody has to look for it in the history."""
    registry, following = registered(tmp_path / "registry")
    registry.step(following.id, 0.25, by="night")
    registry.stop("openmpi-4.1.4", by="production", note=f"{ATTACK} this harms them")
    with service(tmp_path / "registry", JUDGEMENT) as home, watched(browser, home) as seen:
        seen.go("view=production", ready="main svg")
        text = seen.page.locator("main").inner_text()
        assert "No bundle is being rolled out." in text
        assert f"by production: {ATTACK} this harms them" in text


def test_where_nothing_is_recorded_the_page_says_how(desk: Watched) -> None:
    """It names the line of the site file."""
    desk.go("view=production")
    assert "record = true" in desk.page.locator("main").inner_text()


def test_it_fits_a_phone(browser: Browser, site: Site) -> None:
    """At 360 pixels nothing but the boxes made for it scrolls sideways."""
    width = "document.documentElement.scrollWidth"
    with watched(browser, site.home, viewport=PHONE, has_touch=True) as seen:
        page = seen.page
        for view in ("view=front", JOB, "view=history", MAP):
            seen.go(view, ready="main table")
            assert page.evaluate(width) <= 360, view
        box = page.locator(".mapbox .scroll")
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        page.locator("td.f").first.tap()
        page.wait_for_selector(".panel svg")
        assert page.locator(CELL).count() == 1
        assert page.evaluate(width) <= 360


def test_motion_and_darkness_are_as_the_reader_wants(desk: Watched, browser: Browser) -> None:
    """Dark where that is preferred; nothing moves where that is not wanted."""
    shade = "getComputedStyle(document.documentElement).backgroundColor"
    moving = "getComputedStyle(document.querySelector('nav a')).transitionDuration"
    desk.go(JOB)
    assert desk.page.evaluate(shade) == "rgb(255, 255, 255)"
    assert desk.page.evaluate(moving) != "0s"
    with watched(browser, desk.home, color_scheme="dark", reduced_motion="reduce") as seen:
        seen.go(JOB, ready=".answer")
        assert seen.page.evaluate(shade) == "rgb(20, 23, 27)"
        assert seen.page.evaluate(moving) == "0s"


def test_a_bundle_that_came_meanwhile_is_offered(desk: Watched, site: Site) -> None:
    """What two bundles say is never mixed: the page offers to show the new one as a whole."""
    desk.go(MAP)
    page = desk.page
    before = page.locator("#facts code").inner_text()
    site.registry.promote(site.next_bundle.id, by="night")
    new = site.next_bundle.id[:12]
    slots = "fetch('v1/view').then(answer => answer.json()).then(view => view.slots)"
    await_that(
        lambda: new in {slot["bundle"][:12] for slot in page.evaluate(slots)}, "the new bundle"
    )
    page.locator("td.f").nth(5).click()
    page.wait_for_selector("#notices .warn")
    assert page.locator("#facts code").inner_text() == before != new
    assert page.locator(".panel h2").count() == 0
    page.get_by_role("button", name="Show the new one").click()
    page.wait_for_selector(".panel h2")
    assert page.locator("#facts code").inner_text() == new
    assert page.locator("#notices .warn").count() == 0
