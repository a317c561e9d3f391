"""``python recording.py TESTS RECORDS DONE``: one process of an MPI job runs a folder of tests.

It appends a line to ``RECORDS/RANK`` when a test begins and when it ends. Tests that the file DONE
names are left out. ``RECORDS/ran`` tells what ran calls behind the last test. It needs nothing but
mpi4py: the interpreter may be another one than colltune's.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import signal
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

END = "MPI_Finalize"
"""Stands for the end of the program, behind all tests."""
PRELOADED = "libcolltune"
"""What tells first what ran calls, where libcolltune is there."""
CALL_BYTES = (4, 20, 300, 5000, 70000)
"""One size of each range of the tables."""


class Recorded(unittest.TestResult):
    """Writes down what becomes of each test: pass, skip or fail."""

    def __init__(self, record: Path) -> None:
        super().__init__()
        self._record = record
        self._outcome = "pass"

    def write(self, word: str, name: str) -> None:
        """Append a line."""
        with self._record.open("a", encoding="utf-8") as stream:
            stream.write(f"{word} {name}\n")

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Write that it begins."""
        super().startTest(test)
        self._outcome = "pass"
        self.write("begin", test.id())

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Write how it ended."""
        super().stopTest(test)
        self.write(self._outcome, test.id())

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """Note a test that is not for this MPI."""
        super().addSkip(test, reason)
        self._outcome = "skip"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Note and show a failure."""
        super().addFailure(test, err)
        self._fail(test, self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Note and show an error."""
        super().addError(test, err)
        self._fail(test, self.errors[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Note and show a failure of a part."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail(test, f"{subtest}: {err[1]}\n")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Note what was to fail."""
        super().addUnexpectedSuccess(test)
        self._fail(test, "was expected to fail\n")

    def _fail(self, test: unittest.TestCase, why: str) -> None:
        self._outcome = "fail"
        sys.stderr.write(f"FAIL {test.id()}\n{why}\n")
        if not isinstance(test, unittest.TestCase):
            # the set-up of a class or a module, which neither begins nor ends
            self.write("fail", test.id())


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite, in order."""
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        else:
            yield part


def choices(mpi: Any) -> Iterator[str]:
    """Make calls of the collectives that libcolltune can run, and yield what it says ran them."""
    world = mpi.COMM_WORLD
    told = getattr(ctypes.CDLL(None), "colltune_last_choice", None)
    if told is not None:
        yield PRELOADED
        told.restype = ctypes.c_char_p
    for size in CALL_BYTES:
        counts = [size] * world.Get_size()
        mine, everything = bytearray(size), bytearray(sum(counts))
        world.Bcast(mine)
        world.Allgather(mine, everything)
        world.Allreduce(bytes(mine), mine)
        world.Alltoallv([bytes(everything), counts], [everything, counts])
        for collective in ("bcast", "allgather", "allreduce", "alltoallv"):
            if told is not None:
                yield told(collective.encode()).decode()


def main(folder: str, records: str, done: str) -> None:
    """Run the tests that are left, and write down how they end."""
    # one that hangs is told to end, and shows where it is
    faulthandler.register(signal.SIGTERM, all_threads=True, chain=True)
    found = unittest.TestLoader().discover(folder, "test_*.py")
    known = set(Path(done).read_text(encoding="utf-8").splitlines())
    left = [case for case in cases(found) if case.id() not in known]
    mpi = importlib.import_module("mpi4py.MPI")
    result = Recorded(Path(records) / str(mpi.COMM_WORLD.Get_rank()))
    unittest.TestSuite(left).run(result)
    ran = "".join(f"{line}\n" for line in choices(mpi))
    if mpi.COMM_WORLD.Get_rank() == 0:
        (Path(records) / "ran").write_text(ran, encoding="utf-8")
    result.write("begin", END)


if __name__ == "__main__":
    main(*sys.argv[1:])
