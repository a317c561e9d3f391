"""`colltune serve --print-unit`."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from colltune.server.deployment import EXAMPLES, example
from tests.cli.conftest import Verb


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


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_printed(colltune: Verb, name: str) -> None:
    """It goes to standard output as it is, and no registry has to be named."""
    answer = colltune("serve", "--print-unit", name)
    assert (answer.status, answer.out) == (0, example(name))


def test_an_unknown_example_is_refused(colltune: Verb) -> None:
    """The message names those that there are."""
    answer = colltune("serve", "--print-unit", "upstart")
    assert answer.status == 1
    assert "no example 'upstart'; there are apache, compose, kubernetes" in answer.err


@pytest.mark.parametrize("name", ["compose", "kubernetes", "systemd"])
def test_the_options_in_an_example_are_known(colltune: Verb, name: str) -> None:
    """An option that is renamed cannot stay in an example."""
    options = {word for word in commands(name) if word.startswith("--")}
    assert options
    assert options <= set(re.findall(r"--[a-z-]+", colltune("serve", "--help").out))
