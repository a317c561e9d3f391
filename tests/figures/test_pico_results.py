"""Reading the results of the PICO benchmark suite."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from colltune.dataset import read
from figures.pico_results import main

_HEAD = "timestamp,test_id,nnodes,tasks_per_node,collective_type,mpi_lib,mpi_lib_version"
_TESTS = f"""{_HEAD},gpu_awareness,notes
t1,0,4x2,1,ALLGATHER,OMPI,4.1.6,no,null
t1,1,2,1,BCAST,OMPI,4.1.6,no,4 tasks per node
t1,2,2,1,BCAST,OMPI,4.1.6,yes,null
"""
_TIMES = "highest\n" + "".join(f"{n},1\n" for n in (9000, 9000, *[1000, 2000, 3000] * 3))
_FILES = {
    "t1/0/64_ring_ompi_int32.csv": _TIMES,
    "t1/0/64_bine_block_ompi_int32.csv": _TIMES,
    "t1/0/64_neighbor_ompi_int32.csv": _TIMES,
    "t1/0/64_neighbor_ompi_int32.err": "coll_tuned: invalid-value",
    "t1/1/8_default_ompi_int32.csv": _TIMES,
    "t1/2/8_default_ompi_int32.csv": _TIMES,
}


def test_runs_of_the_library_become_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, shapes, warm-up and units are right; refused options and GPUs are left out."""
    folder = tmp_path / "clone" / "results" / "here"
    folder.mkdir(parents=True)
    (folder.parent / "here_metadata.csv").write_text(_TESTS)
    with tarfile.open(folder / "t1.tar.gz", "w:gz") as archive:
        for name, text in _FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.argv", ["pico_results", str(tmp_path / "clone"), str(tmp_path)])
    main()
    frame = read([tmp_path / "here_openmpi-4.1.6.csv.gz"]).frame
    columns = ["collective", "algorithm", "nodes", "ppn", "msize_bytes", "launch", "n_reps"]
    assert frame[columns].to_numpy().tolist() == [
        ["allgather", "ring", 8, 1, 32, "t1/0", 9],
        ["bcast", "default", 2, 4, 32, "t1/1", 9],
    ]
    assert frame["time_s"].tolist() == pytest.approx([2e-6, 2e-6])
