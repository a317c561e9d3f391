"""Datasets in object stores."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from colltune.dataset import read
from colltune.dataset.parquet import append_dataset, put
from colltune.dataset.reading import read_launch_provenances
from colltune.errors import DataError, OutputError
from tests.cli.conftest import (
    Verb,
    colltune,  # noqa: F401 - a fixture
)
from tests.models.machines import measured
from tests.object_store import SECRET, s3_bucket, s3_server

_COUNT = itertools.count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Return the URL of an empty bucket of an S3 server."""
    with s3_server() as address, s3_bucket(address, "colltune-data") as url:
        yield url


@pytest.fixture(params=["memory", "s3"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty folder in a store."""
    if request.param == "memory":
        return f"memory://data-{next(_COUNT)}"
    return f"{request.getfixturevalue('bucket')}/site/data-{next(_COUNT)}"


def test_what_was_appended_is_read(url: str, tmp_path: Path) -> None:
    """A folder in a store gives what the same folder on disk gives, provenance included."""
    for nodes in (2, 4):
        data = measured(nodes=[nodes], msizes=(8, 64))
        data.frame["launch"] = f"on {nodes}"
        file = append_dataset(url, data, {"host": f"n{nodes}"}, f"{nodes}.parquet")
        assert file == f"{url}/{nodes}.parquet"
        append_dataset(tmp_path, data, {"host": f"n{nodes}"}, f"{nodes}.parquet")
    put(url, "notes.txt", b"not a dataset")
    there, here = read([url]), read([tmp_path])
    assert there.context == here.context
    pd.testing.assert_frame_equal(there.frame, here.frame)
    assert len(read([Path(f"{url}/2.parquet")])) == len(here) / 2
    provenance = {"on 2": {"host": "n2"}, "on 4": {"host": "n4"}}
    assert read_launch_provenances([url]) == provenance == read_launch_provenances([tmp_path])


def test_names_are_new_each_time(url: str) -> None:
    """Two who append at once make two files."""
    files = {append_dataset(url, measured(nodes=[n], msizes=(8,)), {}) for n in (2, 4)}
    assert len(files) == 2
    assert len(read([url]).shapes()) == 4


def test_what_is_wrong_is_told_by_url(url: str) -> None:
    """Nothing there, no Parquet, or a damaged file: one error with the URL."""
    for missing in (url, f"{url}/x.parquet"):
        with pytest.raises(DataError, match=f"{missing}: (no such file|no \\*.parquet file)"):
            read([missing])
    put(url, "notes.txt", b"x")
    with pytest.raises(DataError, match=r"no \*\.parquet file in this folder"):
        read([url])
    put(url, "cut.parquet", b"PAR1 and nothing else")
    for damaged in (url, f"{url}/cut.parquet"):
        with pytest.raises(DataError, match=f"^{url}/cut.parquet: not a readable Parquet file"):
            read([damaged])


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    """Reading and writing end in one error each, without the key in the environment."""
    del bucket
    with pytest.raises(DataError, match="s3://no-such-bucket/x: no such file") as unread:
        read(["s3://no-such-bucket/x"])
    with pytest.raises(OutputError, match="cannot write s3://no-such-bucket/x/") as unwritten:
        append_dataset("s3://no-such-bucket/x", measured(nodes=[2], msizes=(8,)), {})
    assert SECRET not in f"{unread.value} {unwritten.value}"


def test_fitting_from_a_store(colltune: Verb, bucket: str, tmp_path: Path) -> None:  # noqa: F811
    """`colltune fit` takes a URL where it takes a folder."""
    append_dataset(f"{bucket}/fit", measured(), {})
    words = ("fit", f"{bucket}/fit", "--out", tmp_path / "bundle", "--learner", "knn", "--json")
    answer = colltune(*words)
    assert answer.status == 0
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert manifest["id"] == answer.json["id"]
