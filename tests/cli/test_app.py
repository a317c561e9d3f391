"""The command line as a whole."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from colltune import __version__
from colltune.cli.app import FORMER, VERBS
from colltune.errors import EXIT_STATUSES, ColltuneError, ResourceError
from tests.cli.conftest import Verb
from tests.cli.verb_examples import commands


def test_version(colltune: Verb) -> None:
    """--version prints the version."""
    assert colltune("--version").out == f"colltune {__version__}\n"


def test_help_has_an_example_and_tells_of_the_statuses(colltune: Verb) -> None:
    """Each verb's help shows an example of it, and how to read of exit statuses."""
    for name, command in commands():
        if command.hidden:
            continue
        text = " ".join(colltune(*name.split(), "--help").out.split())
        assert f"colltune {name} " in text.partition("Example")[2], name
    for verb in VERBS:
        assert "colltune help exits" in colltune(verb, "--help").out, verb


def test_the_help_fits_on_a_screen(colltune: Verb) -> None:
    """It has at most 40 lines of 80 columns, with every verb or group and no sentence cut off."""
    lines = colltune("--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= set(VERBS)
    assert "..." not in "".join(lines[1:])
    assert colltune("help").out.splitlines()[2:] == lines[2:]


def test_help_is_as_wide_as_the_terminal(colltune: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a wide terminal fewer lines are broken, up to a width that one can read."""
    for columns, widest in (("60", 60), ("90", 90), ("300", 110)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = colltune("select", "--help").out.splitlines()
        assert widest - 12 < max(map(len, lines)) <= widest, columns


def test_help_explains_verbs_and_exit_statuses(colltune: Verb) -> None:
    """It prints what --help or -h of a verb prints, and every status with its meaning."""
    assert colltune("rules", "lint", "-h").out == colltune("rules", "lint", "--help").out
    assert " rules lint [OPTIONS] FILE" in colltune("help", "rules", "lint").out
    told = colltune("help", "exits").out.splitlines()
    assert [line.split(maxsplit=1) for line in told] == [
        [str(status), meaning] for status, meaning in EXIT_STATUSES.items()
    ]


def test_former_spellings_are_taken_with_a_hint(colltune: Verb, tmp_path: Path) -> None:
    """Each verb that went behind a word of its group does the same without it."""
    for verb, (group, _) in FORMER.items():
        now = colltune(group, verb, "--help")
        before = colltune(verb, "--help")
        assert (before.status, before.out) == (now.status, now.out) == (0, now.out), verb
        assert before.err == f"colltune {verb} is now: colltune {group} {verb}\n"
    wrong = tmp_path / "wrong.conf"
    wrong.write_text("1\n99\n")
    now, before = (colltune(*words, wrong) for words in (("rules", "lint"), ("lint",)))
    assert (before.status, before.out) == (now.status, now.out)
    assert before.status != 0


def test_every_error_has_a_documented_status() -> None:
    """Each kind of error has an exit status of its own, and all are documented."""
    kinds = ColltuneError.__subclasses__()
    statuses = [kind.exit_status for kind in kinds]
    assert len(set(statuses)) == len(kinds)
    assert set(statuses) <= set(EXIT_STATUSES)


def too_large() -> MemoryError:
    """Return the error of an array that no memory can hold."""
    with pytest.raises(MemoryError) as raised:
        np.ones(1 << 58)
    return raised.value


SHORT = {
    "an array": too_large(),
    "nothing is said": MemoryError(),
    "a table": pa.lib.ArrowMemoryError("malloc of size 64 failed"),
    "a program": OSError(errno.ENOMEM, "Cannot allocate memory"),
    "a library": ImportError("a\nb.so: failed to map segment from shared object"),
    "a thread": RuntimeError("can't start new thread"),
}


@pytest.mark.parametrize("error", SHORT.values(), ids=SHORT)
def test_a_shortage_of_memory_has_a_status(
    error: Exception, colltune: Verb, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever asked for memory, the message says that there is too little, and what to do."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("colltune.models.bundle.load", fails)
    answer = colltune("select", "--bundle", bundle_path, "--nodes", 2, "--ppn", 2)
    assert answer.status == ResourceError.exit_status
    assert "ulimit -v" in answer.err
    if text := str(error):
        assert text.splitlines()[-1] in answer.err


def test_little_memory_is_enough_to_select(bundle_path: Path) -> None:
    """Of what a file may hold at most nothing is asked for; with less still, an error is told."""
    command = [sys.executable, "-m", "colltune.cli", "select", "--nodes", "2", "--ppn", "2"]
    command += ["--bundle", str(bundle_path)]
    for most_bytes, status in ((600 << 20, 0), (40 << 20, ResourceError.exit_status)):
        limits = (most_bytes, most_bytes)
        ended = subprocess.run(
            command,
            check=False,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, limits),
            env=dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        assert ended.returncode == status, ended.stderr
        assert "Traceback" not in ended.stderr


def test_measuring_needs_an_mpi(
    colltune: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an MPI, measure and tune end with status 5 and say how to get one."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for verb in ("measure", "tune"):
        answer = colltune(verb, "--out", tmp_path / "o")
        assert answer.status == 5
        assert "--mpi" in answer.err
    named = colltune("measure", "--out", tmp_path / "o", "--mpi", "/no/such/mpirun")
    assert named.status == 5
    assert "/no/such/mpirun" in named.err


def test_a_misspelt_key_is_named_with_its_line(colltune: Verb, tmp_path: Path) -> None:
    """The campaign's line, the key, and the one that was meant."""
    campaign = tmp_path / "c.toml"
    campaign.write_text('[space]\ncollectives = ["bcast"]\nnodes = [2, 4]\npnp = [2]\n')
    wrong = colltune("measure", campaign, "--out", tmp_path / "d")
    assert wrong.status == 4
    assert "line 4, key space.pnp: unknown key (did you mean ppn?)" in wrong.err
