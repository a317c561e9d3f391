"""What a process of the service expects of whoever started it, made so where it is not."""

from __future__ import annotations

import multiprocessing
import os
import signal

from colltune.process import end_with_parent


def settle_in() -> None:
    """Take a working folder that exists, and open the standard streams that are closed.

    A socket that took the number of a standard stream would be written to, and libuv would not
    close it; a removed folder is one in which no worker can be started.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # the lowest free number, which is this one
            os.open(os.devnull, os.O_RDWR)
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        os.chdir("/")


def end_with_supervisor() -> None:
    """End when the process that started this worker does, which would otherwise keep the socket.

    Where there is no such process, nothing happens: a service goes on without the shell that it
    was started from.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return
    end_with_parent()
    if os.getppid() != supervisor.pid:
        os.kill(os.getpid(), signal.SIGTERM)
