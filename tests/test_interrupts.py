"""Holding back interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from colltune.interrupts import handlers_kept, held_back


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Answer SIGINT as Python does, even where a shell started the tests with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_until_the_work_is_done() -> None:
    """What was begun is finished; then the interrupt comes, once."""
    done = []

    def work() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("work")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["work"]


def test_the_handlers_are_put_back() -> None:
    """After the block, and after an error in it, an interrupt is one again."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="broken"), held_back():
        raise ValueError("broken")
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_another_thread_is_not_disturbed() -> None:
    """Only the main thread can hold back; elsewhere the block just runs."""
    done = []

    def work() -> None:
        with held_back():
            done.append("work")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["work"]


def test_what_a_block_installs_does_not_stay() -> None:
    """A package that answers Ctrl-C in its own way when it is imported does not keep it."""
    before = signal.getsignal(signal.SIGINT)
    with handlers_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before
