"""The ways in which foreign tests are run: without colltune, and with what it may do to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.installation import Installation
from colltune.mpi.interposed.algorithms import ALGORITHMS
from colltune.mpi.interposed.beside import PRELOAD
from colltune.selector.configuration import Target, rendered

WITHOUT = ("without", "without, again")
"""The same twice: a test that does not end alike in both tells nothing about colltune."""
NPROCS = 3
_UNEVEN_NODES = "by-rank:2"
_RULES = {"openmpi": "openmpi-classic", "mpich": "mpich-json", "intelmpi": "intelmpi-json"}
_FIRST_BYTES = (0, 16, 256, 4096, 65536)


@dataclass(frozen=True)
class Mode:
    """One way: its name, and the variables that it sets."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)


def modes(mpi: Installation, library: Path, folder: Path) -> Iterator[Mode]:
    """Yield all ways for `mpi` with its libcolltune; their files are written into `folder`."""
    for name in WITHOUT:
        yield Mode(name)
    preload = {PRELOAD: str(library)}
    yield Mode("idle", preload)
    yield Mode("recording", preload | {"COLLTUNE_PROFILE": str(folder / "profiles")})
    for algorithm in ALGORITHMS:
        usual = algorithm.configuration({p.name: p.usual for p in algorithm.parameters})
        forced = {"COLLTUNE_FORCE": usual.id, "COLLTUNE_NODES": _UNEVEN_NODES}
        yield Mode(f"{algorithm.collective}.{algorithm.name}", preload | forced)
    yield Mode("table", _written(mpi, f"{mpi.library}-table", folder, library))
    yield Mode("rules", _written(mpi, _RULES[mpi.library], folder, library))


def _written(mpi: Installation, form: str, folder: Path, library: Path) -> dict[str, str]:
    """Write a file that has many algorithms run; return the variables that put it into effect."""
    target = Target.named(form, mpi.release)
    found = rendered(target, _everything(target, Shape(1, NPROCS)))
    main = str(folder / form)
    for end, text in found.written.texts.items():
        Path(main + end).write_text(text, encoding="utf-8")
    return found.environment(main, str(library))


def _everything(target: Target, shape: Shape) -> DecisionTable:
    """Return other configurations for each range of sizes and each number of processes."""
    rules = {}
    for collective in Collective:
        for nprocs in range(2, shape.nprocs + 1):
            usable = _usable(target, collective, nprocs)
            if usable:
                single = collective in target.mpi.one_rule(target.release)
                starts = _FIRST_BYTES[:1] if single else _FIRST_BYTES
                rules[collective, nprocs] = _intervals(starts, usable, nprocs)
    return DecisionTable(target.form.library, shape, rules)


def _usable(target: Target, collective: Collective, nprocs: int) -> list[Configuration]:
    """Return what is right for every legal program, one configuration of each algorithm."""
    found: dict[tuple[str, str], Configuration] = {}
    for one in target.mpi.portfolio(target.release, collective).configurations:
        if not one.is_default and target.mpi.safe(
            target.release, one, builtin_operations_only=False, nprocs=nprocs
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
