"""Clients that ask servers without a pause, and remember what they were told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import groupby
from threading import Event, Thread
from typing import Self

from tests.server.serving_process import Server


@dataclass
class Client:
    """What one kept connection, which one worker answers, was told."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)
    bundles: list[str] = field(default_factory=list)

    @property
    def in_order(self) -> list[str]:
        """The bundles that answered, in order, each as often as it came anew."""
        return [bundle for bundle, _ in groupby(self.bundles)]


class Load:
    """So many connections to each of `servers` that ask for `path`; a context manager.

    Every answer must be 200 with an ETag that names a bundle, from when a worker is ready on.
    """

    def __init__(self, servers: Iterable[Server], path: str, connections: int) -> None:
        self._path = path
        self._ended = Event()
        self.clients: list[Client] = []
        self._threads = []
        for server in servers:
            for _ in range(connections):
                client = Client()
                self.clients.append(client)
                self._threads.append(Thread(target=self._ask, args=(server, client)))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def answered(self) -> int:
        """Requests that were answered as they should be."""
        return sum(client.answered for client in self.clients)

    @property
    def failures(self) -> list[str]:
        """Why the others were not."""
        return [why for client in self.clients for why in client.failures]

    def all_have(self, bundle_id: str) -> bool:
        """Tell whether every client's last answer came from a bundle."""
        return all(client.bundles[-1:] == [bundle_id] for client in self.clients)

    def _ask(self, server: Server, client: Client) -> None:
        connection = server.connection()
        while not self._ended.is_set():
            try:
                connection.request("GET", self._path)
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException) as error:
                client.failures.append(repr(error))
                connection.close()
                continue
            if answer.status == 503 and not client.answered:
                continue
            tag = answer.headers.get("ETag", "")
            if answer.status == 200 and tag:
                client.answered += 1
                client.bundles.append(tag.strip('"').partition("-")[0])
            else:
                client.failures.append(f"{answer.status} {tag}")
        connection.close()
