"""`colltune verify`: prove in a job of the user's own that MPI obeys a configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import Mark, TextTable, marked, output, painted
from colltune.cli.options import ForPrograms, ForResults, Json, Mpi, Quiet, programs_of
from colltune.cli.progress import progress
from colltune.text import bytes_text, counted, printable

if TYPE_CHECKING:
    from colltune.verify.canary import Readability
    from colltune.verify.rule_status import Proof, RuleResult

_NO_VERDICT = "nothing is proven"


def verify(
    file: Annotated[Path, typer.Argument(help="Configuration file.", metavar="FILE")],
    launcher: Annotated[
        list[str] | None,
        typer.Argument(
            help="After --: your own launcher with its options, without a program.",
            metavar="-- LAUNCHER…",
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(metavar="R", help="Fail unless the job runs this release of its MPI library."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="F", help="Format of FILE; default: detected from the content."
        ),
    ] = None,
    budget: Annotated[str, typer.Option(help="Total wall time: 60s, 5m.")] = "60s",
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Also time the default against FILE.")
    ] = True,
    readable_only: Annotated[
        bool,
        typer.Option(
            "--readable-only",
            help="Only check that all processes read the same FILE; needs no MPI (for a prologue).",
        ),
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder that all nodes see, for the compiled test program; default: in the "
            "user's cache.",
        ),
    ] = None,
    limit: Annotated[
        str, typer.Option(help="Time limit of one launch of the test program.")
    ] = "60s",
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="REGISTRY",
            help="Registry to report to how many rules were applied and ignored; the service's "
            "metrics show it.",
        ),
    ] = None,
    programs: ForPrograms = None,
    results: ForResults = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Prove in a job that MPI obeys FILE, and measure the gain.

    Your launcher starts a test program in your environment; no variable of yours is overridden. (If
    root runs it, Open MPI's launcher gets permission to run as root, and a note says so.) For each
    rule the test program makes calls that the rule should decide. Each rule is reported as applied,
    overridden (by what) or ignored (why). Reductions are tried with floating-point numbers as well:
    all ranks of an allreduce must hold the same bits, and if you promise same-bits, sums, products
    and a program's own operations must give the bits that they give without FILE. Then the default
    and FILE are measured in turn. The exit status is 1 if the job can use a rule that is not
    applied or breaks a promise, if a node cannot read FILE, or if FILE is slower beyond doubt. It
    is 17 if no rule was observed, for or against; then you are told how to observe them.

    Example: colltune verify openmpi.rules --budget 60s -- mpirun -np 8 --hostfile hosts
    """
    from colltune.bench import durations
    from colltune.files import cache_folder
    from colltune.verify.canary import VerifyRequest, canary_of, readability
    from colltune.verify.proving import prove

    request = VerifyRequest(
        path=file.absolute(),
        words=tuple(launcher or ()),
        release=release,
        format=format_,
        mpi=mpi,
        work=(work or cache_folder()).absolute(),
        budget_s=durations.seconds(budget),
        limit_s=durations.seconds(limit),
        measure=measure,
        programs=programs_of(programs, results),
    )
    reports = None
    if registry is not None:
        from colltune.registry import Registry

        reports = Registry(registry)
        reports.current()  # it must be there before anything is started
    if readable_only:
        with progress(
            "reading the file on all processes", quiet=quiet or json, interrupted=_NO_VERDICT
        ):
            found, _ = readability(request, canary_of(request)[0])
        output(found, _readability_lines(found), json=json)
        status = int(bool(found.problems))
    else:
        with progress("verifying", quiet=quiet or json, interrupted=_NO_VERDICT) as shown:
            proof = prove(
                request, lambda what, spent_s: shown.spend(spent_s, request.budget_s, now=what)
            )
        notes = () if proof.readability.problems else proof.notes
        warnings = (f"note: {note}" for note in notes)
        output(proof, _lines(proof), json=json, warnings=warnings)
        if reports is not None:
            reports.put_report("verify", proof.for_registry())
        status = proof.verdict.exit_status
    if status:
        raise typer.Exit(status)


