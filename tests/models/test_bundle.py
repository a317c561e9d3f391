"""Bundles on disk."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from colltune.domain import Collective
from colltune.errors import BundleError, OutputError
from colltune.models.bundle import FORMAT_VERSION, Bundle, load
from colltune.models.fitting import fit
from colltune.models.learners import predictor_class
from tests.models.machines import measured
from tests.refusals import refused

BOTH = (Collective.ALLREDUCE, Collective.BCAST)
ASKED = ([2, 3, 16, 40], [1, 4, 4, 8], [0, 999, 4194304, 10**9])


@pytest.fixture(scope="module")
def fitted() -> Bundle:
    """Return a bundle of two collectives."""
    return fit(measured(collectives=BOTH), jobs=1)


@pytest.fixture(scope="module")
def knn() -> Bundle:
    """Return a small bundle."""
    return fit(measured(), "knn")


@pytest.fixture
def small(knn: Bundle, tmp_path: Path) -> Path:
    """Return the folder of a small saved bundle."""
    return knn.save(tmp_path / "bundle")


def test_what_is_loaded_is_what_was_saved(fitted: Bundle, knn: Bundle, tmp_path: Path) -> None:
    """Every figure survives the disk: facts, configurations, predictions, candidates."""
    others = (fit(measured(), learner, jobs=1) for learner in ("gam", "xgboost"))
    for bundle in (fitted, knn, *others):
        again = load(bundle.save(tmp_path / "bundle"))
        for name in ("id", "context", "collectives", "training_shapes", "created_utc"):
            assert getattr(again, name) == getattr(bundle, name)
        assert again.configurations() == bundle.configurations()
        for before, after in zip(bundle.models, again.models, strict=True):
            assert (after.learner, after.feature_set) == (before.learner, before.feature_set)
            for old, new in zip(before.forecast(*ASKED), after.forecast(*ASKED), strict=True):
                np.testing.assert_array_equal(new, old)


def test_a_bundle_of_version_1_is_read(small: Path) -> None:
    """What an earlier colltune wrote still loads, and learned medians."""
    manifest = json.loads((small / "manifest.json").read_text())
    old = {k: v for k, v in manifest.items() if k not in ("objective", "evidence")}
    old["format_version"] = 1
    covered = {k: v for k, v in old.items() if k not in ("id", "created_utc", "colltune_version")}
    canonical = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    old["id"] = hashlib.sha256(canonical.encode()).hexdigest()
    (small / "manifest.json").write_text(json.dumps(old))
    bundle = load(small)
    assert (bundle.id, bundle.objective, bundle.evidence) == (old["id"], "median", {})
    again = load(bundle.save(small.with_name("again")))
    assert (again.created_utc, again.objective, again.evidence) == (
        bundle.created_utc,
        "median",
        {},
    )
    assert load(again.save(small.with_name("once more"))).id == again.id != bundle.id


def test_only_what_is_asked_for_is_read(fitted: Bundle, tmp_path: Path) -> None:
    """A bundle can be read for one collective, without touching the files of others."""
    path = fitted.save(tmp_path / "bundle")
    (path / "allreduce.arrays").unlink()
    part = load(path, [Collective.BCAST])
    assert [m.collective for m in part.models] == [Collective.BCAST]
    assert part.collectives == BOTH
    with refused("partly-loaded", BundleError):
        part.save(tmp_path / "copy")
    with refused("no-models-of", BundleError, known="allreduce, bcast"):
        load(path, [Collective.GATHER])
    partly = load(path, [Collective.GATHER, Collective.BCAST], partly=True)
    assert [m.collective for m in partly.models] == [Collective.BCAST]


def test_id_names_the_content() -> None:
    """Equal data gives an equal id, other data another."""
    first, second, other = (fit(measured(noise=n), "knn") for n in (0.0, 0.0, 0.1))
    assert first.id == second.id != other.id


def test_nothing_is_pickled(small: Path) -> None:
    """The folder holds the manifest and numpy arrays that numpy itself reads without pickle."""
    assert sorted(p.name for p in small.iterdir()) == ["bcast.arrays", "manifest.json"]
    with (small / "bcast.arrays").open("rb") as stream:
        assert np.load(stream, allow_pickle=False).tolist() == [5]
    manifest = json.loads((small / "manifest.json").read_text())
    assert manifest["format_version"] == 3
    assert manifest["collectives"]["bcast"]["learner"] == "knn"


def test_a_file_cut_short_or_changed_is_named(small: Path) -> None:
    """A bundle cut in half is refused, naming the file and the mend; so is one changed byte."""
    for name in ("bcast.arrays", "manifest.json"):
        file = small / name
        whole = file.read_bytes()
        for share in (0.0, 0.5, 0.99):
            file.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(BundleError) as raised:
                load(small)
            assert raised.value.code in ("hash-differs", "bundle-file-damaged")
            assert raised.value.values["file"] == file
        file.write_bytes(whole)
    file = small / "bcast.arrays"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(bytes(content))
    with refused("hash-differs", BundleError):
        load(small)


def test_a_strange_manifest_is_refused(small: Path) -> None:
    """Newer formats, foreign files and edited manifests are told apart."""
    whole = (small / "manifest.json").read_text()
    cases: list[tuple[dict[str, object], str]] = [
        ({"format_version": FORMAT_VERSION + 1}, f"newer-bundle version={FORMAT_VERSION + 1}"),
        ({"format": "else"}, "not-a-manifest"),
        ({"training_shapes": [[1, 1]]}, "content-of-another-id"),
        ({"collectives": None}, "bundle-file-damaged"),
        ({"context": {}}, "bundle-file-damaged"),
    ]
    for changes, code in cases:
        (small / "manifest.json").write_text(json.dumps(json.loads(whole) | changes))
        with refused(code, BundleError):
            load(small)


def test_what_is_no_bundle_is_explained(small: Path, tmp_path: Path) -> None:
    """A missing folder, another folder, a file, and a bundle without its arrays are named."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (small / "bcast.arrays").unlink()
    for name, message in (
        ("nowhere", "no-bundle-here"),
        ("empty", "no-bundle-here"),
        ("file", "bundle-is-a-file"),
        ("bundle", "bundle-file-missing"),
    ):
        with refused(message, BundleError):
            load(tmp_path / name)


