"""The version stands in colltune.__version__; what repeats it agrees, what records it is read."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from colltune import __version__
from colltune.dataset import append, read_parquet
from colltune.dataset.parquet import read_provenances
from colltune.models.bundle import Bundle, load
from colltune.models.fitting import fit
from colltune.provenance import collect
from colltune.site.folder import EXAMPLES, example
from tests.models.machines import measured
from tests.packaging.distributions import ROOT, members

OTHERS = ("0.0.1", "0.1.0rc1", "7.0")
every_other = pytest.mark.parametrize("other", OTHERS)


def test_it_is_a_release() -> None:
    """It is a version that installers can put in order, in its normal form."""
    assert str(Version(__version__)) == __version__
    assert len(Version(__version__).release) == 3


def test_the_build_takes_it_from_the_package(wheel: Path, sdist: Path) -> None:
    """pyproject.toml does not repeat it; wheel and sdist have it in name and metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert wheel.name == f"colltune-{__version__}-py3-none-any.whl"
    assert sdist.name == f"colltune-{__version__}.tar.gz"
    told = members(wheel)[f"colltune-{__version__}.dist-info/METADATA"].decode()
    assert f"\nVersion: {__version__}\n" in told


def test_a_citation_has_it() -> None:
    """CITATION.cff names the release and a day."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert isinstance(citation["date-released"], datetime.date)


def test_the_changelog_begins_with_it() -> None:
    """What is new in this release is told on top, with the day of the citation."""
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert heading
    assert heading[1] == f"{__version__} ({citation['date-released']})"


def test_images_have_it() -> None:
    """The images' labels and the examples that start them name the release."""
    labels = re.findall(r'image\.version="([^"]*)"', (ROOT / "Dockerfile").read_text())
    tags = [
        tag for name in EXAMPLES for tag in re.findall(r"colltune-service:(\S+)", example(name))
    ]
    assert len(labels) == 2
    assert tags
    assert {*labels, *tags} == {__version__}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a small bundle."""
    return fit(measured(), "knn", jobs=1)


@every_other
def test_bundles_of_another_version_are_read(bundle: Bundle, other: str, tmp_path: Path) -> None:
    """Their format's version decides, not colltune's; the id and the record of who wrote stay."""
    manifest = bundle.save(tmp_path / "b") / "manifest.json"
    assert manifest.read_text().count(f'"{__version__}"') == 1
    manifest.write_text(manifest.read_text().replace(f'"{__version__}"', f'"{other}"'))
    again = load(tmp_path / "b")
    assert (again.id, again.colltune_version) == (bundle.id, other)
    kept = load(again.save(tmp_path / "copy"))
    assert (kept.id, kept.colltune_version) == (bundle.id, other)


def test_launches_of_other_versions_join(tmp_path: Path) -> None:
    """A dataset may have been measured by several versions; each launch tells which."""
    data = measured()
    (cell, *_) = data.measurements()
    written = {}
    for other in (*OTHERS, __version__):
        launch = f"by-{other}"
        mine = type(cell)(cell.instance, cell.configuration, launch, cell.status, cell.times_s)
        facts = {**collect(), "colltune_version": other} if other != __version__ else collect()
        append(tmp_path, data.context, [mine], facts)
        written[launch] = other
    assert len(read_parquet(tmp_path).measurements()) == len(written)
    found = read_provenances(tmp_path)
    assert {name: facts["colltune_version"] for name, facts in found.items()} == written
