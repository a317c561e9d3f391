"""`colltune verify`: prove in a job of the user's own that MPI obeys a configuration file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import Mark, columns, marked, painted, show, show_json, warn
from colltune.cli.options import Json, Mpi, Quiet
from colltune.cli.progress import progress
from colltune.text import bytes_text, printable

if TYPE_CHECKING:
    from colltune.registry import Registry
    from colltune.verify.gains import Gain
    from colltune.verify.readability import Readability
    from colltune.verify.rule_status import Proof, RuleResult

_NO_VERDICT = "nothing is proved"


def verify(
    file: Annotated[Path, typer.Argument(help="Configuration file.", metavar="FILE")],
    launcher: Annotated[
        list[str] | None,
        typer.Argument(
            help="Behind --: your own launcher with its options, without a program.",
            metavar="-- LAUNCHER…",
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(metavar="R", help="Insist that the job runs this release of its MPI library."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="F", help="Format of FILE; default: what it looks like."),
    ] = None,
    budget: Annotated[str, typer.Option(help="Wall time of it all: 60s, 5m.")] = "60s",
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Time default against file.")
    ] = True,
    readable_only: Annotated[
        bool,
        typer.Option(
            "--readable-only",
            help="Only check that all processes read the same FILE, without MPI (for a prologue).",
        ),
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder that all nodes see, for the compiled canary; default: the user's cache.",
        ),
    ] = None,
    limit: Annotated[
        str, typer.Option(help="Longest that one launch of the canary may take.")
    ] = "60s",
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="REGISTRY",
            help="Report to this registry how many rules were applied and ignored, so that the"
            " service's metrics tell.",
        ),
    ] = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Prove in a job of your own that MPI obeys FILE, and measure what it brings.

    A canary is started by your launcher under your environment, of which nothing is overridden.
    Open MPI's launcher is told to serve root, if that is who asks, which a note says. For each rule
    the canary makes calls that the rule should decide, and tells whether it was applied, overridden
    (by whom) or ignored (why); then default and FILE are measured in alternation. The status is 1
    if a rule that the job can reach is not applied, a node cannot read FILE, or FILE is slower with
    certainty.

    Example: colltune verify openmpi.rules --budget 60s -- mpirun -np 8 --hostfile hosts
    """
    from colltune.bench import durations
    from colltune.files import cache_folder
    from colltune.verify.proving import prove
    from colltune.verify.readability import Request, canary_of, readability

    request = Request(
        path=file.absolute(),
        words=tuple(launcher or ()),
        release=release,
        format=format_,
        mpi=mpi,
        work=(work or cache_folder()).absolute(),
        budget_s=durations.seconds(budget),
        limit_s=durations.seconds(limit),
        measure=measure,
    )
    reports = _reports_to(registry)
    if readable_only:
        with progress("reading the file everywhere", quiet=quiet or json, interrupted=_NO_VERDICT):
            found, _ = readability(request, canary_of(request)[0])
        _show_readability(found, as_json=json)
        passed = not found.problems
    else:
        with progress("verifying", quiet=quiet or json, interrupted=_NO_VERDICT) as shown:
            proof = prove(
                request, lambda what, spent_s: shown.spend(spent_s, request.budget_s, now=what)
            )
        _show(proof, as_json=json)
        if reports is not None:
            reports.put_report("verify", _for_registry(proof))
        passed = proof.passed
    if not passed:
        raise typer.Exit(1)


def _reports_to(registry: str | None) -> Registry | None:
    """Return the registry to report to, which must be there before anything is started."""
    if registry is None:
        return None
    from colltune.registry import Registry

    found = Registry(registry)
    found.current()
    return found


_LONGEST_TEXT = 44
_MARKS = {
    "applied": Mark.GOOD,
    "overridden": Mark.DOUBTFUL,
    "ignored": Mark.BAD,
    "harmful": Mark.BAD,
}


def _show_readability(found: Readability, *, as_json: bool) -> None:
    if as_json:
        show_json(_readability_json(found))
        return
    where = f"{found.nprocs} processes on {', '.join(found.hosts)}"
    if not found.problems:
        show(f"{found.path}: read alike by {where}")
    for host, why in found.problems.items():
        show(f"{found.path}: on {host}: {why}")
    if found.problems:
        show(
            "no job may use it: processes that cannot read a file leave the others waiting; put it"
            " where all nodes see it"
        )


def _show(proof: Proof, *, as_json: bool) -> None:
    if as_json:
        show_json(_json(proof))
        return
    if proof.readability.problems:
        _show_readability(proof.readability, as_json=False)
        return
    nprocs = sum(n for _, n in proof.nodes)
    on = "one node" if len(proof.nodes) == 1 else f"{len(proof.nodes)} nodes"
    library = proof.library.partition(",")[0].partition("\n")[0]
    show(f"{proof.readability.path} ({proof.format}): {library}, {nprocs} processes on {on}")
    if proof.dropped:
        show(f"the release ignores the file as a whole: {proof.dropped}")
    if proof.results:
        show()
        shown = [result for result in proof.results if not _tells_nothing(result)]
        show(columns(_HEADER, [_row(result) for result in shown]))
        if len(shown) < len(proof.results):
            left = len(proof.results) - len(shown)
            show(f"not shown: {left} rules that leave the decision to the library")
        show()
    for note in proof.notes:
        warn(f"note: {note}")
    show(_summary(proof))


