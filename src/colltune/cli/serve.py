"""`colltune serve`: answers over HTTP."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.options import Caution, ForEverybody, ForResults
from colltune.errors import DataError, UsageError, say
from colltune.on_demand import require

if TYPE_CHECKING:
    from colltune.server.settings import ServiceSettings

_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_NEEDED = ("fastapi", "httptools", "prometheus_client", "pydantic_settings", "structlog", "uvicorn")
_NEEDED_TO_JUDGE = ("scipy", "sqlalchemy")


def serve(
    registry: Annotated[
        str | None,
        typer.Option(help="Registry whose promoted bundles are served: a folder or s3://…"),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Bundle folder to serve, instead of a registry.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="TCP port; 0 for any free port.", min=0, max=65535)
    ] = 8765,
    uds: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Listen on a unix socket instead of a TCP port."),
    ] = None,
    uds_mode: Annotated[
        str, typer.Option(metavar="MODE", help="Permissions of the unix socket, octal.")
    ] = "660",
    allowed_hosts: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Host names that clients may use, separated by commas: tuning.example.org, "
            "*.example.org. IP addresses and names without a dot are always allowed.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of worker processes.", min=1, max=256)] = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Dataset fitted at night; the page tells how many files came since."),
    ] = None,
    demand: Annotated[
        Path | None, typer.Option(help="Folder to record the requests of jobs in.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File with the hashed tokens of clients that may write.")
    ] = None,
    munge: Annotated[
        bool, typer.Option(help="Accept MUNGE credentials from clients that may write.")
    ] = (False),
    munge_users: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Users whose MUNGE credentials are accepted, separated by commas: alice, @group, "
            "alice:measurements (only for measurements).",
        ),
    ] = None,
    programs: ForEverybody = None,
    results: ForResults = None,
    caution: Caution = 1.0,
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="SITE.toml",
            help="Site file. With record = true in its [production], jobs are compared with a "
            "control group, and what they report is judged. Its registry is served by default.",
        ),
    ] = None,
    ssl_certfile: Annotated[
        Path | None, typer.Option(help="TLS certificate (PEM, with its chain).")
    ] = None,
    ssl_keyfile: Annotated[
        Path | None, typer.Option(help="Private key of the certificate (PEM).")
    ] = None,
    ssl_ca_certs: Annotated[
        Path | None, typer.Option(help="Require client certificates signed by these authorities.")
    ] = None,
    access_log: Annotated[bool, typer.Option(help="Log every request.")] = False,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING, ERROR.")] = "INFO",
    print_unit: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Print an example for systemd, nginx, apache, compose, kubernetes, prometheus"
            " (alerts: its rules) or grafana, and stop.",
        ),
    ] = None,
) -> None:
    """Serve decisions and configuration files over HTTP, from the bundles in force.

    Other settings are environment variables, COLLTUNE_SERVER_…; options override them.

    Examples: one bundle on this machine; a site's registry for all nodes, with four processes.

    colltune serve --bundle bundle

    colltune serve --registry /srv/colltune --host 0.0.0.0 --workers 4 --demand /srv/demand
    """
    if print_unit is not None:
        from colltune.site.folder import example

        typer.echo(example(print_unit), nl=False)
        return
    require("service", *_NEEDED)
    of_site = _of_site(site) if site else {}
    of_site["programs"] = _promised(programs, results, of_site.get("programs"))
    if registry is None and bundle is None:
        registry = of_site.pop("registry", None)
    from colltune.server.supervisor import settle_in

    settle_in()
    settings = _settings(
        **of_site | {"registry": registry},
        bundle=bundle,
        allowed_hosts=allowed_hosts,
        data=data,
        demand=demand,
        tokens=tokens,
        munge=munge or None,
        munge_users=munge_users,
        caution=caution if caution != 1.0 else None,
        access_log=access_log or None,
        log_level=log_level if log_level != "INFO" else None,
    )
    files = {
        "ssl_certfile": ssl_certfile,
        "ssl_keyfile": ssl_keyfile,
        "ssl_ca_certs": ssl_ca_certs,
    }
    tls = {name: str(path) for name, path in files.items() if path is not None}
    _check_tls(tls)
    with _listening(host, port, uds, uds_mode) as listening, _counting(workers):
        _check_there(settings)
        os.environ.update(settings.environment())
        _run(listening, workers, settings, tls)


def _promised(programs: str | None, results: str | None, of_site: str | None) -> str:
    """Return for which programs files are, of options, the environment, and the site or service."""
    from colltune.mpi.programs import FOR_EVERYBODY, Programs
    from colltune.server.settings import PREFIX

    variable = f"{PREFIX}PROGRAMS"
    told = of_site or os.environ.get(variable)
    try:
        otherwise = Programs.parse(told) if told else FOR_EVERYBODY
    except DataError as error:
        raise error.of(variable, UsageError) from None
    try:
        return str(Programs.named(programs, results, os.environ, otherwise))
    except DataError as error:
        raise error.of("serve", UsageError) from None


def _settings(**options: Any) -> ServiceSettings:
    """Return the service's settings; what is None was not given."""
    from pydantic import ValidationError

    from colltune.server.settings import PREFIX, ConnectionLimits, ServiceSettings

    given = {name: value for name, value in options.items() if value is not None}
    try:
        ConnectionLimits()
        return ServiceSettings(**given)
    except ValidationError as error:
        found = error.errors()[0]
        name = str(found["loc"][0])
        flag = f"--{name.replace('_', '-')}" if name in given else f"{PREFIX}{name.upper()}"
        raise say("wrong-setting", setting=flag, why=found["msg"]) from error


