"""``/v1/measurements``."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.dataset import append, read_parquet
from colltune.dataset.parquet import read_provenance
from tests.models.machines import measured
from tests.server.writable import ONLY_PROMOTES, ONLY_SENDS, Writable, writable

HEADER = "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s\n"
ROW = "hydra,openmpi,4.1.4,bcast,chain,4,2,8,1e-6\n"
CSV = (HEADER + ROW).encode()
MOST_BYTES = 200_000


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Writable]:
    """Return a service that takes measurements."""
    with writable(tmp_path, max_body_bytes=MOST_BYTES) as found:
        yield found


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writable]:
    """Return a service to which nothing in this module is sent that it takes."""
    folder = tmp_path_factory.mktemp("unchanged")
    with writable(folder, max_body_bytes=MOST_BYTES) as found:
        yield found
        assert not list(found.data.glob("[!.]*"))


def test_csv_is_appended_with_who_sent_it(service: Writable) -> None:
    """The dataset's new file says from whom it came and when; the answer says what was stored."""
    answer = service.post("/v1/measurements?launch=night", ONLY_SENDS, content=CSV)
    assert answer.status_code == 201
    told = answer.json()
    assert (told["new"], told["rows"], told["context"]["machine"]) == (True, 1, "hydra")
    facts = read_provenance(service.data / told["file"])
    assert facts["received_from"] == "sends (token)"
    assert facts["received_sha256"] == told["sha256"]
    assert read_parquet(service.data).frame["launch"].tolist() == ["night"]


def test_a_file_of_measure_keeps_its_raw_times_and_provenance(
    service: Writable, tmp_path: Path
) -> None:
    """What `colltune measure` wrote arrives as it was; who sent it cannot be forged in it."""
    sent = measured(nodes=(2,), ppn=(1,), msizes=(8,))
    facts = {"host": "n1", "received_from": "the director"}
    file = append(tmp_path / "own", sent.context, sent.measurements(), facts)
    kind = {"Content-Type": "application/vnd.apache.parquet"}
    answer = service.post("/v1/measurements", content=file.read_bytes(), headers=kind)
    assert answer.status_code == 201
    assert read_parquet(service.data).measurements() == sent.measurements()
    stored = read_provenance(service.data / answer.json()["file"])
    assert (stored["host"], stored["received_from"]) == ("n1", "all (token)")


def test_the_same_body_is_stored_once(service: Writable) -> None:
    """A client that is not sure may send it again; ten at once are no different."""
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: service.post("/v1/measurements", content=CSV), range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len(read_parquet(service.data)) == 1


def test_what_does_not_fit_the_dataset_is_a_conflict(service: Writable) -> None:
    """Another machine or release, and a known cell of the same launch, are told apart from bad."""
    assert service.post("/v1/measurements", content=CSV).status_code == 201
    other = service.post("/v1/measurements", content=CSV.replace(b"4.1.4", b"5.0.8"))
    again = service.post("/v1/measurements", content=CSV.replace(b"1e-6", b"2e-6"))
    assert (other.status_code, "Different contexts" in other.text) == (409, True)
    assert (again.status_code, "launch=NAME" in again.text) == (409, True)
    assert len(read_parquet(service.data)) == 1


BAD = (b"", b"\x00" * 99, b"PAR1" + b"\xff" * 99, HEADER.encode(), CSV.replace(b"8,1e-6", b"-8,1"))


@pytest.mark.parametrize("body", BAD)
def test_bad_measurements_leave_nothing(unchanged: Writable, body: bytes) -> None:
    """They are the client's error, with the reason, and not even a temporary file stays."""
    answer = unchanged.post("/v1/measurements", content=body)
    assert answer.status_code == 422
    assert "the body" in answer.json()["detail"]
    assert "/dev/fd" not in answer.text
    assert [p.name for p in unchanged.data.iterdir() if p.name != ".import.lock"] == []


def test_a_body_beyond_the_bound_is_refused_before_it_is_read(unchanged: Writable) -> None:
    """Whether it tells its length or comes in chunks; nothing of it is kept."""
    told = unchanged.post("/v1/measurements", content=b"x" * (MOST_BYTES + 1))
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 10_000
            yield b"x" * 10_000

    untold = unchanged.post("/v1/measurements", content=chunks())
    assert (told.status_code, untold.status_code) == (413, 413)
    assert untold.headers["content-type"] == "application/problem+json"
    assert list(unchanged.data.glob("[!.]*")) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_packed_or_wrapped_bodies_are_refused(unchanged: Writable, headers: dict[str, str]) -> None:
    """What unpacks to something else is not taken, and the message shows what to do."""
    answer = unchanged.post("/v1/measurements", content=CSV, headers=headers)
    assert (answer.status_code, "--data-binary" in answer.text) == (415, True)


def test_who_has_no_right_sends_nothing(unchanged: Writable) -> None:
    """A token for promotions is not good for measurements, and no body is read without one."""
    assert unchanged.post("/v1/measurements", ONLY_PROMOTES, content=CSV).status_code == 403
    assert unchanged.client.post("/v1/measurements", content=CSV).status_code == 401
    assert not list(unchanged.data.glob("[!.]*"))


def test_a_service_without_a_dataset_takes_none(tmp_path: Path) -> None:
    """The message says what to start it with."""
    with writable(tmp_path, data=None) as service:
        answer = service.post("/v1/measurements", content=CSV)
    assert (answer.status_code, "--data" in answer.text) == (403, True)


@pytest.mark.parametrize("errno", [28, 122, 30])
def test_a_disk_that_takes_no_more_leaves_nothing_half(
    service: Writable, monkeypatch: pytest.MonkeyPatch, errno: int
) -> None:
    """No space and no quota are 507, another fault 503; the dataset stays as it was."""
    assert service.post("/v1/measurements", content=CSV).status_code == 201

    def full(_table: object, where: Path, **_: object) -> None:
        where.write_bytes(b"PAR1 and not more")
        raise OSError(errno, os.strerror(errno))

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    answer = service.post("/v1/measurements?launch=b", content=CSV)
    assert answer.status_code == (503 if errno == 30 else 507)
    assert str(service.data) not in answer.text
    assert len(read_parquet(service.data)) == 1
    assert len(list(service.data.iterdir())) == 2


def test_too_many_rows_at_once_are_refused(unchanged: Writable) -> None:
    """A body within its bound that would be far too many rows is told to be sent in parts."""
    body = io.BytesIO(HEADER.encode() + b"\n" * (MOST_BYTES - 200)).getvalue()
    answer = unchanged.post("/v1/measurements", content=body)
    assert answer.status_code == 422
