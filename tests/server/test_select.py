"""``/v1/select``."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.domain import Collective, Instance, Shape
from colltune.json_text import plain
from colltune.models.bundle import load
from colltune.mpi.programs import ANY_LEGAL
from colltune.selector.argmin import legal_selector
from colltune.selector.selection_json import SelectedInstance, SelectionTable

SHAPE = {"nodes": 6, "ppn": 3}


def test_one_decision_is_what_the_selector_says(client: TestClient, bundle_path: Path) -> None:
    """With a collective and a message size the answer is the selection, in full."""
    selector = legal_selector(load(bundle_path), ANY_LEGAL)
    expected = selector.select(Instance(Collective.BCAST, Shape(6, 3), 4096))
    asked = {**SHAPE, "collective": "bcast", "msize": 4096}
    answer = client.get("/v1/select", params=asked)
    assert answer.status_code == 200
    assert answer.json() == plain(SelectedInstance.of(expected))


def test_without_a_size_the_intervals_are_those_of_the_table(
    client: TestClient, bundle_path: Path
) -> None:
    """Without a message size the answer holds the intervals of all collectives."""
    bundle = load(bundle_path)
    selector = legal_selector(bundle, ANY_LEGAL)
    expected = SelectionTable.of(selector, bundle.collectives, Shape(6, 3), ANY_LEGAL)
    answer = client.get("/v1/select", params=SHAPE)
    assert answer.json() == plain(expected)
    only = client.get("/v1/select", params={**SHAPE, "collective": "MPI_Bcast"}).json()
    assert {interval["collective"] for interval in only["intervals"]} == {"bcast"}


def test_a_size_alone_asks_for_all_collectives(client: TestClient) -> None:
    """With a message size alone there is one decision for each collective of the bundle."""
    rows = client.get("/v1/select", params={**SHAPE, "msize": 64}).json()
    assert [row["collective"] for row in rows] == ["allreduce", "bcast"]


BAD_COUNTS = ("0", "-1", "NaN", "inf", "1e3", "1_0", " 4", "+4", "4.0", "٤", "", "0x4")


def test_what_is_no_sensible_count_is_refused(
    client: TestClient, subtests: pytest.Subtests
) -> None:
    """A count that is no whole number in reach is refused, and the parameter is named."""
    for number in (*BAD_COUNTS, "1000000000", str(2**63), "9" * 3000):
        for name in ("nodes", "ppn"):
            with subtests.test(number=number, name=name):
                answer = client.get("/v1/select", params={**SHAPE, name: number})
                assert answer.status_code == 422
                assert answer.headers["content-type"] == "application/problem+json"
                assert f"query.{name}" in answer.json()["detail"]
                assert len(answer.content) < 1000
