"""Running verbs in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from colltune import cli
from colltune.cli.app import as_spelled_now
from colltune.dataset import read
from colltune.errors import ColltuneError
from colltune.models.fitting import fit
from docs._ext import json_output

_ALGORITHMS = {"default": 3.0, "binomial": 1.0, "chain": 6.0, "pipeline": 4.5}


@pytest.fixture(autouse=True)
def _without_r(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let published_gam be pygam's, since R takes seconds to start for each fold."""
    monkeypatch.setattr("colltune.models.learners.mgcv.available", lambda: False)


@dataclass(frozen=True)
class Answer:
    """What a verb printed and the status it ended with."""

    status: int
    out: str
    err: str
    words: tuple[str, ...] = field(default=(), compare=False)
    errors: tuple[ColltuneError, ...] = field(default=(), compare=False)

    @property
    def code(self) -> str:
        """The code of the error that ended the verb, empty if none did."""
        return self.errors[0].code if self.errors else ""

    def says(self, told: str) -> bool:
        """Tell whether the verb ended with a code and values, as in ``missing what=--nodes``."""
        code, *pairs = told.split(" ")
        values = self.errors[0].values if self.errors else {}
        wanted = dict(pair.split("=", 1) for pair in pairs)
        return (
            code == self.code and wanted.items() <= {n: str(v) for n, v in values.items()}.items()
        )

    @property
    def json(self) -> Any:
        """Standard output as JSON, which has just the fields that the reference declares."""
        return described(self.words, self.out)


Verb = Callable[..., Answer]


def described(words: Sequence[str], printed: str) -> Any:
    """Return a JSON document; insist on the fields that its record has."""
    document = json.loads(printed)
    now = as_spelled_now(words)
    verb = next(verb for verb in json_output.verbs() if now[: len(verb.split())] == verb.split())
    schema = json_output.schema(verb, strict=True)
    errors = jsonschema_rs.validator_for(schema).iter_errors(document)
    assert [f"{error.instance_path}: {error.message[:500]}" for error in errors] == []
    return document


@pytest.fixture
def colltune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verb:
    """Return a function that runs the command line with the given words."""
    errors: list[ColltuneError] = []

    def noted(run: Callable[[], int] = cli._run) -> int:
        try:
            return run()
        except ColltuneError as error:
            errors.append(error)
            raise

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["colltune", *(told := tuple(map(str, words)))])
        errors.clear()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        status = int(ended.value.code or 0)
        return Answer(status, printed.out, printed.err, told, (*errors,))

    monkeypatch.setattr(cli, "_run", noted)
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
