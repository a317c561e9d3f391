"""The page as a file: closed, small, always the same, and safe against names that attack."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from colltune.domain import Collective, Context
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi.programs import FOR_A_PROGRAM
from colltune.page.file import bundle_file, bundle_page, policy_of, production_file
from colltune.production.status import status_of
from colltune.selector.argmin import legal_selector
from tests.models.machines import measured
from tests.page.reading import facts_of
from tests.production.judged import EVENTS, JUDGEMENT, SETTINGS

NASTY = "</script><script>alert(1)</script><!--&\"'\u202e"
MOST_BYTES = 400_000


def written(bundle: Bundle) -> str:
    """Return the file that shows a bundle."""
    return bundle_file(bundle, bundle_page(legal_selector(bundle, FOR_A_PROGRAM), FOR_A_PROGRAM))


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of two collectives."""
    return fit(measured(collectives=(Collective.ALLREDUCE, Collective.BCAST)), "knn")


@pytest.fixture(scope="module")
def page(bundle: Bundle) -> str:
    """Return its file."""
    return written(bundle)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags_of(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the elements of a page, with their attributes."""
    tags = _Tags()
    tags.feed(page)
    return tags.found


def test_it_holds_all_that_its_views_ask_for(page: str) -> None:
    """Overview, gains, evidence, and a map for each collective."""
    facts = facts_of(page)
    assert facts["views"] == ["gains", "map", "evidence"]
    assert facts["answers"].keys() == {
        "v1/view",
        "v1/view/gains",
        "v1/view/evidence",
        "v1/view/map?collective=allreduce",
        "v1/view/map?collective=bcast",
    }


def test_its_policy_allows_its_own_script_and_style_alone(page: str) -> None:
    """Both are named by what they are, so that nothing else runs."""
    policy = policy_of(page)
    assert policy.startswith("default-src 'none'")
    for element, named in (("style", "style"), ('script type="module"', "script")):
        (text,) = re.findall(f"<{element}>(.*?)</{named}>", page, re.S)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{named}-src 'sha256-{digest}'" in policy


def test_it_loads_nothing(page: str) -> None:
    """No element names another file, and no address of a host stands in the code."""
    for tag, attributes in tags_of(page):
        for name in ("src", "href"):
            value = attributes.get(name) or ""
            assert value.startswith(("data:", "#", "./#")) or not value or tag == "a", value
    code = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|\bimport \{", code)


def test_all_scripts_are_in_it(page: str) -> None:
    """Each module stands once, after those that it imports from."""
    names = re.findall(r'^modules\["([\w.]+)"\] = ', page, re.M)
    scripts = {f.name for f in files("colltune.page").joinpath("assets").iterdir()}
    assert sorted(names) == sorted(name for name in scripts if name.endswith(".js"))
    for at, part in enumerate(re.split(r'^modules\["[\w.]+"\] = ', page, flags=re.M)[1:]):
        assert set(re.findall(r'= modules\["([\w.]+)"\]', part)) <= set(names[:at])


def test_the_same_bundle_gives_the_same_bytes(bundle: Bundle, page: str) -> None:
    """Nothing in the page depends on when or where it was made."""
    assert written(bundle) == page


def test_without_its_facts_it_is_small(page: str) -> None:
    """Code and style stay below the limit."""
    facts = re.search(r'id="inside">(.*?)</script>', page, re.S)
    assert facts
    assert len(page.encode()) - len(facts[1].encode()) < MOST_BYTES


def test_names_cannot_become_markup(page: str) -> None:
    """Markup in the names of machine and algorithms, and in the evidence, stays text."""
    data = measured()
    frame = data.frame.replace({"algorithm": {"binomial": NASTY}})
    data = replace(data, frame=frame, context=Context(NASTY, "openmpi", "4<1", NASTY))
    fitted = fit(data, "knn")
    evidence = {NASTY: {"x": NASTY, "nan": float("nan")}}
    told = Bundle.new(data.context, fitted.models, fitted.training_shapes, evidence=evidence)
    found = written(told)
    assert [tag for tag, _ in tags_of(found)] == [tag for tag, _ in tags_of(page)]
    facts = facts_of(found)["answers"]
    assert facts["v1/view"]["slots"][0]["machine"] == NASTY
    assert facts["v1/view/evidence"]["stated"] == {NASTY: {"x": NASTY, "nan": None}}


def test_a_month_of_production_is_a_file_of_its_own() -> None:
    """It holds the month asked for first, its decisions, and what the registry did in it."""
    status = status_of(JUDGEMENT, SETTINGS, EVENTS, "hydra")
    facts = facts_of(production_file(status, EVENTS, "2026-10"))
    assert facts["views"] == ["production", "history"]
    told = facts["answers"]["v1/view/production"]
    assert told["months"][0]["period"] == "2026-10"
    assert len(told["months"]) == len(status.months)
    assert {one["since_utc"][:7] for one in (*told["proven"], *told["refuted"])} <= {"2026-10"}
    history = facts["answers"]["v1/view"]["history"]
    assert {one["at_utc"][:7] for one in history} <= {"2026-10"}
