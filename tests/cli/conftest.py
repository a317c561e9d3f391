"""Running verbs in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from colltune.cli import main
from colltune.dataset import read
from colltune.models.fitting import fit

_ALGORITHMS = {"default": 3.0, "binomial": 1.0, "chain": 6.0, "ring": 4.5}


@dataclass(frozen=True)
class Answer:
    """What a verb printed and the status it ended with."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


Verb = Callable[..., Answer]


@pytest.fixture
def colltune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verb:
    """Return a function that runs the command line with the given words."""

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["colltune", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return Answer(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def measurements_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tidy CSV of bcast on 12 shapes, on which binomial is 3x faster than the default."""
    rows = ["machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s"]
    for nodes in (2, 4, 8, 16):
        for ppn in (1, 2, 4):
            for msize in (8, 64, 512, 4096, 32768):
                base_s = 1e-6 * (nodes * ppn) ** 0.5 + msize * 1e-9
                rows += [
                    f"hydra,openmpi,4.1.4,bcast,{name},{nodes},{ppn},{msize},{factor * base_s}"
                    for name, factor in _ALGORITHMS.items()
                ]
    path = tmp_path_factory.mktemp("data") / "measurements.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="session")
def bundle_path(measurements_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle fitted to `measurements_csv`."""
    path = tmp_path_factory.mktemp("fitted") / "bundle"
    return fit(read([measurements_csv]), "knn").save(path)
