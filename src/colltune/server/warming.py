"""Makes the answers that are asked for most before a new bundle comes into force."""

from __future__ import annotations

import time

import structlog

from colltune.errors import ColltuneError
from colltune.models.guard import Guard
from colltune.selector.configuration import Target
from colltune.server.answers import Answer
from colltune.server.rendering import rendering
from colltune.server.state import Loaded, State

_MOST = 64
_PATIENCE_S = 3.0


def prepared(loaded: Loaded, guard: Guard) -> None:
    """Make one configuration, so that catalogues are read and the first client does not wait."""
    context = loaded.bundle.context
    try:
        target = Target.named(context.library, context.library_version)
        shape = max(loaded.bundle.training_shapes)
        rendering(loaded.bundle, loaded.renderings, shape, target, guard)
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
    left = _MOST
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
