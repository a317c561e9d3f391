"""The wheel in an environment of its own: without a compiler, an MPI, R, or any extra."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.markers import Marker
from sbom.bill import BILL

from colltune import __version__, process
from tests.packaging.distributions import ROOT
from tests.packaging.installed import Environment, install

DATA = ROOT / "tests" / "data" / "small_cluster.csv"
ONLY = ("--where", "collective=allreduce", "--learner", "knn", "--jobs", "1")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Install the wheel; what it brings along is hundreds of megabytes, and is removed again."""
    folder = tmp_path_factory.mktemp("environment")
    try:
        yield Environment(install(wheel, folder / "env"), tmp_path_factory.mktemp("elsewhere"))
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def bundle(environment: Environment) -> Path:
    """Fit a bundle with what is installed."""
    path = environment.elsewhere / "bundle"
    process.check(environment.colltune("fit", DATA, *ONLY, "--out", path), "fit")
    return path


def test_it_brings_what_its_bill_says(environment: Environment) -> None:
    """Installed is what the bill of materials names for this system, and no extra."""
    named = {
        one["name"]: one["version"]
        for one in json.loads(BILL.read_text())["components"]
        if all(Marker(p["value"]).evaluate() for p in one.get("properties", ()))
    }
    assert environment.packages == {"colltune": __version__, **named}


def test_it_tells_its_version(environment: Environment) -> None:
    """The command is installed, and starts in another folder."""
    outcome = process.check(environment.colltune("--version"), "--version")
    assert (outcome.stdout, outcome.stderr) == (f"colltune {__version__}\n", "")


def test_measurements_become_a_file_that_lint_takes(environment: Environment, bundle: Path) -> None:
    """From a CSV to a bundle, to Open MPI's rules, to lint: none of it needs a compiler."""
    shape = ("--nodes", 1, "--ppn", 5, "--format", "openmpi", "--release", "5.0.11")
    selected = environment.colltune("select", "--bundle", bundle, *shape, "--out", "rules")
    process.check(selected, "select")
    assert (environment.elsewhere / "rules").read_text().strip()
    linted = environment.colltune("rules", "lint", "rules", "--release", "5.0.11", "--json")
    assert process.check(linted, "lint").stdout.strip()


def test_catalogues_and_evaluation_work(environment: Environment) -> None:
    """Learners are compared with those published ones that need no extra; the rest is noted."""
    told = environment.colltune("rules", "catalog", "openmpi@5.0.8", "bcast")
    assert "knomial" in process.check(told, "catalog").stdout
    split = ("--split", "leave-ppn-out", "--ppn", 4)
    judged = process.check(environment.colltune("evaluate", DATA, *ONLY, *split), "evaluate")
    assert "\npublished_knn " in judged.stdout
    assert "\npublished_xgboost " not in judged.stdout
    assert "note: published_xgboost is left out" in judged.stdout
    assert "note: published_gam is left out" in judged.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("serve", "--registry", "registry"), "service"),
        (("plot", "curves", DATA, "--out", "a.png"), "plots"),
        (("fit", DATA, "--learner", "xgboost", "--out", "b"), "learners"),
        (("fit", DATA, *ONLY, "--backend", "dask", "--out", "b"), "dask"),
        (("bundles", "list", "--registry", "s3://bucket/registry"), "s3"),
        (("fit", "s3://bucket/data", "--out", "b"), "s3"),
        (("measure", "--out", "data"), "openmpi"),
    ],
)
def test_a_missing_extra_is_named(
    environment: Environment, words: tuple[object, ...], extra: str
) -> None:
    """What the core does not bring is asked for by the extra that does, in one message."""
    outcome = environment.colltune(*words)
    assert outcome.returncode not in (0, 1)
    assert f"colltune[{extra}]" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout == ""
