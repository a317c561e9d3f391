"""The verbs of the command line, by what people do; each is imported when it is called."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, TypeGuard

import click
import typer
import typer.core

from colltune import __version__
from colltune.cli.console import show
from colltune.errors import EXIT_STATUSES

SECTIONS: dict[str, dict[str, str]] = {
    "Start here": {
        "tune": "Find faster algorithms for this machine, and prove that MPI obeys.",
        "select": "Select algorithms for a job, and write the MPI library's file.",
        "verify": "Prove in a job that MPI obeys a file, and measure the gain.",
        "doctor": "Find what is wrong with MPI, files and Slurm, and what to do.",
    },
    "On a cluster": {
        "plan": "Show what a campaign measures and costs, without running it.",
        "measure": "Measure a campaign into a dataset within a hard time budget.",
        "submit": "Measure a campaign as a Slurm job array.",
        "fit": "Fit runtime models to measurements, and write them as a bundle.",
        "confirm": "Measure a bundle's decisions again, and keep the faster ones.",
        "report": "Write a page that shows what a bundle decides and why.",
    },
    "For a site": {
        "serve": "Serve decisions and configuration files over HTTP.",
        "env": "Print the export lines that tune a batch job.",
        "site": "Tune all jobs of a cluster: set it up, check it, retrain it.",
    },
    "For files and applications": {
        "rules": "Lint, explain, convert configuration files; list algorithms.",
        "data": "Import and export measurements, report their noise.",
        "app": "Profile applications, pack configurations, preload libcolltune.",
    },
    "For researchers": {
        "evaluate": "Judge decisions on measurements that no model has seen.",
        "plot": "Draw decision maps, runtime curves and regrets.",
        "what-if": "Select for other nodes, processes or network adapters.",
        "han": "Tune Open MPI's coll/han from the times of its tasks.",
    },
}
"""What each verb or group is for, in a line."""
GROUPS: dict[str, tuple[str, ...]] = {
    "site": ("init", "check", "status", "upgrade", "slurm", "retrain", "bundles", "token"),
    "rules": ("lint", "explain", "convert", "catalog"),
    "data": ("import", "export", "noise"),
    "app": ("profile", "pack", "interpose"),
}
"""The verbs that stand behind a word of their group: `colltune rules lint`."""
VERBS = {verb: what for verbs in SECTIONS.values() for verb, what in verbs.items()}
_HOMES = dict.fromkeys(("doctor", "init", "check", "upgrade"), "site") | {"export": "import_"}
"""Modules of verbs that stand together in one."""
_NEW = ("init", "check", "upgrade", "status")
"""Verbs that never had another spelling."""
FORMER = {v: (group, v) for group, verbs in GROUPS.items() for v in verbs if v not in _NEW}
"""Spellings of earlier releases, which are taken for one more."""
_EPILOG = "Exit statuses are explained by: colltune help exits"


class _Verb(typer.core.TyperCommand):
    """Refuses an option of one value that is given twice, of which click takes the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            if _takes_one_value(option) and given.count(option) > 1 and not ctx.resilient_parsing:
                name = max(option.opts, key=len)
                mend = "Run the command once for each value."
                if "," in (option.metavar or ""):
                    mend = f"Separate several values by commas: {name} {option.metavar}"
                times = given.count(option)
                ctx.fail(f"{name} takes one value, but it is given {times} times. {mend}")
        return super().parse_args(ctx, args)


def _takes_one_value(option: click.Parameter) -> TypeGuard[click.Option]:
    return isinstance(option, click.Option) and not (
        option.is_flag or option.multiple or option.count
    )


class _VerbGroup(typer.core.TyperGroup):
    """Says of each verb what it does in a whole sentence."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click suggests a similar verb since 8.4, and typer would do it once more
        self.suggest_commands = not hasattr(click.exceptions, "NoSuchCommand")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _sentence(command)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Root(_VerbGroup):
    """Lists the verbs by what people do, on one screen."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for section, verbs in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(verb.ljust(width), what) for verb, what in verbs.items()])
        with formatter.section("Options"):
            formatter.write_dl(
                [
                    ("--version", "Print the version and stop."),
                    ("--install-completion", "Complete words in this shell from now on."),
                    ("-h, --help", "Show this message and exit."),
                ]
            )


def _sentence(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def app(words: Iterable[str], *, completing: bool = False) -> typer.Typer:
    """Return the command line for `words`: the verb that they begin with, or else all verbs.

    A cold `colltune select` has little time, and every verb costs some. While a shell is
    `completing` words, it must be able to ask.
    """
    first, second, *_ = (*words, "", "")
    built = typer.Typer(
        name="colltune",
        cls=_Root,
        help="Pick the fastest algorithm of every MPI collective; prove that MPI obeys.",
        epilog="colltune VERB --help explains a verb, colltune help exits the exit statuses.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        add_completion=completing or first not in VERBS,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    built.callback(invoke_without_command=True)(_version)
    built.command("help", hidden=True)(_help)
    for verb in [first] if first in VERBS else VERBS:
        members = GROUPS.get(verb)
        if members is None:
            _add(built, verb)
            continue
        group = typer.Typer(
            cls=_VerbGroup, help=VERBS[verb], no_args_is_help=True, rich_markup_mode=None
        )
        for member in [second] if second in members else members:
            _add(group, member)
        built.add_typer(group, name=verb, epilog=_EPILOG)
    return built


def _add(group: typer.Typer, verb: str) -> None:
    name = verb.replace("-", "_") + "_" * keyword.iskeyword(verb)
    found = getattr(import_module(f"colltune.cli.{_HOMES.get(name, name)}"), name)
    if isinstance(found, typer.Typer):
        for command in found.registered_commands:
            command.cls = _Verb
        group.add_typer(found, cls=_VerbGroup, name=verb, epilog=_EPILOG)
    else:
        group.command(verb, cls=_Verb, epilog=_EPILOG)(found)


def as_spelled_now(words: Sequence[str]) -> list[str]:
    """Return `words`, a former spelling replaced by the one of today, with a hint."""
    if not words or words[0] not in FORMER:
        return list(words)
    now = FORMER[words[0]]
    sys.stderr.write(f"colltune {words[0]} is now: colltune {' '.join(now)}\n")
    return [*now, *words[1:]]


def _help(
    words: Annotated[list[str] | None, typer.Argument(metavar="[VERB|exits]")] = None,
) -> None:
    """Explain a verb, or the exit statuses.

    Example: colltune help exits
    """
    if words == ["exits"]:
        for status, meaning in EXIT_STATUSES.items():
            show(f"{status:>3}  {meaning}")
        return
    asked = as_spelled_now(words or [])
    app(asked)([*asked, "--help"], standalone_mode=False)


def _version(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"colltune {__version__}")
        raise typer.Exit
