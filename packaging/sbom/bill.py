"""The bill of materials of a wheel, a CycloneDX document made of the lock file of the core.

``python packaging/sbom/bill.py`` writes it, after ``make lock`` or a new version.

It has no time, no tool and no place in it, so that the same lock file gives the same bytes. A
package that is locked in two versions, for older and newer Pythons, is two components.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colltune import __version__

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "runtime.lock"
BILL = Path(__file__).with_name("colltune.cdx.json")
SPECIFICATION = "1.6"
_PIN = re.compile(r"(?P<name>[a-z0-9.-]+)==(?P<version>[^ ;]+)( ; (?P<marker>.+?))? \\")
_NEEDED_BY = re.compile(r"(?m)^    #(?: via)? +(?P<name>[a-z0-9.-]+)(?: \(pyproject\.toml\))?$")


@dataclass(frozen=True)
class Locked:
    """One line of a lock file, with those that need it; ``marker`` tells on which systems."""

    name: str
    version: str
    marker: str | None
    needed_by: frozenset[str]

    @property
    def purl(self) -> str:
        """Its package URL."""
        return _purl(self.name, self.version)


def locked(lock: Path) -> list[Locked]:
    """Return what a lock file with annotations pins, in its order.

    Raises
    ------
    ValueError
        If a line is none that ``make lock`` writes, or does not tell who needs the package.
    """
    found = []
    for block in re.split(r"\n(?=\S)", lock.read_text().strip()):
        pin = _PIN.match(block)
        needed_by = frozenset(one["name"] for one in _NEEDED_BY.finditer(block))
        if pin is None or not needed_by:
            what = "is no pin with those that need it; make the file again by `make lock`"
            raise ValueError(f"{lock}: {block[:60]!r} {what}")
        found.append(Locked(pin["name"], pin["version"], pin["marker"], needed_by))
    return found


def document(packages: list[Locked], project: dict[str, Any]) -> dict[str, Any]:
    """Return the CycloneDX document of a project, as in pyproject.toml, and what it needs."""
    ours = _purl(project["name"], __version__)
    whole = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": project["name"],
                "version": __version__,
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": ours,
            }
        },
        "components": [_component(one) for one in packages],
        "dependencies": [
            {"ref": ours, "dependsOn": _needs(project["name"], packages)},
            *({"ref": one.purl, "dependsOn": _needs(one.name, packages)} for one in packages),
        ],
    }
    # the same content has the same number
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(whole, sort_keys=True))
    return {**whole, "serialNumber": f"urn:uuid:{number}"}


def text() -> str:
    """Return the document of this tree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return json.dumps(document(locked(LOCK), project), indent=1, sort_keys=True) + "\n"


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _component(package: Locked) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
    }
    if package.marker:
        found["properties"] = [{"name": "colltune:marker", "value": package.marker}]
    return found


def _needs(name: str, packages: list[Locked]) -> list[str]:
    return sorted(one.purl for one in packages if name in one.needed_by)


if __name__ == "__main__":
    BILL.write_text(text())
