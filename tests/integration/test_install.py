"""What `make test-mpi` installs, and by which variables the tests find it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration import install


def pretend(one: install.Wanted, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Install `one` with commands that only leave a file; return what was run."""
    ran: list[str] = []

    def commands(target: Path, wanted: install.Wanted) -> list[list[str | Path]]:
        ran.append(wanted.name)
        return [["mkdir", "-p", target]]

    monkeypatch.setattr(install, "_commands", commands)
    install.install(one, folder)
    return ran


def test_every_lock_names_versions_and_hashes_but_no_index() -> None:
    """Each file in wheels/ pins its packages wholly and can be installed from any index."""
    assert {one.library for one in install.wanted()} == set(install.VARIABLES)
    for one in install.wanted():
        text = one.lock.read_text()
        assert f"=={one.release} \\" in text
        assert "--hash=sha256:" in text
        assert "//" not in text
        assert "index" not in text


def test_each_round_has_the_next_release_of_each_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest of all libraries are tested at once, then the ones before; none twice."""
    for one in install.wanted():
        pretend(one, tmp_path, monkeypatch)
    first, second, *_ = install.rounds(tmp_path)
    assert set(first) == set(install.VARIABLES.values())
    assert Path(first["COLLTUNE_TEST_MPI"]).name == "openmpi-5.0.11"
    assert Path(second["COLLTUNE_TEST_MPI"]).name == "openmpi-4.1.8"
    tested = [folder for variables in install.rounds(tmp_path) for folder in variables.values()]
    assert sorted(tested) == sorted(str(tmp_path / one.name) for one in install.wanted())


def test_what_is_there_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complete installation stays; an interrupted, moved or outdated one is made anew."""
    one = install.wanted()[0]
    assert pretend(one, tmp_path, monkeypatch) == [one.name]
    assert pretend(one, tmp_path, monkeypatch) == []
    (tmp_path / one.name / ".complete").write_text("of another lock\n")
    assert pretend(one, tmp_path, monkeypatch) == [one.name]
    (tmp_path / one.name / ".complete").unlink()
    assert install.installed(tmp_path) == []
    assert pretend(one, tmp_path, monkeypatch) == [one.name]
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / one.name).rename(moved / one.name)
    assert install.installed(moved) == []


def test_what_cannot_be_installed_is_told_and_the_others_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One failure neither stops the rest nor leaves something that counts as installed."""
    bad, *good = install.wanted()

    def commands(target: Path, one: install.Wanted) -> list[list[str | Path]]:
        return [["false"]] if one == bad else [["mkdir", "-p", target]]

    monkeypatch.setattr(install, "_commands", commands)
    install.main([str(tmp_path)])
    assert install.installed(tmp_path) == good
    assert f"{bad.name}: cannot be installed: installing {bad.name}" in capsys.readouterr().out


def test_two_at_once_install_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second waits, and then finds the work done."""
    one = install.wanted()[0]

    def commands(target: Path, _: install.Wanted) -> list[list[str | Path]]:
        return [["sleep", "0.3"], ["mkdir", target]]

    monkeypatch.setattr(install, "_commands", commands)
    with ThreadPoolExecutor(4) as several:
        told = list(several.map(lambda _: install.install(one, tmp_path), range(4)))
    assert sorted(told) == ["installed", *["is there"] * 3]
