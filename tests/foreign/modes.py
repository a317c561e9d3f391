"""The ways in which foreign tests are run: without colltune, and with what it may do to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import INTERPOSED, Collective, Configuration, Shape
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.space import ALGORITHMS
from colltune.mpi.programs import ANY_LEGAL
from colltune.mpi.running import Promises
from colltune.selector.configuration import Target, rendered
from tests.foreign.recording import PRELOADED

WITHOUT = ("without", "without, again")
"""The same twice: a test that does not end alike in both tells nothing about colltune."""
ONE_THREAD = ", one thread"
"""Ends the names of modes in which the program says that it calls MPI from one thread at a time."""
NPROCS = 3
_SERIALIZED = {"MPI4PY_RC_THREAD_LEVEL": "serialized"}
_UNEVEN_NODES = "by-rank:2"
_RULES = {"openmpi": "openmpi-classic", "mpich": "mpich-json", "intelmpi": "intelmpi-json"}
_FIRST_BYTES = (0, 16, 256, 4096, 65536)


@dataclass(frozen=True)
class Mode:
    """One way: its name, the variables that it sets, and what of it has to be seen at work."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()


def modes(mpi: Installation, library: Path, unlinked: Path, folder: Path) -> Iterator[Mode]:
    """Yield all ways for `mpi` with its libcolltune and that of sites, `unlinked`.

    Their files are written into `folder`.
    """
    for name in WITHOUT:
        yield Mode(name)
    sites = {PRELOAD: str(unlinked)}
    yield Mode("unlinked", sites, (PRELOADED,))
    record = {"COLLTUNE_RECORD": str(folder / "records"), "COLLTUNE_RECORD_RATE": "1"}
    yield Mode("unlinked, recording", sites | record, (PRELOADED,))
    preload = {PRELOAD: str(library)}
    yield Mode("idle", preload, (PRELOADED,))
    profile = {"COLLTUNE_PROFILE": str(folder / "profiles")}
    yield Mode("recording", preload | profile, (PRELOADED,))
    for algorithm in ALGORITHMS:
        if algorithm.collective is Collective.ALLTOALLV and _of_large_counts(mpi):
            continue  # ours run MPI_Alltoallv, but not MPI_Alltoallv_c
        usual = algorithm.configuration({p.name: p.usual for p in algorithm.parameters})
        forced = {"COLLTUNE_FORCE": usual.id, "COLLTUNE_NODES": _UNEVEN_NODES}
        yield Mode(f"{algorithm.collective}.{algorithm.name}", preload | forced, (usual.id,))
    table = Target.named(f"{mpi.library}-table", mpi.release)
    yield _written("table", table, library, folder, {})
    yield _written("rules", Target.named(_RULES[mpi.library], mpi.release), library, folder, {})
    # the MPI library's algorithms are steered in programs that call it from one thread at a time
    for name in WITHOUT:
        yield Mode(name + ONE_THREAD, _SERIALIZED)
    yield _written("table" + ONE_THREAD, table, library, folder, _SERIALIZED)


def _of_large_counts(mpi: Installation) -> bool:
    """Tell whether mpi4py calls functions of large counts: where the MPI library is of MPI 4."""
    return mpi.library != "openmpi" or not mpi.release.startswith(("4.", "5."))


def _written(
    name: str, target: Target, library: Path, folder: Path, more: Mapping[str, str]
) -> Mode:
    """Write a file that has many algorithms run, and return the mode in which it is in effect."""
    table = _everything(target, Shape(1, NPROCS))
    found = rendered(target, table)
    main = str(folder / target.form.name)
    for end, text in found.written.texts.items():
        Path(main + end).write_text(text, encoding="utf-8")
    variables = found.environment(main, str(library)) | {"COLLTUNE_FIRST_CALLS": "0"} | dict(more)
    chosen = {i.configuration for rule in table.rules.values() for i in rule}
    steered = [c.id for c in chosen if c.library != INTERPOSED]
    runs = steered if more else [c.id for c in chosen]
    return Mode(name, variables, tuple(sorted(runs)) if target.form.interposed else ())


def _everything(target: Target, shape: Shape) -> DecisionTable:
    """Return other configurations for each range of sizes and each number of processes."""
    rules = {}
    for collective in Collective:
        for nprocs in range(2, shape.nprocs + 1):
            usable = _usable(target, collective, nprocs)
            if usable:
                single = collective in target.mpi.at(target.release).one_rule
                starts = _FIRST_BYTES[:1] if single else _FIRST_BYTES
                rules[collective, nprocs] = _intervals(starts, usable, nprocs)
    return DecisionTable(target.form.library, shape, rules)


def _usable(target: Target, collective: Collective, nprocs: int) -> list[Configuration]:
    """Return what is right for every legal program, one configuration of each algorithm."""
    found: dict[tuple[str, str], Configuration] = {}
    for one in target.mpi.at(target.release).portfolio(collective).configurations:
        if (
            not one.is_default
            and not target.mpi.at(target.release).runs(one, nprocs, Promises(ANY_LEGAL)).refusal
        ):
            found.setdefault((one.library, one.algorithm), one)
    return list(found.values())


def _intervals(
    starts: Sequence[int], usable: Sequence[Configuration], nprocs: int
) -> tuple[Interval, ...]:
    ends = (*(start - 1 for start in starts[1:]), None)
    return tuple(
        Interval(start, end, usable[(at + nprocs) % len(usable)])
        for at, (start, end) in enumerate(zip(starts, ends, strict=True))
    )
