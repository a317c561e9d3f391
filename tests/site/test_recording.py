"""A site whose jobs are recorded: what one line of its file switches on."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from colltune.mpi import installation
from colltune.production.store import Store
from colltune.server.auth import token_file
from colltune.site import check, folder, recording
from tests.cli.conftest import Answer
from tests.production.summaries import SUMMARY
from tests.site.conftest import Init

SERVICE = ("--service", "http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have a library in the place of one that is compiled."""
    library = tmp_path / "compiled.so"
    library.write_bytes(b"ELF")
    found = type("Found", (), {"release": "4.1.4"})()
    monkeypatch.setattr(installation, "find", lambda *_: found)
    monkeypatch.setattr(recording, "unlinked_library", lambda _: library)
    return library


@pytest.fixture
def switched_on(init: Init, site: Path) -> Callable[..., Answer]:
    """Return a function that makes the folder, writes the line, and makes it again."""

    def switch(*lines: str) -> Answer:
        init(*SERVICE)
        text = (site / "site.toml").read_text()
        for line in ("record = true", *lines):
            key = line.partition(" ")[0]
            old = next(x for x in text.splitlines() if x.startswith((f"{key} =", f"#{key} =")))
            text = text.replace(old, line)
        (site / "site.toml").write_text(text)
        return init(*SERVICE)

    return switch


def settings(site: Path) -> dict[str, str]:
    lines = (site / "slurm/site.sh").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("COLLTUNE_SITE_"))


def test_a_site_records_nothing_by_default(init: Init, site: Path) -> None:
    """No token, no library, no request that names a job."""
    init(*SERVICE)
    assert settings(site)["COLLTUNE_SITE_RECORD"] == ""
    made = {path.name for path in site.iterdir()}
    assert made.isdisjoint({"tokens", "lib"})
    assert "--site" not in (site / "systemd/colltune.service").read_text()


def test_one_line_switches_it_on(switched_on: Callable[..., Answer], site: Path) -> None:
    """The hooks' settings, a token that the service knows, the library, and the service's unit."""
    switched_on('users = "hash"', "rate = 50")
    found = settings(site)
    assert {n: found[f"COLLTUNE_SITE_{n}"] for n in ("RECORD", "RATE", "LIB", "USERS")} == {
        "RECORD": '"all"',
        "RATE": '"50"',
        "LIB": f'"{site}/lib"',
        "USERS": '"hash"',
    }
    assert (site / "lib/openmpi-4.1.4/libcolltune.so").read_bytes() == b"ELF"
    name, secret = (site / "slurm/summaries.header").read_text().split(": Bearer ")
    (token,) = token_file.read(site / "tokens")
    assert (name, token) == ("Authorization", token_file.matching([token], secret.strip()))
    assert token.scopes == {token_file.Scope.SUMMARIES}
    for private in ("tokens", "slurm/summaries.header", "slurm/secret"):
        assert stat.S_IMODE((site / private).stat().st_mode) == 0o600
    unit = (site / "systemd/colltune.service").read_text()
    assert f" --site {site}/site.toml\n" in unit
    assert f"Environment=COLLTUNE_SERVER_TOKENS={site}/tokens\n" in unit
    (writes,) = [x for x in unit.splitlines() if x.startswith("ReadWritePaths=")]
    assert f"-{site}/production" in writes.split("=")[1].split()
    assert f"'{site}/registry {site}/measurements {site}/log" in (site / "install").read_text()
    assert f"{site}/production'" in (site / "install").read_text()


def test_again_changes_no_secret(
    switched_on: Callable[..., Answer], init: Init, site: Path, no_compiler: Path
) -> None:
    """A token stays; a library that a new release compiles otherwise is replaced."""
    switched_on()
    header = (site / "slurm/summaries.header").read_text()
    no_compiler.write_bytes(b"ELF of a new release")
    init(*SERVICE)
    assert (site / "slurm/summaries.header").read_text() == header
    assert len(token_file.read(site / "tokens")) == 1
    assert (site / "lib/openmpi-4.1.4/libcolltune.so").read_bytes() == b"ELF of a new release"


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077], ids=oct)
def test_under_any_umask(switched_on: Callable[..., Answer], site: Path, mask: int) -> None:
    """All jobs can load the library and nobody else change it; secrets are their users' alone."""
    old = os.umask(mask)
    try:
        switched_on('users = "hash"')
    finally:
        os.umask(old)
    for name in ("lib", "lib/openmpi-4.1.4", "lib/openmpi-4.1.4/libcolltune.so"):
        assert (site / name).stat().st_mode & 0o777 == 0o755
    for private in ("tokens", "slurm/summaries.header", "slurm/secret"):
        assert stat.S_IMODE((site / private).stat().st_mode) == 0o600
    assert answers(site, "recording")[0][0] == "ok"


OPENED = {
    "its folder": ("lib/openmpi-4.1.4", 0o775),
    "the folder above": ("lib", 0o757),
    "the library": ("lib/openmpi-4.1.4/libcolltune.so", 0o664),
    "the site": (".", 0o777),
    "closed": ("lib", 0o700),
    "unreadable": ("lib/openmpi-4.1.4/libcolltune.so", 0o700),
}


