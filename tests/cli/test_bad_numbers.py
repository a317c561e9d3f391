"""Numbers that make no sense, from data to question: an answer with its reason, or an error."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Answer, Verb

_HEADER = "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s"
_GOOD = "hydra,openmpi,4.1.4,bcast,default,{nodes},{ppn},{msize},{time}"


def _csv(path: Path, **changes: object) -> Path:
    """Write three good rows and, as line 4, one with `changes`."""
    fields: dict[str, object] = {"nodes": 4, "ppn": 2, "msize": 64, "time": "1e-6"}
    rows = [_GOOD.format(**fields | {"msize": m}) for m in (8, 16)]
    rows += [_GOOD.format(**fields | changes), _GOOD.format(**fields | {"msize": 128})]
    path.write_text("\n".join([_HEADER, *rows]) + "\n")
    return path


def test_fit_names_line_and_column(colltune: Verb, tmp_path: Path) -> None:
    """A row that no measurement can have is refused with the file's line and the column."""
    wrong: tuple[tuple[str, str, object], ...] = (
        *(("time_s", "time", text) for text in ("nan", "0", "-1e-6", "inf", "soon", "")),
        *(("nodes", "nodes", number) for number in (0, -3, "2.5", "1e30")),
        ("ppn", "ppn", 0),
        *(("msize_bytes", "msize", number) for number in ("9223372036854775808", -1)),
    )
    for column, field, value in wrong:
        data = _csv(tmp_path / "data.csv", **{field: value})
        answer = colltune("fit", data, "--out", tmp_path / "bundle")
        assert answer.status != 0, (column, value)
        assert f"data.csv, line 4, column {column}: " in answer.err, value
        assert not (tmp_path / "bundle").exists()


def test_select_keeps_the_default_far_from_the_data(colltune: Verb, bundle_path: Path) -> None:
    """Asked for what nobody measured anything near to, it answers with the default and says why."""
    for nodes, ppn, msize in ((8, 10**6, 64), (8, 4, 2**40), (10**6, 4, 64), (8, 4, 2**63 - 1)):
        found = _asked(colltune, bundle_path, nodes, ppn, msize, "--json").json
        assert found["configuration"] == "openmpi.bcast.default", (nodes, ppn, msize)
        assert "far from what was measured" in found["reason"]


def _asked(colltune: Verb, bundle: Path, nodes: int, ppn: int, msize: int, *more: str) -> Answer:
    question = ("--nodes", nodes, "--ppn", ppn, "--msize", msize)
    return colltune("select", "--bundle", bundle, "--collective", "bcast", *question, *more)


def test_select_refuses_what_no_job_can_have(colltune: Verb, bundle_path: Path) -> None:
    """Zero or negative counts, and numbers beyond 64 bits, are an error with a message."""
    for nodes, ppn, msize in (
        *((0, 4, 64), (8, 0, 64), (8, 4, -1)),
        *((10**30, 4, 64), (8, 4, 2**63), (2**40, 2**40, 64)),
    ):
        answer = _asked(colltune, bundle_path, nodes, ppn, msize)
        assert answer.status != 0, (nodes, ppn, msize)
        assert answer.err


def test_select_names_the_collectives_that_were_measured(colltune: Verb, bundle_path: Path) -> None:
    """A collective without models is an error that says what to measure."""
    question = ("--nodes", 8, "--ppn", 4, "--collective", "alltoall", "--msize", 64)
    answer = colltune("select", "--bundle", bundle_path, *question)
    assert answer.status != 0
    assert "no models of alltoall, only of bcast. Measure alltoall and fit again" in answer.err
