"""Campaign files: what a `Campaign` says of its fields is what a file may hold."""

from __future__ import annotations

from collections.abc import Set
from importlib import resources
from pathlib import Path

from colltune.bench.backends import BACKENDS
from colltune.bench.campaign import Campaign
from colltune.errors import CampaignError, say, unknown
from colltune.files.reading import text_of
from colltune.files.settings import TomlFile


def laptop() -> Campaign:
    """Return the campaign of `colltune tune`: three collectives on this very machine."""
    file = resources.files("colltune.bench") / "laptop.toml"
    return parse(file.read_text(encoding="utf-8"), "laptop.toml")


def load(path: Path) -> Campaign:
    return parse(_text(path), str(path))


def _text(path: Path) -> str:
    return text_of(path, CampaignError, "name a campaign file")


def given_keys(path: Path) -> Set[str]:
    """Return the keys that stand in the file at `path`, such as ``space.nodes``."""
    tables = TomlFile(_text(path), str(path), CampaignError).parsed()
    return {f"{table}.{key}" for table, keys in tables.items() for key in keys}


def parse(text: str, source: str) -> Campaign:
    file = TomlFile(text, source, CampaignError)
    campaign = file.read(Campaign)
    if campaign.backend not in BACKENDS:
        why = unknown("backend", campaign.backend, BACKENDS, CampaignError)
        raise file.fail("measure.backend", why)
    _check_weights(file, campaign)
    return campaign


def _check_weights(file: TomlFile, campaign: Campaign) -> None:
    for row in campaign.weights:
        path = f"weights.{row.collective}"
        if row.collective not in campaign.collectives:
            raise file.fail(path, say("weight-not-measured"))
        sizes = [size for size in campaign.msizes_of(row.collective) if row.holds(size)]
        if not sizes:
            raise file.fail(path, say("weight-of-nothing", sizes=row))
        others = (o for o in campaign.weights if o.collective is row.collective and o is not row)
        if any(other.holds(size) for other in others for size in sizes):
            raise file.fail(path, say("weights-overlap", sizes=row))