def _of_site(path: Path) -> dict[str, Any]:
    """Return the settings in a site file: where its jobs prove what bundles gain, and its name."""
    from colltune.retraining.site_file import load

    site = load(path)
    found: dict[str, Any] = {"registry": site.registry, "machine": site.machine}
    found["programs"] = str(site.programs)
    if site.production.record:
        require("service", *_NEEDED_TO_JUDGE)
        found["production"] = site.production
    return found


def _check_there(settings: ServiceSettings) -> None:
    """Refuse to serve a folder that is not there: one would wait for it for ever."""
    from colltune.files.remote import local_path, url_of

    url = url_of(settings.registry) if settings.registry else None
    path = local_path(url) if url else Path(settings.registry or settings.bundle or "")
    if path is not None and not path.is_dir():
        if settings.registry:
            raise say("no-registry-here", registry=path, what="no such folder")
        raise say("no-bundle-here", path=path, what="no such folder")


def _check_tls(files: dict[str, str]) -> None:
    certificate, authorities = files.get("ssl_certfile"), files.get("ssl_ca_certs")
    if certificate is None:
        for name in files:
            option = f"--{name.replace('_', '-')}"
            raise say("works-only-with", UsageError, option=option, other="--ssl-certfile")
        return
    import ssl

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # without a password here, a key that needs one would be asked for on the terminal
        context.load_cert_chain(certificate, files.get("ssl_keyfile"), lambda: b"")
        if authorities:
            context.load_verify_locations(authorities)
    except (OSError, ValueError) as error:
        raise say("not-tls", path=certificate, why=error) from error


@contextmanager
def _listening(host: str, port: int, uds: Path | None, mode: str) -> Iterator[socket.socket]:
    from colltune.server.supervisor import tcp_socket, unix_socket

    if uds is None:
        found = tcp_socket(host, port)
    else:
        try:
            permissions = int(mode, 8)
        except ValueError:
            permissions = -1
        if not 0 <= permissions <= 0o777:
            raise say("malformed", UsageError, value=mode, what="an octal --uds-mode", like="660")
        found = unix_socket(uds, permissions)
    with found:
        try:
            yield found
        finally:
            if uds is not None:
                uds.unlink(missing_ok=True)


@contextmanager
def _counting(workers: int) -> Iterator[None]:
    """Give several workers a folder in which they count together."""
    if workers == 1:
        os.environ.pop(_MULTIPROCESS, None)
        yield
        return
    from colltune.server.metrics import folder_to_count_in

    with folder_to_count_in(workers) as folder:
        os.environ[_MULTIPROCESS] = str(folder)
        yield


def _run(
    listening: socket.socket, workers: int, settings: ServiceSettings, tls: dict[str, Any]
) -> None:
    import structlog
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from colltune.server.supervisor import (
        address,
        log_as_json,
        uvicorn_config,
        who_may_name_clients,
    )

    if tls.get("ssl_ca_certs"):
        import ssl

        tls["ssl_cert_reqs"] = ssl.CERT_REQUIRED
    log_as_json(settings.log_level)
    believed = who_may_name_clients(listening)
    config = uvicorn_config(workers=workers, forwarded_allow_ips=believed, **tls)
    where = address(listening, tls=bool(tls))
    structlog.get_logger("colltune").info("listening", address=where, workers=workers)
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn stops gracefully, and then sends itself the signal again
        signal.signal(number, lambda _number, _frame: None)
    if workers == 1:
        uvicorn.Server(config).run([listening])
    else:
        Multiprocess(config, [listening]).run()
