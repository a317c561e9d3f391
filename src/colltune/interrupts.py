"""Holding back an interrupt while something must not be left half done, and who answers it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_HELD_BACK = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait until the block is through; then the first one takes effect.

    Only the main thread can do so, which is the one that Python interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda which, _frame: arrived.append(which))
        for number in _HELD_BACK
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back, after the block, who answers SIGINT and SIGTERM, whatever the block installs.

    Only the main thread can do so; another one cannot install any either.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _HELD_BACK}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None is one that C code installed
                signal.signal(number, handler)
