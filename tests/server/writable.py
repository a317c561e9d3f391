"""A service with a registry of two bundles, to which those with a token may write."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colltune.production.arms import Production
from colltune.registry import Registry
from colltune.server.app import create_app
from colltune.server.auth.token_file import Scope, Token, digest, new_token, write
from colltune.server.settings import ServiceSettings
from tests.registry.small import small
from tests.server.conftest import await_ready

with warnings.catch_warnings():
    # as in conftest, which need not have been loaded before
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

EVERYTHING, ONLY_REPORTS, ONLY_PROMOTES = new_token(), new_token(), new_token()
TOKENS = (
    Token("all", frozenset(Scope), digest(EVERYTHING)),
    Token("reports", frozenset({Scope.SUMMARIES}), digest(ONLY_REPORTS)),
    Token("promotes", frozenset({Scope.PROMOTE}), digest(ONLY_PROMOTES)),
)


def bearer(token: str = EVERYTHING) -> dict[str, str]:
    """Return the header of a request by whoever has `token`."""
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True)
class Writable:
    """A service's client, its folders, and the ids of its two bundles, the first in force."""

    client: TestClient
    registry: Registry
    data: Path
    tokens: Path
    first: str
    second: str

    def post(self, path: str, token: str = EVERYTHING, **more: Any) -> Any:
        """Return the answer to a POST with a token."""
        return self.client.post(path, headers=bearer(token) | more.pop("headers", {}), **more)

    def in_force(self) -> str:
        """Return the id of the bundle that the service answers from."""
        found: dict[str, str] = self.client.get("/health/ready").json()["bundles"]
        return found["openmpi-4.1.4"]


def settings(folder: Path, **more: Any) -> ServiceSettings:
    """Return the settings of the service in `folder`, which `filled` has filled."""
    return ServiceSettings(
        **{
            "registry": str(folder / "registry"),
            "data": folder / "data",
            "tokens": folder / "tokens",
            "rate_per_s": 1e6,
            "burst": 1_000_000,
            **more,
        }
    )


def filled(folder: Path) -> tuple[Registry, str, str]:
    """Make registry and tokens in `folder`; return the former, and the ids of its bundles."""
    registry = Registry(folder / "registry")
    first, second = registry.add(small(0)), registry.add(small(1))
    registry.promote(first, by="test")
    write(folder / "tokens", TOKENS)
    return registry, first, second


def recorded(folder: Path) -> Production:
    """Return a site's settings by which jobs report; all that they report stays in `folder`."""
    store, archive = str(folder / "production.db"), folder / "archive"
    return Production(record=True, control=0.3, store=store, archive=archive)


@contextmanager
def writable(folder: Path, **more: Any) -> Iterator[Writable]:
    """Yield a service in `folder` that is ready."""
    registry, first, second = filled(folder)
    app = create_app(settings(folder, **more))
    with TestClient(app, raise_server_exceptions=False) as client:
        await_ready(client)
        yield Writable(client, registry, folder / "data", folder / "tokens", first, second)
