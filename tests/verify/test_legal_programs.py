"""What becomes of a measurement of legal programs whose launches crash, hang or are interrupted."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from colltune.domain import Collective
from colltune.errors import CampaignError, DataError, ProgramError
from colltune.mpi import programs
from colltune.mpi.bits import Differ
from colltune.mpi.installation import Installation
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.programs import Measured, ProgramOutcome, kind_of
from colltune.verify.legal_programs import (
    LegalityMeasurement,
    Matrix,
    bits_calls,
    bits_matrix,
    calls,
    configurations,
    large_call,
    reduced,
)
from tests.refusals import refused

# starts the program behind its options, once
LAUNCHER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -np | -x | --map-by) shift;; esac; shift; done
exec "$@"
"""
# answers as the conformance program does; what it does about a case, the test says
PROGRAM = """#!{python}
import os, re, sys, time
plan, results, asked = sys.argv[1], open(sys.argv[2], "a", buffering=1), open({asked!r}, "a")
config, bad, damaged, limit_s = "", {bad!r}, False, int(sys.argv[3])
for line in open(plan):
    if line.startswith("limit"):
        limit_s = int(line.split()[1])
        continue
    if line.startswith("config"):
        config = line.strip()
        continue
    number, case = line.split()[1], line.strip().split(" ", 2)[2]
    print("begin", number, file=results)
    print(config, case, file=asked, flush=True)
    found = [what for pattern, what in bad.items() if re.search(pattern, config + " " + case)]
    what = found[0] if found else "right"
    if what == "silent":
        time.sleep(60)
    if what == "crash":
        os.abort()
    if what == "slow" and limit_s == 1:
        what = "hangs"
    if what in ("hangs", "refused"):
        print(what, number, file=results)
        os._exit(9)
    damaged |= what == "damage"
    bits = what.removeprefix("bits ") if what.startswith("bits ") else "111.aa.bb.-"
    told = [bits] if " bits " in case else []
    print("done", number, "wrong" if what == "wrong" else "right", *told, file=results)
if damaged:
    os.abort()
print("end", file=results)
"""


@dataclass(frozen=True)
class Fake:
    """An MPI that starts one process, and a conformance program that answers as it is told."""

    folder: Path

    def measurement(
        self,
        bad: dict[str, str],
        silence_s: float = 30.0,
        large: tuple[int, ...] = (),
        bits: tuple[int, ...] = (),
        nodes: int = 1,
    ) -> LegalityMeasurement:
        """Return a measurement of barriers; on the processes `large`, with large calls.

        Of the bits of allreduce on the processes `bits`, and where they lie on `nodes`.
        """
        mpirun, program = self.folder / "mpirun", self.folder / "legal"
        mpirun.write_text(LAUNCHER)
        filled = {"python": sys.executable, "asked": str(self.folder / "asked"), "bad": bad}
        program.write_text(PROGRAM.format(**filled))
        for file in (mpirun, program):
            file.chmod(0o755)
        matrix = replace(
            bits_matrix(bits, nodes=nodes), collectives=(Collective.ALLREDUCE,), limit_s=1
        )
        if not bits:
            matrix = self._barriers(silence_s, large)
        return self.of(matrix)

    def of(
        self, matrix: Matrix, library: str = "openmpi", release: str = "5.0.11"
    ) -> LegalityMeasurement:
        """Return a measurement of `matrix`, once the programs are written."""
        mpirun, program = self.folder / "mpirun", self.folder / "legal"
        installation = Installation(library, release, mpirun, mpirun, mpirun, "cc")
        return LegalityMeasurement(installation, self.folder / "out.toml", matrix, program)

    @staticmethod
    def _barriers(silence_s: float, large: tuple[int, ...]) -> Matrix:
        return Matrix(
            large or (2,),
            (Collective.BARRIER,),
            limit_s=1,
            silence_s=silence_s,
            large=bool(large),
        )

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def outcome(measured: Measured, kind: str, mode: str = "tidy") -> ProgramOutcome:
    """Return what was measured of a kind of barrier."""
    return measured.outcomes[Collective.BARRIER][kind].get(mode, ProgramOutcome.RIGHT)


