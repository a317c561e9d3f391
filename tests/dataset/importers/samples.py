"""What the programs print, as the importers' tests need it: written by hand after real output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from colltune.dataset.importers import IMPORTERS, Imported, ImportRequest, SourceFile
from colltune.dataset.importers.protocol import Parameters
from colltune.domain import Collective, Configuration, Instance

CONTEXT = {"machine": "hydra", "library": "openmpi", "library_version": "4.1.6"}

REPROMPI = """\
#Command-Line Arguments: mpibenchmark --calls-list=MPI_Bcast --msizes-list=8,1024 --nrep=3
#MPI calls:
#\tMPI_Bcast
#Message sizes:
#\t8
#\t1024
#@operation=MPI_BOR
#@datatype=MPI_BYTE
#@datatype_size_bytes=1
#@nprocs=8
#@clocksync=HCA3O
#@procsync=MPI_Barrier
#@runtime_type=local
#@nrep=3
          test       nrep        count    runtime_sec \n\
     MPI_Bcast          0            8   0.0000090000
     MPI_Bcast          1            8   0.0000030000
     MPI_Bcast          2            8   0.0000040000
     MPI_Bcast          0         1024   0.0000200000
     MPI_Bcast          1         1024   0.0000100000
     MPI_Bcast          2         1024   0.0000300000
# Benchmark started at Fri Nov 20 18:31:46 2026
# Execution time: 0s
"""
OSU = """\
# HOST/POSIX_MEMALIGN: allocated 1024 bytes

# OSU MPI Broadcast Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
8                       2.00              1.00              3.00        1000
# HOST/POSIX_MEMALIGN: allocated 1024 bytes
1024                    4.50              4.00              5.00         500
"""
IMB = """\
#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.11, MPI-1 part
#----------------------------------------------------------------
# Date                  : Fri Nov 20 18:39:21 2026
# Machine               : x86_64
# System                : Linux
# MPI Version           : 4.1

# MPI_Datatype                   :   MPI_BYTE
# MPI_Datatype for reductions    :   MPI_FLOAT

#----------------------------------------------------------------
# Benchmarking Bcast
# #processes = 8
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.02         0.03         0.03
            8         1000         1.00         3.00         2.00
         1024          500         4.00         5.00         4.50


# All processes entering MPI_Finalize

"""
_MPIBENCH_ROWS = (
    ("Barrier", 0, 1000, 0.5, 0.4, 0.6),
    ("Bcast", 0, 1000, 0.6, 0.5, 0.7),
    ("Bcast", 8, 1000, 2.0, 1.0, 3.0),
    ("Bcast", 1024, 500, 4.5, 4.0, 5.0),
)


def mpibench(*rows: tuple[str, int, int, float, float, float], comm: str = "MPI_COMM_WORLD") -> str:
    """Return what mpiBench prints of 8 processes: name, size, iterations, avg, min and max."""
    lines = [
        f"{name:<20}\tBytes:\t{size:8d}\tIters:\t{n:7d}\tAvg:\t{avg:8.4f}\tMin:\t{low:8.4f}"
        f"\tMax:\t{high:8.4f}\tComm: {comm}\tRanks: 8\n"
        for name, size, n, avg, low, high in rows
    ]
    return f"START mpiBench v1.5\n0 : n1\n{''.join(lines)}Message buffers (KB):\t4\nEND mpiBench\n"


MPIBENCH = mpibench(*_MPIBENCH_ROWS)
DETAIL = """\
#Nnodes    Message_size 0                    1                    6                    \n\
8          8            4.00(0.10)           3.00(0.20)           3.50                 4.00(0.10)
8          1024         7.00(0.10)           9.00(0.20)           No data              7.00(0.10)
"""
CSV = """\
machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,time_s
hydra,openmpi,4.1.6,bcast,default,4,2,8,3e-6
hydra,openmpi,4.1.6,bcast,default,4,2,1024,5e-6
"""
SHAPE = {"nodes": "4", "ppn": "2"}
SAMPLES: Mapping[str, tuple[str, dict[str, str]]] = {
    "reprompi": (REPROMPI, CONTEXT | SHAPE),
    "osu": (OSU, CONTEXT | SHAPE),
    "imb": (IMB, CONTEXT | SHAPE),
    "mpibench": (mpibench(*_MPIBENCH_ROWS[2:]), CONTEXT | SHAPE),
    "detail": (DETAIL, CONTEXT | SHAPE | {"collective": "bcast"}),
    "csv": (CSV, {}),
}
"""By name in the registry: a file, and what has to be told beside it."""


@dataclass(frozen=True)
class Names:
    """Algorithms of a library of which only the names are known; `refused` never run as such."""

    refused: str = ""

    def at(self, release: str) -> Names:
        """Know the same of all releases."""
        return self

    def library(self, word: str) -> str:
        """Take the word as the name."""
        return word

    def configuration(
        self, library: str, collective: Collective, word: str, parameters: Parameters = ()
    ) -> Configuration:
        """Take the word as the name."""
        return Configuration(library, collective, word, parameters)

    def chosen(self, library: str, collective: Collective, script: str) -> Configuration | None:
        """Know nothing of variables."""
        return None

    def canonical(self, configuration: Configuration) -> Configuration:
        """Change nothing."""
        return configuration

    def why_not(self, configuration: Configuration, instance: Instance) -> str:
        """Refuse one algorithm."""
        return "it is refused" if configuration.algorithm == self.refused else ""


def request(settings: Mapping[str, str], **changes: object) -> ImportRequest:
    """Return what a user tells who gives `settings` and nothing else but `changes`."""
    return replace(ImportRequest(settings, Names()), **changes)  # type: ignore[arg-type]


def loaded(name: str, text: str, folder: Path, asked: ImportRequest | None = None) -> Imported:
    """Return what the importer `name` makes of a file with `text`."""
    file = folder / "file.txt"
    file.write_text(text)
    return IMPORTERS[name].load(SourceFile(file), asked or request(SAMPLES[name][1]))
