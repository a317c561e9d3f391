"""`colltune doctor`: what is wrong with this machine, in one screen, and how to mend it."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import Mark, Verbatim, output, painted, terminal_width
from colltune.cli.options import Json, Mpi, Quiet, StartedBy
from colltune.cli.progress import progress
from colltune.text import counted, printable

if TYPE_CHECKING:
    from colltune.checks import Answer

_MARKS = {"ok": Mark.GOOD, "note": Mark.DOUBTFUL, "problem": Mark.BAD}


def doctor(
    mpi: Mpi = None,
    launcher: StartedBy = None,
    job: Annotated[
        bool, typer.Option("--job", help="Also look at the job that this runs in, on all nodes.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Look at what colltune needs here, and print what mends each problem.

    It looks at MPI, compiler, settings, libcolltune, folders, Slurm, service, bundle and ReproMPI.
    It changes nothing and does not need root. The exit status is 1 if there is a problem.

    Examples: this machine, another MPI, in a batch script.

    colltune doctor

    colltune doctor --mpi /opt/openmpi

    colltune doctor --job
    """
    from colltune.doctor import Host, answers, rank

    if job and rank():
        return 0  # one process of a job speaks
    with progress("looking", quiet=quiet or json) as shown:
        found = answers(Host(mpi, job, launcher), lambda name: shown.phase(f"looking at {name}"))
    return show_answers(found, json=json)


def show_answers(found: Mapping[str, Answer], *, json: bool) -> int:
    """Print what checks found; return 1 if there is a problem, else 0."""
    status = int(any(answer.status == "problem" for answer in found.values()))
    checks = [{"id": name, **answer._asdict()} for name, answer in found.items()]
    output({"version": 1, "exit_status": status, "checks": checks}, findings(found), json=json)
    return status


def findings(found: Mapping[str, Answer]) -> Iterator[str]:
    """Yield a line for each finding, with its mend, and one that counts them."""
    width = terminal_width() or sys.maxsize
    indent = " " * (11 + max(map(len, found)))
    for name, (status, finding, mend) in found.items():
        label = f"{painted(status.ljust(9), _MARKS[status])}{name.ljust(len(indent) - 9)}"
        text = textwrap.fill(
            printable(finding),
            max(width, 2 * len(indent)),
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
        yield Verbatim(f"{label}{text.removeprefix(indent)}")
        if mend:
            yield Verbatim(f"{indent}-> {printable(mend)}")
    counts = Counter(str(answer.status) for answer in found.values())
    said = [counted(counts[word], word) for word in ("problem", "note")]
    yield f"{', '.join(said)}, {counts['ok']} ok"
