"""What libcolltune costs an application: preloaded with nothing to do, and while it records.

LAMMPS (Debian: lammps) where it is on PATH, and a stencil with a reduction after every step, which
spends more of its time in collectives than most programs. Both time their own steps.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.bench import build
from colltune.dataset.profile import read_profiles
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune import PRELOAD
from figures.figure import Figure
from figures.profile_overhead_ns import call_ns

_HERE = Path(__file__).parent
_STENCIL, _MELT = _HERE / "application_overhead.c", _HERE / "application_overhead.lammps"
_ROWS, _STEPS = "512", "20000"
_NPROCS, _ROUNDS, _TIMEOUT_S = 2, 40, 900.0
_SIDES = ("without", "idle", "recording")

Round = Mapping[str, tuple[float, float]]
"""For each side the seconds of the steps, and those of the program's start and end."""


@dataclass(frozen=True)
class Application:
    """A program of an MPI: its command, and what stands before the seconds that it prints."""

    name: str
    mpi: Installation
    command: Sequence[str | Path]
    before: str = ""

    def environment(self) -> dict[str, str]:
        """Return the variables of a run, in which nothing is preloaded."""
        return dict(os.environ) | self.mpi.launch_environment()


def run() -> Figure:
    """Return the per cent that an idle libcolltune adds to the time of an application's steps.

    The larger one of all applications; each is run without, idle and recording as a site's hooks
    let it (the goal: at most 1 %) in turn. ``facts`` have both overheads with their 95 % intervals,
    medians over rounds, and what they add to the program's start and end. ``…_by_calls_percent`` is
    what recording adds by the application's calls and the nanoseconds of a recorded one, which a
    busy machine can tell, too.
    """
    facts: dict[str, object] = {}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for application in _applications(Path(folder)):
            rounds = list(_rounds(application, Path(folder)))
            facts[application.name] = {side: _fact(rounds, side) for side in _SIDES[1:]}
            medians = [statistics.median(r[side][0] for r in rounds) for side in _SIDES]
            found.append((_percent(rounds, "idle")[0], medians[1], medians[0]))
            share = 100 * _recording_s(application, Path(folder)) / medians[0]
            facts[f"{application.name}_recording_by_calls_percent"] = round(share, 3)
    worst, idle, without = max(found)
    return Figure("application_overhead", worst, "percent", idle, without, facts)


def _applications(folder: Path) -> Iterator[Application]:
    mpi = installation.find(library="openmpi")
    program: list[str | Path] = [folder / "stencil", _ROWS, _STEPS]
    stencil = Application("stencil", mpi, program)
    compiler: list[str | Path] = [mpi.mpicc, "-O2", "-std=c11", "-o", folder / "stencil", _STENCIL]
    compiled = process.run(compiler, timeout_s=_TIMEOUT_S, env=stencil.environment())
    process.check(compiled, "compiling the stencil")
    yield stencil
    lammps = shutil.which("lmp")
    theirs = _linked(lammps) if lammps else None
    if lammps and theirs:
        command: list[str | Path] = [lammps, "-in", _MELT, "-log", "none"]
        yield Application("lammps", theirs, command, "Loop time of ")
    else:
        print("LAMMPS: no lmp on PATH, or not its MPI", file=sys.stderr)


def _linked(program: str) -> Installation | None:
    """Return the MPI that `program` is linked to, among those on PATH."""
    told = process.run(["ldd", program], timeout_s=_TIMEOUT_S).stdout
    theirs = {Path(path).resolve() for path in re.findall(r"libmpi\S* => (\S+)", told)}
    for name in ("mpirun", "mpirun.openmpi", "mpirun.mpich"):
        try:
            mpi = installation.find(name)
        except ProgramError:
            continue
        if mpi.libmpi.resolve() in theirs:
            return mpi
    return None


def _rounds(application: Application, folder: Path) -> Iterator[Round]:
    """Run the application with each side in turn; the first round warms up."""
    mpi = application.mpi
    environment = application.environment()
    library = build.interposed_library(mpi)
    preload = {PRELOAD: str(library)}
    recording = preload | {"COLLTUNE_RECORD": str(folder / f"{application.name}-profiles")}
    settings: list[Mapping[str, str]] = [{}, preload, recording]
    sides = list(zip(_SIDES, settings, strict=True))
    for number in range(_ROUNDS + 1):
        # so that none always comes behind the same other one
        turned = sides[number % len(sides) :] + sides[: number % len(sides)]
        found = {side: _seconds(application, environment, setting) for side, setting in turned}
        told = ", ".join(f"{side} {found[side][0]:.3f} s" for side in _SIDES)
        print(f"{application.name} {number}: {told}", file=sys.stderr)
        if number:
            yield found


def _recording_s(application: Application, folder: Path) -> float:
    """Return the seconds of a process in recording: its calls times those of a recorded one."""
    off, _, sites = call_ns(application.mpi)
    found = read_profiles([folder / f"{application.name}-profiles"])
    calls = sum(use.process_calls for use in found.uses) / sum(job.nprocs for job in found.jobs)
    return calls * (sites - off) * 1e-9


def _seconds(
    application: Application, environment: Mapping[str, str], setting: Mapping[str, str]
) -> tuple[float, float]:
    words = [f"{name}={value}" for name, value in setting.items()]
    many = ["--oversubscribe"] if application.mpi.library == "openmpi" else []
    outcome = process.run(
        [application.mpi.mpirun, "-n", str(_NPROCS), *many, "env", *words, *application.command],
        timeout_s=_TIMEOUT_S,
        env=environment,
    )
    process.check(outcome, f"running {application.name}")
    found = re.search(rf"^{application.before}([\d.]+)", outcome.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{application.name} tells no time\n{outcome.explain()}")
    return float(found[1]), outcome.seconds - float(found[1])


def _percent(rounds: Sequence[Round], side: str) -> tuple[float, float, float]:
    """Return the median of what `side` adds to a round's time, and the median's 95 % interval."""
    ratios = sorted(100 * (r[side][0] / r["without"][0] - 1) for r in rounds)
    out = max(0, math.floor((len(ratios) - 1.96 * math.sqrt(len(ratios))) / 2))
    return statistics.median(ratios), ratios[out], ratios[-1 - out]


def _fact(rounds: Sequence[Round], side: str) -> dict[str, object]:
    middle, low, high = (round(percent, 2) for percent in _percent(rounds, side))
    start_s = statistics.median(r[side][1] - r["without"][1] for r in rounds)
    return {"percent": middle, "interval": [low, high], "start_adds_s": round(start_s, 3)}
