"""Share of a campaign's wall time in timed loops, as a job of a throw-away Slurm.

Two nodes of one process each measure for a minute by each benchmark and each launcher: colltune's
own benchmark changes the algorithm inside a launch, ReproMPI's mpibenchmark (COLLTUNE_REPROMPI)
needs a launch for each configuration. Needs root for the nodes.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from colltune.bench.backends import mpibenchmark
from colltune.errors import ProgramError
from colltune.mpi import installation
from figures.figure import Figure
from tests.integration import real
from tests.integration.slurmbed import Slurmbed, slurmbed

_BUDGET_S = 60
_WANTED = {"native": 0.8, "reprompi": 0.5}
_LAUNCHERS = ("mpirun", "srun")
_CAMPAIGN = """\
[library]
name = "openmpi"
[launcher]
name = "{launcher}"
[space]
collectives = ["bcast", "allreduce"]
nodes = [2]
ppn = [1]
msizes_bytes = [8, 512, 8192, 131072]
segsizes_bytes = [0]
fanouts = [2]
[measure]
backend = "{backend}"
[budget]
total = {budget}
max_reps = 100000
cell_s = 1.0
"""


def run() -> Figure:
    """Return the least share over what is wanted of its benchmark; 1 and more is enough."""
    backends = [name for name in _WANTED if name == "native" or _has_reprompi()]
    with tempfile.TemporaryDirectory() as name, _slurm(Path(name)) as slurm:
        shares = {
            (backend, launcher): _share(slurm, backend, launcher)
            for backend in backends
            for launcher in _LAUNCHERS
        }
    worst = min(shares, key=lambda key: shares[key] / _WANTED[key[0]])
    ours, wanted = shares[worst], _WANTED[worst[0]]
    facts = {f"{backend}_{launcher}": round(s, 3) for (backend, launcher), s in shares.items()}
    return Figure("campaign_cost", ours / wanted, "ratio", ours, wanted, facts)


def _has_reprompi() -> bool:
    try:
        mpibenchmark.find(None)
    except ProgramError as error:
        print(f"campaign_cost: native alone; {error}", file=sys.stderr)
        return False
    return True


def _slurm(folder: Path) -> AbstractContextManager[Slurmbed]:
    (folder / "slurm").mkdir()
    return slurmbed(folder / "slurm", nodes=2, cpus=2)


def _share(slurm: Slurmbed, backend: str, launcher: str) -> float:
    """Return the share of one campaign, and print it."""
    folder = slurm.folder / f"{backend}-{launcher}"
    folder.mkdir()
    campaign = folder / "campaign.toml"
    campaign.write_text(
        _CAMPAIGN.format(launcher=launcher, backend=backend, budget=_BUDGET_S), encoding="utf-8"
    )
    colltune = (sys.executable, "-m", "colltune.cli", "measure", str(campaign))
    command = [*colltune, "--out", str(folder / "dataset"), "--json"]
    script = folder / "job.sh"
    script.write_text(f"#!/bin/sh\ncd {shlex.quote(str(Path.cwd()))}\n{shlex.join(command)}\n")
    submit = ("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "--time=5")
    files = (f"--output={folder}/out", f"--error={folder}/err")
    # srun does not tell a program where the library is that it was built for
    library = str(installation.find().mpirun.parent.parent / "lib")
    environment = {**real.TRANSPORT, "LD_LIBRARY_PATH": library}
    job = slurm.ask(*submit, *files, script, **environment).strip()
    ended = slurm.wait_for_state(job, "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL")
    if ended["JobState"] != "COMPLETED":
        sys.exit(f"campaign_cost: {(folder / 'err').read_text()}")
    told = json.loads((folder / "out").read_text())
    share = float(told["timed_s"]) / float(told["wall_s"])
    print(f"{backend} by {launcher}: {share:.3f} in timed loops, {told['launches']} launches")
    return share