@pytest.mark.parametrize(("name", "mode"), OPENED.values(), ids=OPENED)
def test_a_library_that_others_can_change_or_not_read(
    switched_on: Callable[..., Answer], init: Init, site: Path, name: str, mode: int
) -> None:
    """`check` names it; `init` makes an open library anew, and refuses an open folder."""
    switched_on()
    (site / name).chmod(mode)
    ((status, said),) = answers(site, "recording")
    assert status == "problem"
    assert str(site / name) in said
    again = init(*SERVICE)
    if mode == 0o664:
        assert stat.S_IMODE((site / name).stat().st_mode) == 0o755
    elif mode & 0o022:
        assert again.status == 9
        assert "chmod go-w" in again.err


def test_access_lists_count(switched_on: Callable[..., Answer], site: Path) -> None:
    """An entry of an access list that lets a user write is as a mode that lets the group."""
    switched_on()
    # version 2; owner rwx, user 12345 rwx, group r-x, mask rwx, others r-x
    entries = ((1, 7, -1), (2, 7, 12345), (4, 5, -1), (16, 7, -1), (32, 5, -1))
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    try:
        os.setxattr(site / "lib", "system.posix_acl_access", content)
    except OSError as error:
        pytest.skip(f"no access lists here: {error.strerror}")
    ((status, said),) = answers(site, "recording")
    assert status == "problem"
    assert f"{site}/lib is writable by others" in said


def test_the_epilogs_token_ends_and_is_renewed(
    switched_on: Callable[..., Answer], init: Init, site: Path
) -> None:
    """It is good for a year; `check` warns a month before, and `init` then makes another one."""
    switched_on()
    (token,) = token_file.read(site / "tokens")
    now = datetime.now(UTC)
    assert token.expires is not None
    assert now + timedelta(days=360) < token.expires < now + timedelta(days=370)
    header = (site / "slurm/summaries.header").read_text()
    for expires, said in ((now + timedelta(days=20), "epilog ends 2"), (None, "epilog never ends")):
        ours = token_file.read(site / "tokens")[0]
        token_file.write(site / "tokens", [replace(ours, expires=expires)])
        assert said in answers(site, "recording")[0][1]
        init(*SERVICE)
        assert answers(site, "recording")[0][0] == "ok"
        before, header = header, (site / "slurm/summaries.header").read_text()
        assert header != before
        secret = header.strip().rpartition(" ")[2]
        assert token_file.matching(token_file.read(site / "tokens"), secret) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
def test_a_renewed_token_stays_with_its_users(
    switched_on: Callable[..., Answer], init: Init, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `install` has given to the service and to Slurm's user stays theirs."""
    switched_on()
    monkeypatch.setattr(recording, "uid_of", lambda _: 12345)
    token_file.write(site / "tokens", [replace(token_file.read(site / "tokens")[0], expires=None)])
    os.chown(site / "tokens", 12345, 12345)
    os.chown(site / "slurm/summaries.header", 12346, 12346)
    assert init(*SERVICE).status == 0
    assert (site / "tokens").stat().st_uid == 12345
    assert (site / "slurm/summaries.header").stat().st_uid == 12346
    assert token_file.read(site / "tokens", 12345)[0].expires is not None


def test_where_the_library_cannot_be_compiled(
    switched_on: Callable[..., Answer], site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command for a host where that MPI is; all else is done."""
    other = type("Found", (), {"release": "4.1.6"})()
    monkeypatch.setattr(installation, "find", lambda *_: other)
    said = switched_on()
    assert "jobs of openmpi/4.1.4 are not recorded" in said.err
    command = f"--out {site}/lib/openmpi-4.1.4/libcolltune.so"
    assert command in " ".join(said.err.split())
    assert (site / "tokens").exists()
    (answer,) = answers(site, "recording")
    assert answer[0] == "problem"
    assert command in answer[1]


def answers(site: Path, *names: str) -> list[tuple[str, str]]:
    """Return how some checks end, and what they say."""
    subject = check.Subject(site)
    found = [check.CHECKS[name].look(subject) for name in names]
    return [(str(answer.status), f"{answer.finding} {answer.mend}") for answer in found]


def test_checks_of_a_site_that_records(switched_on: Callable[..., Answer], site: Path) -> None:
    """They tell of waiting summaries, of none, and of those that came in."""
    switched_on()
    assert answers(site, "recording")[0][0] == "ok"
    assert "not there yet" in answers(site, "reports")[0][1]
    production = folder.site_of(site).production
    store = Store(production.store, production.archive)
    Path(production.store).parent.mkdir()
    store.note_given([(str(n), "openmpi-4.1.4", "tuned", "ab" * 32) for n in range(3)], 4e9)
    assert "no job reported" in answers(site, "reports")[0][1]
    store.add(SUMMARY, 4e9)
    assert answers(site, "reports") == [("ok", "1 job reported within a day; 3 jobs got an arm ")]
    spool = site / "jobs/.spool"
    spool.mkdir(parents=True)
    (spool / "17").touch()
    assert "1 summary of jobs wait" in answers(site, "reports")[0][1]


def test_checks_of_a_site_that_records_nothing(init: Init, site: Path) -> None:
    """Nothing is missing."""
    init(*SERVICE)
    assert [kind for kind, _ in answers(site, "recording", "reports")] == ["ok", "ok"]
