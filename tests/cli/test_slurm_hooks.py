"""colltune site slurm hooks: a site's files, and the lines for its slurm.conf."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from colltune import process
from tests.cli.conftest import Verb

LIBRARIES = ("--library", "openmpi/4.1.4", "--library", "intelmpi/2021.6")


def test_the_hooks_are_written_and_named(colltune: Verb, tmp_path: Path) -> None:
    """Scripts can be run by all, the site file says what was given, slurm.conf's lines are told."""
    out = tmp_path / "etc" / "colltune"
    answer = colltune(
        "site", "slurm", "hooks", "--out", out, "--url", "http://tuning:8765", *LIBRARIES
    )
    assert answer.status == 0
    for line in ("PrologSlurmctld=", "EpilogSlurmctld=", "TaskProlog="):
        (named,) = [told for told in answer.out.splitlines() if told.startswith(line)]
        assert Path(named.partition("=")[2]).stat().st_mode & 0o777 == 0o755
    asked = '. "$0"; echo "$COLLTUNE_SITE_URL $COLLTUNE_SITE_LIBRARIES $COLLTUNE_SITE_DEFAULT"'
    shell = process.run(["sh", "-c", asked, out / "site.sh"], timeout_s=10)
    assert shell.stdout == "http://tuning:8765 openmpi/4.1.4 intelmpi/2021.6 openmpi/4.1.4\n"


def test_the_sites_own_file_is_kept(colltune: Verb, tmp_path: Path) -> None:
    """Written again, the hooks are new and the site file is as it was."""
    colltune("site", "slurm", "hooks", "--out", tmp_path)
    (tmp_path / "site.sh").write_text("# ours\n")
    (tmp_path / "prolog.sh").write_text("# old\n")
    told = colltune("site", "slurm", "hooks", "--out", tmp_path, "--json").json
    assert told["kept"] == ["site.sh"]
    assert "prolog.sh" in told["written"]
    assert (tmp_path / "site.sh").read_text() == "# ours\n"
    assert (tmp_path / "prolog.sh").read_text().startswith("#!/bin/sh\n")


def test_values_that_a_shell_could_misread_are_refused(colltune: Verb, tmp_path: Path) -> None:
    """They would stand in a file that every hook reads."""
    for option in (
        ("--url", 'http://x"; rm -rf /; "'),
        ("--folder", "relative"),
        ("--folder", "/a b"),
        ("--library", "openmpi"),
        ("--library", "openmpi/4.1.4;id"),
    ):
        answer = colltune("site", "slurm", "hooks", "--out", tmp_path / "new", *option)
        assert answer.status == 2, option
        assert not (tmp_path / "new").exists(), option


def test_every_shell_can_read_the_scripts(colltune: Verb, tmp_path: Path) -> None:
    """The scripts are plain POSIX sh."""
    for name in ("prolog.sh", "task_prolog.sh", "epilog.sh", "site.sh"):
        colltune("site", "slurm", "hooks", "--out", tmp_path)
        for shell in filter(shutil.which, ("dash", "bash", "busybox")):
            words = [shell, *{"bash": ["--posix"], "busybox": ["sh"]}.get(shell, [])]
            outcome = process.run([*words, "-n", tmp_path / name], timeout_s=10)
            assert outcome.ok, outcome.explain()


def test_the_module_names_the_program(colltune: Verb, tmp_path: Path) -> None:
    """The module file puts the folder of this colltune on PATH, and is Lua as Lmod reads it."""
    colltune("site", "slurm", "hooks", "--out", tmp_path)
    text = (tmp_path / "colltune.lua").read_text()
    assert 'prepend_path("PATH", "/' in text
    assert "@" not in text.replace('"$@"', "")
    lua = next(filter(shutil.which, ("lua5.4", "lua5.3", "lua", "luajit")), None)
    if lua is None:
        pytest.skip("no lua to read the module file with")
    stubs = "function help() end whatis, prepend_path, setenv, set_shell_function = "
    stubs += "help, help, help, print "
    program = tmp_path / "program.lua"
    program.write_text(stubs + text)
    outcome = process.run([lua, program], timeout_s=10)
    assert "colltune_job\t" in outcome.stdout


def test_hooks_are_not_written_where_others_could_change_them(
    colltune: Verb, entered: Path
) -> None:
    """Slurm runs them as root: a folder that others can write is refused and named."""
    entered.chmod(0o777)
    answer = colltune("site", "slurm", "hooks", "--out", entered)
    assert answer.status == 9
    assert f"{entered} is writable by others" in answer.err
    assert list(entered.iterdir()) == []
