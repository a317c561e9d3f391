"""SimGrid's programs: found, asked which algorithms they have, and told what to run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from colltune import process
from colltune.bench import build
from colltune.bench.simulated import Simulation
from colltune.domain import INTERPOSED, Collective, Configuration, Shape
from colltune.errors import ProgramError

LIBRARY = "smpi"
DEFAULT = "ompi"
TESTED = "3.32"
"""The release with which all of this was tried."""
_MEND = "install SimGrid with SMPI (Debian and Ubuntu: libsimgrid-dev)"
_ASK_S = 60.0
# they decide among the algorithms, and "default" is whichever was first
_SELECTORS = ("default", "automatic", "ompi", "mpich", "mvapich2", "impi")
_VERSION = re.compile(r"SimGrid version (\d+(?:\.\d+)+)")
_VALID = re.compile(r"Valid algorithms: ([^\n]*?)\.?\n")
_SETTINGS = (
    "--log=root.thresh:critical",
    "--cfg=smpi/simulate-computation:no",
    "--cfg=contexts/stack-size:256",
    "--cfg=network/crosstraffic:0",
    "--cfg=smpi/test:1e-7",
    "--cfg=smpi/iprobe:1e-7",
    "--cfg=smpi/wtime:0",
    # with its usual precision some runs are aborted
    "--cfg=maxmin/precision:1e-4",
)

ALGORITHMS: Mapping[Collective, tuple[str, ...]] = {
    Collective.ALLGATHER: (
        *("2dmesh", "3dmesh", "bruck", "GB", "loosely_lr", "NTSLR", "NTSLR_NB", "pair", "rdb"),
        *("rhv", "ring", "SMP_NTS", "smp_simple", "spreading_simple", "ompi_neighborexchange"),
        "mvapich2_smp",
    ),
    Collective.ALLGATHERV: (
        *("GB", "pair", "ring", "ompi_neighborexchange", "ompi_bruck", "mpich_rdb", "mpich_ring"),
    ),
    Collective.ALLREDUCE: (
        *("lr", "rab1", "rab2", "rab_rdb", "rdb", "smp_binomial", "smp_binomial_pipeline"),
        *("smp_rdb", "smp_rsag", "smp_rsag_lr", "smp_rsag_rab", "redbcast"),
        *("ompi_ring_segmented", "mvapich2_rs", "mvapich2_two_level", "rab"),
    ),
    Collective.ALLTOALL: (
        *("2dmesh", "3dmesh", "basic_linear", "bruck", "pair", "pair_rma", "pair_light_barrier"),
        *("pair_mpi_barrier", "pair_one_barrier", "rdb", "ring", "ring_light_barrier"),
        *("ring_mpi_barrier", "ring_one_barrier", "mvapich2_scatter_dest"),
    ),
    Collective.ALLTOALLV: (
        *("bruck", "pair", "pair_light_barrier", "pair_mpi_barrier", "pair_one_barrier", "ring"),
        *("ring_light_barrier", "ring_mpi_barrier", "ring_one_barrier", "ompi_basic_linear"),
    ),
    Collective.BARRIER: (
        *("ompi_basic_linear", "ompi_two_procs", "ompi_tree", "ompi_bruck"),
        *("ompi_recursivedoubling", "ompi_doublering", "mpich_smp", "mvapich2_pair"),
    ),
    Collective.BCAST: (
        *("arrival_pattern_aware", "arrival_pattern_aware_wait", "arrival_scatter"),
        *("binomial_tree", "flattree", "flattree_pipeline", "NTSB", "NTSL", "NTSL_Isend"),
        *("scatter_LR_allgather", "scatter_rdb_allgather", "SMP_binary", "SMP_binomial"),
        *("SMP_linear", "ompi_split_bintree", "ompi_pipeline", "mvapich2_inter_node"),
        *("mvapich2_intra_node", "mvapich2_knomial_intra_node"),
    ),
    Collective.GATHER: (
        *("ompi_basic_linear", "ompi_binomial", "ompi_linear_sync", "mvapich2_two_level"),
    ),
    Collective.REDUCE: (
        *("arrival_pattern_aware", "binomial", "flat_tree", "NTSL", "scatter_gather"),
        *("ompi_chain", "ompi_pipeline", "ompi_basic_linear", "ompi_in_order_binary"),
        *("ompi_binary", "ompi_binomial", "mvapich2_knomial", "mvapich2_two_level", "rab"),
    ),
    Collective.REDUCE_SCATTER: (
        *("ompi_basic_recursivehalving", "ompi_ring", "ompi_butterfly", "mpich_pair"),
        *("mpich_rdb", "mpich_noncomm"),
    ),
    Collective.SCATTER: (
        *("ompi_basic_linear", "ompi_linear_nb", "ompi_binomial"),
        *("mvapich2_two_level_binomial", "mvapich2_two_level_direct"),
    ),
}
"""What release 3.32 has, for planning where it is not installed; selectors are left out."""


@dataclass(frozen=True)
class SimGrid:
    smpirun: Path
    smpicc: Path
    release: str

    @classmethod
    def find(cls) -> SimGrid:
        smpirun, smpicc = process.find("smpirun", _MEND), process.find("smpicc", _MEND)
        told = process.run([smpirun, "-version"], timeout_s=_ASK_S)
        match = _VERSION.search(told.stdout)
        if match is None:
            raise ProgramError(
                f"{smpirun} does not print SimGrid's release; {_MEND}\n{told.explain()}"
            )
        return cls(smpirun, smpicc, match[1])

    def algorithms(self, collective: Collective) -> tuple[str, ...]:
        """Return the names of the algorithms of a collective, selectors left out."""
        # a wrong name makes smpirun tell the right ones
        wrong = f"--cfg=smpi/{collective}:none-of-them"
        words: list[str | Path] = [wrong, self.program(own=False)]
        outcome = self.run(Simulation(), Shape(1, 1), words, timeout_s=_ASK_S)
        match = _VALID.search(f"{outcome.stdout}\n{outcome.stderr}\n")
        if match is None:
            raise ProgramError(
                f"SimGrid {self.release} does not list its algorithms of {collective} "
                f"(releases known to work: {TESTED})\n{outcome.explain()}"
            )
        return tuple(name for name in match[1].split(", ") if name not in _SELECTORS)

    def program(self, *, own: bool) -> Path:
        """Return the compiled benchmark; `own`: with libcolltune's algorithms in it."""
        return build.simulated_benchmark(self.smpicc, self.release, own=own)

    def run(
        self,
        simulation: Simulation,
        shape: Shape,
        words: Sequence[str | Path],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        watch: Callable[[], bool] | None = None,
    ) -> process.Outcome:
        """Give `words`, options and a program, to a smpirun of the simulated cluster."""
        with TemporaryDirectory(prefix="colltune-smpi-") as temporary:
            work = Path(temporary)
            platform, hostfile = work / "platform.xml", work / "hosts"
            platform.write_text(simulation.description_for(shape.nodes))
            hostfile.write_text(simulation.hostfile(shape))
            files = ("-platform", platform, "-hostfile", hostfile)
            # its own option for this takes the next word for the program
            command = [self.smpirun, *files, f"--cfg=smpi/tmpdir:{work}", *words]
            return process.run(command, timeout_s=timeout_s, env=env, cwd=work, watch=watch)


def options(simulation: Simulation, configuration: Configuration) -> tuple[str, ...]:
    """Return smpirun's options for a run of `configuration`."""
    own = configuration.library == INTERPOSED
    chosen = DEFAULT if own or configuration.is_default else configuration.algorithm
    return (
        # libcolltune has variables that each process must have for itself
        *(() if own else ("-no-privatize",)),
        *_SETTINGS,
        *simulation.options(),
        f"--cfg=smpi/coll-selector:{DEFAULT}",
        f"--cfg=smpi/{configuration.collective}:{chosen}",
    )
