"""The verbs of the command line; each is a module that is imported when its verb is called."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from colltune import __version__
from colltune.errors import EXIT_STATUSES

VERBS: dict[str, str] = {
    "tune": "colltune.cli.tune:tune",
    "plan": "colltune.cli.plan:plan",
    "measure": "colltune.cli.measure:measure",
    "submit": "colltune.cli.submit:submit",
    "han": "colltune.cli.han:han",
    "import": "colltune.cli.import_:import_",
    "export": "colltune.cli.export:export",
    "noise": "colltune.cli.noise:noise",
    "fit": "colltune.cli.fit:fit",
    "evaluate": "colltune.cli.evaluate:evaluate",
    "report": "colltune.cli.report:report",
    "plot": "colltune.cli.plot:plot",
    "select": "colltune.cli.select:select",
    "profile": "colltune.cli.profile:profile",
    "pack": "colltune.cli.pack:pack",
    "what-if": "colltune.cli.what_if:what_if",
    "catalog": "colltune.cli.catalog:catalog",
    "lint": "colltune.cli.lint:lint",
    "explain": "colltune.cli.explain:explain",
    "convert": "colltune.cli.convert:convert",
    "confirm": "colltune.cli.confirm:confirm",
    "verify": "colltune.cli.verify:verify",
    "serve": "colltune.cli.serve:serve",
    "token": "colltune.cli.token:token",
    "bundles": "colltune.cli.bundles:bundles",
    "interpose": "colltune.cli.interpose:interpose",
    "env": "colltune.cli.env:env",
    "slurm": "colltune.cli.slurm:slurm",
    "retrain": "colltune.cli.retrain:retrain",
}
_EPILOG = "Exit status: " + "; ".join(f"{n} {text}" for n, text in EXIT_STATUSES.items()) + "."


def app(words: Iterable[str], *, completing: bool = False) -> typer.Typer:
    """Return the command line for `words`: the verb that they begin with, or else all verbs.

    A cold `colltune select` has little time, and every verb costs some. While a shell is
    `completing` words, it must be able to ask.
    """
    first = next(iter(words), "")
    built = typer.Typer(
        name="colltune",
        help="Pick the fastest algorithm of every MPI collective, and prove that MPI obeys.",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=completing or first not in VERBS,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    built.callback(invoke_without_command=True)(_version)
    for verb in [first] if first in VERBS else VERBS:
        module, _, function = VERBS[verb].partition(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            built.add_typer(found, name=verb, epilog=_EPILOG)
        else:
            built.command(verb, epilog=_EPILOG)(found)
    return built


def _version(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"colltune {__version__}")
        raise typer.Exit
