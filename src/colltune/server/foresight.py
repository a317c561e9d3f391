"""Renders what jobs are likely to ask for before they do: a job's prolog cannot wait long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import structlog

from colltune.domain import Shape
from colltune.errors import ColltuneError
from colltune.selector.demand import Demand, read_demand
from colltune.server.errors import ServiceError
from colltune.server.state import State

MOST = 256
"""Shapes that are rendered ahead, by how often they were asked for."""

Render = Callable[[State, Demand], object]


class Foresight:
    """Renders one shape after the other, while nobody needs the thread for anything else."""

    def __init__(self, folder: Path | None, render: Render) -> None:
        self._folder = folder
        self._render = render
        self._log = structlog.get_logger()
        self._for: State | None = None
        self._left: Iterator[Demand] = iter(())

    def one(self, state: State) -> bool:
        """Render the next shape for `state`; return whether there was one."""
        if self._for is None or self._for.loaded != state.loaded:
            self._for, self._left = state, islice(iter(self._asked()), MOST)
        asked = next(self._left, None)
        if asked is None:
            return False
        try:
            self._render(state, asked)
        except (ColltuneError, ServiceError) as error:
            self._log.debug("nothing to render ahead", shape=_shape(asked), why=str(error))
        return True

    def _asked(self) -> list[Demand]:
        if self._folder is None or not self._folder.is_dir():
            return []
        try:
            return read_demand(self._folder)
        except ColltuneError as error:
            self._log.warning("what jobs asked for cannot be read", why=str(error))
            return []


def _shape(asked: Demand) -> str:
    return f"{asked.library} {asked.release} {Shape(asked.nodes, asked.ppn)}"
