"""What can be named in options and campaign files: learners, strategies, backends and more."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

from colltune.bench.backends import BACKENDS
from colltune.bench.launchers import LAUNCHERS
from colltune.bench.strategies import STRATEGIES
from colltune.dataset.importers import IMPORTERS
from colltune.features import FEATURE_SETS
from colltune.models.learners import LEARNERS, LearnerEntry
from colltune.mpi import LIBRARIES
from docs._ext.markdown import code, table, text

Rows = Iterator[tuple[str, ...]]


def markdown(name: str) -> str:
    """Return the table of one registry."""
    head, rows = REGISTRIES[name]
    return table(head, rows())


def _first_line(documentation: str | None) -> str:
    return text((documentation or "").split("\n\n")[0])


def _learners() -> Rows:
    for name, entry in LEARNERS.items():
        fitted = "all at once" if entry.joint else "one by one"
        needs = code(entry.program or "")
        yield code(name), _what_it_is(entry), code(entry.feature_set), fitted, needs


def _what_it_is(entry: LearnerEntry) -> str:
    """Return what a learner says, without the import of its library, which takes time.

    Raises
    ------
    LookupError
        If there is no such function.
    """
    module, _, wanted = entry.location.partition(":")
    found = importlib.util.find_spec(module)
    source = Path(found.origin) if found and found.origin else Path(module)
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            return _first_line(ast.get_docstring(node))
    raise LookupError(f"{source} has no function {wanted}")


def _feature_sets() -> Rows:
    for name, features in FEATURE_SETS.items():
        yield code(name), ", ".join(map(code, features.columns))


def _strategies() -> Rows:
    for name, strategy in STRATEGIES.items():
        yield code(name), _first_line(strategy.__doc__)


def _backends() -> Rows:
    for name, backend in BACKENDS.items():
        yield code(name), _first_line(backend.__doc__)


def _launchers() -> Rows:
    for name, launcher in LAUNCHERS.items():
        started = (library for library, mpi in LIBRARIES.items() if launcher.starts(mpi.toolchain))
        libraries = ", ".join(map(code, sorted(started)))
        yield code(name), libraries, _first_line(launcher.__doc__)


def _importers() -> Rows:
    for name, importer in IMPORTERS.items():
        module = inspect.getmodule(importer.load)
        yield code(name), _first_line(module.__doc__ if module else None)


REGISTRIES: dict[str, tuple[tuple[str, ...], Callable[[], Rows]]] = {
    "learners": (("learner", "what it is", "features", "configurations", "needs"), _learners),
    "feature-sets": (("set", "columns"), _feature_sets),
    "strategies": (("strategy", "what it measures"), _strategies),
    "backends": (("backend", "how it measures"), _backends),
    "launchers": (("launcher", "libraries", "what it is"), _launchers),
    "importers": (("source", "what is read"), _importers),
}
