"""``/v1/bundles/{id}/promote`` and ``/rollback``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.server.auth import token_file
from colltune.server.auth.token_file import Scope
from tests.server.writable import ONLY_PROMOTES, ONLY_REPORTS, Writable, writable


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Writable]:
    """Return a service with two bundles."""
    with writable(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writable]:
    """Return a service that nothing in this module changes."""
    with writable(tmp_path_factory.mktemp("unchanged")) as found:
        yield found
        assert len(found.registry.history()) == 1


def _promote(bundle: str, query: str = "") -> str:
    return f"/v1/bundles/{bundle}/promote{query}"


def test_a_promoted_bundle_is_answered_from_at_once(service: Writable) -> None:
    """The answer is the event in the registry's history, which names who did it and why."""
    answer = service.post(_promote(service.second, "?note=faster"), ONLY_PROMOTES)
    assert answer.status_code == 200
    event = service.registry.history()[-1]
    assert answer.json()["sequence"] == event.sequence
    assert (event.bundle_id, event.previous_id) == (service.second, service.first)
    assert (event.by, event.note) == ("promotes (token)", "faster")
    assert service.in_force() == service.second


def test_promoting_what_is_in_force_changes_nothing(service: Writable) -> None:
    """The event that brought it is told again."""
    assert service.post(_promote(service.first)).json()["sequence"] == 1
    assert len(service.registry.history()) == 1


def test_the_beginning_of_an_id_will_do(service: Writable) -> None:
    """As long as it is that of one bundle only."""
    assert service.post(_promote(service.second[:12])).status_code == 200
    assert service.post(_promote("0" * 63)).status_code == 404


def test_who_expects_something_else_to_be_in_force_is_told(service: Writable) -> None:
    """Then nothing is done."""
    for expected in (service.second, "none"):
        answer = service.post(_promote(service.second, f"?expected={expected}"))
        assert answer.status_code == 409
        assert "Nothing was changed" in answer.json()["detail"]
    assert service.in_force() == service.first
    assert service.post(_promote(service.second, f"?expected={service.first}")).status_code == 200


def test_of_two_promotions_at_once_that_expect_the_same_one_wins(service: Writable) -> None:
    """Of many who go by what was in force before, all others are told that it is not any more."""
    bundles = [service.second] * 4
    query = f"?expected={service.first}"
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda b: service.post(_promote(b, query)), bundles))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    assert len(service.registry.history()) == 2


def test_many_promotions_at_once_leave_one_history(service: Writable) -> None:
    """What is in force in the end is what the last event says, and every event has its number."""
    bundles = [service.first, service.second] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda b: service.post(_promote(b)), bundles))
    assert {answer.status_code for answer in answers} == {200}
    events = service.registry.history()
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert service.in_force() == events[-1].bundle_id


def test_a_rollback_brings_back_what_was_before(service: Writable) -> None:
    """Only a bundle in force is taken back, and only as long as there is something before it."""
    roll = "/v1/bundles/{}/rollback?note=slow"
    assert service.post(roll.format(service.second)).status_code == 409
    service.post(_promote(service.second))
    answer = service.post(roll.format(service.second))
    assert answer.status_code == 200
    assert answer.json()["bundle_id"] == service.first == service.in_force()
    first = service.post(roll.format(service.first))
    assert (first.status_code, "nothing to roll back to" in first.text) == (409, True)


def test_a_rollback_of_a_bundle_on_trial_ends_the_trial(service: Writable) -> None:
    """The bundle in force stays, and the event says that nobody gets the other."""
    service.registry.step(service.second, 0.05, by="night")
    answer = service.post(f"/v1/bundles/{service.second}/rollback?note=slow")
    assert (answer.status_code, answer.json()["action"]) == (200, "stop")
    assert answer.json()["share"] == 0
    assert (service.registry.trials(), service.in_force()) == ({}, service.first)


def test_a_tampered_bundle_is_refused_and_the_old_one_stays(service: Writable) -> None:
    """The reason is told, without the place of the registry on the service's disk."""
    file = service.registry.path(service.second) / "bcast.arrays"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    answer = service.post(_promote(service.second))
    assert answer.status_code == 422
    assert "damaged" in answer.json()["detail"]
    assert str(service.data.parent) not in answer.text
    assert service.in_force() == service.first


@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_who_has_no_right_changes_nothing(unchanged: Writable, verb: str) -> None:
    """A token for reports is known, but not good for this; none is not enough."""
    path = f"/v1/bundles/{unchanged.second}/{verb}"
    assert unchanged.post(path, ONLY_REPORTS).status_code == 403
    assert unchanged.post(path, "wrong").status_code == 401
    nobody = unchanged.client.post(path)
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"].startswith("Bearer")
    assert len(unchanged.registry.history()) == 1


TRAVERSALS = (
    *("..%2f..%2fetc", "..%252f..%252fetc", "%2e%2e", "....//", "%00", "%ff%fe", "a" * 5000),
    *("ABCD", "abc", "../../etc", "%c0%ae%c0%ae%c0%af", "current", "e\u0301\u0301\u0301"),
)


@pytest.mark.parametrize("bundle", TRAVERSALS)
def test_what_is_no_id_reaches_no_file(unchanged: Writable, bundle: str) -> None:
    """Whatever stands in the place of an id, it is an error of the client's."""
    for verb in ("promote", "rollback"):
        answer = unchanged.post(f"/v1/bundles/{bundle}/{verb}")
        assert answer.status_code in (404, 405, 414, 422)
        assert answer.headers["content-type"] == "application/problem+json"
    assert len(unchanged.registry.history()) == 1


@pytest.mark.parametrize(
    "query", ["?expected=abcd", "?expected=", "?note=a%0Ab", f"?note={'a' * 1001}", "?other=1"]
)
def test_a_malformed_wish_is_refused(unchanged: Writable, query: str) -> None:
    """A note is one line of text, and what is expected is a whole id."""
    assert unchanged.post(_promote(unchanged.second, query)).status_code == 422
    assert len(unchanged.registry.history()) == 1


def test_one_bundle_without_a_registry_cannot_be_changed(tmp_path: Path, bundle_path: Path) -> None:
    """The message says what to start the service with."""
    with writable(tmp_path, registry=None, bundle=bundle_path) as service:
        answer = service.post(_promote(service.second))
    assert (answer.status_code, "--registry" in answer.text) == (403, True)


def test_without_tokens_the_service_is_read_only(tmp_path: Path) -> None:
    """That is the default, and the message says how to change it."""
    with writable(tmp_path, tokens=None) as service:
        answer = service.post(_promote(service.second))
        assert (answer.status_code, "read-only" in answer.text) == (403, True)
        assert service.client.post("/v1/summaries", content=b"").status_code == 403


def test_an_unusable_token_file_stops_writing_only(service: Writable) -> None:
    """Readers notice nothing; when the file is mended, or other tokens are in it, that counts."""
    service.tokens.chmod(0o644)
    refused = service.post(_promote(service.second))
    assert (refused.status_code, refused.json()["code"]) == (503, "caller-not-checked")
    assert refused.headers["retry-after"]
    assert service.client.get("/v1/bundles").status_code == 200
    service.tokens.chmod(0o600)
    assert service.post(_promote(service.second)).status_code == 200
    newer = token_file.new_token()
    entry = token_file.Token("new", frozenset(Scope), token_file.digest(newer))
    token_file.write(service.tokens, [entry])
    assert service.post(_promote(service.first)).status_code == 401
    assert service.post(_promote(service.first), newer).json()["by"] == "new (token)"
