"""`colltune site bundles …`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from colltune.registry import Registry
from tests.cli.conftest import Verb
from tests.registry.small import small

SLOT = "openmpi-4.1.4"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a registry of three bundles, the first in force, named by the environment."""
    registry = Registry(tmp_path / "registry")
    for number in range(3):
        registry.add(small(number))
    registry.promote(small(0).id, by="ann", note="first")
    monkeypatch.setenv("COLLTUNE_REGISTRY", str(tmp_path / "registry"))
    return tmp_path / "registry"


def short(number: int) -> str:
    """Return how tables call a bundle."""
    return small(number).id[:12]


def test_the_list_shows_what_is_in_force(colltune: Verb, folder: Path) -> None:
    """Each bundle is a line; a damaged one is named with the reason."""
    answer = colltune("site", "bundles", "list")
    assert answer.status == 0
    lines = {line[:12]: line for line in answer.out.splitlines()[2:]}
    assert set(lines) == {short(n) for n in range(3)}
    assert ("in force" in lines[short(0)], "in force" in lines[short(1)]) == (True, False)
    (folder / "bundles" / small(1).id / "manifest.json").write_text("{")
    assert f"damaged: {short(1)}: " in colltune("site", "bundles", "list").out
    found = colltune("site", "bundles", "list", "--json").json
    assert found["current"] == {SLOT: small(0).id}
    assert {b["id"] for b in found["bundles"]} == {small(0).id, small(2).id}
    assert [*found["damaged"]] == [small(1).id]


def test_one_is_shown_by_id_or_slot(colltune: Verb, folder: Path) -> None:
    """A bundle is shown with its history; a slot stands for what is in force in it."""
    assert f"in force in {SLOT}" in colltune("site", "bundles", "show", SLOT).out
    found = colltune("site", "bundles", "show", short(0), "--json").json
    assert found == colltune("site", "bundles", "show", SLOT, "--json").json
    assert found["bundle"]["id"] == small(0).id
    assert (found["in_force"], len(found["events"])) == (True, 1)
    (folder / "bundles" / small(1).id / "bcast.arrays").write_bytes(b"")
    answer = colltune("site", "bundles", "show", short(1))
    assert (answer.status, answer.out) == (7, "")


def test_promoting_and_going_back(colltune: Verb, folder: Path) -> None:
    """Both are told, kept in the history with who and why, and refused when not as expected."""
    promoted = colltune("site", "bundles", "promote", short(1), "--note", "new\x1b[31m cables")
    assert promoted.status == 0
    assert promoted.out.startswith(
        f"{short(1)} is in force in {SLOT} instead of {short(0)} (event 2: promote by "
    )
    refused = colltune("site", "bundles", "promote", short(2), "--expected", short(0))
    assert (refused.status, "Nothing was changed." in refused.err) == (7, True)
    words = ("bundles", "promote", short(2), "--expected", "none", "--by", "bob")
    assert colltune(*words).status == 7
    event = colltune("site", "bundles", "rollback", "--by", "bob", "--json").json
    assert (event["bundle_id"], event["action"], event["by"]) == (small(0).id, "rollback", "bob")
    assert colltune("site", "bundles", "rollback", SLOT).status == 7
    shown = colltune("site", "bundles", "history").out
    assert "\x1b" not in shown
    assert [line.split()[0] for line in shown.splitlines()[2:]] == ["1", "2", "3"]
    events = colltune("site", "bundles", "history", SLOT, "--json").json
    assert [e["note"] for e in events] == ["first", "new\x1b[31m cables", ""]


