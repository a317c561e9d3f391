"""Every call of colltune that a page shows is one that the command line takes."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from colltune.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL_BLOCKS = ("```console", "```sh", "```bash")
# the command ends where the shell has another one, or sends its output elsewhere
_END = re.compile(r"[();<>|&`]+")
_CALL = re.compile(r"(?:^|[\s(=/])colltune\s+(?P<words>[a-z-].*)", re.DOTALL)
_INLINE = re.compile(r"`(colltune [a-z-][^`]*)`")
_PLACEHOLDER = re.compile(r"[$<].*|[A-Z…:/.-]+")


def calls_in(text: str) -> list[tuple[int, str]]:
    """Return line and words of each call of colltune in a page's shell blocks and inline code."""
    found: list[tuple[int, str]] = []
    lines = text.splitlines()
    block = ""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            block = "" if block else line.strip()
        elif not block:
            # prose may name an option without its value
            found += [(number, f"{call} …") for call in _INLINE.findall(line)]
        elif block in SHELL_BLOCKS and not (number > 1 and lines[number - 2].endswith("\\")):
            whole = _continued(lines, number)
            if block != "```console" or whole.startswith(("$ ", "# ", "> ")):
                found += [(number, call) for call in [whole.lstrip("$#> ")] if _CALL.search(call)]
    return found


def _continued(lines: list[str], number: int) -> str:
    """Return the line with that number and those that continue it, as one."""
    whole = lines[number - 1]
    while whole.endswith("\\") and number < len(lines):
        whole = whole[:-1] + " " + lines[number].strip()
        number += 1
    return whole


def words_of(call: str) -> list[str]:
    """Return what follows `colltune` in `call`, without what the shell keeps for itself."""
    match = _CALL.search(call)
    assert match is not None, call
    words = re.sub(r"\s#\s.*|\d(?=>)", "", match["words"])
    if "$(" in call[: match.start("words")]:
        words = words.partition(")")[0]
    shell = shlex.shlex(words, posix=True, punctuation_chars="();<>|&`")
    shell.whitespace_split, shell.commenters = True, ""
    return list(itertools.takewhile(lambda word: not _END.fullmatch(word), shell))


def parse(words: list[str]) -> None:
    """Let the real command line parse `words`, running nothing and looking at no file."""
    try:
        _parse([word for word in words if word != "…"])
    except click.BadOptionUsage:
        # it may be the value that is left open
        _parse(words)


def _parse(words: list[str]) -> None:
    command: click.Command = typer.main.get_command(app(words))
    context = click.Context(command, info_name="colltune")
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            break
        name, words = words[0], words[1:]
        inner = command.get_command(context, name)
        if inner is None:
            raise click.UsageError(f"no verb {name!r}", context)
        command, context = inner, click.Context(inner, parent=context, info_name=name)
    own, separator, others = _at_separator(words)
    options, arguments, _ = command.make_parser(context).parse_args([*own, *separator, *others])
    if arguments and not any(isinstance(p, click.Argument) for p in command.params):
        raise click.UsageError(f"nothing takes {arguments[0]!r}", context)
    for parameter in command.params:
        value = options.get(parameter.name or "")
        if value is not None and isinstance(parameter, click.Option):
            _check(parameter, value, context)


def _at_separator(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    if "--" not in words:
        return words, [], []
    at = words.index("--")
    return words[:at], ["--"], words[at + 1 :]


def _check(option: click.Option, value: object, context: click.Context) -> None:
    """Convert an option's value, unless it is a placeholder or names a file."""
    values = value if isinstance(value, list) else [value]
    if isinstance(option.type, click.Path) or any(
        isinstance(v, str) and _PLACEHOLDER.fullmatch(v) for v in values
    ):
        return
    option.type_cast_value(context, value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_call_colltune_as_it_is(page: Path) -> None:
    """Each verb, option and value that is shown exists; so no page tells of what is gone."""
    wrong = []
    for line, call in calls_in(page.read_text(encoding="utf-8")):
        try:
            parse(words_of(call))
        except click.UsageError as error:
            wrong.append(f"{page.name}:{line}: {call}: {error.format_message()}")
    assert wrong == []
