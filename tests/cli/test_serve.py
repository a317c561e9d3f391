"""`colltune serve`, as far as no server is started."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from colltune.site.folder import EXAMPLES, example
from tests.cli.conftest import Verb


@pytest.fixture(autouse=True)
def _same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep variables of a service out of and in this process's environment."""
    for name in os.environ:
        if name.startswith("COLLTUNE_SERVER_"):
            monkeypatch.delenv(name)


def test_what_makes_no_sense_is_refused(colltune: Verb) -> None:
    """Wrong options end with status 2 before anything listens, and are named."""
    for words, code in (
        ((), "missing"),
        (("--bundle", "b", "--registry", "r"), "missing"),
        (("--bundle", "b", "--caution", "nan"), "wrong-setting setting=--caution"),
        (("--bundle", "b", "--workers", 0), ""),
        (("--bundle", "b", "--port", 70000), ""),
        (("--bundle", "b", "--uds", "s", "--uds-mode", "9"), "malformed value=9"),
        (("--bundle", "b", "--uds", "s", "--uds-mode", "7777"), "malformed value=7777"),
        (("--bundle", "b", "--ssl-keyfile", "k"), "works-only-with other=--ssl-certfile"),
        (("--bundle", "b", "--ssl-certfile", "/no/such/file"), "not-tls path=/no/such/file"),
        (("--bundle", "b", "--log-level", "LOUD"), "unknown name=LOUD"),
    ):
        answer = colltune("serve", *words)
        assert (answer.status, answer.says(code)) == (2, True), (words, answer.err)


def test_what_is_not_there_is_not_waited_for(colltune: Verb, tmp_path: Path) -> None:
    """A folder that is missing, or a file, is named, with the mend; nothing listens."""
    for kind in ("registry", "bundle"):
        (tmp_path / "file").touch()
        socket = tmp_path / "socket"
        for folder in (tmp_path / "nowhere", tmp_path / "file"):
            answer = colltune("serve", f"--{kind}", folder, "--uds", socket)
            assert answer.status == 7, kind
            assert (answer.code, str(folder) in answer.err) == (f"no-{kind}-here", True)
            assert not socket.exists(), kind


def test_a_variable_that_makes_no_sense_is_named(
    colltune: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that came from the environment is refused by the variable's name."""
    monkeypatch.setenv("COLLTUNE_SERVER_THREADS", "many")
    answer = colltune("serve", "--bundle", "b")
    assert (answer.status, answer.says("wrong-setting setting=COLLTUNE_SERVER_THREADS")) == (
        2,
        True,
    )
    monkeypatch.setenv("COLLTUNE_SERVER_PROGRAMS", "mine")
    answer = colltune("serve", "--bundle", "b")
    assert answer.status == 2
    assert answer.says("not-programs value=mine")
    assert "COLLTUNE_SERVER_PROGRAMS" in answer.err
    monkeypatch.delenv("COLLTUNE_SERVER_PROGRAMS")
    for option, code in (("--programs", "not-programs"), ("--results", "not-results")):
        answer = colltune("serve", "--bundle", "b", option, "mine")
        assert (answer.status, answer.says(f"{code} value=mine")) == (2, True)
        assert option in answer.err


def test_an_address_that_is_not_ours_is_an_output_error(colltune: Verb, tmp_path: Path) -> None:
    """Where nothing can listen, it ends with status 9 and says what to change."""
    answer = colltune("serve", "--bundle", tmp_path, "--host", "192.0.2.1")
    assert answer.status == 9
    assert "--host" in answer.err


def commands(name: str) -> list[str]:
    """Return the options of `colltune serve` in an example."""
    if name == "systemd":
        (line,) = re.findall(r"^ExecStart=(.*)$", example(name), re.M)
        return str(line).split()
    if name in ("compose", "kubernetes"):
        text = json.dumps(list(yaml.safe_load_all(example(name))))
        found = re.findall(r'"(?:args|command)": (\["--.*?\])', text)
        return [word for words in found for word in json.loads(words)]
    return []


def test_examples_are_printed_with_options_that_are_known(colltune: Verb) -> None:
    """They go to standard output as they are; an option that is renamed cannot stay in one."""
    known = set(re.findall(r"--[a-z-]+", colltune("serve", "--help").out))
    for name in EXAMPLES:
        answer = colltune("serve", "--print-unit", name)
        assert (answer.status, answer.out) == (0, example(name))
        options = {word for word in commands(name) if word.startswith("--")}
        assert bool(options) == (name in ("compose", "kubernetes", "systemd"))
        assert options <= known
    answer = colltune("serve", "--print-unit", "upstart")
    assert answer.status == 1
    assert "'upstart'" in answer.err
