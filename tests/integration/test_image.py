"""The image of the service is built and started as the Dockerfile says, without an engine.

It takes minutes and fetches packages, so that it is done only when asked: COLLTUNE_TEST_IMAGE=1.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune import process
from colltune.dataset.parquet import read
from colltune.models.fitting import fit
from colltune.registry import Registry
from tests.integration.image import Builder, Container, Image, skip_without

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "small_cluster.csv"
ASK = """
import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8765" + sys.argv[1], timeout=5).read().decode())
"""
UNWANTED = {"cc", "gcc", "c99", "ld", "as", "make", "mpirun", "mpiexec", "mpicc", "R", "Rscript"}
UNWANTED |= {"pip", "pip3", "curl", "wget", "git", "ssh", "uv"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.skipif(
        os.environ.get("COLLTUNE_TEST_IMAGE") != "1",
        reason="building the image takes minutes; asked for by COLLTUNE_TEST_IMAGE=1",
    ),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Build the target ``service``."""
    skip_without()
    return Builder(ROOT, tmp_path_factory.mktemp("image")).build("service")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry that everybody may read, with a bundle in force."""
    folder = tmp_path_factory.mktemp("mounted") / "registry"
    registry = Registry(folder)
    registry.promote(registry.add(fit(read([DATA]), "knn")), by="a test")
    return folder


@pytest.fixture(scope="module")
def container(image: Image, registry: Path) -> Iterator[Container]:
    """Start the image as it is."""
    with Container(image, registry, "/registry") as running:
        deadline = time.monotonic() + 300
        while not ask(running, "/health/ready").ok:
            assert time.monotonic() < deadline, running.log()
            time.sleep(0.1)
        yield running


def ask(container: Container, path: str) -> process.ProcessResult:
    """Ask for `path` from within the container."""
    return container.execute(["python3", "-c", ASK, path])


def test_the_image_holds_no_compiler_mpi_or_r(image: Image) -> None:
    """Of all that can be executed in it nothing compiles, measures, downloads or installs."""
    assert "colltune" in image.programs()
    assert not UNWANTED & image.programs()


def test_no_program_of_the_image_gains_rights(image: Image) -> None:
    """No file in it is setuid or setgid."""
    found = process.run(["find", image.root, "-type", "f", "-perm", "/6000"], timeout_s=60)
    assert process.check(found, "find").stdout == ""


def test_the_service_is_ready_in_a_read_only_container(
    container: Container, registry: Path
) -> None:
    """It answers a job's configuration from a registry that it can only read."""
    (event,) = Registry(registry).current().values()
    ready = json.loads(ask(container, "/health/ready").stdout)
    assert ready["bundles"] == {event.slot: event.bundle_id}
    library, _, release = event.slot.partition("-")
    answer = ask(container, f"/v1/config/{library}/{release}?nodes=4&ppn=2")
    assert process.check(answer, "asking").stdout.strip()


def test_the_container_can_write_nothing(container: Container) -> None:
    """Its root and the registry are read-only; the temporary folder is not."""
    script = (
        "for f in / /opt/colltune /registry /etc /var; do touch $f/x && exit 1; done; :> /tmp/x"
    )
    process.check(container.execute(["sh", "-c", script]), "writing")


def test_the_service_runs_without_any_right(container: Container) -> None:
    """It is not root, can become nobody else, and no capability is left."""
    assert container.status("Uid").split() == ["10001"] * 4
    assert container.status("Gid").split() == ["10001"] * 4
    for name in ("CapPrm", "CapEff", "CapBnd", "CapInh"):
        assert int(container.status(name), 16) == 0
    assert container.status("NoNewPrivs") == "1"


def test_the_health_check_tells_a_service_that_is_well(container: Container) -> None:
    """The image's own check succeeds inside the container."""
    process.check(container.execute(container.image.health), "the health check")


def test_the_image_takes_measurements(container: Container) -> None:
    """What appends to a dataset is in it: pandas and Arrow."""
    code = "import colltune.dataset.parquet, pyarrow.parquet, s3fs"
    process.check(container.execute(["python3", "-c", code]), "importing")


def test_the_service_stops_when_told(image: Image, registry: Path) -> None:
    """SIGTERM ends its first process gracefully, with status 0."""
    with Container(image, registry, "/registry") as running:
        while not ask(running, "/health/live").ok:
            time.sleep(0.1)
        assert running.stop(timeout_s=120) == 0, running.log()
