"""The examples for nginx and Apache, run before two servers of one registry."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.models.fitting import fit
from colltune.registry import Registry
from colltune.site.folder import example
from tests.models.machines import measured
from tests.server.serving_process import PATIENCE_S, Response, Server

CONFIG = "/v1/config/openmpi/4.1.4?nodes=4&ppn=4"
LIMIT = 16384
PROGRAMS = {"nginx": "nginx", "apache": "apache2"}
NGINX = """
daemon off;
error_log stderr;
pid {folder}/pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{example}
}}
"""
APACHE = """
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog /dev/stderr
{modules}
{example}
"""
MODULES: tuple[str, ...] = (
    "mpm_event",
    "authz_core",
    "ssl",
    "socache_shmcb",
    "headers",
    "reqtimeout",
    "proxy",
)
MODULES += ("proxy_http", "proxy_balancer", "slotmem_shm", "lbmethod_byrequests")


@dataclass(frozen=True)
class Proxy:
    """A proxy that listens on a port of this machine with a certificate of its own."""

    port: int
    certificate: Path

    def ask(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        body: bytes | None = None,
    ) -> Response:
        """Ask the proxy for `path` on a new connection."""
        trust = ssl.create_default_context(cafile=str(self.certificate))
        connection = http.client.HTTPSConnection(
            "localhost", self.port, context=trust, timeout=PATIENCE_S
        )
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, named, answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry with a bundle in force."""
    root = tmp_path_factory.mktemp("shared") / "registry"
    registry = Registry(root)
    registry.promote(registry.add(fit(measured(), "knn")), by="a test")
    return root


@pytest.fixture(params=sorted(PROGRAMS))
def name(request: pytest.FixtureRequest) -> str:
    """Name a proxy that is installed."""
    program = PROGRAMS[request.param]
    for needed in (program, "openssl"):
        if shutil.which(needed) is None:
            pytest.skip(f"the program {needed} is missing")
    return str(request.param)


@pytest.fixture
def servers(registry: Path) -> Iterator[list[Server]]:
    """Start two servers over `registry`."""
    with ExitStack() as stack:
        found = [stack.enter_context(Server("--registry", registry)) for _ in range(2)]
        for server in found:
            server.await_ready()
        yield found


@pytest.fixture
def proxy(name: str, servers: list[Server], tmp_path: Path) -> Iterator[Proxy]:
    """Start the proxy before `servers`, by its example with this machine's names in it."""
    certificate = certified(tmp_path)
    port = free_port()
    text = example(name)
    for k, server in enumerate(servers, 1):
        text = text.replace(f"colltune-{k}.example:8765", server.address.removeprefix("http://"))
    text = text.replace("colltune.example", "localhost").replace("listen [::]:443 ssl;", "")
    text = re.sub(r"(?m)^(\s*listen |Listen )443\b", rf"\g<1>127.0.0.1:{port}", text)
    text = text.replace("<VirtualHost *:443>", f"<VirtualHost *:{port}>")
    text = text.replace("/etc/ssl/certs/colltune.pem", str(certificate))
    text = text.replace("/etc/ssl/private/colltune.key", str(tmp_path / "key.pem"))
    text = text.replace("client_max_body_size 1m", f"client_max_body_size {LIMIT}")
    with running(name, text, tmp_path, port):
        yield Proxy(port, certificate)


def certified(folder: Path) -> Path:
    """Make a certificate of localhost and its key."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    process.check(process.run(command, timeout_s=30), "making a certificate")
    return folder / "cert.pem"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(name: str, text: str, folder: Path, port: int) -> Iterator[None]:
    """Run a proxy with a configuration until the end."""
    program = shutil.which(PROGRAMS[name])
    assert program is not None
    config = folder / "proxy.conf"
    if name == "nginx":
        config.write_text(NGINX.format(folder=folder, example=text))
        command = [program, "-p", str(folder), "-c", str(config)]
    else:
        modules = Path(program).resolve().parents[1] / "lib/apache2/modules"
        lines = [f"LoadModule {one}_module {modules}/mod_{one}.so" for one in MODULES]
        config.write_text(APACHE.format(folder=folder, modules="\n".join(lines), example=text))
        command = [program, "-f", str(config), "-DFOREGROUND"]
    with (folder / "log").open("w+") as log:
        proxy = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            await_listener(port, proxy, folder / "log")
            yield
        finally:
            proxy.send_signal(signal.SIGTERM)
            proxy.wait(PATIENCE_S)


def await_listener(port: int, proxy: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until somebody listens on `port`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert proxy.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return


def test_a_proxy_hands_out_what_the_servers_say(proxy: Proxy, servers: list[Server]) -> None:
    """The file and its tag arrive unchanged, a known tag gives 304, and the metrics stay inside."""
    direct = servers[0].get(CONFIG)
    answer = proxy.ask(CONFIG)
    assert (answer.status, answer.body) == (200, direct.body)
    assert answer.headers["etag"] == direct.headers["etag"]
    assert proxy.ask(CONFIG, {"If-None-Match": direct.headers["etag"]}).status == 304
    assert proxy.ask("/metrics").status == 404
    unknown = proxy.ask("/v1/config/openmpi/9.9.9?nodes=4&ppn=4")
    assert unknown.headers["content-type"] == "application/problem+json"


def test_a_proxy_goes_on_without_a_server(proxy: Proxy, servers: list[Server]) -> None:
    """When one host dies its requests are answered by the other, the first one included."""
    asked = [proxy.ask(f"/v1/config/openmpi/4.1.4?nodes={n}&ppn=2").status for n in range(2, 10)]
    assert set(asked) == {200}
    assert all('status="200"' in server.get("/metrics").body.decode() for server in servers)
    assert servers[0].stop() == 0
    assert {proxy.ask(CONFIG).status for _ in range(8)} == {200}


@pytest.mark.parametrize("name", ["nginx"], indirect=True)
def test_nginx_refuses_too_large_a_body_itself(proxy: Proxy) -> None:
    """What no server would take is not sent on to one."""
    assert proxy.ask("/v1/summaries", method="POST", body=bytes(2 * LIMIT)).status == 413
