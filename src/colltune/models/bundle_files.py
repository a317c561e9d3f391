"""A bundle's folder: how it is written, and a collective's models as bytes.

A collective is one file, because a thousand small arrays load slowly; arrays follow each other in
numpy's own format in the order that the manifest names them, because importing a zip reader takes
longer than reading them. There is no pickle.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration
from colltune.errors import OutputError
from colltune.files import insist_writable
from colltune.models.collective_model import CollectiveModel
from colltune.models.coverage import Coverage
from colltune.models.error_model import ErrorModel
from colltune.models.predictors import predictor_class

MANIFEST = "manifest.json"
SUFFIX = ".arrays"
_PARTS = ("predictor", "coverage", "error")


def packed(model: CollectiveModel) -> tuple[dict[str, Any], bytes]:
    """Return the manifest's entry of `model` (JSON-able) and its arrays as bytes."""
    stream, names = io.BytesIO(), []
    for part in _PARTS:
        for name, array in getattr(model, part).arrays().items():
            names.append(f"{part}.{name}")
            np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    entry = {
        "learner": model.learner,
        "feature_set": model.feature_set,
        "predictor": model.predictor.kind,
        "configurations": [c.id for c in model.configurations],
        "arrays": names,
    }
    return entry, stream.getvalue()


def unpacked(collective: Collective, entry: Mapping[str, Any], content: bytes) -> CollectiveModel:
    """Rebuild a collective's models from their manifest entry and bytes.

    KeyError, ValueError or EOFError tell that these do not fit together.
    """
    stream = io.BytesIO(content)
    parts: dict[str, dict[str, NDArray[Any]]] = {part: {} for part in _PARTS}
    for name in entry["arrays"]:
        part, _, key = name.partition(".")
        parts[part][key] = np.lib.format.read_array(stream, allow_pickle=False)
    predictor = predictor_class(entry["predictor"]).from_arrays(parts["predictor"])
    configurations = tuple(Configuration.parse(text) for text in entry["configurations"])
    if predictor.n_outputs != len(configurations):
        raise ValueError(f"{predictor.n_outputs} models of {len(configurations)} configurations")
    return CollectiveModel(
        collective,
        configurations,
        entry["learner"],
        entry["feature_set"],
        predictor,
        Coverage.from_arrays(parts["coverage"]),
        ErrorModel.from_arrays(parts["error"]),
    )


def insist_savable(path: Path) -> None:
    """Insist that a bundle can be saved to `path`, before one is fitted; nothing is left behind.

    Raises
    ------
    OutputError
        If `path` is something else or cannot be written.
    """
    target = path.resolve()
    _refuse_strangers(target, path)
    insist_writable(target.with_name(f"{target.name}.new"))


def _refuse_strangers(target: Path, path: Path) -> None:
    """Raise `OutputError` if `target` is something that must not be replaced."""
    try:
        names = {entry.name for entry in target.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(
            f"cannot write a bundle to {path}: {error.strerror}; name another folder with --out"
        ) from error
    strange = [n for n in sorted(names) if n != MANIFEST and not n.endswith(SUFFIX)]
    if strange or (names and MANIFEST not in names):
        raise OutputError(
            f"{path}: exists and is not a bundle (it holds {(strange or sorted(names))[0]});"
            " name another folder with --out"
        )


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the folder `path` under a temporary name beside it, and rename it."""
    insist_savable(path)
    target = path.resolve()
    token = os.urandom(4).hex()
    temporary = target.with_name(f".{target.name}.{token}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for name, content in files.items():
            with (temporary / name).open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        _swap_in(temporary, target, target.with_name(f".{target.name}.{token}.old"))
    except OSError as error:
        _remove(temporary)
        raise OutputError(
            f"cannot write the bundle {path}: {error.strerror or error};"
            " name a writable place with --out"
        ) from error


def _swap_in(temporary: Path, target: Path, old: Path) -> None:
    """Put `temporary` in the place of `target`, which is absent, empty, or an older bundle."""
    try:
        temporary.rename(target)
    except OSError:
        if not (target / MANIFEST).exists():
            raise
        target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            old.rename(target)
            raise
        _remove(old)


def _remove(folder: Path) -> None:
    """Remove a folder of plain files, as far as possible."""
    with suppress(OSError):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
