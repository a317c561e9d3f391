"""How much one client may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune.server import limits
from colltune.server.limits import RateLimit
from tests.server.writable import Writable, writable


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def test_a_burst_and_then_a_rate() -> None:
    """So many at once, and then one whenever the bucket has filled so far; the wait is told."""
    clock = Clock()
    limit = RateLimit(2.0, 3, clock)
    assert [limit.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now_s = 0.25
    assert limit.wait_s("a") == 0.25
    clock.now_s = 0.5
    assert [limit.wait_s("a") for _ in range(2)] == [0, 0.5]
    clock.now_s = 1000.0
    assert [limit.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_one_client_does_not_use_up_another_ones_share() -> None:
    """Each has a bucket."""
    limit = RateLimit(1.0, 1, Clock())
    assert limit.wait_s("a") == 0
    assert limit.wait_s("a") > 0
    assert limit.wait_s("b") == 0


def test_a_clock_that_goes_back_gives_nobody_more() -> None:
    """Nor does it take anything away for ever."""
    clock = Clock()
    limit = RateLimit(1.0, 1, clock)
    limit.wait_s("a")
    clock.now_s = -1000.0
    assert limit.wait_s("a") >= 1.0
    clock.now_s = -998.0
    assert limit.wait_s("a") == 0


def test_the_table_of_clients_is_bounded() -> None:
    """Who was silent the longest is forgotten; who keeps asking is not."""
    limit = RateLimit(0.001, 1, Clock(), most_clients=100)
    waits = []
    for number in range(1000):
        limit.wait_s(str(number))
        waits.append(limit.wait_s("busy"))
    assert len(limit) == 100
    assert waits == [0.0] + [1000.0] * 999


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Writable]:
    """Return a service that lets each client write thrice at once, and then hardly ever."""
    with writable(tmp_path, rate_per_s=0.01, burst=3) as found:
        yield found


def test_too_many_writes_are_told_when_to_come_back(service: Writable) -> None:
    """Whether they are good or not; reading goes on."""
    path = f"/v1/bundles/{service.first}/promote"
    answers = [service.post(path, token) for token in ("wrong", "wrong")] + [service.post(path)]
    assert [answer.status_code for answer in answers] == [401, 401, 200]
    refused = service.post(path)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) == 100
    assert service.client.get("/v1/bundles").status_code == 200


def _client(host: str) -> str:
    return limits.client_of({"client": (host, 1)})


def test_a_client_is_its_address() -> None:
    """All addresses that one IPv6 client may choose count as one; a Unix socket's has none."""
    assert _client("10.0.0.1") == _client("::ffff:10.0.0.1") == "10.0.0.1"
    assert _client("::ffff:10.0.0.1") != _client("::ffff:10.0.0.2")
    assert _client("2001:db8:0:1::1") == _client("2001:db8:0:1:ffff::2") == "2001:db8:0:1::/64"
    assert _client("2001:db8:0:2::1") != _client("2001:db8:0:1::1")
    assert _client("fe80::1%eth0") == "fe80::/64"
    assert _client("testclient") == "testclient"
    assert limits.client_of({"client": None}) == limits.client_of({}) == ""
