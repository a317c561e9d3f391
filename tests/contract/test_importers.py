"""What every entry of IMPORTERS must keep to."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.dataset.importers import IMPORTERS, Imported, SourceFile
from colltune.dataset.importers.importing import format_of
from colltune.domain import RunStatus
from colltune.errors import DataError
from tests.dataset.importers.samples import SAMPLES, request

MORSELS = ["\n", " ", "0", "-1", "nan", "1e999", "9" * 30, ",", "#", "MPI_Bcast", "No data", "\x00"]


def _loaded(name: str, content: bytes, folder: Path) -> Imported:
    file = folder / "file.txt"
    file.write_bytes(content)
    return IMPORTERS[name].load(SourceFile(file), request(SAMPLES[name][1]))


@pytest.mark.parametrize("name", IMPORTERS)
def test_reads_its_sample_into_our_units(name: str, tmp_path: Path) -> None:
    """A bcast of 8 bytes on 4x2 that took about 3 us is found as such, in its context."""
    dataset = _loaded(name, SAMPLES[name][0].encode(), tmp_path).dataset
    assert str(dataset.context) == "hydra, openmpi 4.1.6"
    first = dataset.measurements()[0]
    assert (first.instance.collective.value, str(first.instance.shape)) == ("bcast", "4x2")
    assert (first.instance.msize_bytes, first.status) == (8, RunStatus.OK)
    assert first.configuration.id == "openmpi.bcast.default"
    assert first.summary is not None
    assert first.summary.time_s == pytest.approx(4e-6, rel=0.3)


@pytest.mark.parametrize("name", IMPORTERS)
def test_its_format_is_told_from_the_content(name: str, tmp_path: Path) -> None:
    """Whatever the file's name, its format is recognised, and no other importer claims it."""
    file = tmp_path / "run.out"
    file.write_text(SAMPLES[name][0])
    assert format_of(SourceFile(file)) == name
    others = [importer for other, importer in IMPORTERS.items() if other != name]
    assert not any(o.recognises(line) for o in others for line in SourceFile(file).lines())


@pytest.mark.parametrize("name", IMPORTERS)
def test_line_ends_and_strange_bytes_change_nothing(name: str, tmp_path: Path) -> None:
    """A file with carriage returns is the same; a Latin-1 name in a comment does no harm."""
    text = SAMPLES[name][0]
    first = _loaded(name, text.encode(), tmp_path).dataset
    again = _loaded(name, text.replace("\n", "\r\n").encode(), tmp_path).dataset
    pd.testing.assert_frame_equal(again.frame, first.frame)
    if name != "csv":
        strange = _loaded(name, "# by Jörg\n".encode("latin-1") + text.encode(), tmp_path).dataset
        pd.testing.assert_frame_equal(strange.frame, first.frame)


@pytest.mark.parametrize("name", IMPORTERS)
def test_gzipped_files_are_the_same_and_cut_ones_are_refused(name: str, tmp_path: Path) -> None:
    """Compression changes no measurement; a file cut in transfer is refused by name."""
    text = SAMPLES[name][0].encode()
    plain = _loaded(name, text, tmp_path).dataset
    packed = tmp_path / "file.txt.gz"
    packed.write_bytes(gzip.compress(text))
    asked = request(SAMPLES[name][1])
    again = IMPORTERS[name].load(SourceFile(packed), asked).dataset
    pd.testing.assert_frame_equal(again.frame, plain.frame)
    packed.write_bytes(gzip.compress(text)[:-12])
    with pytest.raises(DataError, match=r"file\.txt\.gz"):
        IMPORTERS[name].load(SourceFile(packed), asked)


@pytest.mark.parametrize("name", [name for name in IMPORTERS if name != "csv"])
def test_a_last_line_that_is_cut_is_left_out_with_a_remark(name: str, tmp_path: Path) -> None:
    """A row without its line end may lack digits; what stands before it is kept."""
    lines = SAMPLES[name][0].splitlines(keepends=True)
    at = next(k for k, row in enumerate(lines) if row[0] != "#" and "1024" in row.split())
    found = _loaded(name, "".join([*lines[:at], lines[at].rstrip()[:-1]]).encode(), tmp_path)
    assert set(found.dataset.frame["msize_bytes"]) == {8}
    assert any("incomplete" in remark for remark in found.remarks)


@pytest.mark.parametrize("name", IMPORTERS)
def test_nothing_to_import_is_an_error_that_names_the_file(name: str, tmp_path: Path) -> None:
    """An empty file, one of another kind and a missing one are refused by name."""
    for content in (b"", b"hello\n", b"\x00\xff\xfe\n"):
        with pytest.raises(DataError, match=r"file\.txt"):
            _loaded(name, content, tmp_path)
    with pytest.raises(DataError, match=r"none\.txt: no such file"):
        IMPORTERS[name].load(SourceFile(tmp_path / "none.txt"), request(SAMPLES[name][1]))


@pytest.mark.parametrize("name", IMPORTERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_files_give_data_or_a_data_error(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is inserted or lost: no other error, and never a time that is no time."""
    text = SAMPLES[name][0]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        lost = data.draw(st.integers(0, 8))
        text = (
            text[:at]
            + data.draw(st.sampled_from(MORSELS) | st.text(max_size=4))
            + text[at + lost :]
        )
    try:
        dataset = _loaded(name, text.encode(errors="replace"), tmp_path_factory.mktemp("d")).dataset
    except DataError:
        return
    for row in dataset.measurements():
        assert row.instance.msize_bytes < 1 << 63
        if row.status.is_timed:
            assert row.summary is not None
            assert 0 < row.summary.time_s < math.inf
