"""Makes tidy CSVs of the results that the PICO benchmark suite publishes (HLC-Lab/pico, MIT).

``python -m figures.pico_results CLONE FOLDER [LARGEST [REPETITIONS]]`` reads ``results/`` of a
clone and writes ``FOLDER/MACHINE_LIBRARY.csv.gz``. Archives of more than LARGEST bytes are left
out. With REPETITIONS it writes folders of Parquet, which have so many iterations of each run,
evenly chosen.

Only what the MPI library itself runs is taken: host memory, no algorithms of PICO's own library.
The first fifth of the iterations is dropped as warm-up (Fugaku's files have none), and so are runs
whose option was refused, which timed the default.
"""

from __future__ import annotations

import csv
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from colltune.dataset import PerformanceDataset, append, write_csv
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    LaunchStatistics,
    Measurement,
    RunStatus,
    Shape,
)

_LIBRARIES = {"OMPI": "openmpi", "CRAY_MPICH": "cray_mpich", "FJMPI": "fjmpi"}
_NAMES = {
    "openmpi": r"(.+)_ompi_int32",
    "cray_mpich": r"(.+)_mpich_int32",
    "fjmpi": r"default-(.+)_int32",
}
_MACHINES = {"mare_nostrum": "mare_nostrum5"}
_OF_BLOCKS = {Collective.ALLGATHER, Collective.ALLTOALL, Collective.GATHER, Collective.SCATTER}
_INT_BYTES, _LEAST_TIMES = 4, 4


def main() -> None:
    """Convert every machine of a clone."""
    clone, out = Path(sys.argv[1]), Path(sys.argv[2])
    largest = int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize
    repetitions = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    for table in sorted((clone / "results").glob("*_metadata.csv")):
        machine = table.name.removesuffix("_metadata.csv")
        found: dict[Context, list[Measurement]] = {}
        for context, measurement in _measurements(clone, table, machine, largest, repetitions):
            found.setdefault(context, []).append(measurement)
        for context, measurements in found.items():
            path = out / f"{context.machine}_{context.library}-{context.library_version}"
            if repetitions:
                append(path, context, measurements, {})
            else:
                write_csv(PerformanceDataset.of(context, measurements), Path(f"{path}.csv.gz"))
            print(f"{len(measurements)} rows of {context} -> {path}")


def _measurements(
    clone: Path, table: Path, machine: str, largest: int, repetitions: int
) -> Iterator[tuple[Context, Measurement]]:
    opened: dict[str, dict[str, list[str]]] = {}
    with table.open(encoding="utf-8") as stream:
        for test in csv.DictReader(stream):
            library = _LIBRARIES.get(test["mpi_lib"])
            archive = clone / "results" / machine / f"{test['timestamp']}.tar.gz"
            if library is None or test["gpu_awareness"] == "yes":
                continue
            if not archive.exists() or archive.stat().st_size > largest:
                continue
            if archive.stem not in opened:
                opened = {archive.stem: _texts(archive)}
            context = Context(_MACHINES.get(machine, machine), library, test["mpi_lib_version"])
            for one in _of_test(test, library, opened[archive.stem], repetitions):
                yield context, one


def _texts(archive: Path) -> dict[str, list[str]]:
    """Return the lines of an archive's files, by test and name: ``3/1024_ring_ompi_int32.csv``."""
    with tarfile.open(archive) as opened:
        return {
            "/".join(member.name.split("/")[-2:]): stream.read()
            .decode(errors="replace")
            .splitlines()
            for member in opened
            if member.isfile() and (stream := opened.extractfile(member))
        }


def _of_test(
    test: dict[str, str], library: str, texts: dict[str, list[str]], repetitions: int
) -> Iterator[Measurement]:
    collective = Collective(test["collective_type"].lower())
    ppn = re.match(r"(\d+) tasks per node", test["notes"])
    nodes = int(np.prod([int(n) for n in test["nnodes"].split("x")]))
    shape = Shape(nodes, int(ppn[1] if ppn else test["tasks_per_node"]))
    launch = f"{test['timestamp']}/{test['test_id']}"
    for name, lines in sorted(texts.items()):
        number, _, file = name.partition("/")
        count, _, called = file.removesuffix(".csv").partition("_")
        matched = re.fullmatch(_NAMES[library], called)
        if number != test["test_id"] or not file.endswith(".csv") or matched is None:
            continue
        refused = any("invalid-value" in line for line in texts.get(name[:-3] + "err", ()))
        times_s = _times_s(lines, warmed_up=library == "fjmpi")
        size = int(count) // (shape.nprocs if collective in _OF_BLOCKS else 1) * _INT_BYTES
        algorithm = matched[1].replace("-", "_")
        if algorithm.startswith("bine") or refused or len(times_s) < _LEAST_TIMES or not size:
            continue
        configuration = Configuration(library, collective, algorithm)
        summary = LaunchStatistics.of(tuple(times_s))
        instance = Instance(collective, shape, size)
        kept = times_s[:: -(-len(times_s) // repetitions)] if repetitions else ()
        yield Measurement(
            instance, configuration, launch, RunStatus.OK, tuple(kept), summary=summary
        )


def _times_s(lines: list[str], *, warmed_up: bool) -> list[float]:
    """Return the seconds of a file's iterations, which it has in nanoseconds."""
    words = [line.strip().split(",")[0] for line in lines]
    times = [float(word) * 1e-9 for word in words if re.fullmatch(r"\d+(\.\d+)?", word)]
    return times if warmed_up else times[len(times) // 5 :]


if __name__ == "__main__":
    main()