TREE = "coll_tuned_barrier_algorithm=6.*tidy"


@pytest.mark.parametrize(
    ("ending", "seen"),
    [
        ("crash", ProgramOutcome.ABORTS),
        ("hangs", ProgramOutcome.HANGS),
        ("refused", ProgramOutcome.ABORTS),
        ("wrong", ProgramOutcome.WRONG),
    ],
)
def test_what_goes_wrong_is_of_its_algorithm_and_mode(
    fake: Fake, ending: str, seen: ProgramOutcome
) -> None:
    """A crash, a hang or wrong data is noted, and all that follows is measured all the same."""
    measured = fake.measurement({TREE: ending}).run()
    assert outcome(measured, "tree") is seen
    assert outcome(measured, "tree", "communicators") is ProgramOutcome.RIGHT
    assert outcome(measured, "linear") is ProgramOutcome.RIGHT


def test_a_call_that_is_slow_once_does_not_hang(fake: Fake) -> None:
    """What seems to hang is made again with more time."""
    measured = fake.measurement({TREE: "slow", f"{TREE[:-5]}.*in_a_row": "hangs"}).run()
    assert outcome(measured, "tree") is ProgramOutcome.RIGHT
    assert outcome(measured, "tree", "in_a_row") is ProgramOutcome.HANGS


def test_a_silent_launch_is_stopped(fake: Fake) -> None:
    """A launch that tells nothing any more counts as ended in its last call."""
    measured = fake.measurement({TREE: "silent"}, silence_s=0.5).run()
    assert outcome(measured, "tree") is not ProgramOutcome.RIGHT
    assert outcome(measured, "linear") is ProgramOutcome.RIGHT


def test_damage_that_shows_later_is_of_its_mode(fake: Fake) -> None:
    """A launch that ends after right calls is made again mode by mode, to find the guilty one."""
    measured = fake.measurement({"coll_tuned_barrier_algorithm=6.*in_a_row": "damage"}).run()
    assert outcome(measured, "tree", "in_a_row") is ProgramOutcome.ABORTS
    assert outcome(measured, "tree") is ProgramOutcome.RIGHT
    assert outcome(measured, "bruck", "in_a_row") is ProgramOutcome.RIGHT


def test_what_the_default_cannot_do_is_not_held_against_algorithms(fake: Fake) -> None:
    """What fails by default is noted there, and not asked of any algorithm."""
    measured = fake.measurement({"tidy": "wrong"}).run()
    assert outcome(measured, "default") is ProgramOutcome.WRONG
    assert outcome(measured, "linear") is ProgramOutcome.NOT_MEASURED


def test_the_worst_outcome_of_a_mode_counts(fake: Fake) -> None:
    """Silently wrong data outranks a crash in the same mode."""
    of = "coll_tuned_barrier_algorithm=6.*communicators"
    measured = fake.measurement({f"{of} 0": "crash", f"{of} 3": "wrong"}).run()
    assert outcome(measured, "tree", "communicators") is ProgramOutcome.WRONG


def test_an_interrupted_measurement_goes_on(fake: Fake) -> None:
    """What was measured before an interruption is not measured again."""
    first = fake.measurement({})

    def interrupt(done: int, _total: int, _now: str) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(interrupt)
    before = len(fake.asked)
    measured = fake.measurement({}).run()
    assert before > 0
    assert len(fake.asked) == len(set(fake.asked)) == measured.calls
    assert not list(fake.folder.glob("*.journal"))


def test_what_is_written_is_read_again(fake: Fake) -> None:
    """The file says what the measurement returned."""
    measured = fake.measurement({TREE: "wrong"}).run()
    assert programs.parse((fake.folder / "out.toml").read_text(), "out.toml") == measured


def test_large_calls_are_made_where_they_are_asked_for(fake: Fake) -> None:
    """Of each configuration there is one, on the fewest processes."""
    fake.measurement({}, large=(3, 2)).run()
    asked = [case for case in fake.asked if " large " in case]
    assert len(asked) == len(set(asked)) > 1
    fake.measurement({}).run()
    assert len([case for case in fake.asked if " large " in case]) == len(asked)