def _tells_nothing(result: RuleResult) -> bool:
    """Tell whether a rule leaves the decision to the library, and nothing was seen of it."""
    configuration = result.rule.configuration
    unseen = result.assessment.status in ("unreachable", "unobserved")
    return unseen and configuration is not None and configuration.is_default


_HEADER = ("line", "rule", "status", "seen as", "speed-up", "95 % interval", "why")


def _row(result: RuleResult) -> tuple[str, ...]:
    rule, assessment = result.rule, result.assessment
    text = printable(" ".join(rule.text.split()))
    if len(text) > _LONGEST_TEXT:
        text = f"…{text[1 - _LONGEST_TEXT :]}"
    ratio, interval = _gain_text(result.gain)
    why = printable(assessment.why.strip().replace("\n", " | "))
    if result.is_regression:
        why = "; ".join(filter(None, ["slower than the default", why]))
    return (
        str(rule.line),
        f"{rule.collective}: {text}",
        marked(assessment.status, _MARKS.get(assessment.status)),
        _call_text(result),
        ratio,
        interval,
        why,
    )


def _call_text(result: RuleResult) -> str:
    call = result.call
    if call is None:
        return ""
    on = "1 node" if call.nodes == 1 else f"{call.nodes} nodes"
    where = f"{bytes_text(call.msize_bytes)} B, {call.comm_size} on {on}"
    where = where.replace("iB B", "iB")
    ran = result.assessment.ran
    return f"{ran} ({where})" if ran else where


def _gain_text(gain: Gain | None) -> tuple[str, str]:
    if gain is None:
        return "", ""
    if math.isnan(gain.lower):
        return f"{gain.ratio:.2f}", f"{gain.pairs} pairs"
    return f"{gain.ratio:.2f}", f"{gain.lower:.2f} .. {gain.upper:.2f}"


def _summary(proof: Proof) -> str:
    from colltune.verify.rule_status import RuleStatus

    counts = [f"{proof.count(status)} {status}" for status in RuleStatus if proof.count(status)]
    told = ", ".join(counts) or "no rules"
    slower = sum(result.is_regression for result in proof.results)
    if slower:
        told += f"; {slower} slower than the default with certainty"
    passed = painted("passed", Mark.GOOD)
    return f"{passed if proof.passed else painted('FAILED', Mark.BAD)}: {told}"


def _json(proof: Proof) -> dict[str, Any]:
    from colltune.verify.rule_status import RuleStatus

    settings = proof.settings
    return {
        **_readability_json(proof.readability),
        "passed": proof.passed,
        "format": proof.format or None,
        "library": proof.library or None,
        "release": proof.release or None,
        "nodes": [{"host": host, "processes": n} for host, n in proof.nodes],
        "activation": dict(settings.activation) if settings else {},
        "user_settings": {n: settings.user[n] for n in settings.against()} if settings else {},
        "dropped": proof.dropped or None,
        "counts": {str(status): proof.count(status) for status in RuleStatus},
        "regressions": sum(result.is_regression for result in proof.results),
        "rules": [_rule_json(result) for result in proof.results],
        "notes": list(proof.notes),
    }


def _for_registry(proof: Proof) -> dict[str, Any]:
    """Return what a registry keeps of a proof: how many rules of each collective became what."""
    from colltune.mpi.formats import FORMATS
    from colltune.verify.rule_status import RuleStatus

    collectives: dict[str, dict[str, int]] = {}
    for result in proof.results:
        counts = collectives.setdefault(result.rule.collective.value, dict.fromkeys(RuleStatus, 0))
        counts[result.assessment.status] += 1
    known = FORMATS.get(proof.format)
    return {
        "passed": proof.passed,
        "file": str(proof.readability.path),
        "format": proof.format or None,
        "library": known.library if known else None,
        "release": proof.release or None,
        "nodes": len(proof.nodes),
        "processes": sum(n for _, n in proof.nodes),
        "regressions": sum(result.is_regression for result in proof.results),
        "collectives": collectives,
    }


def _readability_json(found: Readability) -> dict[str, Any]:
    return {
        "file": str(found.path),
        "readable": not found.problems,
        "unreadable_on": dict(found.problems),
        "processes": found.nprocs,
        "hosts": list(found.hosts),
    }


def _rule_json(result: RuleResult) -> dict[str, Any]:
    rule, call, gain = result.rule, result.call, result.gain
    return {
        "line": rule.line,
        "text": rule.text,
        "collective": str(rule.collective),
        "configuration": rule.configuration.id if rule.configuration else None,
        "status": str(result.assessment.status),
        "why": result.assessment.why,
        "ran": result.assessment.ran or None,
        "default_ran": result.default_ran or None,
        "call": None
        if call is None
        else {
            "msize_bytes": call.msize_bytes,
            "comm_size": call.comm_size,
            "nodes": call.nodes,
        },
        "speedup": None
        if gain is None
        else {
            "ratio": gain.ratio,
            "lower": None if math.isnan(gain.lower) else gain.lower,
            "upper": None if math.isnan(gain.upper) else gain.upper,
            "pairs": gain.pairs,
        },
        "regression": result.is_regression,
    }
