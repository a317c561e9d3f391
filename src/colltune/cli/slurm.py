"""`colltune site slurm`: the hooks by which a site's jobs are tuned unasked."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import Verbatim, output
from colltune.cli.options import Json
from colltune.errors import UsageError, say

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_PAIR = re.compile(r"[a-z]+/[0-9][A-Za-z0-9.]*")


@dataclass(frozen=True)
class WrittenHooks:
    """What `site slurm hooks` prints."""

    folder: Path
    """folder of the hooks"""
    written: tuple[str, ...]
    """files that were written"""
    kept: tuple[str, ...]
    """files that were kept as they were"""
    slurm_conf: str
    """lines for slurm.conf"""


slurm = typer.Typer(
    help="Tune all jobs of a Slurm site without changing them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@slurm.command("hooks")
def write_hooks(
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the hooks to, the same on all nodes and the controller; default: "
            "only show them."
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(help="URL of the service, http://HOST:PORT.")
    ] = "http://127.0.0.1:8765",
    socket: Annotated[
        Path | None,
        typer.Option(help="Unix socket of the service on the controller, instead of --url."),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            help="Folder for the jobs' configuration files, on a file system of all nodes."
        ),
    ] = Path("/shared/colltune/jobs"),
    library: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIBRARY/RELEASE",
            help="MPI that jobs use, openmpi/4.1.4; repeatable, the first is the default.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write Slurm's hooks into a folder, and show the lines for slurm.conf.

    An existing site.sh is kept. Example:

    colltune site slurm hooks --out /etc/slurm/colltune --url http://tuning:8765 --folder
    /shared/colltune/jobs --library openmpi/4.1.4
    """
    from colltune.server.slurm import hooks

    settings = _settings(url, socket, folder, library or [])
    shown = hooks.Installed(Path("/etc/slurm/colltune"), (), ())
    lines = [
        Verbatim(shown.slurm_conf().rstrip()),
        f"# --out {shown.folder} writes the hooks",
    ]
    if out is not None:
        shown = hooks.install(out, Path(sys.executable).parent, settings)
        lines = [
            *(f"{shown.folder / name}" for name in shown.written),
            *(f"{shown.folder / name} (kept as it was)" for name in shown.kept),
            "check site.sh, then add to slurm.conf:",
            Verbatim(shown.slurm_conf().rstrip()),
            "users can try it without these lines: srun "
            f"--task-prolog={shown.folder / 'task_prolog.sh'}",
        ]
    facts = WrittenHooks(shown.folder, shown.written, shown.kept, shown.slurm_conf())
    output(facts, lines, json=json)


def _settings(url: str, socket: Path | None, folder: Path, pairs: list[str]) -> dict[str, str]:
    """Return the site file's values; each must be plain text within double quotes."""
    found = {"COLLTUNE_SITE_URL": url, "COLLTUNE_SITE_FOLDER": str(folder)}
    if socket is not None:
        found |= {
            "COLLTUNE_SITE_URL": "http://localhost",
            "COLLTUNE_SITE_SOCKET": str(socket.absolute()),
        }
    for value in found.values():
        if not _PLAIN.fullmatch(value):
            raise say("misread-characters", UsageError, value=value, allowed="_./:@%+-")
    if not folder.is_absolute():
        raise say("path-not-absolute", UsageError, path=folder, what="--folder")
    for pair in pairs:
        if not _PAIR.fullmatch(pair):
            raise say("malformed", UsageError, value=pair, what="a --library", like="openmpi/4.1.4")
    if pairs:
        found["COLLTUNE_SITE_LIBRARIES"] = " ".join(pairs)
        found["COLLTUNE_SITE_DEFAULT"] = pairs[0]
    return found
