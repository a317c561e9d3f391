"""Command lines and environments of MPI launches; pure functions.

A variable that the user has set is never replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colltune.domain import Shape


def mpirun_command(
    mpirun: Path,
    shape: Shape,
    program: Sequence[str | Path],
    *,
    cores: int,
    exported: Sequence[str] = (),
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the command line that starts `program` on all processes of `shape`.

    Processes beyond the `cores` of a node are allowed only where they are needed. `exported` names
    environment variables that remote nodes are to get too; `options` are mpirun's own, passed on.
    """
    command = [str(mpirun), "-np", str(shape.nprocs)]
    if shape.nodes > 1:
        command += ["--map-by", f"ppr:{shape.ppn}:node"]
    if shape.ppn > cores:
        command.append("--oversubscribe")
    for name in exported:
        command += ["-x", name]
    return (*command, *options, *(str(word) for word in program))


def launch_environment(
    user: Mapping[str, str], wanted: Mapping[str, str], *, shape: Shape
) -> dict[str, str]:
    """Return the environment of a launch: the user's, and of `wanted` what he has not set.

    On a single node the one-sided ofi transport, which no collective uses there, is left out: its
    search for adapters costs a second per launch.
    """
    added = dict(wanted)
    if shape.nodes == 1:
        added.setdefault("OMPI_MCA_btl", "^ofi")
    return added | dict(user)
