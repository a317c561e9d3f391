"""An MPI library that is added from outside the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extension.exercise import contract, verbs

LINE = "tests.extension.library.line"
HYDRA = "HYDRA build details:\\n    Version:                                 3.2.1"


def test_it_keeps_the_contracts() -> None:
    """The contract tests of libraries, formats and launchers run for it and pass."""
    contracts = ("libraries", "formats", "formats_bad_input", "user_patterns", "launchers")
    ran = contract(LINE, "mvapich2", *contracts)
    assert not ran["failed"] + ran["error"]
    assert ran["passed"] > 50


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return made-up measurements: knomial is fastest up to 1 KiB, pipelined beyond."""
    rows = ["machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s"]
    for nodes in (2, 4, 8):
        for msize in (8, 64, 512, 4096, 32768, 262144):
            for name, start_s, byte_s in (
                ("default", 9e-6, 3e-9),
                ("knomial", 2e-6, 4e-9),
                ("pipelined", 6e-6, 5e-10),
            ):
                time_s = start_s * nodes**0.5 + msize * byte_s
                rows.append(f"site,mvapich2,2.3.7,bcast,{name},{nodes},4,{msize},{time_s}")
    path = tmp_path_factory.mktemp("measured") / "bcast.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_from_measurements_to_its_own_file(measured: Path, tmp_path: Path) -> None:
    """Fitted, selected, written, linted, explained and converted like any other library's."""
    bundle, conf, again = (tmp_path / name for name in ("bundle", "site.conf", "again.conf"))
    shape = ["--nodes", 4, "--ppn", 4]
    call = [*shape, "--collective", "bcast", "--msize"]
    fit, select, lint, small, large, convert = verbs(
        [LINE],
        ["fit", measured, "--out", bundle, "--learner", "knn"],
        ["select", "--bundle", bundle, *shape, "--format", "mvapich2", "--out", conf],
        ["lint", conf],
        ["explain", conf, *call, 64],
        ["explain", conf, *call, 100_000],
        ["convert", conf, "--to", "mvapich2-conf", "--release", "2.3.3", "--out", again],
    )
    assert not any(a.status for a in (fit, select, lint, small, large, convert)), select.err
    line = conf.read_text().splitlines()[-1]
    assert line.startswith("MV2_INTER_BCAST_TUNING = 8:0-")
    assert ",9:" in line
    assert line.endswith("-+")
    assert f"export MV2_USER_CONFIG={conf}" in select.out
    assert "nothing found" in lint.out
    assert "knomial" in small.out
    assert "pipelined" in large.out
    assert again.read_text() == conf.read_text()


def test_its_catalogue_and_what_is_wrong_in_a_file_are_told(tmp_path: Path) -> None:
    """The catalogue tells all that it has; the lint names line, fault and mend."""
    conf = tmp_path / "mvapich2.conf"
    conf.write_text("MV2_INTER_BCAST_TUNING = 8:0-99,9:500-+\nMV2_ALLTOALL_TUNING = 17\nnonsense\n")
    every, release, one, linted = verbs(
        [LINE],
        ["catalog"],
        ["catalog", "mvapich2@2.3.7"],
        ["catalog", "mvapich2", "bcast"],
        ["lint", conf, "--release", "mvapich2@2.3.7"],
    )
    assert every.out.count("mvapich2") == 1
    assert "reduce_scatter" in release.out
    assert "MV2_INTER_BCAST_TUNING" in one.out
    assert "knomial" in one.out
    assert linted.status == 1
    for line, words in ((1, "from 100 bytes on"), (2, "no algorithm 17"), (3, "the job ends")):
        assert any(f":{line}: " in t and words in t for t in linted.out.splitlines()), words


def _program(file: Path, says: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{says}\n")
    file.chmod(0o755)


def test_an_installation_is_not_taken_for_its_parents(tmp_path: Path) -> None:
    """Its mpiexec says what MPICH's says; mpiname beside it tells the two apart."""
    check = ["catalog", "mvapich2", "--check", "--mpi", tmp_path]
    _program(tmp_path / "bin" / "mpirun", f"printf '{HYDRA}\\n'")
    [parent] = verbs([LINE], check)
    assert "belongs to MPICH 3.2.1, not to MVAPICH2" in parent.err
    _program(tmp_path / "bin" / "mpiname", "echo 'MVAPICH2 2.3.7 Wed March 02 2022 ch3:mrail'")
    [own] = verbs([LINE], check)
    assert "belongs to MVAPICH2, which cannot be inspected" in own.err
