"""MUNGE credentials, made and decoded by a real munged."""

from __future__ import annotations

import getpass
import hashlib
import os
import socket as sockets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune.server.auth import gate as munge
from colltune.server.auth.gate import Gate
from colltune.server.auth.token_file import Scope
from colltune.server.errors import ServiceError
from colltune.server.settings import ServiceSettings
from tests.integration import real_munge
from tests.refusals import refused
from tests.server.writable import Writable, recorded, writable

pytestmark = pytest.mark.skipif(bool(real_munge.missing()), reason=real_munge.missing())
ME = getpass.getuser()
TARGET = "/v1/summaries"
NOTHING = hashlib.sha256(b"").hexdigest()


@pytest.fixture(scope="module")
def daemon() -> Iterator[Path]:
    """Return the socket of a running munged."""
    with real_munge.munged() as socket:
        yield socket


def _gate(daemon: Path, *users: str, bound: bool = False) -> Gate:
    return Gate(
        ServiceSettings(
            bundle=daemon,
            munge=True,
            munge_users=users or (ME,),
            munge_socket=daemon,
            munge_bound=bound,
        )
    )


def _admit(gate: Gate, credential: str) -> str:
    admission = gate.admit([f"MUNGE {credential}"], Scope.SUMMARIES, "POST", TARGET)
    admission.check_body(NOTHING)
    return admission.caller


def test_a_credential_tells_who_made_it(daemon: Path) -> None:
    """User, group and payload come out as they were put in, whatever the payload's bytes."""
    caller = munge.decode(real_munge.credential(daemon, "a\nb ü"), daemon)
    assert (caller.uid, caller.gid, caller.user) == (os.getuid(), os.getgid(), ME)
    assert caller.payload == "a\nb ü".encode()
    assert _admit(_gate(daemon), real_munge.credential(daemon)) == f"{ME} (munge)"


def test_users_are_allowed_by_name_number_and_group(daemon: Path) -> None:
    """As the service's settings name them."""
    groups = munge.Caller(os.getuid(), os.getgid(), b"").groups()
    for user in ("*", str(os.getuid()), f"{ME}:summaries", f"@{sorted(groups)[0]}"):
        assert _admit(_gate(daemon, "nobody-else", user), real_munge.credential(daemon))


def test_other_users_are_refused(daemon: Path) -> None:
    """Who is known, but not allowed, is told his name; a scope of another name does not help."""
    for users in (["nobody-else"], ["@nobody-else"], [f"{ME}:promote"]):
        with refused("not-permitted", ServiceError, who=f"user {ME} (uid {os.getuid()})"):
            _admit(_gate(daemon, *users), real_munge.credential(daemon))


def test_credentials_are_good_once_soon_here_and_for_this_service(daemon: Path) -> None:
    """One used before, kept too long, for another user or of another cluster is refused."""
    used = real_munge.credential(daemon)
    assert _admit(_gate(daemon), used)
    kept = real_munge.credential(daemon, "", "--ttl=1")
    time.sleep(2.1)
    others = real_munge.credential(daemon, "", "--restrict-uid=12345")
    with real_munge.munged() as other:
        foreign = real_munge.credential(other)
    for credential, why in (
        (used, "used before"),
        (kept, "expired"),
        (others, "not made for this service"),
        (foreign, "refused by the MUNGE daemon"),
    ):
        with pytest.raises(ServiceError, match=why):
            _admit(_gate(daemon), credential)


def test_damaged_credentials_are_refused(daemon: Path) -> None:
    """Cut, changed or made up: each is the caller's fault, and none is the daemon's end."""
    whole = real_munge.credential(daemon)
    middle = len(whole) // 2
    changed = whole[:middle] + ("A" if whole[middle] != "A" else "B") + whole[middle + 1 :]
    made_up = ("", "MUNGE:", "MUNGE::", "MUNGE:ÄÖ:", "x" * 100, "MUNGE:" + "A" * 60_000 + ":")
    for credential in (whole[:-5], whole[:middle] + ":", changed, *made_up):
        with pytest.raises(ServiceError):
            _admit(_gate(daemon), credential)
    assert _admit(_gate(daemon), whole)


def test_a_payload_binds_a_credential_to_its_request(daemon: Path) -> None:
    """If there is one it must fit; where the service insists there must be one."""
    good = f"POST {TARGET} {NOTHING}"
    insisting = _gate(daemon, bound=True)
    assert _admit(insisting, real_munge.credential(daemon, good))
    assert _admit(_gate(daemon), real_munge.credential(daemon, f"{good}\n"))
    for payload in ("anything", good.replace("summaries", "others"), good[:-1], good + "0"):
        with refused("munge-payload", ServiceError, why="was made for another request"):
            _admit(_gate(daemon), real_munge.credential(daemon, payload))
    with refused("munge-payload", ServiceError, why="has no payload"):
        _admit(insisting, real_munge.credential(daemon))


def test_without_a_daemon_nobody_can_be_told(tmp_path: Path) -> None:
    """That is the service's fault, and the message says what to do."""
    with refused("caller-not-checked", ServiceError):
        munge.decode("MUNGE:AAAA:", tmp_path / "none")


def test_without_the_library_nobody_can_be_told(
    daemon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is the service's fault, too."""
    credential = real_munge.credential(daemon)
    munge._library.cache_clear()
    monkeypatch.setattr(munge, "_LIBRARY", "libnone.so.99")
    with refused("caller-not-checked", ServiceError):
        munge.decode(credential, daemon)


@pytest.fixture
def service(daemon: Path, tmp_path: Path) -> Iterator[Writable]:
    """Return a service that takes MUNGE credentials of this user."""
    munged = {"munge": True, "munge_users": ME, "munge_socket": daemon}
    with writable(tmp_path, production=recorded(tmp_path), **munged) as found:
        yield found


def _header(credential: str) -> dict[str, str]:
    return {"Authorization": f"MUNGE {credential}"}


def test_jobs_report_and_bundles_are_promoted_with_munge(service: Writable, daemon: Path) -> None:
    """The history names the user; a credential for one body is not good for another."""
    promoted = service.client.post(
        f"/v1/bundles/{service.second}/promote", headers=_header(real_munge.credential(daemon))
    )
    assert (promoted.status_code, promoted.json()["by"]) == (200, f"{ME} (munge)")
    payload = f"POST {TARGET} {hashlib.sha256(b'no summary').hexdigest()}"
    for body, status in ((b"another", 401), (b"no summary", 422)):
        answer = service.client.post(
            TARGET, content=body, headers=_header(real_munge.credential(daemon, payload))
        )
        assert answer.status_code == status


def test_a_daemon_that_hangs_keeps_no_reader_waiting(
    service: Writable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers are told that who they are cannot be checked."""
    monkeypatch.setattr("colltune.server.auth.gate._PATIENCE_S", 0.2)
    path = tmp_path / "h"
    with sockets.socket(sockets.AF_UNIX) as hanging:
        hanging.bind(str(path))
        hanging.listen(8)
        with writable(tmp_path / "2", munge=True, munge_users=ME, munge_socket=path) as other:
            answer = other.client.post(
                f"/v1/bundles/{other.second}/promote", headers=_header("MUNGE:AAAA:")
            )
            assert (answer.status_code, "hangs" in answer.text) == (503, True)
            assert other.client.get("/v1/bundles").status_code == 200
