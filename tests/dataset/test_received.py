"""Measurements that somebody sent."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colltune.dataset import PerformanceDataset, append, read_parquet
from colltune.dataset.frame import RANK_COLUMNS
from colltune.dataset.parquet import SCHEMA, read_provenance
from colltune.dataset.received import MOST_ROWS, MOST_VALUES, Received, add_once, read_received
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import ConflictError, DataError, OutputError

CONTEXT = Context("hydra", "openmpi", "4.1.4")
HEADER = "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s"
ROW = "hydra,openmpi,4.1.4,bcast,chain,4,2,8,1e-6"
MEASURED = Measurement(
    Instance(Collective.BCAST, Shape(4, 2), 8),
    Configuration("openmpi", Collective.BCAST, "chain", (("segsize", 4096),)),
    "night 1",
    RunStatus.OK,
    (2e-6, 1e-6, 3e-6),
)


def _sent(path: Path, content: bytes, launch: str = "") -> Received:
    path.write_bytes(content)
    with path.open("rb") as stream:
        return read_received(stream, path, "the body", launch)


def _csv(*rows: str) -> bytes:
    return ("\n".join([HEADER, *rows]) + "\n").encode()


def _parquet(folder: Path, **changed: Any) -> bytes:
    """Return a file of ours, with some columns or metadata replaced."""
    file = append(folder, CONTEXT, [MEASURED], {"host": "n1"})
    table = pq.read_table(file)
    metadata = dict(table.schema.metadata)
    for name, value in changed.items():
        if name in table.schema.names:
            at = table.schema.names.index(name)
            table = table.set_column(at, name, pa.array(value))
        else:
            metadata[f"colltune.{name}".encode()] = value.encode()
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue()


def test_csv_and_parquet_are_told_apart_by_their_content(tmp_path: Path) -> None:
    """Both give the same kind of dataset; a Parquet file keeps its raw times and provenance."""
    csv = _sent(tmp_path / "a", _csv(ROW))
    assert (csv.dataset.context, len(csv.dataset), csv.facts) == (CONTEXT, 1, {})
    parquet = _sent(tmp_path / "b", _parquet(tmp_path / "d"))
    assert parquet.dataset.measurements() == (MEASURED,)
    assert parquet.facts == {"host": "n1"}


def test_a_launch_can_be_named(tmp_path: Path) -> None:
    """The sender's name for the launch goes before the file's."""
    for content in (_csv(ROW), _parquet(tmp_path / "d")):
        received = _sent(tmp_path / "a", content, "mine")
        assert received.dataset.frame["launch"].tolist() == ["mine"]


def test_launches_stay_apart_under_a_name_for_all(tmp_path: Path) -> None:
    """What colltune exports has several launches of the same cells."""
    text = "\n".join([f"{HEADER},launch", f"{ROW},night 1", f"{ROW},night 2"])
    frame = _sent(tmp_path / "a", f"{text}\n".encode(), "mine").dataset.frame
    assert frame["launch"].tolist() == ["mine/night 1", "mine/night 2"]


def test_what_is_no_measurement_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The error says what is wrong and where, and nothing of the service's own paths."""
    for content, why in (
        (b"", "its first line has no end"),
        (b"x" * 100_000, "its first line has no end"),
        (b"\x00\x01\n\xff\xfe\n", "the body: not a readable CSV file|missing column"),
        (_csv(), "no data rows"),
        (_csv(ROW.replace("8,1e-6", "-8,1e-6")), "line 2, column msize_bytes: '-8'"),
        (_csv(ROW.replace("4,2,8", "4,2,9223372036854775808")), "column msize_bytes"),
        (_csv(ROW.replace("bcast", "gossip")), "line 2, column collective: 'gossip'"),
        (_csv(ROW.replace("1e-6", "nan")), "column time_s"),
        (_csv(ROW.replace("1e-6", "inf")), "column time_s"),
        (_csv(ROW, ROW), "1 duplicate cell,"),
        (_csv(ROW, ROW.replace("hydra", "jupiter")), "the rows have 2 contexts"),
        (_csv(ROW.replace("chain", "ch\x1bain")), "characters that cannot be printed"),
        (_csv(ROW.replace("hydra", "h\x07")), "its machine is not a short printable text"),
        (_csv(ROW.replace("chain", "c" * 300)), "longer than 256"),
        (_csv(ROW + ",more"), "not a readable CSV"),
        (
            (HEADER + "\n").encode()
            + ROW.replace("hydra", "hyd\udcff").encode("utf-8", "surrogateescape"),
            "not a readable CSV",
        ),
        (b"PAR1", "damaged or unusual Parquet"),
        (b"PAR1" + b"\xff" * 500 + b"PAR1", "damaged or unusual Parquet"),
    ):
        with subtests.test(content=content, why=why):
            with pytest.raises(DataError, match=why) as caught:
                _sent(tmp_path / "secret", content)
            assert str(tmp_path) not in str(caught.value)


