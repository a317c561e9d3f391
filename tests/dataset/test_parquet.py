"""Datasets on disk."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colltune.dataset import append, read, read_parquet
from colltune.dataset.parquet import (
    append_dataset,
    put,
    read_launch_provenances,
    read_provenance,
    read_provenances,
)
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError, OutputError
from tests.cli.conftest import (
    Verb,
    colltune,  # noqa: F401 - a fixture
)
from tests.models.machines import measured
from tests.object_store import SECRET, s3_bucket, s3_server
from tests.refusals import refused

CONTEXT = Context("hydra", "openmpi", "4.1.4", "opa")


def _measured(launch: str, msize: int = 8, algorithm: str = "chain") -> Measurement:
    configuration = Configuration("openmpi", Collective.BCAST, algorithm, (("segsize", 4096),))
    instance = Instance(Collective.BCAST, Shape(4, 2), msize)
    return Measurement(instance, configuration, launch, RunStatus.OK, (2e-6, 1e-6, 3e-6))


def test_round_trip_keeps_raw_times_and_status(tmp_path: Path) -> None:
    """What is appended is read back whole: raw times, statuses, context and provenance."""
    crash = Measurement(
        Instance(Collective.BCAST, Shape(4, 2), 16),
        Configuration.default("openmpi", Collective.BCAST),
        "a",
        RunStatus.CRASH,
    )
    file = append(tmp_path / "d", CONTEXT, [_measured("a"), crash], {"host": "n1"})
    dataset = read_parquet(tmp_path / "d")
    assert dataset.context == CONTEXT
    assert dataset.measurements() == (_measured("a"), crash)
    assert read_provenance(file) == {"host": "n1"}


def test_raw_times_are_stored_in_less_than_their_own_size(tmp_path: Path) -> None:
    """Repetitions to the nanosecond, none like another, take fewer than 8 bytes each."""
    nanoseconds = np.random.default_rng(0).lognormal(10.0, 0.3, 20_000).round()
    cell = _measured("a")
    many = Measurement(
        cell.instance, cell.configuration, "a", RunStatus.OK, tuple((nanoseconds * 1e-9).tolist())
    )
    file = append(tmp_path, CONTEXT, [many], {})
    assert file.stat().st_size < 8 * len(nanoseconds)
    assert read_parquet(tmp_path).measurements() == (many,)


def test_launches_add_up(tmp_path: Path) -> None:
    """Each launch is a file of its own; cells are medians over launches."""
    for launch in ("a", "b", "c"):
        append(tmp_path, CONTEXT, [_measured(launch)], {})
    assert len(list(tmp_path.glob("*.parquet"))) == 3
    cells = read_parquet(tmp_path).cells()
    assert cells["time_s"].tolist() == [2e-6]


def test_many_writers_do_no_harm(tmp_path: Path) -> None:
    """Launches appended at the same time are all there afterwards."""
    threads = [
        threading.Thread(target=append, args=(tmp_path, CONTEXT, [_measured(f"l{i}")], {}))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_parquet(tmp_path)) == 12


def test_provenance_of_each_launch_is_found(tmp_path: Path) -> None:
    """Each launch of a folder has its file's provenance, several launches of a file the same."""
    append(tmp_path, CONTEXT, [_measured("a"), _measured("b")], {"allocation": "job 1"})
    file = append(tmp_path, CONTEXT, [_measured("c")], {"allocation": "job 2"})
    told = {name: facts["allocation"] for name, facts in read_provenances(tmp_path).items()}
    assert told == {"a": "job 1", "b": "job 1", "c": "job 2"}
    assert read_provenances(file) == {"c": {"allocation": "job 2"}}


def test_different_contexts_are_refused(tmp_path: Path) -> None:
    """Measurements of another library release never join."""
    append(tmp_path, CONTEXT, [_measured("a")], {})
    append(tmp_path, Context("hydra", "openmpi", "5.0.8", "opa"), [_measured("b")], {})
    with refused("contexts-differ", DataError):
        read_parquet(tmp_path)


def test_duplicate_cell_is_refused(tmp_path: Path) -> None:
    """The same cell of the same launch twice is an error that names it."""
    append(tmp_path, CONTEXT, [_measured("a")], {})
    append(tmp_path, CONTEXT, [_measured("a")], {})
    with refused("duplicate-cells", DataError):
        read_parquet(tmp_path)


