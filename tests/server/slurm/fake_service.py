"""A service for the hooks, of which a test decides what it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

BUNDLE = "ab" * 32
HANGS_S = 5.0
RULES = "# rules of the test\n0\n"
OTHERS = {
    "mpich": "MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial",
    "intelmpi": "I_MPI_ADJUST_BCAST=1",
}
"""What other libraries than Open MPI are told."""


class Asked:
    """One request: library, release, nodes, ppn and folder as asked for.

    ``stopped`` tells that the service comes to its end.
    """

    def __init__(
        self, path: str, stopped: threading.Event | None = None, authorization: str = ""
    ) -> None:
        self.authorization = authorization
        self.stopped = stopped or threading.Event()
        parts = urlsplit(path)
        self.library, self.release = parts.path.split("/")[3:5]
        query = parse_qs(parts.query)
        self.nodes = int(query["nodes"][0])
        self.ppn = [int(text) for text in query["ppn"]]
        self.folder = query["folder"][0]
        self.bundle = query.get("bundle", [""])[0]
        self.job = query.get("job", [""])[0]
        self.programs = query.get("programs", [""])[0]
        self.results = query.get("results", [""])[0]


Answer = Callable[[Asked], bytes]


def good(asked: Asked, rules: str = RULES) -> bytes:
    """Return a job file; the rules are Open MPI's."""
    lines = ["colltune-job 1", f"bundle {BUNDLE}", f"library {asked.library} {asked.release}"]
    lines += ["user OMPI_MCA_coll", "user OMPI_MCA_coll_tuned_*", "user OMPI_MCA_coll_han_*"]
    lines += ["harmless *_verbose"]
    for ppn in asked.ppn:
        shape = f"{asked.nodes}x{ppn}"
        lines += [f"shape {shape}", f"file {shape}/rules {rules.count(chr(10))}"]
        lines += rules.splitlines()
        if other := OTHERS.get(asked.library):
            lines += [f"set {other}"]
            continue
        lines += ["set OMPI_MCA_coll_tuned_use_dynamic_rules=1"]
        name = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
        lines += [f"set {name}={asked.folder}/{shape}/rules"]
    return "\n".join([*lines, "end", ""]).encode()


def with_arm(asked: Asked, arm: str = "tuned") -> bytes:
    """Return a job file of version 2."""
    answer = good(asked).replace(b"job 1\n", b"job 2\n", 1)
    answer = answer.replace(b"library ", f"arm {arm}\nlibrary ".encode(), 1)
    if arm != "control":
        return answer
    kept = (b"colltune", b"bundle", b"arm", b"library", b"user", b"harmless", b"shape", b"end")
    return b"".join(x for x in answer.splitlines(keepends=True) if x.startswith(kept))


def hanging(asked: Asked) -> bytes:
    """Answer nothing for longer than anybody waits."""
    asked.stopped.wait(HANGS_S)
    return b""


def half(asked: Asked) -> bytes:
    """Return the first half of a job file."""
    whole = good(asked)
    return whole[: len(whole) // 2]


BAD: dict[str, Answer] = {
    "hanging": hanging,
    "half a file": half,
    "HTML": lambda _: b"<!DOCTYPE html><html><body>Welcome to the proxy</body></html>\n",
    "garbage": lambda _: bytes(range(256)) * 40,
    "nothing": lambda _: b"",
    "a command": lambda a: good(a).replace(b"=1\n", b"=$(touch /tmp/owned)\n"),
    "a foreign variable": lambda a: good(a).replace(
        b"set OMPI_MCA_coll_tuned_use", b"set LD_PRELOAD=/tmp/x\nset OMPI_MCA_coll_tuned_use"
    ),
}


class FakeService:
    """Answers on a unix socket; ``answer`` may be replaced at any time, ``asked`` is what came.

    ``summaries`` are the summaries that were sent, with the token of each; ``status`` is what who
    sends one is told.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer: Answer = good
        self.asked: list[Asked] = []
        self.summaries: list[tuple[str, bytes]] = []
        self.status = 201

    @contextmanager
    def running(self) -> Iterator[FakeService]:
        """Serve until the end of the context."""
        stopped = threading.Event()

        class Handler(_Handler):
            fake = self
            ends = stopped

        self.path.unlink(missing_ok=True)
        with _Server(str(self.path), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                stopped.set()
                server.shutdown()
                thread.join()
                self.path.unlink(missing_ok=True)


class _Server(ThreadingMixIn, UnixStreamServer):
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    fake: ClassVar[FakeService]
    ends: ClassVar[threading.Event]

    def do_GET(self) -> None:
        asked = Asked(self.path, self.ends, self.headers.get("Authorization", ""))
        self.fake.asked.append(asked)
        body = self.fake.answer(asked)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.fake.summaries.append((self.headers.get("Authorization", ""), body))
        if self.fake.status == 0:
            self.ends.wait(HANGS_S)
        self.send_response(self.fake.status or 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
