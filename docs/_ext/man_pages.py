"""Manual pages from the command line's own help: ``python -m docs._ext.man_pages FOLDER``.

Written with the macros of man(7); one page for the command line, and one for each verb or group.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from colltune import __version__
from colltune.cli.app import SECTIONS
from colltune.errors import EXIT_STATUSES
from colltune.files import whole
from docs._ext.verbs import Parameter, Verb, broken, command_line

_WORD = re.compile(r"(?<![\w-])(?:--?[a-z][\w-]*|COLLTUNE\w*)(?![\w-])")
_SECTION = 1
# of what man indents, on a terminal of 80 columns
_WIDTH = 72


def pages() -> dict[str, str]:
    """Return all pages by the names of their files."""
    found = {f"colltune.{_SECTION}": _overview()}
    for verb in command_line().parts:
        found[f"{_page(verb)}.{_SECTION}"] = _of_verb(verb)
    return found


def write(folder: Path) -> None:
    """Write all pages into `folder`, and remove those of verbs that are no more.

    Raises
    ------
    OutputError
        If they cannot be written.
    """
    written = pages()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"colltune*.{_SECTION}"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        with whole(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _page(verb: Verb) -> str:
    return verb.name.replace(" ", "-")


def _overview() -> str:
    whole_line = command_line()
    return "".join(
        [
            *_head("colltune", whole_line),
            _section("DESCRIPTION"),
            *_paragraphs(whole_line.about),
            _section("OPTIONS"),
            *map(_tagged, whole_line.options),
            *_sections(whole_line),
            *_exit_statuses(),
            _section("SEE ALSO"),
            ", ".join(f"{_bold(_page(v))}({_SECTION})" for v in whole_line.parts) + "\n",
        ]
    )


def _sections(whole_line: Verb) -> Iterator[str]:
    parts = {part.title: part for part in whole_line.parts}
    yield _section("VERBS")
    for section, verbs in SECTIONS.items():
        yield _section(section, ".SS")
        for name in verbs:
            yield _item(f"{_bold(_page(parts[name]))}({_SECTION})", parts[name].about[0])


def _of_verb(verb: Verb) -> str:
    variables = [Parameter(option.variable, _gives(option)) for option in verb.variables]
    parts = [*_head(_page(verb), verb), _section("DESCRIPTION"), *_paragraphs(verb.about)]
    parts += _parameters(verb, ".SH")
    for part in _below(verb):
        parts += [_section(part.name), _usage(part), *_paragraphs(part.about)]
        parts += _parameters(part, ".SS")
    if variables:
        parts += [_section("ENVIRONMENT"), *map(_tagged, variables)]
    parts += _exit_statuses()
    return "".join([*parts, _section("SEE ALSO"), f"{_bold('colltune')}({_SECTION})\n"])


def _below(verb: Verb) -> Iterator[Verb]:
    for part in verb.parts:
        yield part
        yield from _below(part)


def _head(page: str, verb: Verb) -> list[str]:
    name = _plain(page)
    purpose = verb.about[0].rstrip(".")
    return [
        f'.TH {_plain(page.upper())} {_SECTION} "" "colltune {__version__}" "colltune"\n',
        # names must not be hyphenated
        ".nr HY 0\n.nh\n.ad l\n",
        _section("NAME"),
        f"{name} \\- {_plain(purpose[0].lower() + purpose[1:])}\n",
        _section("SYNOPSIS"),
        _usage(verb),
    ]


def _usage(verb: Verb) -> str:
    named = verb.usage.removeprefix(verb.name)
    return f"{_bold(verb.name)}{_plain(named)}\n"


def _parameters(verb: Verb, macro: str) -> Iterator[str]:
    arguments = [argument for argument in verb.arguments if argument.what]
    for title, parameters in (("ARGUMENTS", arguments), ("OPTIONS", verb.options)):
        if parameters:
            yield _section(title, macro)
            yield from map(_tagged, parameters)
    if verb.examples:
        yield _section("EXAMPLES", macro)
        yield from _paragraphs([verb.told[0].upper() + verb.told[1:]] if verb.told else [])
        for example in verb.examples:
            yield f".PP\n.EX\n{_plain(broken(example, _WIDTH))}\n.EE\n"


def _gives(option: Parameter) -> str:
    return f"Stands for {option.form.split()[0]} where that is not given."


def _exit_statuses() -> Iterator[str]:
    yield _section("EXIT STATUS")
    for status, meaning in EXIT_STATUSES.items():
        yield _item(_bold(str(status)), meaning[0].upper() + meaning[1:] + ".")


def _section(title: str, macro: str = ".SH") -> str:
    return f'{macro} "{_plain(title)}"\n'


def _paragraphs(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield f".PP\n{prose(text)}\n"


def _tagged(parameter: Parameter) -> str:
    return _item(_bold(parameter.form), parameter.what)


def _item(tag: str, text: str) -> str:
    return f".TP\n{tag}\n{prose(text)}\n"


def _bold(plain: str) -> str:
    return f"\\fB{_plain(plain)}\\fR"


def prose(text: str) -> str:
    """Return text with options and variables in bold, and without backticks."""
    parts, at = [], 0
    text = text.replace("`", "")
    for match in _WORD.finditer(text):
        parts += [_plain(text[at : match.start()]), _bold(match[0])]
        at = match.end()
    found = "".join([*parts, _plain(text[at:])])
    # a line that begins with these would be a request
    return f"\\&{found}" if found.startswith((".", "'")) else found


def _plain(text: str) -> str:
    """Return text in which nothing is a request or an escape, and what is typed stays as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return (
        text.replace("'", "\\(aq").replace('"', "\\(dq").replace("^", "\\(ha").replace("~", "\\(ti")
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
