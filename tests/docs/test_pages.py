"""The runner of pages sees what a stale page would get wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = """
```console
$ echo one two
one …
$ printf '%s\\n' a b c
a
…
$ false
$ echo $?
1
```

```python
$ not a command
```

<!-- test: --budget 90 runs as --budget 2 -->
<!-- test: needs sh, cat -->
```console
$ echo \\
  --budget 90
--budget 2
$ cat <<END
> x
> # y
> END
x
# y
```

```console
# reboot
```
"""


def page(tmp_path: Path, text: str) -> Path:
    """Write `text` as a page; return the file."""
    file = tmp_path / "page.md"
    file.write_text(text, encoding="utf-8")
    return file


def complaints(tmp_path: Path, text: str) -> list[str | None]:
    """Run all commands of a page and return what is wrong with each."""
    commands = pages.commands_of(page(tmp_path, text))
    results = pages.run(commands, tmp_path, dict(os.environ), 20)
    return [pages.complaint(c, r) for c, r in zip(commands, results, strict=True)]


def test_commands_are_read_with_outputs_and_directives(tmp_path: Path) -> None:
    """Continued lines belong to the command, all else is output, other blocks are left alone."""
    commands = pages.commands_of(page(tmp_path, PAGE))
    assert [c.text for c in commands] == [
        "echo one two",
        "printf '%s\\n' a b c",
        "false",
        "echo $?",
        "echo \\\n  --budget 90",
        "cat <<END\nx\n# y\nEND",
        "reboot",
    ]
    assert commands[0].shown == ("one …",)
    assert commands[4].run_as == "echo \\\n  --budget 2"
    assert commands[4].needs == ("sh", "cat")
    assert [c.prompt for c in commands[-2:]] == ["$ ", "# "]


def test_a_true_page_is_not_complained_of(tmp_path: Path) -> None:
    """Statuses, outputs and what stands for anything agree on a page that is right."""
    text = PAGE.replace("# reboot", "$ true")
    assert complaints(tmp_path, text) == [None] * 7


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("$ exit_with() { return 3; }; exit_with\n", "status 3"),
        ("$ echo one\ntwo\n", "it printed:\none"),
        ("$ echo one\n$ echo $?\n1\n", "it printed"),
        ("$ printf 'a\\nb\\n'\na\n", "it printed:\na\nb"),
        ("$ exit 0\n", "did not end"),
    ],
)
def test_a_stale_page_is_complained_of(tmp_path: Path, text: str, what: str) -> None:
    """A wrong status, a wrong or missing line, and a command that was not reached are told."""
    assert any(what in (c or "") for c in complaints(tmp_path, f"```console\n{text}```\n"))


def test_variables_and_the_folder_last_from_one_command_to_the_next(tmp_path: Path) -> None:
    """The commands of a page are one session, as they are for its reader."""
    text = "```console\n$ export X=1; mkdir y; cd y\n$ echo $X ${PWD##*/}\n1 y\n```\n"
    assert complaints(tmp_path, text) == [None, None]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("```console\nno prompt\n```\n", "page.md:2: output before any command"),
        ("<!-- test: a runs as b -->\n```console\n$ c\n```\n", "no 'a' to be replaced"),
    ],
)
def test_a_page_that_makes_no_sense_is_refused(tmp_path: Path, text: str, what: str) -> None:
    """Output without a command, and a replacement of nothing, are mistakes of the page."""
    with pytest.raises(ValueError, match=what):
        pages.commands_of(page(tmp_path, text))
