"""What a service is told: by variables ``COLLTUNE_SERVER_…``, which `colltune serve` sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from colltune.errors import DataError, UsageError, say, unknown
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.production.arms import Production
from colltune.server.auth.token_file import Scope

PREFIX = "COLLTUNE_SERVER_"
TRUSTED_PEER = "unix"
"""As a client's address: who is at a unix socket's other end may say whom it asks for."""
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


def _names(told: object) -> object:
    """Take names as one text with commas, as a variable holds them."""
    if not isinstance(told, str):
        return told
    return tuple(name.strip() for name in told.split(",") if name.strip())


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]


def _known_level(name: str) -> str:
    if name not in LEVELS:
        raise unknown("log level", name, LEVELS, UsageError)
    return name


class ConnectionLimits(BaseSettings):
    """What one connection may cost.

    Parameters
    ----------
    max_header_bytes, max_header_fields
        Of a request's headers.
    receive_s
        In which a request's headers must arrive; likewise its body, for which there is one more
        second for each 16 KiB.
    connections_per_client
        At once and per address, over all workers, each of which takes its share; None: a quarter of
        what one worker takes. Proxies that are named in ``FORWARDED_ALLOW_IPS`` have no such limit.
    proxy_users
        Who run a proxy: over a unix socket ``X-Forwarded-For`` is believed from them, from root and
        from the service's own user.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    max_header_bytes: Count = 64 << 10
    max_header_fields: Count = 100
    receive_s: Seconds = 10.0
    connections_per_client: Count | None = None
    proxy_users: Names = ()


def _known_programs(text: str) -> str:
    try:
        return str(Programs.parse(text))
    except DataError as error:
        raise error.of("programs", UsageError) from None


class ServiceSettings(BaseSettings):
    """All settings of a service.

    Parameters
    ----------
    registry
        Folder or URL of the registry whose promoted bundles are served.
    bundle
        One bundle's folder, instead of a registry.
    allowed_hosts
        Names by which clients may ask for the service, see `middleware.Hosts`.
    data
        Folder of the dataset that is fitted at night, whose new files the page counts; or None.
    demand
        Folder in which is noted what jobs asked for; None: nowhere.
    tokens
        File of hashed tokens of those who may write; None: no token is good.
    munge
        Whether MUNGE credentials are taken from those who write.
    munge_users
        Whose are: ``alice``, ``@group``, ``*``; ``alice:summaries`` may do nothing else.
    munge_socket
        Of the MUNGE daemon, where it is not the usual one.
    munge_bound
        Whether a credential must be made for its request, see `auth.gate.Admission`.
    max_body_bytes
        Of a request.
    rate_per_s, burst
        Requests that write, per client.
    summaries_burst
        Likewise what ended jobs report at once, per client and per token.
    machine, production
        Of the site file, where jobs prove what bundles gain; None: they do not.
    judge_s
        Between looks at what jobs reported.
    caution
        Of the guard; see `colltune.models.guard`.
    programs
        Which programs files are for, where a job does not tell.
    poll_s
        Between looks at the registry.
    threads
        That compute answers, per worker.
    max_pending
        Computations that may wait for them; more are turned away.
    cache_entries, cache_bytes
        Of answers kept ready, per worker.
    access_log
        Whether every request is logged.
    log_level
        The least level that is logged.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    registry: str | None = None
    bundle: Path | None = None
    allowed_hosts: Names = ()
    data: Path | None = None
    demand: Path | None = None
    tokens: Path | None = None
    munge: bool = False
    munge_users: Names = ()
    munge_socket: Path | None = None
    munge_bound: bool = False
    max_body_bytes: Count = 1 << 20
    rate_per_s: Annotated[float, Field(gt=0)] = 10.0
    burst: Count = 20
    summaries_burst: Count = 5000
    machine: str = ""
    production: Production | None = None
    judge_s: Seconds = 60.0
    caution: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    programs: Annotated[str, AfterValidator(_known_programs)] = str(FOR_EVERYBODY)
    poll_s: Seconds = 1.0
    threads: Count = 2
    max_pending: Count = 64
    cache_entries: Count = 4096
    cache_bytes: Count = 64 << 20
    access_log: bool = False
    log_level: Annotated[str, AfterValidator(_known_level)] = "INFO"

    @model_validator(mode="after")
    def _one_source(self) -> ServiceSettings:
        if (self.registry is None) == (self.bundle is None):
            raise say("missing", what="either a registry or a bundle", give="one of them to serve")
        if self.production is not None and self.registry is None:
            option, other = "[production] record = true in --site", "a registry"
            raise say("works-only-with", UsageError, option=option, other=other)
        return self

    @model_validator(mode="after")
    def _known_users(self) -> ServiceSettings:
        if self.munge and not self.munge_users:
            raise say("missing", what="who may use --munge", give="--munge-users alice,@admins")
        self.munge_allowed()
        return self

    def munge_allowed(self) -> dict[Scope, set[str]]:
        """Return per scope whose MUNGE credentials are taken."""
        allowed: dict[Scope, set[str]] = {scope: set() for scope in Scope}
        for entry in self.munge_users:
            name, colon, scope = entry.partition(":")
            if colon and scope not in list(Scope):
                raise unknown("scope", scope, Scope, UsageError).of(entry)
            for granted in [Scope(scope)] if colon else Scope:
                allowed[granted].add(name)
        return allowed

    def environment(self) -> dict[str, str]:
        """Return the variables by which a worker gets the same settings."""
        found = {}
        for name, value in self.model_dump(exclude_none=True).items():
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            if isinstance(value, dict):
                text = json.dumps(value, default=str)
            found[f"{PREFIX}{name.upper()}"] = text
        return found
