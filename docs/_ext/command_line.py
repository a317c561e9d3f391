"""The pages of the command line: one table of all verbs, and a page for each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from colltune.cli.app import SECTIONS
from docs._ext.markdown import code, fenced, heading, table, text
from docs._ext.verbs import Parameter, Verb, broken, command_line, verb

_WIDTH = 84
_NO_HELP = ("", "[required]")
_OPTION = re.compile(r"(?<![\w`-])--?[a-z][\w-]*")


def overview_markdown(_argument: str) -> str:
    """Return what all verbs share, and a table that leads to each."""
    whole = command_line()
    parts = {part.title: part for part in whole.parts}
    sections = [
        heading(2, section)
        + table(
            ("verb", "what it does"),
            (
                (f"[{code(parts[verb].name)}]({verb}.md)", _prose(parts[verb].about[0]))
                for verb in verbs
            ),
        )
        for section, verbs in SECTIONS.items()
    ]
    return (
        _prose(whole.about[0])
        + "\n\n"
        + fenced(whole.usage)
        + _parameter_table("option", whole.options)
        + "".join(sections)
    )


def verb_markdown(name: str) -> str:
    """Return the page of a verb, without its title."""
    return _with_parts(verb(name), 2)


def _with_parts(found: Verb, level: int) -> str:
    parts = (heading(level, part.name) + _with_parts(part, level + 1) for part in found.parts)
    return _body(found, level) + "".join(parts)


def _body(found: Verb, level: int) -> str:
    lines = [f"{_prose(paragraph)}\n\n" for paragraph in found.about]
    lines.insert(1, fenced(found.usage))
    for title, kind, parameters in (
        ("Arguments", "argument", found.arguments),
        ("Options", "option", found.options),
    ):
        # an argument that is only named is told by the usage
        if any(parameter.what not in _NO_HELP for parameter in parameters):
            lines += [heading(level, title), _parameter_table(kind, parameters)]
    if found.examples:
        told = f"{_prose(_sentence(found.told))}\n\n" if found.told else ""
        lines += [heading(level, "Examples"), told, _examples(found)]
    return "".join(lines)


def _examples(found: Verb) -> str:
    lines = (broken(example, _WIDTH) for example in found.examples)
    return fenced("\n".join(lines), "console")


def _parameter_table(kind: str, parameters: Sequence[Parameter]) -> str:
    rows = ((code(parameter.form), _prose(parameter.what)) for parameter in parameters)
    return table((kind, "meaning"), rows)


def _prose(plain: str) -> str:
    """Return text in which options are code."""
    return text(_OPTION.sub(lambda match: f"`{match[0]}`", plain))


def _sentence(told: str) -> str:
    return told[0].upper() + told[1:]
