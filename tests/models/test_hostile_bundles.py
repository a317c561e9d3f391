"""Bundles that somebody made to do harm, whose hashes are right: who makes one makes those."""

from __future__ import annotations

import hashlib
import io
import json
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colltune.domain import Shape
from colltune.errors import BundleError, ColltuneError
from colltune.json_text import encoded
from colltune.models.bundle import Bundle, insist_answers, load
from colltune.models.fitting import fit
from colltune.mpi.programs import ANY_LEGAL
from colltune.registry import Registry
from colltune.selector.argmin import ModelSelector
from colltune.selector.selection_json import SelectionTable
from tests.models.machines import measured
from tests.refusals import refused

LEARNERS = ("knn", "xgboost", "gam", "regret_trees", "cost_model")
EXAMPLES = int(os.environ.get("COLLTUNE_TEST_EXAMPLES", "60"))
NOT_IN_ID = ("id", "created_utc", "colltune_version")
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1e30, 10**30, 2**63, 0.5, "", "x", "\x00", "../..", [], {}, [[]], ["x"],
    [[1, 1e30]], [[10**30, 1]], [[0, 1]], [[-1, -1]], [[True, 1]], {"learners": 5}, [None],
    "é" * 5000,
)  # fmt: skip


@cache
def files_of(learner: str) -> dict[str, bytes]:
    """Return the files of a good bundle."""
    data = measured(nodes=(1, 2, 4), ppn=(1, 2), msizes=(1, 1024, 65536))
    with TemporaryDirectory() as name:
        path = fit(data, learner, jobs=1).save(Path(name, "bundle"))
        return {file.name: file.read_bytes() for file in path.iterdir()}


def arrays_of(files: dict[str, bytes]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the bundle's only collective."""
    manifest = json.loads(files["manifest.json"])
    stream = io.BytesIO(files["bcast.arrays"])
    names = manifest["collectives"]["bcast"]["arrays"]
    return {name: np.lib.format.read_array(stream) for name in names}


def written(folder: Path, manifest: dict[str, Any], packed: bytes) -> Path:
    """Write a bundle with the right hashes and return its folder."""
    entry = manifest.get("collectives")
    if isinstance(entry, dict) and isinstance(entry.get("bcast"), dict):
        entry["bcast"]["sha256"] = hashlib.sha256(packed).hexdigest()
    covered = {name: value for name, value in manifest.items() if name not in NOT_IN_ID}
    canonical = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    if "id" in manifest:
        manifest["id"] = hashlib.sha256(canonical.encode()).hexdigest()
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "bcast.arrays").write_bytes(packed)
    return folder