def test_an_older_bundle_is_replaced_whole(small: Path) -> None:
    """Saving over a bundle leaves the new one alone, and nothing beside it."""
    other = fit(measured(collectives=(Collective.ALLREDUCE,)), "gam")
    other.save(small)
    assert load(small).id == other.id
    assert sorted(p.name for p in small.iterdir()) == ["allreduce.arrays", "manifest.json"]
    assert [p.name for p in small.parent.iterdir()] == ["bundle"]


def test_a_kill_between_two_renames_loses_no_bundle(small: Path) -> None:
    """Whoever is killed while it replaces a bundle leaves the former one to the next reader."""
    before = load(small).id
    killed = """
import os, pathlib, sys
from colltune.models.bundle import load
bundle, rename = load(pathlib.Path(sys.argv[1])), pathlib.Path.rename
def until_the_old_one_is_aside(self, target):
    rename(self, target)
    if str(target).endswith(".old"):
        os._exit(9)
pathlib.Path.rename = until_the_old_one_is_aside
bundle.save(pathlib.Path(sys.argv[1]))
"""
    assert subprocess.run([sys.executable, "-c", killed, small], check=False).returncode == 9
    assert not small.exists()
    assert load(small).id == before


def test_anything_but_an_empty_folder_is_not_replaced(knn: Bundle, tmp_path: Path) -> None:
    """A folder made beforehand is used; one that is no bundle is refused and left as it was."""
    (tmp_path / "new").mkdir()
    assert load(knn.save(tmp_path / "new")).id == knn.id
    for strange in ("thesis.tex", "bcast.arrays"):
        folder = tmp_path / strange.partition(".")[2]
        folder.mkdir()
        (folder / strange).write_text("work of years")
        with refused("folder-is-no-bundle", OutputError):
            knn.save(folder)
        assert (folder / strange).read_text() == "work of years"


def test_a_full_disk_leaves_the_old_bundle(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails half-way the old bundle stands, and no temporary files remain."""
    before = load(small).id

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refused("cannot-write", OutputError):
        fit(measured(noise=0.2), "knn").save(small)
    assert load(small).id == before
    assert [p.name for p in small.parent.iterdir()] == ["bundle"]


def test_a_place_that_cannot_be_written_is_an_output_error(knn: Bundle, tmp_path: Path) -> None:
    """Below a file, no folder can be made."""
    (tmp_path / "file").write_text("x")
    with refused("cannot-write", OutputError):
        knn.save(tmp_path / "file" / "bundle")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_output_error(knn: Bundle, tmp_path: Path) -> None:
    """A folder without write permission is refused with the mend."""
    tmp_path.chmod(0o500)
    with refused("cannot-write", OutputError):
        knn.save(tmp_path / "bundle")
    tmp_path.chmod(0o700)


_SELECT = """
import sys
from pathlib import Path
from colltune.domain import Collective, Instance, Shape
from colltune.models.bundle import load
from colltune.selector.argmin import ModelSelector
from colltune.selector.decision_table import decision_table, intervals
selector = ModelSelector(load(Path(sys.argv[1])))
selector.select(Instance(Collective.BCAST, Shape(5, 4), 1000))
intervals(selector, Collective.BCAST, Shape(5, 4))
decision_table(selector, Shape(5, 4), [Collective.BCAST], single_rule={Collective.ALLREDUCE})
decision_table(selector, Shape(5, 4), [Collective.ALLREDUCE], single_rule={Collective.ALLREDUCE})
print(" ".join(sorted({name.split(".")[0] for name in sys.modules})))
print(" ".join(sorted(name for name in sys.modules if name.startswith("colltune."))))
"""


def test_selecting_imports_numpy_and_nothing_heavier(fitted: Bundle, tmp_path: Path) -> None:
    """Loading a bundle and deciding everything loads no learning library and no pandas."""
    path = fitted.save(tmp_path / "bundle")
    command = [sys.executable, "-c", _SELECT, str(path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    roots, ours = (set(line.split()) for line in printed.splitlines())
    heavy = {"pandas", "pyarrow", "sklearn", "scipy", "xgboost", "pygam", "joblib", "matplotlib"}
    assert "numpy" in roots
    assert not roots & heavy
    assert "colltune.dataset" not in ours


def test_a_bundle_of_a_removed_learner_is_named() -> None:
    """Bundles that earlier versions fitted with learners that are gone say so, and what to do."""
    for kind, learner in (
        ("corrected_costs", "cost_prior"),
        ("grid", "interpolation"),
        ("processes", "gaussian_process"),
    ):
        with refused("removed-learner", BundleError, learner=learner):
            predictor_class(kind)
