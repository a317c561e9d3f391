"""The pages of the command line: one table of all verbs, and a page for each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from docs._ext.markdown import code, fenced, heading, table, text
from docs._ext.verbs import Parameter, Verb, broken, command_line, verb

_WIDTH = 84
_NO_HELP = ("", "[required]")
_OPTION = re.compile(r"(?<![\w`-])--?[a-z][\w-]*")


def overview_markdown(_argument: str) -> str:
    """Return what all verbs share, and a table that leads to each."""
    whole = command_line()
    rows = ((f"[{code(v.name)}]({v.title}.md)", _prose(v.about[0])) for v in whole.parts)
    return (
        _prose(whole.about[0])
        + "\n\n"
        + fenced(whole.usage)
        + _parameter_table("option", whole.options)
        + heading(2, "Verbs")
        + table(("verb", "what it does"), rows)
    )


def verb_markdown(name: str) -> str:
    """Return the page of a verb, without its title."""
    found = verb(name)
    parts = (heading(2, part.name) + _body(part, 3) for part in found.parts)
    return _body(found, 2) + "".join(parts)


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
