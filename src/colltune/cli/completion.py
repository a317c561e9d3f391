"""What a shell offers after a tab: verbs, options, and the values that some of them take.

The shell starts colltune with ``_COLLTUNE_COMPLETE`` set, and the words so far in other variables;
the protocol, and the scripts for bash, zsh and fish, are typer's. The answer has to be there
before the next key, and nobody wants to see an error while typing.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import typer
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from colltune.mpi import MpiLibrary

_PACKAGE = Path(__file__).parents[1]
VARIABLE = "_COLLTUNE_COMPLETE"
Values = Callable[[click.Context, str], Iterable[str]]
_LEAST_OF_AN_ID = 12
# bash takes it for the end of a word, see COMP_WORDBREAKS
_BREAK = "@"


def _registered(file: str, name: str) -> Values:
    return lambda _context, _begun: registered(file, name)


def _libraries() -> Mapping[str, MpiLibrary]:
    from colltune.mpi import LIBRARIES

    return LIBRARIES


def _formats(_context: click.Context, _begun: str) -> list[str]:
    return [name for mpi in _libraries().values() for name in mpi.formats]


def _releases(_context: click.Context, begun: str) -> list[str]:
    """Return releases between which the meaning of a file changes, 5.0.11; or openmpi@5.0.11."""
    named = begun[:1].isalpha()
    return [
        f"{name}@{one}" if named else one
        for name, mpi in _libraries().items()
        for one in mpi.releases
    ]


def _described(context: click.Context, begun: str) -> list[str]:
    """Return what `catalog` describes: libraries, with @ also their releases."""
    return _releases(context, begun) if "@" in begun else list(_libraries())


def _installed(_context: click.Context, _begun: str) -> list[str]:
    """Return libraries with releases, as Slurm's hooks take them: openmpi/4.1.4."""
    return [f"{name}/{one}" for name, mpi in _libraries().items() for one in mpi.releases]


def _bundles(context: click.Context, begun: str) -> list[str]:
    """Return the slots of the registry that was named, and beginnings of its bundles' ids."""
    root = context.params.get("registry")
    if not root:
        return []
    length = max(_LEAST_OF_AN_ID, len(begun))
    found = _names(Path(root, "bundles"))
    ids = [name[:length] for name in found if re.fullmatch("[0-9a-f]{64}", name)]
    return sorted({*ids, *_names(Path(root, "current"))})


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return [file.name for file in folder.iterdir() if not file.name.startswith(".")]
    return []


_COLLECTIVES = _registered("domain.py", "Collective")
_OBJECTIVES = _registered("dataset/objective.py", "Objective")
_BACKENDS = _registered("models/workers.py", "BACKENDS")
VALUES: Mapping[str, Values] = {
    "--collective": _COLLECTIVES,
    "--learner": lambda *_: [*registered("models/learners/__init__.py", "LEARNERS"), "auto"],
    "--objective": _OBJECTIVES,
    "--judge": _OBJECTIVES,
    "--format": _formats,
    "--library": lambda *_: _libraries(),
    "--release": _releases,
    "--strategy": _registered("bench/strategies/__init__.py", "STRATEGIES"),
    "--backend": _registered("bench/backends/__init__.py", "BACKENDS"),
    "bundles BUNDLE": _bundles,
    "bundles NEW": _bundles,
    "bundles OLD": _bundles,
    "catalog COLLECTIVE": _COLLECTIVES,
    "catalog LIBRARY[@RELEASE]": _described,
    "convert --from-release": _releases,
    "convert --to": _formats,
    "evaluate --split": _registered("evaluation/request.py", "SPLITS"),
    "evaluate --suite": _registered("evaluation/request.py", "SUITES"),
    "fit --backend": _BACKENDS,
    "import --format": _registered("dataset/importers/__init__.py", "IMPORTERS"),
    "import --time-unit": _registered("dataset/tidy_csv.py", "TIME_UNITS"),
    "retrain --backend": _BACKENDS,
    "retrain --print-unit": _registered("retraining/site_file.py", "DEPLOY_FILES"),
    "select --format": lambda *asked: [*_libraries(), *_formats(*asked)],
    "serve --log-level": lambda *_: ("DEBUG", "INFO", "WARNING", "ERROR"),
    "serve --print-unit": _registered("site/folder.py", "EXAMPLES"),
    "slurm --library": _installed,
    "token --scope": _registered("server/auth/token_file.py", "Scope"),
}
"""By option or argument, of one verb or of all, what it can be."""


