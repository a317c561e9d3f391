"""What came in: known again whatever file it lies in, refused where it contradicts itself."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from colltune.dataset import read_parquet, write_csv
from colltune.dataset.parquet import append_dataset
from colltune.domain import Shape
from colltune.errors import DataError
from colltune.retraining.arrivals import Arrived, arrivals
from tests.refusals import refused
from tests.retraining.site import CONTEXT, launch

SLOT = "openmpi-4.1.4"


def _arrived(*places: Path) -> Arrived:
    return arrivals([str(place) for place in places], "made-up").by_slot[SLOT]


def test_a_launch_is_known_again_in_another_file_and_order(tmp_path: Path) -> None:
    """Tokens and digest depend on measurements alone: not on files, their names or the order."""
    for k in range(2):
        launch(tmp_path / "data", f"launch {k}", seed=k)
    first = _arrived(tmp_path / "data")
    backwards = first.dataset.frame.iloc[::-1].reset_index(drop=True)
    append_dataset(tmp_path / "other", type(first.dataset)(first.dataset.context, backwards), {})
    second = _arrived(tmp_path / "other")
    assert second.tokens == first.tokens
    assert second.digest == first.digest
    assert len(set(first.tokens.values())) == 2


def test_any_changed_measurement_is_another_launch(tmp_path: Path) -> None:
    """One time that differs makes another token, and only of its own launch."""
    for k in range(2):
        launch(tmp_path / "data", f"launch {k}", seed=k)
    first = _arrived(tmp_path / "data")
    changed = first.dataset.frame.copy()
    changed["time_s"] *= np.where(changed.index == 0, 1.000001, 1.0)
    second = Arrived(type(first.dataset)(first.dataset.context, changed))
    name = str(changed["launch"][0])
    assert {n for n in first.tokens if second.tokens[n] != first.tokens[n]} == {name}
    assert second.without(set(first.tokens.values())) == {name}


def test_launches_keep_their_order_of_arrival(tmp_path: Path) -> None:
    """Those seen before stay in front, in order; later ones follow by their own clock, or name."""
    times = {"b": "2026-01-02T00:00:00+00:00", "a": "2026-01-03T00:00:00+00:00"}
    for k, name in enumerate("cba"):
        facts = {"time_utc": times[name]} if name in times else {}
        launch(tmp_path / "data", name, seed=k, shapes=[Shape(2, 1)], facts=facts)
    found = _arrived(tmp_path / "data")
    assert found.order(()) == ("c", "b", "a")
    assert found.order([found.tokens["a"]]) == ("a", "c", "b")


def test_a_file_that_was_handed_in_twice_counts_once(tmp_path: Path) -> None:
    """A copy of a file changes nothing; the same cell with another time is refused by name."""
    path = launch(tmp_path / "data", "launch 0", seed=0)
    once = _arrived(tmp_path / "data")
    shutil.copy(path, tmp_path / "data" / "copy.parquet")
    assert _arrived(tmp_path / "data").digest == once.digest
    launch(tmp_path / "data", "launch 0", seed=1)
    with refused("duplicate-cells", DataError):
        _arrived(tmp_path / "data")


def test_tidy_files_are_read_beside_folders(tmp_path: Path) -> None:
    """A CSV of the same machine and library adds its launches."""
    launch(tmp_path / "data", "launch 0", seed=0)
    launch(tmp_path / "more", "launch 1", seed=1)
    write_csv(read_parquet(tmp_path / "more"), tmp_path / "more.csv")
    assert set(_arrived(tmp_path / "data", tmp_path / "more.csv").tokens) == {
        "launch 0",
        "launch 1",
    }


def test_a_folder_in_an_object_store_is_read_like_any_other(tmp_path: Path) -> None:
    """Given as a URL (here fsspec's own in-memory store) a dataset has the same digest."""
    fsspec = pytest.importorskip("fsspec")
    path = launch(tmp_path / "data", "launch 0", seed=0)
    store = fsspec.filesystem("memory")
    store.pipe("/retraining-test/data/one.parquet", path.read_bytes())
    store.pipe("/retraining-test/data/cut.parquet", path.read_bytes()[:99])
    try:
        found = arrivals(["memory://retraining-test/data"], "made-up")
    finally:
        store.rm("/retraining-test", recursive=True)
    assert found.by_slot[SLOT].digest == _arrived(tmp_path / "data").digest
    assert found.left_out[0].startswith("memory://retraining-test/data/cut.parquet: not a readable")
    with refused("no-such-data", DataError, path="memory://retraining-test/none"):
        arrivals(["memory://retraining-test/none"], "made-up")


def test_two_fabrics_are_not_mixed(tmp_path: Path) -> None:
    """Measurements over two networks are refused until the site says which one counts."""
    for k, fabric in enumerate(("ib", "eth")):
        launch(tmp_path / "data", f"l{k}", seed=k, context=replace(CONTEXT, fabric=fabric))
    with refused("same-slot", DataError):
        _arrived(tmp_path / "data")
    found = arrivals([str(tmp_path / "data")], "made-up", "ib")
    assert found.by_slot[SLOT].dataset.context.fabric == "ib"
    assert "measured over eth, not ib" in found.left_out[0]


def test_only_what_was_measured_alike_is_compared(tmp_path: Path) -> None:
    """Launches by another benchmark or synchronisation are told, and are no drift."""
    native = {"backend": "native", "sync": "window: a common start"}
    other = {"backend": "reprompi", "synchronisation": "the library's barrier"}
    for name, facts in (("a", native), ("b", other), ("c", native), ("d", {})):
        launch(tmp_path / "data", name, seed=ord(name), facts=facts)
    found = arrivals([str(tmp_path / "data")], "made-up")
    arrived = found.by_slot[SLOT]
    assert set(arrived.comparable(["a"]).frame["launch"]) == {"a", "c", "d"}
    assert set(arrived.comparable(["d"]).frame["launch"]) == {"a", "b", "c", "d"}
    (told,) = found.left_out
    assert "native, windows (96 cells)" in told
    assert "reprompi, barriers (96 cells)" in told


def test_the_method_with_most_cells_is_fitted(tmp_path: Path) -> None:
    """Others are left out and told; a launch that tells no method goes with any."""
    native = {"backend": "native", "sync": "window: common start on a global clock"}
    other = {"backend": "reprompi", "synchronisation": "dissemination barrier"}
    launch(tmp_path / "data", "few", seed=0, shapes=[Shape(2, 1)], facts=other)
    launch(tmp_path / "data", "many", seed=1, facts=native)
    launch(tmp_path / "data", "untold", seed=2)
    found = arrivals([str(tmp_path / "data")], "made-up")
    arrived = found.by_slot[SLOT]
    assert set(arrived.fitted.frame["launch"]) == {"many", "untold"}
    assert set(arrived.fitted_tokens) == {arrived.tokens["many"], arrived.tokens["untold"]}
    assert set(arrived.dataset.frame["launch"]) == {"few", "many", "untold"}
    assert "reprompi, barriers" in found.left_out[0]
