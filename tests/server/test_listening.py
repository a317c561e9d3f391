"""The sockets of a service."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from colltune.errors import OutputError
from colltune.server import listening


def test_a_free_port_is_told() -> None:
    """Port 0 takes a free one, which the address names; it cannot be taken twice."""
    with listening.tcp("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        assert listening.address(one, tls=False) == f"http://127.0.0.1:{port}"
        assert listening.address(one, tls=True) == f"https://127.0.0.1:{port}"
        one.listen()
        with pytest.raises(OutputError, match=f"port {port}.*--port"):
            listening.tcp("127.0.0.1", port)


def test_an_address_of_nobody_is_an_error() -> None:
    """An address that this machine does not have, or that is none, is named."""
    for host in ("192.0.2.1", "no host"):
        with pytest.raises(OutputError, match=host):
            listening.tcp(host, 0)


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_unix_socket_has_its_permissions(tmp_path: Path, mode: int) -> None:
    """The socket's file has the mode that was asked for."""
    path = tmp_path / "s"
    with listening.unix(path, mode) as one:
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert listening.address(one, tls=False) == f"unix:{path}"


def test_only_a_socket_that_nobody_uses_is_replaced(tmp_path: Path) -> None:
    """What a dead service left is replaced; a living one's socket and any other file are not."""
    path = tmp_path / "s"
    listening.unix(path, 0o600).close()
    with listening.unix(path, 0o600) as alive:
        alive.listen()
        with pytest.raises(OutputError, match="another service"):
            listening.unix(path, 0o600)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    file = tmp_path / "f"
    file.write_text("mine")
    with pytest.raises(OutputError, match="no socket"):
        listening.unix(file, 0o600)
    assert file.read_text() == "mine"
    with pytest.raises(OutputError, match="--uds"):
        listening.unix(tmp_path / ("x" * 200), 0o600)
    with pytest.raises(OutputError, match="--uds"):
        listening.unix(tmp_path / "no" / "s", 0o600)