def words_so_far(variables: Mapping[str, str]) -> list[str]:
    """Return the words that are whole, without the program's name, wherever the shell put them."""
    if "COMP_WORDS" in variables:
        number = variables.get("COMP_CWORD", "")
        return variables["COMP_WORDS"].split()[1 : int(number) if number.isdecimal() else None]
    typed = variables.get("_TYPER_COMPLETE_ARGS", "")
    return typed.split()[1 : None if typed[-1:].isspace() else -1]


def join_words(variables: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Put together what bash took for several words: openmpi @ 5.0.

    Return what to set, bash's own variables corrected, and with what the word at the cursor begins
    that bash will leave as it is: openmpi@.
    """
    words = variables.get("COMP_WORDS", "").split("\n")
    number = variables.get("COMP_CWORD", "")
    if not number.isdecimal() or int(number) >= len(words):
        return {}, ""
    joined: list[str] = []
    at, cut = 0, ""
    for place, word in enumerate(words):
        if len(joined) > 1 and (word == _BREAK or joined[-1].endswith(_BREAK)):
            joined[-1] += word
        else:
            joined.append(word)
        if place == int(number):
            at = len(joined) - 1
            cut = joined[-1][: joined[-1].rfind(_BREAK) + 1] if joined[-1] != word else ""
    return {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(at)}, cut


def offer_values(command_line: click.Command, cut: str = "", *names: str) -> None:
    """Let the options and arguments of all verbs offer what is in `VALUES`."""
    if isinstance(command_line, click.Group):
        for name, command in command_line.commands.items():
            offer_values(command, cut, *names, name)
        return
    for parameter in command_line.params:
        for written in (*parameter.opts, getattr(parameter, "metavar", None)):
            asked = [*(f"{name} {written}" for name in names), f"{written}"]
            values = next((VALUES[key] for key in asked if key in VALUES), None)
            if values is not None:
                parameter.shell_complete = _offering(values, cut)  # type: ignore[assignment, method-assign]


def _offering(values: Values, cut: str) -> Callable[[click.Context, str], list[CompletionItem]]:
    def offered(context: click.Context, begun: str) -> list[CompletionItem]:
        found = [one for one in values(context, begun) if one.startswith(begun)]
        return [CompletionItem(one.removeprefix(cut)) for one in found]

    return offered


def answer() -> None:
    """Print what the shell asked for; whatever goes wrong, nothing."""
    from colltune.cli.app import app

    corrected, cut = join_words(os.environ)
    os.environ.update(corrected)
    command_line = typer.main.get_command(app(words_so_far(os.environ), completing=True))
    offer_values(command_line, cut)
    command_line.main([], "colltune", VARIABLE)


def registered(file: str, name: str) -> list[str]:
    """Return a dict's keys, a tuple's entries or an enumeration's values, of a literal in a module.

    The module, whose `file` is relative to the package, is not imported: many take too long.
    """
    known = dict(_assigned(ast.parse((_PACKAGE / file).read_text(encoding="utf-8")).body))
    literal = known[name]
    if isinstance(literal, ast.Call):
        literal = literal.args[0]
    match literal:
        case ast.Dict(keys=entries) | ast.Tuple(elts=entries) | ast.List(elts=entries):
            literals = (known[e.id] if isinstance(e, ast.Name) else e for e in entries)
            return [ast.literal_eval(one) for one in literals if one is not None]
    raise KeyError(name)


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield what names are given; a class is taken for the list of what its own names are."""
    for node in body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=targets, value=value):
                yield from ((one.id, value) for one in targets if isinstance(one, ast.Name))
            case ast.ClassDef(name=name, body=inner):
                members = [value for own, value in _assigned(inner) if own[0] != "_"]
                yield name, ast.List(members)
