"""A real MPICH for tests: found, with a preloaded library that shows the messages it sends.

The variable COLLTUNE_TEST_MPICH names an mpirun, or the folder of an installation.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation

HERE = Path(__file__).parent
TIMEOUT_S = 120.0
# every process its own node, so that all messages pass UCX
ALL_VISIBLE = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "posix,self", "MPIR_CVAR_CH4_NETMOD": "ucx"}
_RANKS_WORDS = ("CALL", "DONE", "SEND")

Traffic = tuple[tuple[int, ...], ...]
"""For one call the bytes of the messages that each rank sent, in order."""


@dataclass(frozen=True)
class RealMpich:
    """An installation with what the tests need of it."""

    installation: Installation
    calls: Path
    sends: Path

    @property
    def release(self) -> str:
        """The release under test."""
        return self.installation.release

    def run(
        self, nprocs: int, steps: Sequence[str], environment: Mapping[str, str]
    ) -> process.Outcome:
        """Run the test program."""
        return process.run(
            [self.installation.mpirun, "-n", str(nprocs), self.calls, *steps],
            timeout_s=TIMEOUT_S,
            env=self.environment(environment),
        )

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a launch with `more` and no other control variables."""
        free = {n: v for n, v in os.environ.items() if not n.startswith("MPIR_CVAR_")}
        return free | self.installation.launch_environment() | dict(more)

    def traffic(
        self,
        nprocs: int,
        steps: Sequence[str],
        environment: Mapping[str, str] | None = None,
        visible: Mapping[str, str] = ALL_VISIBLE,
    ) -> list[Traffic]:
        """Run the test program, insist on right results, and return the messages of its calls."""
        return together(self.by_rank(nprocs, steps, environment, visible))

    def by_rank(
        self,
        nprocs: int,
        steps: Sequence[str],
        environment: Mapping[str, str] | None = None,
        visible: Mapping[str, str] = ALL_VISIBLE,
    ) -> list[list[tuple[int, ...]]]:
        """Return the messages of each rank's own calls; else as `traffic`."""
        watched = {"LD_PRELOAD": str(self.sends), **visible, **(environment or {})}
        outcome = self.run(nprocs, steps, watched)
        assert outcome.ok, outcome.explain()
        assert "WRONG" not in outcome.stderr, outcome.stderr
        return sent(outcome.stderr.splitlines(), nprocs)


def sent(lines: Iterable[str], nprocs: int) -> list[list[tuple[int, ...]]]:
    """Return each rank's messages in what the test program and the preloaded library print."""
    by_rank: list[list[list[int]]] = [[] for _ in range(nprocs)]
    within = [False] * nprocs
    for line in lines:
        words = line.split()
        if len(words) < 2 or words[0] not in _RANKS_WORDS or not words[1].isdigit():
            continue
        rank = int(words[1])
        if words[0] == "SEND":
            if within[rank]:
                by_rank[rank][-1].append(int(words[2]))
            continue
        within[rank] = words[0] == "CALL"
        if within[rank]:
            by_rank[rank].append([])
    return [[tuple(call) for call in calls] for calls in by_rank]


def together(by_rank: Sequence[Sequence[tuple[int, ...]]]) -> list[Traffic]:
    """Return the messages of calls that all ranks make."""
    return [tuple(ranks) for ranks in zip(*by_rank, strict=True)]


def prepare(folder: Path) -> RealMpich:
    """Return the MPICH under test, or skip the test with the reason."""
    try:
        found = installation.find(os.environ.get("COLLTUNE_TEST_MPICH"), "mpich")
    except ProgramError as error:
        pytest.skip(str(error))
    calls, sends = folder / "calls", folder / "sends.so"
    for target, options in (
        (calls, [HERE / "calls.c"]),
        (sends, ["-fPIC", "-shared", HERE / "sends.c", "-ldl"]),
    ):
        compiled = process.run(
            [found.mpicc, "-O1", "-o", target, *options],
            timeout_s=TIMEOUT_S,
            env=dict(os.environ) | found.launch_environment(),
        )
        process.check(compiled, "compiling the test program")
    real = RealMpich(found, calls, sends)
    if not any(real.traffic(2, ["bcast:64"])[0]):
        pytest.skip(f"{found.mpirun} does not send by UCX, or not so that it can be seen")
    return real
