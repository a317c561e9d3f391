"""The verbs of the command line; each is a module that imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from colltune import __version__
from colltune.cli.evaluate import evaluate
from colltune.cli.export import export
from colltune.cli.fit import fit
from colltune.cli.import_ import import_
from colltune.cli.measure import measure
from colltune.cli.select import select
from colltune.cli.tune import tune
from colltune.errors import EXIT_STATUSES

_EPILOG = "Exit status: " + "; ".join(f"{n} {text}" for n, text in EXIT_STATUSES.items()) + "."

app = typer.Typer(
    name="colltune",
    help="Pick the fastest algorithm of every MPI collective, and prove that MPI obeys.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"colltune {__version__}")
        raise typer.Exit


app.command(epilog=_EPILOG)(tune)
app.command(epilog=_EPILOG)(measure)
app.command("import", epilog=_EPILOG)(import_)
app.command(epilog=_EPILOG)(export)
app.command(epilog=_EPILOG)(fit)
app.command(epilog=_EPILOG)(evaluate)
app.command(epilog=_EPILOG)(select)