def test_a_trial_is_listed_and_ended(
    colltune: Verb, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list and the history say with how many of the jobs; rollback ends the trial alone."""
    words = ("bundles", "promote", short(1), "--by-steps", "--expected")
    assert colltune("site", *words, short(2)).status == 7
    begun = colltune("site", *words, "none", "--note", "try it")
    assert f"{short(1)} is on trial with 5% of the jobs in {SLOT}; {short(0)} is" in begun.out
    monkeypatch.setenv("COLUMNS", "200")
    assert "on trial, 5% of the jobs" in colltune("site", "bundles", "list").out
    listed = colltune("site", "bundles", "list", "--json").json
    assert listed["trials"][SLOT]["bundle_id"] == small(1).id
    assert listed["trials"][SLOT]["share"] == 0.05
    assert "step, 5% of the jobs" in colltune("site", "bundles", "history").out
    ended = colltune("site", "bundles", "rollback").out
    assert f"{short(1)} is not on trial now in {SLOT}; {short(0)} is in force" in ended
    assert colltune("site", "bundles", "list", "--json").json["trials"] == {}


def test_adding_makes_the_registry(
    colltune: Verb, bundle_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first bundle makes the folder; without one, listing says how to begin."""
    monkeypatch.delenv("COLLTUNE_REGISTRY", raising=False)
    at = ("--registry", tmp_path / "new")
    missing = colltune("site", "bundles", "list", *at)
    assert (missing.status, missing.code) == (7, "no-registry-here")
    added = colltune("site", "bundles", "add", bundle_path, *at, "--json").json
    assert [
        b["id"] for b in colltune("site", "bundles", "list", *at, "--json").json["bundles"]
    ] == added
    none = colltune("site", "bundles", "rollback", *at)
    assert (none.status, none.code) == (2, "choose-one")
    assert colltune("site", "bundles", "list").status == 2


def test_a_candidate_is_compared_with_what_is_in_force(
    colltune: Verb, bundle_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has the decisions that change with old, new and times; a folder can be named."""
    registry = Registry(tmp_path / "registry")
    registry.promote(registry.add(small(0)), by="ann")
    monkeypatch.setenv("COLLTUNE_REGISTRY", str(tmp_path / "registry"))
    words = ("bundles", "diff", bundle_path, "--shape", "8x4", "--collective", "bcast")
    answer = colltune(*words)
    assert answer.status == 0
    head, _, *rows = answer.out.split("\n\n")[1].splitlines()
    assert " ".join(head.split()) == (
        "collective shape message size old new old takes new takes faster before"
    )
    assert rows
    assert all(row.startswith("bcast") and "8x4" in row and "binomial" in row for row in rows)
    assert "% of the decisions change" in answer.out
    found = colltune(*words, "--json").json
    assert (found["old"], len(found["changes"])) == (small(0).id, len(rows))
    same = colltune("site", "bundles", "diff", SLOT, short(0))
    assert "no decision changes on 2 shapes" in same.out
    assert colltune("site", "bundles", "diff", SLOT, "--shape", "8by4").status == 3
    assert colltune("site", "bundles", "diff", "../../etc/").status == 7
    assert colltune("site", "bundles", "diff", "zzzz").status == 7


def test_nothing_is_removed_without_yes(colltune: Verb, folder: Path) -> None:
    """A dry run shows what would go; with --yes that goes, and stale links are put right."""
    then = time.time() - 40 * 86400
    for number in range(2):
        os.utime(folder / "bundles" / small(number).id / "manifest.json", (then, then))
    dry = colltune("site", "bundles", "gc")
    assert "1 bundle to remove" in dry.out
    assert len(Registry(folder).ids()) == 3
    assert (
        colltune("site", "bundles", "gc", "--older-than", "60d", "--json").json["to_remove"] == []
    )
    assert colltune("site", "bundles", "gc", "--older-than", "soon").status == 4
    (folder / "current" / SLOT).unlink()
    done = colltune("site", "bundles", "gc", "--yes", "--json").json
    assert [item["bundle_id"] for item in done["removed"]] == [small(1).id]
    assert done["repointed"] == [SLOT]
    assert set(Registry(folder).ids()) == {small(0).id, small(2).id}
    assert (folder / "current" / SLOT).resolve().name == small(0).id