def test_half_written_file_is_never_read(tmp_path: Path) -> None:
    """A temporary file that a killed writer left is not part of the dataset."""
    append(tmp_path, CONTEXT, [_measured("a")], {})
    (tmp_path / ".half.parquet.tmp").write_bytes(b"PAR1 cut")
    assert len(read_parquet(tmp_path)) == 1


def test_damaged_file_is_named(tmp_path: Path) -> None:
    """A file that was cut short is named."""
    file = append(tmp_path, CONTEXT, [_measured("a")], {})
    file.write_bytes(file.read_bytes()[:100])
    with refused("not-parquet", DataError, path=file):
        read_parquet(tmp_path)


def test_foreign_and_newer_files_are_refused(tmp_path: Path) -> None:
    """A Parquet file that is not ours, or of a later schema, is refused with the mend."""
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": [1]}), foreign)
    with refused("foreign-parquet", DataError):
        read_parquet(foreign)
    table = pa.table({"x": [1]}).replace_schema_metadata({"colltune.schema_version": "99"})
    pq.write_table(table, foreign)
    with refused("format-version", DataError):
        read_parquet(foreign)


def test_empty_folder_is_no_dataset(tmp_path: Path) -> None:
    """A folder without measurements is said to be none."""
    with refused("no-parquet", DataError):
        read_parquet(tmp_path)


def test_unwritable_place_is_an_output_error(tmp_path: Path) -> None:
    """A dataset whose folder cannot be made is an error that names it."""
    (tmp_path / "file").write_text("in the way")
    with refused("cannot-write", OutputError):
        append(tmp_path / "file" / "d", CONTEXT, [_measured("a")], {})


def test_wrong_results_never_become_cells(tmp_path: Path) -> None:
    """A configuration that ever gave a wrong result is no candidate at any size."""
    wrong = Measurement(
        Instance(Collective.BCAST, Shape(4, 2), 64),
        _measured("a").configuration,
        "a",
        RunStatus.WRONG_RESULT,
    )
    append(tmp_path, CONTEXT, [_measured("a"), wrong, _measured("a", algorithm="linear")], {})
    cells: pd.DataFrame = read_parquet(tmp_path).cells()
    assert cells["algorithm"].tolist() == ["linear"]


@pytest.mark.parametrize("key", ["colltune.context", "colltune.provenance"])
@pytest.mark.parametrize("value", [b"", b"[1]", b"\xff", b"[" * 9999, b'{"a": "1"}', b"9" * 9999])
def test_damaged_metadata_is_an_error_of_the_file(tmp_path: Path, key: str, value: bytes) -> None:
    """What is no text in JSON, or no context, names the file."""
    file = append(tmp_path, CONTEXT, [_measured("a")], {"host": "n1"})
    table = pq.read_table(file)
    metadata = {**table.schema.metadata, key.encode(): value}
    pq.write_table(table.replace_schema_metadata(metadata), file)
    if key == "colltune.provenance" and value == b'{"a": "1"}':
        assert read_provenance(file) == {"a": "1"}
        return
    with pytest.raises(DataError) as caught:
        read_parquet(file) if key == "colltune.context" else read_provenance(file)
    assert caught.value.values["path"] == file


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe in a dataset's folder would hang whoever reads it."""
    os.mkfifo(tmp_path / "a.parquet")
    with refused("not-regular", DataError):
        read_parquet(tmp_path)


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
        with refused("no-such-data", DataError):
            read([missing])
    put(url, "notes.txt", b"x")
    with refused("no-parquet", DataError):
        read([url])
    put(url, "cut.parquet", b"PAR1 and nothing else")
    for damaged in (url, f"{url}/cut.parquet"):
        with refused("not-parquet", DataError, path=f"{url}/cut.parquet"):
            read([damaged])


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    """Reading and writing end in one error each, without the key in the environment."""
    del bucket
    with refused("no-such-data", DataError, path="s3://no-such-bucket/x") as unread:
        read(["s3://no-such-bucket/x"])
    with refused("not-written", OutputError, registry="s3://no-such-bucket/x") as unwritten:
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
