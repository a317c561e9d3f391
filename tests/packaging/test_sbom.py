"""The bill of materials: what is installed with the wheel, by name, version and who needs it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.markers import Marker
from sbom.bill import BILL, LOCK, Locked, document, locked, text

from colltune import __version__
from tests.packaging.distributions import ROOT, members

OURS = f"pkg:pypi/colltune@{__version__}"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MEND = "`.venv/bin/python packaging/sbom/bill.py` makes it again"


@pytest.fixture(scope="module")
def bill() -> Any:
    """Return the document."""
    return json.loads(BILL.read_text())


def errors(content: str) -> object:
    """Return what is wrong with a document by the schema of CycloneDX, None if nothing is."""
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(content)


def test_it_is_of_this_tree() -> None:
    """It was written after the last change of the lock file, the version and pyproject.toml."""
    assert BILL.read_text() == text(), MEND


def test_it_is_valid() -> None:
    """CycloneDX's own schema takes it, and would not take another."""
    assert errors(BILL.read_text()) is None
    assert errors(BILL.read_text().replace('"library"', '"book"')) is not None


def test_it_names_the_locked_packages(bill: Any) -> None:
    """Components are the pins of the core's lock file, no more, no fewer, each once."""
    pinned = re.findall(r"(?m)^([a-z0-9.-]+)==([^ ]+)", LOCK.read_text())
    assert [(one["name"], one["version"]) for one in bill["components"]] == pinned
    assert len({one["purl"] for one in bill["components"]}) == len(pinned) > 15


def test_it_tells_who_needs_what(bill: Any) -> None:
    """Everything is reached from colltune, whose own needs are those of pyproject.toml."""
    needs: Mapping[str, list[str]] = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    asked = {re.split(r"[><=; ]", one)[0] for one in PROJECT["dependencies"]}
    assert {purl.split("/")[1].split("@")[0] for purl in needs[OURS]} == asked
    reached, seen = [OURS], set()
    while reached:
        one = reached.pop()
        seen.add(one)
        reached += [other for other in needs[one] if other not in seen]
    assert seen == {OURS, *(one["bom-ref"] for one in bill["components"])} == set(needs)


def test_one_version_is_for_each_system(bill: Any) -> None:
    """On one system and Python, the markers leave one version of a package."""
    for python in ("3.11.9", "3.12.1"):
        system = {"python_full_version": python, "sys_platform": "linux"}
        left = [
            one["name"]
            for one in bill["components"]
            if all(Marker(p["value"]).evaluate(system) for p in one.get("properties", ()))
        ]
        assert len(left) == len(set(left))
        assert "numpy" in left
        assert "tzdata" not in left


def test_the_wheel_carries_it(wheel: Path) -> None:
    """It is where installers and scanners look for it (PEP 770), and is told from other files."""
    found = members(wheel)
    name = f"colltune-{__version__}.dist-info/sboms/{BILL.name}"
    assert found[name] == BILL.read_bytes()
    assert name in found[f"colltune-{__version__}.dist-info/RECORD"].decode()


def test_it_tells_no_time_and_no_place(bill: Any) -> None:
    """It has no clock, tool or address in it; its serial number follows from what it says."""
    assert set(bill["metadata"]) == {"component"}
    assert "://" not in BILL.read_text().replace(bill["$schema"], "")
    package = Locked("numpy", "2.0", None, frozenset({"colltune"}))
    one, again, other = (document(packages, PROJECT) for packages in ([package], [package], []))
    assert one["serialNumber"] == again["serialNumber"] != other["serialNumber"]


@pytest.mark.parametrize(
    "lines", ["", "numpy>=2.0\n", "numpy==2.0 \\\n    --hash=sha256:00\n", "-r other.txt\n"]
)
def test_another_file_is_refused(lines: str, tmp_path: Path) -> None:
    """A file without pins, or which does not tell who needs them, gives no document."""
    file = tmp_path / "some.lock"
    file.write_text(lines)
    with pytest.raises(ValueError, match="make lock"):
        locked(file)
