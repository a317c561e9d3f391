"""The one place that starts programs: argument lists only, with a timeout, output kept."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from colltune import leftovers
from colltune.errors import say
from colltune.interrupts import held_back

LAUNCHERS = (
    "mpirun|mpiexec|mpirun_rsh|orterun|prterun|oshrun|srun|aprun|ibrun|jsrun|poe|lrun|prun|yhrun"
    "|ccc_mprun"
)
"""What starts MPI programs, as alternatives of a pattern."""
GRACE_S = 2.0
"""Seconds that a program has to end itself before it is killed."""
_POLL_S = 0.2
_SHOWN_CHARACTERS = 2000
_PR_SET_PDEATHSIG = 1
# looked up here, since little is safe between fork and exec
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
_latest: ContextVar[float] = ContextVar("latest", default=math.inf)


@dataclass(frozen=True)
class ProcessResult:
    """How a program ended; ``returncode`` is None when colltune stopped it."""

    command: tuple[str, ...]
    returncode: int | None
    stdout: str
    stderr: str
    seconds: float

    @property
    def timed_out(self) -> bool:
        """Whether it was stopped, at its timeout or by its watcher."""
        return self.returncode is None

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    def explain(self) -> str:
        """Describe command, status and the ends of both outputs, for an error message."""
        status = "stopped" if self.timed_out else f"status {self.returncode}"
        text = f"command: {' '.join(self.command)}\n{status} after {self.seconds:.1f} s"
        for name, output in (("stdout", self.stdout), ("stderr", self.stderr)):
            if output.strip():
                text += f"\n{name}: {output.strip()[-_SHOWN_CHARACTERS:]}"
        return text


@contextmanager
def ending_by(moment: float) -> Iterator[None]:
    """Stop programs that are run within the block at `moment`, whatever their own timeouts say."""
    token = _latest.set(min(moment, _latest.get()))
    try:
        yield
    finally:
        _latest.reset(token)


def latest() -> float:
    """Return the moment at which a program that is run now will be stopped; infinity if none."""
    return _latest.get()


def find(program: str, mend: str) -> Path:
    """Return the absolute path of `program`, a path or a name on PATH; errors end with `mend`."""
    found = shutil.which(program)
    if found is None:
        raise say("program-missing", program=program, mend=mend)
    return Path(found).absolute()


def run(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    watch: Callable[[], bool] | None = None,
    stdin: IO[bytes] | None = None,
    mark: str | None = None,
) -> ProcessResult:
    """Run `command` to its end or to `timeout_s`, then stop it with its whole process group.

    `ending_by` can stop it earlier.

    Where this process is killed the program is told to end, too: nobody would wait for it.

    `stdin` is what the program reads, by default nothing.

    `watch` is called several times a second meanwhile; when it returns False the program is stopped
    as if its time were up.

    `mark` is that of a launch (`leftovers`): whatever has it then is ended, too, when this returns.

    A program that cannot be started is a `ProgramError`; a bad status is left to the caller.
    """
    words = tuple(str(word) for word in command)
    started = time.monotonic()
    if mark is not None:
        env = {**(os.environ if env is None else env), leftovers.MARK: mark}
    process = _started(words, env, cwd, stdin)
    try:
        outputs = _watch(process, min(started + timeout_s, latest()), watch)
        stopped = outputs is None
        stdout, stderr = outputs or _stop(process)
    except BaseException:
        _stop(process)
        raise
    finally:
        if mark is not None:
            with held_back():
                leftovers.end_marked(mark)
    returncode = None if stopped else process.returncode
    return ProcessResult(words, returncode, stdout, stderr, time.monotonic() - started)


def _started(
    words: tuple[str, ...],
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdin: IO[bytes] | None,
) -> subprocess.Popen[str]:
    process = None
    try:
        # Python drops what is raised in between, when it tells its modules of the fork
        with held_back():
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if env is None else dict(env),
                cwd=cwd,
                text=True,
                errors="replace",
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )
    except OSError as error:
        raise say("cannot-start", program=words[0], why=error.strerror) from error
    except BaseException:
        if process is not None:
            _stop(process)
        raise
    return process


def check(outcome: ProcessResult, what: str) -> ProcessResult:
    """Return `outcome` if it is ok; otherwise the error tells `what` was attempted."""
    if not outcome.ok:
        raise say("program-failed", what=what, told=outcome.explain())
    return outcome


def _watch(
    process: subprocess.Popen[str], deadline: float, watch: Callable[[], bool] | None
) -> tuple[str, str] | None:
    """Wait for the program's outputs; None when its time is up or `watch` gives it up."""
    while True:
        left = deadline - time.monotonic()
        try:
            return process.communicate(timeout=max(0.0, min(left, _POLL_S) if watch else left))
        except subprocess.TimeoutExpired:
            if (watch and not watch()) or time.monotonic() >= deadline:
                return None


def end_with_parent() -> None:
    """Ask Linux for a SIGTERM to this process when its parent ends in whatever way."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End the process group gently, then by force; return what it had printed."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=GRACE_S)
    outputs = _drain(process.stdout), _drain(process.stderr)
    # it has ended; only those that hold its pipes have not
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_S)
    return outputs


def _drain(stream: IO[str] | None) -> str:
    """Give up a pipe that some surviving grandchild still holds open."""
    if stream is not None:
        with suppress(OSError):
            stream.close()
    return ""
