"""Two ends of TCP connections: ``listen PORT...``, or ``talk HOST PORT BYTES TIMES``.

The talking end prints the least seconds of there and back: of one byte, and of `BYTES` bytes there.
"""

from __future__ import annotations

import socket
import sys
import threading
import time


def answer(listening: socket.socket) -> None:
    """Send one byte back for every message, which begins with its length."""
    connection, _ = listening.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while head := connection.recv(8, socket.MSG_WAITALL):
        left = int.from_bytes(head)
        while left:
            left -= len(connection.recv(min(left, 1 << 20)))
        connection.sendall(b"x")


def there_and_back_s(connection: socket.socket, size: int) -> float:
    """Return the seconds until a message of `size` bytes was answered."""
    started = time.monotonic()
    connection.sendall(size.to_bytes(8) + bytes(size))
    connection.recv(1)
    return time.monotonic() - started


def main(words: list[str]) -> None:
    """Listen, until the end of input, or talk."""
    if words[0] == "listen":
        for port in words[1:]:
            listening = socket.create_server(("", int(port)))
            threading.Thread(target=answer, args=[listening], daemon=True).start()
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        sys.stdin.read()
        return
    size, times = int(words[3]), int(words[4])
    with socket.create_connection((words[1], int(words[2]))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for bytes_there in (1, size):
            least_s = min(there_and_back_s(connection, bytes_there) for _ in range(times))
            sys.stdout.write(f"{least_s}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
