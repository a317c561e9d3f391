"""What the canary tells is read, and calls are made in few launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from colltune import process
from colltune.domain import Collective
from colltune.verify.canary import (
    VARYING,
    CallEnding,
    Canary,
    CanaryCall,
    CanaryRun,
    FileSeen,
    execute,
    read_look,
    read_run,
)

LOOK = """CANARY file 1 3 nb 0 1321 a9209aca
[1,0]<stderr>: CANARY file 0 3 na 0 1321 a9209aca
CANARY unreadable 2 3 nc 0 No%20such%20file%20or%20directory
some warning of the launcher
CANARY set OMPI_MCA_coll_tuned_dynamic_rules_filename=/a%20b/100%25
CANARY settings 0 0000000a
CANARY settings 1 0000000a
CANARY settings 2 0000000b
"""
BCAST = CanaryCall(Collective.BCAST, 1024, 4, 2)
WHOLE = CanaryCall(Collective.ALLREDUCE, 64, 5, 2, is_whole=True)
LATER = CanaryCall(Collective.SCAN, 8, 2, 1)
RUN = """CANARY started 5
CANARY library Open%20MPI%20v5.0.11,%20package
CANARY set OMPI_MCA_coll_han_priority=3
[na:77] coll_tuned_bcast_algorithm=pipeline (file (/home/me/.openmpi/mca-params.conf))
[na:77] coll_tuned_priority=30 (default)
[na:77] btl_tcp_if_include=lo (environment)
CANARY settings 0 7a91d970
CANARY node 1 2 nb
CANARY node 0 3 na
CANARY begin bcast:1024:4:2
TRACE MPI_Bcast 5 6
TRACE ompi_coll_base_bcast_intra_chain 4096 3
TRACE ompi_coll_base_bcast_intra_generic_part
MARK bcast 4 1024
CANARY done bcast:1024:4:2 ok
CANARY begin allreduce:64:0:2
MARK allreduce 5 64
CANARY done allreduce:64:0:2 refused MPI_ERR_ARG:%20invalid
"""


def _outcome(stderr: str, returncode: int | None = 0) -> process.ProcessResult:
    return process.ProcessResult(("mpirun",), returncode, "", stderr, 1.0)


def test_every_process_is_heard_in_whatever_order() -> None:
    """Lines of several processes, prefixes of the launcher and its warnings are told apart."""
    look = read_look(LOOK)
    assert look.files == (
        FileSeen(0, "na", 0, size_bytes=1321, crc=0xA9209ACA),
        FileSeen(1, "nb", 0, size_bytes=1321, crc=0xA9209ACA),
        FileSeen(2, "nc", 0, why="No such file or directory"),
    )
    assert look.nprocs == 3
    assert look.differing_ranks == (2,)


def test_a_job_is_described() -> None:
    """Library, nodes in order, settings, and what Open MPI showed that is not at its default."""
    run = read_run(_outcome(RUN), [BCAST, WHOLE])
    assert (run.nprocs, run.starts) == (5, 1)
    assert run.library == "Open MPI v5.0.11, package"
    assert run.nodes == (("na", 3), ("nb", 2))
    assert run.settings == {"OMPI_MCA_coll_han_priority": "3"}
    source = "file (/home/me/.openmpi/mca-params.conf)"
    assert run.shown == {"coll_tuned_bcast_algorithm": ("pipeline", source)}


def test_calls_have_their_functions_and_errors() -> None:
    """What is traced between the begin of a call and its mark belongs to it."""
    calls = read_run(_outcome(RUN), [BCAST, WHOLE, LATER]).calls
    assert calls[BCAST].ending is CallEnding.OK
    assert [f.symbol for f in calls[BCAST].functions] == [
        "ompi_coll_base_bcast_intra_chain",
        "ompi_coll_base_bcast_intra_generic_part",
    ]
    assert calls[BCAST].functions[0].words[:2] == (4096, 3)
    assert (calls[WHOLE].ending, calls[WHOLE].why) == (CallEnding.REFUSED, "MPI_ERR_ARG: invalid")
    assert calls[WHOLE].functions == ()
    assert calls[LATER].ending is CallEnding.NOT_RUN


SUMS = """CANARY begin allreduce:64:0:2
CANARY bits allreduce:64:0:2 00c0ffee
CANARY done allreduce:64:0:2 ok
CANARY begin scan:8:2:1
CANARY bits scan:8:2:1 varying
CANARY done scan:8:2:1 ok
CANARY begin bcast:1024:4:2
CANARY done bcast:1024:4:2 ok
"""


def test_calls_have_the_bits_of_their_sums() -> None:
    """A hash, or that they are not the same twice; what sums nothing has none."""
    calls = read_run(_outcome(SUMS), [BCAST, WHOLE, LATER]).calls
    assert [calls[call].bits for call in (WHOLE, LATER, BCAST)] == ["00c0ffee", VARYING, ""]


def test_ranks_that_disagree_are_an_ending_of_their_own() -> None:
    """Told from a result that is wrong, of which the canary may tell more."""
    word, off = WHOLE.word, "a%20sum%20of%20doubles%20is%20wrong"
    disagree = f"CANARY begin {word}\nCANARY done {word} disagree\n"
    wrong = f"CANARY begin {word}\nCANARY done {word} wrong {off}\n"
    assert read_run(_outcome(disagree), [WHOLE]).calls[WHOLE].ending is CallEnding.DISAGREE
    seen = read_run(_outcome(wrong), [WHOLE]).calls[WHOLE]
    assert (seen.ending, bool(seen.why)) == (CallEnding.WRONG, True)


def test_the_call_under_way_is_to_blame() -> None:
    """Where the program ends within a call it is a crash, where it was stopped a hang."""
    text = f"{RUN}CANARY begin scan:8:2:1\nTRACE MPI_Scan\nAssertion failed in file x.c\n"
    crashed = read_run(_outcome(text, 134), [BCAST, LATER]).calls[LATER]
    assert (crashed.ending, crashed.why) == (CallEnding.CRASH, "Assertion failed in file x.c")
    assert read_run(_outcome(text, None), [LATER]).calls[LATER].ending is CallEnding.HANG


def test_several_jobs_of_one_process_are_seen() -> None:
    """A launcher of another MPI starts as many jobs as processes."""
    run = read_run(_outcome("CANARY started 1\nCANARY end\n" * 3), [])
    assert (run.nprocs, run.starts) == (1, 3)


CALLS = [CanaryCall(Collective.BCAST, size, 4, 1) for size in (1, 2, 3, 4)]


@dataclass
class Scripted:
    """A canary whose calls end as `endings` says; ``launches`` counts."""

    endings: Mapping[CanaryCall, CallEnding] = field(default_factory=dict)
    starts: bool = True
    launches: list[list[CanaryCall]] = field(default_factory=list)

    def run(
        self, calls: Sequence[CanaryCall], wanted: Mapping[str, str], tracer: Path | None
    ) -> CanaryRun:
        """Tell what the program would have told."""
        self.launches.append(list(calls))
        if not self.starts:
            return read_run(process.ProcessResult(("mpirun",), 1, "", "no such thing", 1.0), calls)
        lines, status = ["CANARY started 4"], 0
        for call in calls:
            ending = self.endings.get(call, CallEnding.OK)
            lines.append(f"CANARY begin {call.word}")
            if ending in (CallEnding.CRASH, CallEnding.HANG):
                status = 139
                break
            lines.append(f"CANARY done {call.word} {ending}")
        stopped = CallEnding.HANG in [self.endings.get(call) for call in calls]
        outcome = process.ProcessResult(
            ("mpirun",), None if stopped else status, "", "\n".join(lines), 1.0
        )
        return read_run(outcome, calls)


def _endings(scripted: Scripted) -> list[CallEnding]:
    found = execute(cast("Canary", scripted), CALLS, {}, None)
    return [found.calls[call].ending for call in CALLS]


def test_what_works_takes_one_launch() -> None:
    """All calls of a file that breaks nothing are made together."""
    scripted = Scripted()
    assert _endings(scripted) == [CallEnding.OK] * 4
    assert len(scripted.launches) == 1


def test_a_crash_is_blamed_on_its_call_and_the_rest_goes_on() -> None:
    """The calls behind a crash are made in another launch."""
    scripted = Scripted({CALLS[1]: CallEnding.CRASH})
    assert _endings(scripted) == [CallEnding.OK, CallEnding.CRASH, CallEnding.OK, CallEnding.OK]
    assert scripted.launches[1] == CALLS[2:]


def test_hangs_are_not_waited_for_again_and_again() -> None:
    """After a second hang the rest is left alone: each costs the limit of a launch."""
    scripted = Scripted({CALLS[0]: CallEnding.HANG, CALLS[1]: CallEnding.HANG})
    assert _endings(scripted) == [
        CallEnding.HANG,
        CallEnding.HANG,
        CallEnding.NOT_RUN,
        CallEnding.NOT_RUN,
    ]


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
