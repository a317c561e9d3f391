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

import click
import typer
from click.shell_completion import CompletionItem

_PACKAGE = Path(__file__).parents[1]
VARIABLE = "_COLLTUNE_COMPLETE"
Values = Callable[[click.Context, str], Iterable[str]]
_LEAST_OF_AN_ID = 12
# bash takes it for the end of a word, see COMP_WORDBREAKS
_BREAK = "@"


def collectives(_context: click.Context, _begun: str) -> list[str]:
    """Return all collectives."""
    return members("domain.py", "Collective")


def learners(_context: click.Context, _begun: str) -> list[str]:
    """Return all learners, and the choice among them."""
    return [*keys("models/learners.py", "LEARNERS"), "auto"]


def objectives(_context: click.Context, _begun: str) -> list[str]:
    """Return the statistics of a runtime."""
    return members("dataset/objective.py", "Objective")


def formats(_context: click.Context, _begun: str) -> list[str]:
    """Return the formats of configuration files."""
    from colltune.mpi import LIBRARIES

    return [name for mpi in LIBRARIES.values() for name in mpi.formats]


def libraries(_context: click.Context, _begun: str) -> list[str]:
    """Return the MPI libraries for which files are written."""
    from colltune.mpi import LIBRARIES

    return list(LIBRARIES)


def libraries_and_formats(context: click.Context, begun: str) -> list[str]:
    """Return what `select` writes for or in."""
    return [*libraries(context, begun), *formats(context, begun)]


def releases(_context: click.Context, begun: str) -> list[str]:
    """Return releases between which the meaning of a file changes, 5.0.11; or openmpi@5.0.11."""
    from colltune.mpi import LIBRARIES

    if begun[:1].isalpha():
        return [f"{name}@{one}" for name, mpi in LIBRARIES.items() for one in mpi.releases]
    return [one for mpi in LIBRARIES.values() for one in mpi.releases]


def described(context: click.Context, begun: str) -> list[str]:
    """Return what `catalog` describes: libraries, with @ also their releases."""
    if "@" in begun:
        return releases(context, begun)
    return libraries(context, begun)


def installed(_context: click.Context, _begun: str) -> list[str]:
    """Return libraries with releases, as Slurm's hooks take them: openmpi/4.1.4."""
    from colltune.mpi import LIBRARIES

    return [f"{name}/{one}" for name, mpi in LIBRARIES.items() for one in mpi.releases]


def bundles(context: click.Context, begun: str) -> list[str]:
    """Return the slots of the registry that was named, and beginnings of its bundles' ids."""
    root = Path(context.params.get("registry") or "")
    if root == Path():
        return []
    length = max(_LEAST_OF_AN_ID, len(begun))
    ids = [name[:length] for name in _names(root / "bundles") if re.fullmatch("[0-9a-f]{64}", name)]
    return sorted({*ids, *_names(root / "current")})


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return [file.name for file in folder.iterdir() if not file.name.startswith(".")]
    return []


def _of(file: str, registry: str) -> Values:
    return lambda _context, _begun: keys(file, registry)


def _these(*values: str) -> Values:
    return lambda _context, _begun: values


VALUES: Mapping[str, Values] = {
    "--collective": collectives,
    "--learner": learners,
    "--objective": objectives,
    "--judge": objectives,
    "--format": formats,
    "--library": libraries,
    "--release": releases,
    "--strategy": _of("bench/strategies/__init__.py", "STRATEGIES"),
    "--backend": _of("bench/backends/__init__.py", "BACKENDS"),
    "bundles BUNDLE": bundles,
    "bundles NEW": bundles,
    "bundles OLD": bundles,
    "catalog COLLECTIVE": collectives,
    "catalog LIBRARY[@RELEASE]": described,
    "convert --from-release": releases,
    "convert --to": formats,
    "evaluate --split": _of("evaluation/request.py", "SPLITS"),
    "evaluate --suite": _of("evaluation/request.py", "SUITES"),
    "fit --backend": _of("models/workers.py", "BACKENDS"),
    "import --format": _of("dataset/importers/__init__.py", "IMPORTERS"),
    "import --time-unit": _of("dataset/tidy_csv.py", "_TIME_UNITS"),
    "retrain --backend": _of("models/workers.py", "BACKENDS"),
    "retrain --print-unit": _of("retraining/site_file.py", "DEPLOY_FILES"),
    "select --format": libraries_and_formats,
    "serve --log-level": _these("DEBUG", "INFO", "WARNING", "ERROR"),
    "serve --print-unit": _of("server/deployment.py", "EXAMPLES"),
    "slurm --library": installed,
    "token --scope": lambda _context, _begun: members("server/auth/token_file.py", "Scope"),
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


def keys(file: str, name: str) -> list[str]:
    """Return the keys of the dict, or the entries of the tuple, called `name`.

    Parameters
    ----------
    file
        The module's file, relative to the package.
    """
    assigned = dict(_assigned(_tree(file).body))
    literal = assigned[name]
    if isinstance(literal, ast.Call):  # one whose entries are imported on demand
        literal = literal.args[0]
    if isinstance(literal, ast.Dict):
        return [_text(key, assigned) for key in literal.keys]
    if isinstance(literal, ast.Tuple):
        return [_text(entry, assigned) for entry in literal.elts]
    raise KeyError(name)


def members(file: str, name: str) -> list[str]:
    """Return the values of the enumeration called `name`."""
    for node in _tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [_text(value, {}) for _, value in _assigned(node.body)]
    raise KeyError(name)


def _tree(file: str) -> ast.Module:
    return ast.parse((_PACKAGE / file).read_text(encoding="utf-8"))


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.value is not None:
                yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            named = (target.id for target in node.targets if isinstance(target, ast.Name))
            yield from ((name, node.value) for name in named)


def _text(node: ast.expr | None, constants: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Name):
        return _text(constants[node.id], {})
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise KeyError(ast.dump(node) if node is not None else "**")
