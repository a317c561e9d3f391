"""The service runs with what its image has: the packages of requirements/service.lock."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from colltune.models.bundle import load
from colltune.registry import Registry
from colltune.server.auth.token_file import write
from tests.server.serving_process import Server
from tests.server.writable import TOKENS, bearer

ROOT = Path(__file__).parents[2]
# as if what is not in the image were not installed
WITHOUT = """
import json, sys
from importlib.abc import MetaPathFinder

absent = frozenset(json.loads(sys.argv.pop(1)))

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from colltune.cli import main
main()
"""

ASKED = "nodes=4&ppn=2&library=openmpi&release=4.1.4"
PATHS = (
    f"/v1/select?{ASKED}",
    "/v1/config/openmpi/4.1.4?nodes=4&ppn=2",
    "/v1/job/openmpi/4.1.4?nodes=4&ppn=2&folder=/tmp/job",
    "/v1/bundles",
    "/v1/view",
    "/v1/view/front",
    "/v1/view/gains",
    "/v1/view/evidence",
    f"/v1/view/predictions?{ASKED}&collective=bcast&msize=1024",
    "/",
    "/openapi.json",
    "/metrics",
)
ROWS = (
    b"machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s\n"
    b"made-up,openmpi,4.1.4,bcast,linear,4,2,1024,1.5e-05\n"
)


def absent_modules() -> set[str]:
    """Return the names of all installed modules that only packages outside the image have."""
    lock = (ROOT / "requirements" / "service.lock").read_text()
    present = set(re.findall(r"^([a-z0-9-]+)==", lock, re.M)) | {"colltune"}
    return {
        module
        for module, packages in packages_distributions().items()
        if not present & {re.sub(r"[-_.]+", "-", name).lower() for name in packages}
    }


def test_the_service_answers_with_the_packages_of_its_image(
    bundle_path: Path, tmp_path: Path
) -> None:
    """Nothing that learns, draws or measures is imported, whatever the service is asked."""
    absent = absent_modules()
    assert {"sklearn", "scipy", "xgboost", "pygam", "matplotlib", "openmpi"} & absent
    assert not {"numpy", "fastapi", "pandas", "pyarrow", "s3fs"} & absent
    command = [sys.executable, "-c", WITHOUT, json.dumps(sorted(absent))]
    registry = Registry(tmp_path / "registry")
    event = registry.promote(registry.add(load(bundle_path)), by="a test")
    write(tmp_path / "tokens", TOKENS)
    options = ("--registry", registry, "--tokens", tmp_path / "tokens", "--data", tmp_path / "data")
    with Server(*options, "--uds", tmp_path / "http.sock", command=command) as server:
        server.await_ready()
        bundle = event.bundle_id
        changes = f"/v1/view/changes?bundle={bundle}&against={bundle}"
        for path in (*PATHS, f"/v1/bundles/{bundle}/report", changes):
            assert server.get(path).status == 200, path + server.log()
        assert server.post(f"/v1/bundles/{bundle}/promote", bearer()).status == 200
        assert server.stop() == 0
