"""How `make test-foreign` runs tests that hang and crash, with a stand-in for mpi4py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from colltune.errors import ProgramError
from tests.foreign import recording, run, running, suite
from tests.foreign.modes import ONE_THREAD, WITHOUT, Mode
from tests.foreign.recording import END
from tests.foreign.running import START, Job, merged

MPI = """
import os
class COMM_WORLD:
    @staticmethod
    def Get_rank(): return int(os.environ["RANK"])
    @staticmethod
    def Get_size(): return 2
    @staticmethod
    def Bcast(*buffers): pass
    Allgather = Allreduce = Alltoallv = Bcast
"""
TESTS = """
import os, signal, subprocess, sys, time, unittest
class Test(unittest.TestCase):
    def test_1_passes(self): pass
    def test_2_fails_on_one(self): self.assertEqual(os.environ["RANK"], "0")
    def test_3_hangs_on_one(self):
        if os.environ["RANK"] == "1":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                             start_new_session=True)
            time.sleep(600)
    @unittest.skip("for no reason")
    def test_4_is_skipped(self): pass
    def test_5_crashes(self): os.kill(os.getpid(), signal.SIGKILL)
    def test_6_fails_in_part(self):
        for part in range(3):
            with self.subTest(part): self.assertEqual(part, 1)
    def test_7_passes(self): pass
class Unusable(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError
    def test(self): pass
"""
LAUNCHER = """
import os, subprocess, sys
started = [subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, "RANK": str(rank)})
           for rank in range(2)]
sys.exit(any([process.wait() for process in started]))
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return what runs the tests as two processes that know nothing of each other."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "mpi4py").mkdir()
    for name, text in (
        ("mpi4py/__init__.py", ""),
        ("mpi4py/MPI.py", MPI),
        ("tests/test_it.py", TESTS),
        ("launcher.py", LAUNCHER),
    ):
        (tmp_path / name).write_text(text)
    program: list[str | Path] = [
        sys.executable,
        tmp_path / "launcher.py",
        recording.__file__,
        tmp_path / "tests",
    ]
    return Job(program, 2, {**os.environ, "PYTHONPATH": str(tmp_path)})


def _goes_on(records: Path) -> bool:
    """Tell whether one process is not yet where it hangs, or the other not where it crashes."""
    lasts = {path.name: path.read_text().splitlines()[-1:] for path in records.iterdir()}
    return not (
        "test_3_hangs_on_one" in "".join(lasts.get("1", []))
        and "test_5_crashes" in "".join(lasts.get("0", []))
    )


def test_a_run_goes_on_behind_what_hangs_and_what_crashes(job: Job, tmp_path: Path) -> None:
    """Each test ends as on the worst process; what stopped a run is told; no process is left."""
    told: list[str] = []
    outcomes = running.run(job, tmp_path / "runs", told.append, _goes_on)
    assert {name.removeprefix("test_it."): end for name, end in outcomes.items()} == {
        "Test.test_1_passes": "pass",
        "Test.test_2_fails_on_one": "fail",
        "Test.test_3_hangs_on_one": "hang",
        "Test.test_4_is_skipped": "skip",
        "Test.test_5_crashes": "crash",
        "Test.test_6_fails_in_part": "fail",
        "Test.test_7_passes": "pass",
        "setUpClass (test_it.Unusable)": "fail",
        END: "pass",
    }
    assert [line.split(" in ")[0] for line in told] == ["hang", "crash"]
    marks = (f"{running._MARK}={tmp_path / 'runs' / str(n)}" for n in range(len(told) + 1))
    assert not [left for mark in marks for left in running._marked(mark)]


def test_what_never_began_is_told() -> None:
    """Where a process wrote nothing MPI_Init did not return."""
    assert merged([[("begin", "a")], []], "hang") == ({START: "hang"}, True)


def test_an_end_that_hangs_is_told() -> None:
    """All tests passed, and MPI_Finalize did not return."""
    record = [("begin", "a"), ("pass", "a"), ("begin", END)]
    assert merged([record, record], "hang") == ({"a": "pass", END: "hang"}, True)


def test_differences_are_those_of_steady_tests() -> None:
    """What differs between two runs without colltune tells nothing; what is not run differs."""
    first, again = WITHOUT
    by_mode = {
        first: {"a": "pass", "b": "pass", "c": "fail", "d": "pass"},
        again: {"a": "pass", "b": "hang", "c": "fail", "d": "pass"},
        "idle": {"a": "pass", "b": "fail", "c": "fail", "d": "hang"},
        "rules": {"a": "pass", "b": "pass", "c": "pass"},
        **{name + ONE_THREAD: {"a": "skip"} for name in WITHOUT},
        "table" + ONE_THREAD: {"a": "pass"},
    }
    assert list(run.differences("mpich-1", by_mode)) == [
        "mpich-1, idle: d: pass without colltune, hang with it",
        "mpich-1, rules: c: fail without colltune, pass with it",
        "mpich-1, rules: d: pass without colltune, not run with it",
        "mpich-1, table, one thread: a: skip without colltune, pass with it",
    ]
    assert "1 tests do not end alike twice" in "\n".join(run.table({"mpich-1": by_mode}))


def test_without_a_network_it_says_what_it_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that cannot be reached is one message that asks for a network."""
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nosuch")
    with pytest.raises(ProgramError, match=r"tools\.txt locks \(is there a network"):
        suite._pip(Path(sys.executable), ["download"], suite.HERE / "tools.txt")


def test_tests_that_ran_without_what_they_test_are_no_proof(tmp_path: Path) -> None:
    """A mode in which libcolltune ran nothing that it was told to has one more failure."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "ran").write_text("libcolltune\ncolltune.a.b:c=1\n\n")
    assert not run._at_work(Mode("forced", runs=("colltune.a.b:c=1", "colltune.a.x")), tmp_path)
    assert not run._at_work(Mode("without"), tmp_path)
    assert run._at_work(Mode("forced", runs=("colltune.a.x",)), tmp_path) == {run.AT_WORK: "fail"}


@pytest.mark.parametrize("name", ["mpi4py.txt", "tools.txt"])
def test_locks_name_versions_and_hashes_but_no_index(name: str) -> None:
    """They can be fetched from any index."""
    text = (suite.HERE / name).read_text()
    pinned = [line for line in text.splitlines() if line[:1].isalpha()]
    assert pinned
    assert all("==" in line for line in pinned)
    assert "--hash=sha256:" in text
    assert "//" not in text
    assert "index" not in text
