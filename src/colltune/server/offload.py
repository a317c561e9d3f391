"""Computes in threads what would hold up the event loop, each thing once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from colltune.server.errors import BusyError

Result = TypeVar("Result")


class Offload:
    """A few threads, and a bound on what may wait for them."""

    def __init__(self, threads: int, max_pending: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answers")
        self._max_pending = max_pending
        self._pending: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return what `compute` returns; who asks for the same meanwhile gets the same."""
        task = self._pending.get(key)
        if task is None:
            if len(self._pending) >= self._max_pending:
                raise BusyError("too many answers are being computed; ask again in a second")
            task = asyncio.ensure_future(self._computed(key, compute))
            self._pending[key] = task
        # a client who goes away does not take the answer from the others
        found: Result = await asyncio.shield(task)
        return found

    async def _computed(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, compute)
        finally:
            del self._pending[key]

    def close(self) -> None:
        """Wait for what is under way, and drop what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)
