"""The verbs of the command line as their help describes them, for pages and man pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import click
import typer.main

from colltune.cli.app import app

_EXAMPLE = re.compile(r"(?P<before>.*?)(?P<told>Examples?\b[^:]*):(?:\s+(?P<line>.*))?", re.DOTALL)
_COMMAND = re.compile(r"(?:colltune|eval) ")


@dataclass(frozen=True)
class Parameter:
    """An argument or option: how it is written, and what its help says."""

    form: str
    what: str
    variable: str = ""


@dataclass(frozen=True)
class Verb:
    """A verb, or the command line as a whole.

    ``about`` are paragraphs, the first one a single sentence; ``told`` introduces the examples.
    """

    name: str
    usage: str
    about: tuple[str, ...]
    told: str
    examples: tuple[str, ...]
    arguments: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    parts: tuple[Verb, ...]

    @property
    def title(self) -> str:
        """The last word of the name."""
        return self.name.rpartition(" ")[2]

    @property
    def variables(self) -> tuple[Parameter, ...]:
        """The options that an environment variable can give, those of the parts included."""
        own = tuple(option for option in self.options if option.variable)
        every = own + tuple(option for part in self.parts for option in part.variables)
        return tuple({option.variable: option for option in every}.values())


@cache
def command_line() -> Verb:
    """Return the whole command line; its parts are the verbs."""
    return verb_of(typer.main.get_command(app([])), "colltune", None)


def verb(name: str) -> Verb:
    """Return a verb by its name, such as ``select``.

    Raises
    ------
    LookupError
        If there is none.
    """
    for found in command_line().parts:
        if found.title == name:
            return found
    raise LookupError(f"the command line has no verb {name!r}")


def verb_of(command: click.Command, name: str, parent: click.Context | None) -> Verb:
    """Return a verb, and those below it, from a command whose parent is `parent`."""
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent)
    about, told, examples = _described(command.help or "")
    parts = command.commands.items() if isinstance(command, click.Group) else ()
    shown = [(word, part) for word, part in parts if not part.hidden]
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    return Verb(
        name=name,
        usage=" ".join((name, *command.collect_usage_pieces(context))),
        about=about,
        told=told,
        examples=examples,
        arguments=tuple(_parameters(arguments, context)),
        options=tuple(_parameters(options, context)),
        parts=tuple(verb_of(part, f"{name} {word}", context) for word, part in shown),
    )


def _described(documentation: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return paragraphs, what introduces the examples, and these, of a help text."""
    about: list[str] = []
    examples: list[str] = []
    told = ""
    for paragraph in documentation.split("\n\n"):
        line = " ".join(paragraph.split())
        match = _EXAMPLE.fullmatch(line)
        if match is None:
            (examples if _COMMAND.match(line) else about).append(line)
            continue
        if match["before"].strip():
            about.append(match["before"].strip())
        if match["line"] and _COMMAND.match(match["line"]):
            examples.append(match["line"])
        elif match["line"]:
            told = match["line"]
    return tuple(filter(None, about)), told, tuple(examples)


def _parameters(
    found: list[click.Argument] | list[click.Option], context: click.Context
) -> Iterator[Parameter]:
    for parameter in found:
        record = parameter.get_help_record(context)
        # an argument of click's own has no help
        form, what = record or (parameter.make_metavar(context), "")
        variable = parameter.envvar if isinstance(parameter.envvar, str) else ""
        yield Parameter(form, " ".join(what.split()), variable)


def broken(example: str, width: int) -> str:
    """Return a command in lines of at most `width` characters where it can be parted at options.

    The lines are continued by backslashes, so that the command is the same to a shell.
    """
    lines = [""]
    for part in re.split(r" (?=--? ?\S)", example):
        # room for a blank and a backslash
        if lines[-1] and len(lines[-1]) + len(part) + 3 > width:
            lines.append(f"    {part}")
        else:
            lines[-1] = f"{lines[-1]} {part}" if lines[-1] else part
    return " \\\n".join(lines)
