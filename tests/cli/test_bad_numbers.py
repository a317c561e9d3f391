"""Numbers that make no sense, from data to question: an answer with its reason, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Verb

_HEADER = "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s"
_GOOD = "hydra,openmpi,4.1.4,bcast,default,{nodes},{ppn},{msize},{time}"


def _csv(path: Path, **changes: object) -> Path:
    """Write three good rows and, as line 4, one with `changes`."""
    fields: dict[str, object] = {"nodes": 4, "ppn": 2, "msize": 64, "time": "1e-6"}
    rows = [_GOOD.format(**fields | {"msize": m}) for m in (8, 16)]
    rows += [_GOOD.format(**fields | changes), _GOOD.format(**fields | {"msize": 128})]
    path.write_text("\n".join([_HEADER, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"time": "nan"}, "time_s"),
        ({"time": "0"}, "time_s"),
        ({"time": "-1e-6"}, "time_s"),
        ({"time": "inf"}, "time_s"),
        ({"time": "soon"}, "time_s"),
        ({"time": ""}, "time_s"),
        ({"nodes": 0}, "nodes"),
        ({"nodes": -3}, "nodes"),
        ({"nodes": "2.5"}, "nodes"),
        ({"ppn": 0}, "ppn"),
        ({"nodes": "1e30"}, "nodes"),
        ({"msize": "9223372036854775808"}, "msize_bytes"),
        ({"msize": -1}, "msize_bytes"),
    ],
)
def test_fit_names_line_and_column(
    changes: dict[str, object], column: str, colltune: Verb, tmp_path: Path
) -> None:
    """A row that no measurement can have is refused with the file's line and the column."""
    data = _csv(tmp_path / "data.csv", **changes)
    answer = colltune("fit", data, "--out", tmp_path / "bundle")
    assert answer.status != 0
    assert f"data.csv, line 4, column {column}: " in answer.err
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    "question",
    [
        ("--nodes", 8, "--ppn", 10**6, "--msize", 64),
        ("--nodes", 8, "--ppn", 4, "--msize", 2**40),
        ("--nodes", 10**6, "--ppn", 4, "--msize", 64),
        ("--nodes", 8, "--ppn", 4, "--msize", 2**63 - 1),
    ],
)
def test_select_keeps_the_default_far_from_the_data(
    question: tuple[object, ...], colltune: Verb, bundle_path: Path
) -> None:
    """Asked for what nobody measured anything near to, it answers with the default and says why."""
    words = ("select", "--bundle", bundle_path, "--collective", "bcast", *question)
    found = colltune(*words, "--json").json
    assert found["configuration"] == "openmpi.bcast.default"
    assert "far from what was measured" in found["reason"]


@pytest.mark.parametrize(
    "question",
    [
        ("--nodes", 0, "--ppn", 4, "--msize", 64),
        ("--nodes", 8, "--ppn", 0, "--msize", 64),
        ("--nodes", 8, "--ppn", 4, "--msize", -1),
        ("--nodes", 10**30, "--ppn", 4, "--msize", 64),
        ("--nodes", 8, "--ppn", 4, "--msize", 2**63),
        ("--nodes", 2**40, "--ppn", 2**40, "--msize", 64),
    ],
)
def test_select_refuses_what_no_job_can_have(
    question: tuple[object, ...], colltune: Verb, bundle_path: Path
) -> None:
    """Zero or negative counts, and numbers beyond 64 bits, are an error with a message."""
    answer = colltune("select", "--bundle", bundle_path, "--collective", "bcast", *question)
    assert answer.status != 0
    assert answer.err


def test_select_names_the_collectives_that_were_measured(colltune: Verb, bundle_path: Path) -> None:
    """A collective without models is an error that says what to measure."""
    question = ("--nodes", 8, "--ppn", 4, "--collective", "alltoall", "--msize", 64)
    answer = colltune("select", "--bundle", bundle_path, *question)
    assert answer.status != 0
    assert "no models of alltoall, only of bcast; measure alltoall and fit again" in answer.err