def test_a_large_call_moves_more_than_an_int_counts() -> None:
    """It is more than 2^31 bytes in all, of a count that an int holds."""
    for collective, blocks in ((Collective.BCAST, 1), (Collective.ALLGATHER, 4)):
        call = large_call(collective, 4)
        assert blocks * call.ints * 4 > 2**31 > call.ints


def test_a_program_that_does_not_start_is_an_error(fake: Fake) -> None:
    """Nothing is written about algorithms when the launcher fails."""
    measurement = fake.measurement({})
    (fake.folder / "mpirun").write_text("#!/bin/sh\necho no slots >&2\nexit 1\n")
    with refused("did-not-start", ProgramError) as raised:
        measurement.run()
    assert "no slots" in raised.value.values["told"]
    assert not (fake.folder / "out.toml").exists()


def test_settings_that_decide_are_refused(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a variable that chooses algorithms nothing can be measured under its own name."""
    monkeypatch.setenv("OMPI_MCA_coll_tuned_bcast_algorithm", "2")
    with refused("environment-decides", CampaignError, name="OMPI_MCA_coll_tuned_bcast_algorithm"):
        fake.measurement({})


def test_algorithms_that_are_never_used_are_measured_too() -> None:
    """A fault that the catalogue tells of is found again."""
    found = configurations(OPENMPI.at("5.0.11"), Collective.ALLGATHER)
    assert "sparbit" in {each.algorithm for each in found}


def test_a_reduced_matrix_has_all_kinds_and_ways() -> None:
    """Fewer sizes and parameters leave out no kind of configuration and no way of a mode."""
    release = OPENMPI.at("5.0.11")
    whole = Matrix(collectives=(Collective.BCAST,))
    few = reduced(whole)

    def kinds(matrix: Matrix) -> set[str]:
        return {kind_of(each) for each in matrix.configurations(release)[Collective.BCAST]}

    def ways(matrix: Matrix) -> set[tuple[str, int]]:
        return {(call.mode, call.variant) for call in matrix.calls(Collective.BCAST, 3)}

    assert kinds(few) == kinds(whole)
    assert ways(few) == ways(whole)


def test_a_call_is_tried_once() -> None:
    """No two calls of a collective are the same."""
    every = list(calls(Collective.ALLTOALLV, 3))
    assert len(every) == len(set(every))


RABENSEIFNER, DOUBLING = "allreduce_algorithm=6", "allreduce_algorithm=3"


def test_bits_are_compared_with_those_of_the_default(fake: Fake) -> None:
    """By number of processes, for MPI's operations and a program's own; between sizes, too."""
    bad = {
        f"{DOUBLING}.*bits [02] (1024|2048)$": "bits 111.aa.cc.-",
        f"{DOUBLING}.*bits [13] ": "bits 111.dd.cc.-",
        f"{RABENSEIFNER}.*bits 0 64$": "bits 010.ee.bb.-",
    }
    measured = fake.measurement(bad, bits=(2, 4)).run()
    bits = measured.bits[Collective.ALLREDUCE]
    doubling, ring = bits.facts["recursive_doubling"], bits.facts["ring"]
    assert doubling.builtin[4] == ((0, 720), (2992, 1 << 20))
    assert doubling.as_default(4, own=True) == ()
    assert doubling.differ == frozenset()
    assert ring.as_default(2, own=True) == ((0, 1 << 20),)
    assert ring.as_default(3, own=False) == ()
    differs = bits.facts["rabenseifner"].differ
    assert differs == {Differ.RANKS, Differ.PLACES, Differ.SIZES}
    assert bits.facts["rabenseifner"].as_default(2, own=False) == ()
    seen = measured.outcomes[Collective.ALLREDUCE]
    assert seen["rabenseifner"] == {programs.RANKS_AGREE: ProgramOutcome.WRONG}
    assert programs.RANKS_AGREE in measured.modes[Collective.ALLREDUCE]


def test_bits_differ_between_launches_where_a_second_one_gives_others(fake: Fake) -> None:
    """Such an algorithm is never known to give the default's."""
    bad = {f"{DOUBLING}.*bits [23] 1024$": "bits 111.aa.cc.-"}
    facts = fake.measurement(bad, bits=(2,)).run().bits[Collective.ALLREDUCE].facts
    assert facts["recursive_doubling"].differ == {Differ.LAUNCHES}
    assert facts["recursive_doubling"].as_default(2, own=False) == ()


def test_bits_differ_between_layouts_where_several_nodes_give_others(fake: Fake) -> None:
    """What does not run there is not known; what was measured later is added."""
    bad = {
        f"{DOUBLING}.*bits [45] 1024$": "bits 111.aa.cc.-",
        f"{RABENSEIFNER}.*bits 4 2048$": "wrong",
        "allreduce_algorithm=4.*bits 4 64$": "bits 011.aa.bb.-",
    }
    found = fake.measurement(bad, bits=(3, 4), nodes=2).run().bits[Collective.ALLREDUCE]
    assert found.layouts == ("2x2",)
    for name in ("recursive_doubling", "rabenseifner"):
        assert found.facts[name].differ == {Differ.LAYOUTS}, name
        assert found.facts[name].as_default(4, own=False) == ((0, 1 << 20),)
        assert not found.facts[name].anywhere
    assert found.facts["ring"].differ == {Differ.RANKS}
    assert found.facts["basic_linear"].anywhere
    later = fake.measurement({}, bits=(5,)).run().bits[Collective.ALLREDUCE]
    assert later.processes == (3, 4, 5)
    assert later.calls > found.calls
    doubling = later.facts["recursive_doubling"]
    assert doubling.differ == {Differ.LAYOUTS}
    assert set(doubling.builtin) == {3, 4, 5}
    assert later.facts["basic_linear"].anywhere


def test_what_is_launched_apart_has_a_second_launch_as_well(fake: Fake) -> None:
    """Configurations that do not start together are made again one by one, too."""
    fake.measurement({"scan bits [23] 1024$": "bits 111.aa.cc.-"}, bits=(2,))
    both = '[ -n "$I_MPI_ADJUST_SCAN" ] && [ -n "$I_MPI_ADJUST_EXSCAN" ] && exit 1\n'
    launcher = LAUNCHER.replace("-np", "-n").replace("exec", f"{both}exec")
    (fake.folder / "mpirun").write_text(launcher)
    matrix = replace(bits_matrix((2,)), collectives=(Collective.SCAN, Collective.EXSCAN))
    found = fake.of(matrix, "intelmpi", "2021.18.1").run().bits
    for collective in matrix.collectives:
        facts = found[collective].facts
        assert {"default", "preset1", "preset2"} <= set(facts)
        assert {f.differ for f in facts.values()} == {frozenset({Differ.LAUNCHES})}, collective


def test_bits_are_added_to_what_the_file_tells(fake: Fake) -> None:
    """An algorithm that ends programs is known for what was whole; another release is refused."""
    first = fake.measurement({TREE: "wrong"}).run()
    measured = fake.measurement({f"{DOUBLING}.*bits 0 ": "crash"}, bits=(2,)).run()
    assert measured.outcomes[Collective.BARRIER] == first.outcomes[Collective.BARRIER]
    facts = measured.bits[Collective.ALLREDUCE].facts
    assert facts["recursive_doubling"].builtin == {}
    assert facts["recursive_doubling"].own[2] == ((0, 1 << 20),)
    assert programs.parse((fake.folder / "out.toml").read_text(), "out.toml") == measured
    assert fake.measurement({}).run().bits == measured.bits
    text = programs.text_of(replace(measured, release="4.1.8"))
    (fake.folder / "out.toml").write_text(text)
    with refused("outcomes-of-another", DataError):
        fake.measurement({}, bits=(2,))


def test_a_reduction_of_many_processes_moves_less() -> None:
    """All processes together hold no more than some megabytes."""
    for collective in (Collective.ALLREDUCE, Collective.REDUCE_SCATTER_BLOCK):
        blocks = 16 if collective.has_block_per_rank else 1
        sizes = [call.ints for call in bits_calls(collective, 16)]
        assert max(sizes) * 16 * blocks <= 1 << 22
        assert min(sizes) == 4
    assert not list(bits_calls(Collective.BCAST, 4))
