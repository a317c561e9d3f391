"""Runs contract tests and verbs in fresh interpreters in which an extension was registered.

Nothing is registered in this process: its other tests were collected without the extension.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colltune import process

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
_TIMEOUT_S = 900.0
_WIDE = {"COLUMNS": "200"}
_SUMMARY = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed)")
_VERBS = """
import contextlib, importlib, io, json, sys
from colltune.cli import main
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
answers = []
for words in json.loads(sys.argv[2]):
    sys.argv = ["colltune", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    answers.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


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


def contract(plugin: str, named: str, *registries: str) -> Counter[str]:
    """Run the contract tests of `registries` that `named` (an option -k) selects.

    `plugin` is the module that registers the extension, loaded before any test is collected.
    Returns how many tests passed, failed and were skipped.
    """
    files = [f"tests/contract/test_{registry}.py" for registry in registries]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", plugin]
    outcome = process.run(
        [*command, "--tb=line", "-k", named, *files],
        timeout_s=_TIMEOUT_S,
        cwd=ROOT,
        env=dict(os.environ) | _WIDE,
    )
    assert outcome.returncode in (0, 1), outcome.explain()
    last = outcome.stdout.strip().rpartition("\n")[2]
    return Counter({kind: int(count) for count, kind in _SUMMARY.findall(last)})


def verbs(plugins: Sequence[str], *lines: Sequence[object]) -> list[Answer]:
    """Run `lines`, each the words behind ``colltune``, one after another, all in one interpreter.

    `plugins` are the modules that register extensions, loaded before.
    """
    words = json.dumps([list(map(str, line)) for line in lines])
    command = [sys.executable, "-c", _VERBS, json.dumps(list(plugins)), words]
    outcome = process.run(command, timeout_s=_TIMEOUT_S, cwd=ROOT, env=dict(os.environ) | _WIDE)
    process.check(outcome, "running verbs")
    return [Answer(*answer) for answer in json.loads(outcome.stdout)]
