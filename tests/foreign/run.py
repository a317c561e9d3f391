"""``python -m tests.foreign.run [MPI ...]``: mpi4py's own tests, without colltune and with it.

An MPI is an mpirun or the folder of an installation; without one all at hand are taken: those on
PATH and those in ``.mpi``. What was run already is not run again, so that it can be interrupted. It
returns 1 if a test ends otherwise with colltune than without.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from colltune.bench import build
from colltune.errors import ColltuneError, ProgramError
from colltune.files import whole
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from tests.foreign import recording, suite
from tests.foreign.modes import NPROCS, ONE_THREAD, WITHOUT, Mode, modes
from tests.foreign.running import Job, Outcomes, run
from tests.integration.install import FOLDER, installed
from tests.integration.real import DECIDING, QUIET

CACHE = FOLDER / "mpi4py"
_ON_PATH = ("mpirun", "mpirun.openmpi", "mpirun.mpich")
_THEIRS = (*DECIDING, "PYTHON")
_MANY = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
AT_WORK = "(libcolltune runs what it is told to)"
_ENDS = ("pass", "fail", "hang", "crash", "skip")
ByMode = Mapping[str, Outcomes]


def main(named: Sequence[str]) -> int:
    """Run everything that is left to be run; return the exit status."""
    found: dict[str, ByMode] = {}
    missed = False
    for mpi in at_hand(named):
        name = f"{mpi.library}-{mpi.release}"
        try:
            found[name] = dict(_all(mpi, name))
        except (ColltuneError, OSError) as error:
            missed = True
            _say(f"{name}: cannot be tested: {error}")
    different = [line for name, by_mode in found.items() for line in differences(name, by_mode)]
    sys.stdout.write("\n".join([*table(found), "", *different, ""]))
    sys.stdout.write(f"{len(different)} differences\n")
    return 1 if different or missed or not found else 0


def at_hand(named: Sequence[str]) -> Iterator[Installation]:
    """Yield the installations, each release of a library once."""
    mine = [shutil.which(name) for name in _ON_PATH]
    folders = [str((FOLDER / one.name).absolute()) for one in installed()]
    seen = set()
    for one in named or [*folders, *filter(None, mine)]:
        try:
            mpi = installation.find(one)
        except ProgramError as error:
            _say(str(error))
            continue
        if (mpi.library, mpi.release) not in seen:
            seen.add((mpi.library, mpi.release))
            yield mpi


def differences(name: str, by_mode: ByMode) -> Iterator[str]:
    """Yield a line for each test that ends alike twice without colltune, and otherwise with it."""
    for mode, outcomes in by_mode.items():
        first, second = _without(by_mode, mode)
        for test in sorted(first.keys() | second.keys() | outcomes.keys()):
            before, again, now = (o.get(test, "not run") for o in (first, second, outcomes))
            if before == again != now:
                yield f"{name}, {mode}: {test}: {before} without colltune, {now} with it"


def table(found: Mapping[str, ByMode]) -> Iterator[str]:
    """Yield the lines of a table: how many tests ended in which way."""
    yield f"{'MPI':20} {'mode':26}" + "".join(f"{end:>7}" for end in _ENDS)
    for name, by_mode in found.items():
        for mode, outcomes in by_mode.items():
            counts = Counter(outcomes.values())
            yield f"{name:20} {mode:26}" + "".join(f"{counts[end]:7}" for end in _ENDS)
        for end in ("", ONE_THREAD):
            first, second = _without(by_mode, end)
            if unsteady := sum(first.get(test) != second.get(test) for test in first | second):
                yield f"{name:20} {unsteady} tests do not end alike twice without colltune{end}"


def _without(by_mode: ByMode, mode: str) -> tuple[Outcomes, Outcomes]:
    """Return the outcomes of both runs without colltune that `mode` is compared with."""
    end = ONE_THREAD if mode.endswith(ONE_THREAD) else ""
    first, second = WITHOUT
    return by_mode.get(first + end, {}), by_mode.get(second + end, {})


def _all(mpi: Installation, name: str) -> Iterator[tuple[str, Outcomes]]:
    """Yield the outcomes of each mode."""
    _say(f"{name}: building mpi4py where that is not done")
    tests = suite.built(mpi, CACHE)
    library, unlinked = build.interposed_library(mpi), build.unlinked_library(mpi)
    folder = tests.folder / "runs"
    folder.mkdir(exist_ok=True)
    for mode in modes(mpi, library, unlinked, folder):
        # outcomes are of this libcolltune, whose name has the hash of what it is made of
        key = json.dumps([mode.variables, _content(mode)])
        kept = folder / f"{mode.name}.json"
        yield mode.name, _kept(kept, key) or _new(mpi, tests, mode, kept, key)


def _content(mode: Mode) -> list[str]:
    """Return the texts of the files that the mode's variables name."""
    paths = (Path(value) for value in mode.variables.values() if value.startswith("/"))
    return [path.read_text() for path in paths if path.is_file() and path.suffix != ".so"]


def _kept(path: Path, key: str) -> Outcomes | None:
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    outcomes: Outcomes = kept["outcomes"]
    return outcomes if kept["key"] == key else None


def _new(mpi: Installation, tests: suite.Suite, mode: Mode, kept: Path, key: str) -> Outcomes:
    name = f"{mpi.library}-{mpi.release}, {mode.name}"
    _say(f"{name}: running")
    others = {n: v for n, v in os.environ.items() if not n.startswith(_THEIRS)}
    variables = others | QUIET | _MANY | mpi.launch_environment() | tests.variables | mode.variables
    many = ["--oversubscribe"] if mpi.library == "openmpi" else []
    program: list[str | Path] = [tests.python, recording.__file__, tests.tests]
    command: list[str | Path] = [mpi.mpirun, "-n", str(NPROCS), *many, *program]
    folder = kept.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    job = Job(command, NPROCS, variables)
    outcomes = run(job, folder, lambda stop: _say(f"{name}: {stop}")) | _at_work(mode, folder)
    counts = Counter(outcomes.values())
    told = ", ".join(f"{counts[end]} {end}" for end in _ENDS if counts[end])
    _say(f"{name}: {told} in {time.monotonic() - started:.0f} s")
    with whole(kept) as path:
        path.write_text(json.dumps({"key": key, "outcomes": outcomes}), encoding="utf-8")
    return outcomes


def _at_work(mode: Mode, folder: Path) -> Outcomes:
    """Return a failure unless some of what the mode is for was seen to run."""
    ran = {line for path in folder.glob("*/ran") for line in path.read_text().splitlines()}
    if not mode.runs or ran.intersection(mode.runs):
        return {}
    _say(f"{mode.name}: none of {', '.join(mode.runs)} ran in {folder}, but {sorted(ran)}")
    return {AT_WORK: "fail"}


def _say(line: str) -> None:
    sys.stdout.write(f"test-foreign: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        _say("interrupted; what was run through is kept")
        sys.exit(130)