def test_parquet_rows_are_checked_like_those_of_a_csv(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A file that only looks like one of ours does not get into a dataset."""
    for changed, why in (
        ({"nodes": [0]}, "column nodes: '0' is not a whole number from 1"),
        ({"ppn": [2**31]}, "column ppn"),
        ({"msize_bytes": [-1]}, "column msize_bytes"),
        ({"nodes": [None]}, "damaged or unusual"),
        ({"nodes": ["many"]}, "damaged or unusual"),
        ({"collective": ["gossip"]}, "'gossip' is not a valid Collective"),
        ({"status": ["fine"]}, "'fine' is not a valid RunStatus"),
        ({"status": ["crash"]}, "a time of what was not timed"),
        ({"time_s": [float("nan")]}, "column time_s"),
        ({"time_s": [-1.0]}, "column time_s"),
        ({"time_min_s": [float("inf")]}, "column time_min_s"),
        ({"times_s": [[1e-6, -1e-6, 2e-6]]}, "are not n_reps positive times"),
        ({"times_s": [[1e-6]]}, "are not n_reps positive times"),
        ({"parameters": ["segsize=x"]}, "neither name=integer nor"),
        ({"parameters": ["b=1,a=2"]}, "is not written as 'a=2,b=1'"),
        ({"algorithm": ["a\nb"]}, "cannot be printed"),
        ({"schema_version": "2"}, "newer than this colltune"),
        ({"schema_version": "x"}, "newer than this colltune"),
        ({"context": "[]"}, "damaged or unusual"),
        ({"context": '{"machine": 1, "library": "a", "library_version": "b"}'}, "its machine is"),
        ({"context": '{"machine": " ", "library": "a", "library_version": "b"}'}, "is empty"),
        ({"provenance": '{"a": 1}'}, "short texts"),
        ({"provenance": json.dumps({str(i): "" for i in range(300)})}, "short list"),
    ):
        with subtests.test(changed=changed, why=why):
            content = _parquet(tmp_path / "d", **changed)
            with pytest.raises(DataError, match=why):
                _sent(tmp_path / "a", content)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path) -> None:
    """Rows, and values within lists, are counted before they are unpacked."""
    table = pq.read_table(append(tmp_path / "d", CONTEXT, [MEASURED], {}))
    times = pa.ListArray.from_arrays([0, MOST_VALUES + 1], pa.array(np.ones(MOST_VALUES + 1)))
    long = table.set_column(table.schema.names.index("times_s"), "times_s", times)
    many = table.take(pa.array([0] * (MOST_ROWS + 1)))
    for bomb, why in ((long, "values of one column"), (many, "rows")):
        sink = io.BytesIO()
        pq.write_table(bomb, sink, compression="zstd")
        assert len(sink.getvalue()) < 200_000
        with pytest.raises(DataError, match=f"{why} are too many; at most"):
            _sent(tmp_path / "a", sink.getvalue())


def test_a_csv_of_too_many_rows_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    """So that a body within its bound cannot take all memory."""
    with pytest.raises(DataError, match=f"{MOST_ROWS + 1} rows"):
        _sent(tmp_path / "a", HEADER.encode() + b"\n" * (MOST_ROWS + 2))


def test_other_columns_are_left_behind(tmp_path: Path) -> None:
    """Only what a dataset has is kept of a file."""
    file = append(tmp_path / "d", CONTEXT, [MEASURED], {})
    table = pq.read_table(file)
    sink = io.BytesIO()
    pq.write_table(table.append_column("more", pa.array([1])), sink)
    frame: pd.DataFrame = _sent(tmp_path / "a", sink.getvalue()).dataset.frame
    assert list(frame.columns) == SCHEMA.names


def test_a_file_of_an_earlier_release_lacks_what_ranks_told(tmp_path: Path) -> None:
    """What came to the columns later is unknown there."""
    table = pq.read_table(append(tmp_path / "d", CONTEXT, [MEASURED], {}))
    sink = io.BytesIO()
    pq.write_table(table.drop(RANK_COLUMNS), sink)
    frame: pd.DataFrame = _sent(tmp_path / "a", sink.getvalue()).dataset.frame
    assert list(frame.columns) == SCHEMA.names
    assert frame[RANK_COLUMNS].isna().all(axis=None)


def test_every_truncated_file_is_refused(tmp_path: Path) -> None:
    """Wherever a Parquet file is cut, that is one clear error."""
    content = _parquet(tmp_path / "d")
    for size in range(4, len(content), 97):
        with pytest.raises(DataError):
            _sent(tmp_path / "a", content[:size])


def test_no_damaged_byte_makes_anything_but_an_error_or_measurements(tmp_path: Path) -> None:
    """Whatever one byte is turned into, the reader neither crashes nor lets a bad row through."""
    content = bytearray(_parquet(tmp_path / "d"))
    good = read_parquet(tmp_path / "d")
    for at in range(4, len(content), 157):
        damaged = bytes(content[:at]) + bytes([content[at] ^ 0xFF]) + bytes(content[at + 1 :])
        try:
            received = _sent(tmp_path / "a", damaged)
        except DataError:
            continue
        assert len(received.dataset) == len(good)
        assert all(m.instance.shape.nprocs > 0 for m in received.dataset.measurements())


def _dataset(launch: str, msize: int = 8, context: Context = CONTEXT) -> PerformanceDataset:
    measurement = Measurement(
        Instance(Collective.BCAST, Shape(4, 2), msize),
        Configuration("openmpi", Collective.BCAST, "chain"),
        launch,
        RunStatus.OK,
        (2e-6, 1e-6, 3e-6),
    )
    return PerformanceDataset.of(context, [measurement])


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    """The second time the file that is there is returned, and nothing is written."""
    first = add_once(tmp_path / "d", _dataset("a"), {"received_from": "ci"}, "ab" * 32)
    again = add_once(tmp_path / "d", _dataset("a"), {"received_from": "eve"}, "ab" * 32)
    assert (first[1], again) == (True, (first[0], False))
    assert read_provenance(first[0]) == {"received_from": "ci"}
    assert len(read_parquet(tmp_path / "d")) == 1


def test_another_context_is_a_conflict(tmp_path: Path) -> None:
    """Neither file is wrong, but they are never joined; the message names both contexts."""
    add_once(tmp_path, _dataset("a"), {}, "aa" * 32)
    other = Context("hydra", "openmpi", "5.0.8")
    with pytest.raises(ConflictError, match=r"openmpi 5.0.8, but the dataset is of .*4.1.4"):
        add_once(tmp_path, _dataset("b", context=other), {}, "bb" * 32)
    assert len(read_parquet(tmp_path)) == 1


def test_a_known_cell_of_the_same_launch_is_a_conflict(tmp_path: Path) -> None:
    """It would make the whole dataset unreadable; another size, or another launch, is welcome."""
    append(tmp_path, CONTEXT, _dataset("a").measurements(), {})
    with pytest.raises(ConflictError, match="1 cell of the same launch"):
        add_once(tmp_path, _dataset("a"), {}, "aa" * 32)
    add_once(tmp_path, _dataset("a", msize=16), {}, "bb" * 32)
    add_once(tmp_path, _dataset("b"), {}, "cc" * 32)
    assert len(read_parquet(tmp_path)) == 3


def test_the_same_content_from_many_at_once_is_stored_once(tmp_path: Path) -> None:
    """One of them is told that it is new."""
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(add_once, tmp_path, _dataset("a"), {}, "aa" * 32) for _ in range(8)]
    assert sum(result.result()[1] for result in results) == 1
    assert len(read_parquet(tmp_path)) == 1


def test_a_damaged_file_that_is_there_is_named(tmp_path: Path) -> None:
    """Nothing is added to a dataset that could not be read."""
    file = append(tmp_path, CONTEXT, _dataset("a").measurements(), {})
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match=str(file)):
        add_once(tmp_path, _dataset("b"), {}, "aa" * 32)


def test_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A file in the folder's place is one error."""
    (tmp_path / "d").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        add_once(tmp_path / "d", _dataset("a"), {}, "aa" * 32)
