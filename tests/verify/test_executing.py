"""Calls are made in few launches, and one that breaks does not take the others along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from colltune import process
from colltune.domain import Collective
from colltune.verify.canary import Canary, CanaryCall, Ending, Run, execute, read_run

CALLS = [CanaryCall(Collective.BCAST, size, 4, 1) for size in (1, 2, 3, 4)]


@dataclass
class Scripted:
    """A canary whose calls end as `endings` says; ``launches`` counts."""

    endings: Mapping[CanaryCall, Ending] = field(default_factory=dict)
    starts: bool = True
    launches: list[list[CanaryCall]] = field(default_factory=list)

    def run(
        self, calls: Sequence[CanaryCall], wanted: Mapping[str, str], tracer: Path | None
    ) -> Run:
        """Tell what the program would have told."""
        self.launches.append(list(calls))
        if not self.starts:
            return read_run(process.Outcome(("mpirun",), 1, "", "no such thing", 1.0), calls)
        lines, status = ["CANARY started 4"], 0
        for call in calls:
            ending = self.endings.get(call, Ending.OK)
            lines.append(f"CANARY begin {call.word}")
            if ending in (Ending.CRASH, Ending.HANG):
                status = 139
                break
            lines.append(f"CANARY done {call.word} {ending}")
        stopped = Ending.HANG in [self.endings.get(call) for call in calls]
        outcome = process.Outcome(
            ("mpirun",), None if stopped else status, "", "\n".join(lines), 1.0
        )
        return read_run(outcome, calls)


def _endings(scripted: Scripted) -> list[Ending]:
    found = execute(cast("Canary", scripted), CALLS, {}, None)
    return [found.calls[call].ending for call in CALLS]


def test_what_works_takes_one_launch() -> None:
    """All calls of a file that breaks nothing are made together."""
    scripted = Scripted()
    assert _endings(scripted) == [Ending.OK] * 4
    assert len(scripted.launches) == 1


def test_a_crash_is_blamed_on_its_call_and_the_rest_goes_on() -> None:
    """The calls behind a crash are made in another launch."""
    scripted = Scripted({CALLS[1]: Ending.CRASH})
    assert _endings(scripted) == [Ending.OK, Ending.CRASH, Ending.OK, Ending.OK]
    assert scripted.launches[1] == CALLS[2:]


def test_hangs_are_not_waited_for_again_and_again() -> None:
    """After a second hang the rest is left alone: each costs the limit of a launch."""
    scripted = Scripted({CALLS[0]: Ending.HANG, CALLS[1]: Ending.HANG})
    assert _endings(scripted) == [Ending.HANG, Ending.HANG, Ending.NOT_RUN, Ending.NOT_RUN]


def test_a_job_that_does_not_start_is_told() -> None:
    """Where MPI_Init fails no call is to blame, and there is no second try."""
    scripted = Scripted(starts=False)
    found = execute(cast("Canary", scripted), CALLS, {}, None)
    assert found.broken.startswith("MPI_Init fails\n")
    assert "no such thing" in found.broken
    assert set(found.calls.values()) == {found.calls[CALLS[0]]}
    assert len(scripted.launches) == 1


def test_nothing_to_do_starts_nothing() -> None:
    """Without calls there is no launch."""
    scripted = Scripted()
    assert execute(cast("Canary", scripted), [], {}, None).first is None
    assert not scripted.launches
