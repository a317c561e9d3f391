"""Computing in threads."""

from __future__ import annotations

import asyncio
import threading

from colltune.server.errors import ServiceError
from colltune.server.limits import ThreadOffload
from tests.refusals import refused


def test_what_is_asked_for_at_once_is_computed_once() -> None:
    """Those who ask for the same while it is computed get the same; others do not wait for it."""
    calls: list[str] = []
    gate = threading.Event()

    def slow() -> str:
        calls.append("slow")
        assert gate.wait(10)
        return "slow"

    async def ask() -> list[str]:
        offload = ThreadOffload(2, 8, "busy")
        tasks = [asyncio.create_task(offload.run("a", slow)) for _ in range(5)]
        quick = await offload.run("b", lambda: "quick")
        gate.set()
        found = [quick, *await asyncio.gather(*tasks)]
        offload.close()
        return found

    assert asyncio.run(ask()) == ["quick", *["slow"] * 5]
    assert calls == ["slow"]


def test_more_than_can_wait_is_turned_away() -> None:
    """Beyond the bound who comes is told to come again; afterwards there is room."""
    gate = threading.Event()

    async def ask() -> str:
        offload = ThreadOffload(1, 2)
        tasks = [asyncio.create_task(offload.run(key, lambda: gate.wait(10))) for key in ("a", "b")]
        await asyncio.sleep(0)
        with refused("too-busy", ServiceError):
            await offload.run("c", lambda: "c")
        gate.set()
        await asyncio.gather(*tasks)
        found = await offload.run("c", lambda: "c")
        offload.close()
        return found

    assert asyncio.run(ask()) == "c"


def test_who_goes_away_takes_nothing_from_the_others() -> None:
    """A client that is cancelled leaves the computation to those who wait for it."""
    gate = threading.Event()

    async def ask() -> bool:
        offload = ThreadOffload(1, 4, "busy")
        gone, stays = (
            asyncio.create_task(offload.run("a", lambda: gate.wait(10))) for _ in range(2)
        )
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        found = await stays
        offload.close()
        return found

    assert asyncio.run(ask())


def test_an_error_is_everybodys_and_not_kept() -> None:
    """What fails fails for all who wait, and is tried again for the next."""

    def fails() -> str:
        raise ValueError("no")

    async def ask() -> list[object]:
        offload = ThreadOffload(1, 4, "busy")
        tasks = [offload.run("a", fails) for _ in range(2)]
        failed = await asyncio.gather(*tasks, return_exceptions=True)
        found = [*map(type, failed), await offload.run("a", lambda: "yes")]
        offload.close()
        return found

    assert asyncio.run(ask()) == [ValueError, ValueError, "yes"]
