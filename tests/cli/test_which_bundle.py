"""Which bundle a verb reads where none is named, and that it says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from colltune.cli import which_bundle
from colltune.registry import Registry
from tests.cli.conftest import Verb

ASKED = ("select", "--nodes", 3, "--ppn", 2)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder of a user who has made no bundle yet."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv(which_bundle.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(which_bundle, "SITE_FILE", tmp_path / "no-site.toml")
    return folder


def copied(bundle: Path, to: Path) -> Path:
    shutil.copytree(bundle, to)
    return to


def test_without_any_there_are_two_ways_on(colltune: Verb, elsewhere: Path) -> None:
    """The error names them."""
    answer = colltune(*ASKED)
    assert answer.code == "no-bundle-named"


def test_each_place_goes_before_the_next(
    colltune: Verb, elsewhere: Path, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one made, ./tuned, the site's, the environment's; an option goes before all."""

    def read() -> str:
        answer = colltune(*ASKED)
        assert answer.status == 0, answer.err
        return answer.out.splitlines()[0]

    which_bundle.remember(copied(bundle_path, elsewhere.parent / "last"))
    assert f"{elsewhere.parent / 'last'} (the last one that you made)" in read()
    older = copied(bundle_path, elsewhere / "tuned" / "a" / "bundle")
    newer = copied(bundle_path, elsewhere / "tuned" / "b" / "bundle")
    os.utime(older, (1, 1))
    assert f"{newer.relative_to(elsewhere)} (the newest of ./tuned)" in read()
    registry = Registry(elsewhere.parent / "registry")
    name = registry.add(bundle_path)
    event = registry.promote(name, by="me")
    site = elsewhere.parent / "site.toml"
    named = f'machine = "m"\nregistry = "{elsewhere.parent / "registry"}"'
    site.write_text(f'[site]\n{named}\n[data]\ndatasets = ["d"]\n')
    monkeypatch.setattr(which_bundle, "SITE_FILE", site)
    assert f"in force for {event.slot}" in read()
    monkeypatch.setenv(which_bundle.VARIABLE, str(older))
    assert f"{older} (named in COLLTUNE_BUNDLE)" in read()
    assert "bundle:" not in colltune(*ASKED, "--bundle", bundle_path).out.splitlines()[0]


def test_what_others_have_put_into_the_working_folder_is_not_read(
    colltune: Verb, elsewhere: Path, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle there counts only if it is the user's own."""
    copied(bundle_path, elsewhere / "tuned" / "bundle")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert colltune(*ASKED).status != 0


def test_all_verbs_name_a_bundle_by_the_same_option(
    colltune: Verb, elsewhere: Path, bundle_path: Path
) -> None:
    """The argument of before still works, but not both."""
    for verb in (
        ("report", "--out", "r.html"),
        ("plot", "map", "--out", "m.svg", "--nodes", "2"),
        ("what-if", "--collective", "bcast", "--msize", "1k", "--now", "2x2", "--nodes", "3"),
    ):
        first = colltune(*verb, "--bundle", bundle_path)
        assert first.status == 0, (verb, first.err)
        assert colltune(*verb, bundle_path).status == 0, verb
    assert colltune("report", bundle_path, "--bundle", bundle_path).status == 2
