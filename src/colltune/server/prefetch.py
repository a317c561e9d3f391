"""Makes answers before they are asked for: a job's prolog cannot wait long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import structlog

from colltune.domain import Shape
from colltune.errors import ColltuneError
from colltune.models.guard import Guard
from colltune.selector.configuration import Target
from colltune.selector.demand import Demand, read_demand
from colltune.server.answers import Answer
from colltune.server.errors import ServiceError
from colltune.server.state import Loaded, State

_MOST_AGAIN, _PATIENCE_S = 64, 3.0
_MOST_SHAPES = 256
Render = Callable[[State, Demand], object]


def prepared(loaded: Loaded, guard: Guard) -> None:
    """Make one configuration, so that catalogues are read and the first client does not wait."""
    context = loaded.bundle.context
    try:
        target = Target.named(context.library, context.library_version)
        loaded.rendering(max(loaded.bundle.training_shapes), target, guard)
    except ColltuneError as error:
        # a library without files still has selections
        structlog.get_logger().info("no configuration", slot=loaded.slot, why=str(error))


def warmed(old: State, new: State) -> None:
    """Put the answers that `old` gave last into `new`, so that clients need not wait for them.

    What the same bundle gives is taken over; the rest is computed, for a few seconds at most.
    """
    ids = {loaded.bundle.id for loaded in new.loaded.values()}
    same_slots = old.loaded.keys() == new.loaded.keys()
    deadline = time.monotonic() + _PATIENCE_S
    left = _MOST_AGAIN
    ready: list[tuple[tuple[str, bytes], Answer]] = []
    for key, answer in reversed(old.answers.items()):
        if same_slots and answer.document.bundle_id in ids:
            ready.append((key, answer))
        elif left and time.monotonic() < deadline:
            left -= 1
            again = _again(answer, new)
            if again is not None:
                ready.append((key, again))
    for key, answer in reversed(ready):
        new.answers.put(key, answer)


def _again(answer: Answer, state: State) -> Answer | None:
    if answer.recipe is None:
        return None
    compute, arguments = answer.recipe
    try:
        return Answer(compute(state, *arguments), answer.route, answer.recipe)
    except Exception as error:
        # whoever asks next is told
        structlog.get_logger().debug("an answer is no more", why=str(error))
        return None


class Prefetch:
    """Renders what jobs asked for so far, the most frequent shapes first, one at a time.

    ``folder`` is where that was counted, None if nowhere.
    """

    def __init__(self, folder: Path | None, render: Render) -> None:
        self._folder = folder
        self._render = render
        self._log = structlog.get_logger()
        self._for: State | None = None
        self._left: Iterator[Demand] = iter(())

    def one(self, state: State) -> bool:
        """Render the next shape for `state`; return whether there was one."""
        if self._for is None or self._for.loaded != state.loaded:
            self._for, self._left = state, islice(iter(self._asked()), _MOST_SHAPES)
        asked = next(self._left, None)
        if asked is None:
            return False
        try:
            self._render(state, asked)
        except (ColltuneError, ServiceError) as error:
            shape = f"{asked.library} {asked.release} {Shape(asked.nodes, asked.ppn)}"
            self._log.debug("nothing to render ahead", shape=shape, why=str(error))
        return True

    def _asked(self) -> list[Demand]:
        if self._folder is None or not self._folder.is_dir():
            return []
        try:
            return read_demand(self._folder)
        except ColltuneError as error:
            self._log.warning("what jobs asked for cannot be read", why=str(error))
            return []
