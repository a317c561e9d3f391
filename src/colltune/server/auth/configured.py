"""The gate as the settings want it."""

from __future__ import annotations

from colltune.server.auth.gate import Gate, munge_rules
from colltune.server.auth.token_store import TokenStore
from colltune.server.settings import Settings


def gate(settings: Settings) -> Gate:
    """Return the gate of a service with these settings."""
    rules = munge_rules(settings.munge_users, settings.munge_socket, bound=settings.munge_bound)
    tokens = TokenStore(settings.tokens) if settings.tokens else None
    return Gate(tokens, rules if settings.munge else None)