def packed(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the content of a file of arrays."""
    stream = io.BytesIO()
    for array in arrays.values():
        np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def only_clear_errors(folder: Path) -> None:
    """Use a bundle as the service does; it is refused by colltune, or it answers."""
    with np.errstate(all="ignore"):
        try:
            bundle = load(folder)
            insist_answers(bundle)
        except ColltuneError:
            return
        shape = max(bundle.training_shapes, default=Shape(2, 2))
        selector = ModelSelector(bundle)
        encoded(SelectionTable.of(selector, bundle.collectives, shape, ANY_LEGAL))
    assert bundle.held_out_text(bundle.collectives[0]) is not None


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all parts of a document."""
    found = [path] if path else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in list(items)[:30]:
            found += paths_in(part, (*path, key))
    return found


@given(st.sampled_from(LEARNERS), st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_manifest_changed_anywhere(learner: str, data: st.DataObject) -> None:
    """Whatever stands in its place, the bundle is refused clearly, or it answers."""
    files = files_of(learner)
    manifest = json.loads(files["manifest.json"])
    *above, last = data.draw(st.sampled_from(paths_in(manifest)))
    place = manifest
    for key in above:
        place = place[key]
    if data.draw(st.booleans()):
        del place[last]
    else:
        place[last] = data.draw(st.sampled_from(ODD_VALUES))
    with TemporaryDirectory() as name:
        only_clear_errors(written(Path(name, "bundle"), manifest, files["bcast.arrays"]))


@given(st.sampled_from(LEARNERS), st.data())
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_arrays_changed_anywhere(learner: str, data: st.DataObject) -> None:
    """Other kinds, shapes, lengths and values are refused clearly, or the bundle answers."""
    files = files_of(learner)
    arrays = arrays_of(files)
    manifest = json.loads(files["manifest.json"])
    name = data.draw(st.sampled_from(sorted(arrays)))
    arrays[name] = data.draw(st.sampled_from(CHANGES))(arrays[name], data)
    with TemporaryDirectory() as folder:
        only_clear_errors(written(Path(folder, "bundle"), manifest, packed(arrays)))


def _with_value(array: NDArray[Any], data: st.DataObject) -> NDArray[Any]:
    if array.dtype.kind not in "iuf" or not array.size:
        return array.ravel()[:0]
    changed = array.copy()
    values: list[float] = [0, 1, 2, 200, -1, -2, 10**6, -(10**6)]
    if array.dtype.kind == "f":
        values += [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300]
    at = data.draw(st.integers(0, array.size - 1))
    with np.errstate(all="ignore"):
        changed.ravel()[at] = np.array(data.draw(st.sampled_from(values))).astype(array.dtype)
    if data.draw(st.booleans()):
        changed[...] = changed.ravel()[at]
    return changed


CHANGES = (
    _with_value,
    _with_value,
    _with_value,
    lambda array, _: array.astype(np.complex128) if array.dtype.kind in "iuf" else array[:0],
    lambda array, _: array.astype(np.str_),
    lambda array, _: array.astype(">f8") if array.dtype.kind in "iuf" else array[:0],
    lambda array, _: array.astype(np.longdouble) if array.dtype.kind in "iuf" else array[:0],
    lambda array, _: array[:0],
    lambda array, _: array[None],
    lambda array, _: np.concatenate([array, array]),
    lambda array, _: array.ravel(),
    lambda array, _: np.asfortranarray(array[::-1]),
    lambda array, _: array.astype("M8[s]") if array.dtype.kind == "i" else array[:0],
)


@pytest.mark.parametrize("shape", [(10**13,), (10**30,), (0, 10**18), (-1,), (2,) * 40])
def test_an_array_larger_than_its_file_takes_no_memory(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Its header says how large it is; nothing is allocated for what is not there."""
    files = files_of("knn")
    arrays = arrays_of(files)
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, header)
    first = packed({next(iter(arrays)): next(iter(arrays.values()))})
    content = stream.getvalue() + files["bcast.arrays"][len(first) :]
    folder = written(tmp_path / "bundle", json.loads(files["manifest.json"]), content)
    with refused("manifest-differs", BundleError):
        load(folder)


@pytest.mark.parametrize("part", ["left", "roots"])
def test_trees_that_never_end_are_none(part: str, tmp_path: Path) -> None:
    """A node below itself would be walked for ever."""
    files = files_of("regret_trees")
    arrays = arrays_of(files)
    arrays[f"predictor.{part}"][...] = 0
    folder = written(tmp_path / "bundle", json.loads(files["manifest.json"]), packed(arrays))
    with pytest.raises(BundleError):
        load(folder)


def test_what_predicts_no_time_gets_nowhere(tmp_path: Path) -> None:
    """Neither `add` nor `promote` takes models whose predictions are infinite."""
    files = files_of("knn")
    arrays = arrays_of(files)
    arrays["predictor.log_times"][...] = 720.0
    folder = written(tmp_path / "bundle", json.loads(files["manifest.json"]), packed(arrays))
    bundle = load(folder)
    assert isinstance(bundle, Bundle)
    assert Shape(4, 2) in bundle.training_shapes
    registry = Registry(tmp_path / "registry")
    with refused("models-predict-nothing", BundleError):
        registry.add(folder)
    # as an older colltune would have let it in
    place = tmp_path / "registry" / "bundles" / bundle.id
    place.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(place)
    with refused("models-predict-nothing", BundleError):
        registry.promote(bundle.id, by="me")
    assert registry.current() == {}
