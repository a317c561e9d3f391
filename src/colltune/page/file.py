"""The page as one HTML file that holds its facts: it needs no service and no network."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltune.errors import say
from colltune.json_text import encoded
from colltune.models.bundle import Bundle
from colltune.mpi.programs import Programs
from colltune.page.evidence import DecisionEvidence, decision_evidence
from colltune.page.facts import slot_name
from colltune.page.gains import DecisionGains, decision_gains
from colltune.page.maps import MapView, map_view
from colltune.page.overview import InForce, overview_view
from colltune.selector.argmin import ModelSelector

if TYPE_CHECKING:
    from colltune.production.status import ProductionStatus
    from colltune.registry.events import Event

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_LOADED = re.compile(
    r'\s*<link rel="icon"[^>]*>\s*<link rel="stylesheet"[^>]*>\s*<script[^>]*></script>'
)
_CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:"


@dataclass(frozen=True)
class BundlePage:
    """What a bundle's page shows; one JSON document of it is what `colltune report` prints."""

    gains: DecisionGains
    """what it brings"""
    evidence: DecisionEvidence
    """how good its decisions are"""
    maps: tuple[MapView, ...]
    """what it decides, by collective"""


@dataclass(frozen=True)
class WrittenPage(BundlePage):
    """A bundle's page, and the file that shows it."""

    out: Path
    """HTML file"""


def bundle_page(
    selector: ModelSelector, programs: Programs, evidence: DecisionEvidence | None = None
) -> BundlePage:
    """Return what is shown of what `selector` decides for `programs`."""
    bundle = selector.bundle
    slot = slot_name(bundle.context)
    return BundlePage(
        decision_gains(selector, programs),
        evidence or decision_evidence(bundle, programs=programs),
        tuple(map_view(selector, slot, collective) for collective in bundle.collectives),
    )


def bundle_file(bundle: Bundle, shown: BundlePage) -> str:
    """Return the HTML file that shows a bundle."""
    serving = InForce(slot_name(bundle.context), bundle, bundle.created_utc)
    answers = {
        "v1/view": overview_view([serving], (), (), with_formats=False),
        "v1/view/gains": shown.gains,
        "v1/view/evidence": shown.evidence,
        **{f"v1/view/map?collective={one.collective}": one for one in shown.maps},
    }
    return _file(f"colltune: {bundle.context}", ("gains", "map", "evidence"), answers)


def production_file(status: ProductionStatus, events: Sequence[Event], month: str = "") -> str:
    """Return the HTML file that shows what production jobs proved in a month, else the latest."""
    from colltune.production.status import of_month

    found = of_month(status, month)
    shown = [event for event in events if event.at_utc.startswith(found.months[0].period)]
    answers = {"v1/view": overview_view((), shown, ()), "v1/view/production": found}
    return _file(f"Production jobs on {status.machine}", ("production", "history"), answers)


def policy_of(page: str) -> str:
    """Return the content security policy that a file states for itself."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    if found is None:
        raise say("line-missing", name="the page's policy")
    return html.unescape(found[1])


def _file(title: str, views: Sequence[str], answers: Mapping[str, Any]) -> str:
    assets = {
        one.name: one.read_text(encoding="utf-8")
        for one in files(__package__).joinpath("assets").iterdir()
    }
    icon = f"data:image/svg+xml;base64,{b64encode(assets['icon.svg'].encode()).decode()}"
    style, script = assets["style.css"].replace("icon.svg", icon), _script(assets)
    facts = {"views": views, "answers": answers}
    policy = f"{_CLOSED}; style-src {_hash(style)}; script-src {_hash(script)}"
    # no text of the facts can end the element that holds them
    data = encoded(facts).replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        f'<link rel="icon" href="{icon}">\n<style>{style}</style>\n'
        f'<script type="application/json" id="inside">{data}</script>\n'
        f'<script type="module">{script}</script>'
    )
    named = assets["index.html"].replace(
        "<title>colltune</title>", f"<title>{html.escape(title)}</title>"
    )
    return _LOADED.sub(lambda _found: head, named)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _script(assets: Mapping[str, str]) -> str:
    """Return all scripts as one, each in a scope of its own, after those that it imports from."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        text = assets[name]
        for _, other in _IMPORT.findall(text):
            add(other)
        exported = ", ".join(_EXPORT.findall(text))
        body = _EXPORT.sub("", _IMPORT.sub(r'const \1 = modules["\2"];\n', text))
        done[name] = f'modules["{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n'

    add("app.js")
    return f"const modules = {{}};\n{''.join(done.values())}"