_LONGEST_TEXT = 44
_VERDICTS = {
    "passed": ("passed", Mark.GOOD),
    "failed": ("FAILED", Mark.BAD),
    "not observed": ("NOT OBSERVED", Mark.DOUBTFUL),
}
_MARKS = {
    "applied": Mark.GOOD,
    "overridden": Mark.DOUBTFUL,
    "ignored": Mark.BAD,
    "harmful": Mark.BAD,
    "other bits": Mark.BAD,
}


def _readability_lines(found: Readability) -> Iterator[str]:
    if not found.problems:
        where = f"{counted(found.nprocs, 'process', 'es')} on {', '.join(found.hosts)}"
        yield f"{found.path}: read alike by {where}"
        return
    for host, why in found.problems.items():
        yield f"{found.path}: on {host}: {why}"
    yield (
        "jobs must not use this file: processes that cannot read it make the others wait. "
        "Put it where all nodes see it."
    )


def _lines(proof: Proof) -> Iterator[str | TextTable]:
    if proof.readability.problems:
        yield from _readability_lines(proof.readability)
        return
    nprocs = sum(proof.nodes.values())
    library = proof.library.partition(",")[0].partition("\n")[0]
    where = f"{counted(nprocs, 'process', 'es')} on {counted(len(proof.nodes), 'node')}"
    yield f"{proof.readability.path} ({proof.format}): {library}, {where}"
    if proof.dropped:
        yield f"the library ignores the whole file: {proof.dropped}"
    if proof.results:
        yield ""
        shown = [result for result in proof.results if not _tells_nothing(result)]
        yield TextTable(_HEADER, [_row(result) for result in shown], _WRAP, _DROP)
        if left := len(proof.results) - len(shown):
            leave = "leaves" if left == 1 else "leave"
            yield f"not shown: {counted(left, 'rule')} that {leave} the decision to the library"
        yield ""
    told = ", ".join(f"{n} {status}" for status, n in proof.counts.items() if n) or "no rules"
    if proof.regressions:
        told += f"; {proof.regressions} slower than the default beyond doubt"
    yield f"{painted(*_VERDICTS[proof.verdict])}: {told}"
    if how := proof.how_to_observe:
        yield f"to observe it: {how}"


def _tells_nothing(result: RuleResult) -> bool:
    """Tell whether a rule leaves the decision to the library, and nothing was seen of it."""
    configuration = result.rule.configuration
    unseen = result.assessment.status in ("unreachable", "unobserved")
    return unseen and configuration is not None and configuration.is_default


_HEADER = ("line", "rule", "status", "seen as", "speed-up", "95 % interval", "why")
_WRAP = ("why", "rule", "seen as")
_DROP = ("95 % interval", "seen as")


def _row(result: RuleResult) -> tuple[object, ...]:
    rule, assessment, call, gain = result.rule, result.assessment, result.call, result.gain
    text = printable(" ".join(rule.text.split()))
    if len(text) > _LONGEST_TEXT:
        text = f"…{text[1 - _LONGEST_TEXT :]}"
    seen = ""
    if call is not None:
        seen = f"{bytes_text(call.msize_bytes)}, {call.comm_size} on {counted(call.nodes, 'node')}"
        seen = f"{assessment.ran} ({seen})" if assessment.ran else seen
    interval = ""
    if gain is not None:
        interval = counted(gain.pairs, "pair")
        if gain.lower is not None:
            interval = f"{gain.lower:.2f} .. {gain.upper:.2f}"
    why = printable(assessment.why.strip().replace("\n", " | "))
    if result.is_regression:
        why = "; ".join(filter(None, ["slower than the default", why]))
    return (
        rule.line,
        f"{rule.collective}: {text}",
        marked(assessment.status, _MARKS.get(assessment.status)),
        seen,
        f"{gain.ratio:.2f}x" if gain else "",
        interval,
        why,
    )
