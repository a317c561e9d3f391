"""What `colltune verify` prints."""

from __future__ import annotations

import math
from typing import Any

from colltune.cli import console
from colltune.cli.console import Mark
from colltune.mpi.formats import FORMATS
from colltune.verify.alternating import Gain
from colltune.verify.readability import Readability
from colltune.verify.rule_status import Proof, Status, Verdict

_LONGEST_TEXT = 44
_MARKS = {
    Status.APPLIED: Mark.GOOD,
    Status.OVERRIDDEN: Mark.DOUBTFUL,
    Status.IGNORED: Mark.BAD,
    Status.HARMFUL: Mark.BAD,
}


def show_readability(found: Readability, *, as_json: bool) -> None:
    """Print which hosts read the file."""
    if as_json:
        console.show_json(_readability_json(found))
        return
    where = f"{found.nprocs} processes on {', '.join(found.hosts)}"
    if not found.problems:
        console.show(f"{found.path}: read alike by {where}")
    for host, why in found.problems.items():
        console.show(f"{found.path}: on {host}: {why}")
    if found.problems:
        console.show(
            "no job may use it: processes that cannot read a file leave the others waiting; put it"
            " where all nodes see it"
        )


def show(proof: Proof, *, as_json: bool) -> None:
    """Print everything that was found out."""
    if as_json:
        console.show_json(_json(proof))
        return
    if proof.readability.problems:
        show_readability(proof.readability, as_json=False)
        return
    nprocs = sum(n for _, n in proof.nodes)
    on = "one node" if len(proof.nodes) == 1 else f"{len(proof.nodes)} nodes"
    library = proof.library.partition(",")[0].partition("\n")[0]
    console.show(
        f"{proof.readability.path} ({proof.format}): {library}, {nprocs} processes on {on}"
    )
    if proof.dropped:
        console.show(f"the release ignores the file as a whole: {proof.dropped}")
    if proof.verdicts:
        console.show()
        shown = [verdict for verdict in proof.verdicts if not _tells_nothing(verdict)]
        console.show(console.columns(_HEADER, [_row(verdict) for verdict in shown]))
        if len(shown) < len(proof.verdicts):
            left = len(proof.verdicts) - len(shown)
            console.show(f"not shown: {left} rules that leave the decision to the library")
        console.show()
    for note in proof.notes:
        console.warn(f"note: {note}")
    console.show(_summary(proof))


def _tells_nothing(verdict: Verdict) -> bool:
    """Tell whether a rule leaves the decision to the library, and nothing was seen of it."""
    configuration = verdict.rule.configuration
    unseen = verdict.judgement.status in (Status.UNREACHABLE, Status.UNOBSERVED)
    return unseen and configuration is not None and configuration.is_default


_HEADER = ("line", "rule", "status", "seen as", "speed-up", "95 % interval", "why")


def _row(verdict: Verdict) -> tuple[str, ...]:
    rule, judgement = verdict.rule, verdict.judgement
    text = console.printable(" ".join(rule.text.split()))
    if len(text) > _LONGEST_TEXT:
        text = f"…{text[1 - _LONGEST_TEXT :]}"
    ratio, interval = _gain_text(verdict.gain)
    why = console.printable(judgement.why.strip().replace("\n", " | "))
    if verdict.is_regression:
        why = "; ".join(filter(None, ["slower than the default", why]))
    return (
        str(rule.line),
        f"{rule.collective}: {text}",
        console.marked(judgement.status, _MARKS.get(judgement.status)),
        _call_text(verdict),
        ratio,
        interval,
        why,
    )


def _call_text(verdict: Verdict) -> str:
    call = verdict.call
    if call is None:
        return ""
    on = "1 node" if call.nodes == 1 else f"{call.nodes} nodes"
    where = f"{console.bytes_text(call.msize_bytes)} B, {call.comm_size} on {on}"
    where = where.replace("iB B", "iB")
    ran = verdict.judgement.ran
    return f"{ran} ({where})" if ran else where


def _gain_text(gain: Gain | None) -> tuple[str, str]:
    if gain is None:
        return "", ""
    if math.isnan(gain.lower):
        return f"{gain.ratio:.2f}", f"{gain.pairs} pairs"
    return f"{gain.ratio:.2f}", f"{gain.lower:.2f} .. {gain.upper:.2f}"


def _summary(proof: Proof) -> str:
    counts = [f"{proof.count(status)} {status}" for status in Status if proof.count(status)]
    told = ", ".join(counts) or "no rules"
    slower = sum(verdict.is_regression for verdict in proof.verdicts)
    if slower:
        told += f"; {slower} slower than the default with certainty"
    passed = console.painted("passed", Mark.GOOD)
    return f"{passed if proof.passed else console.painted('FAILED', Mark.BAD)}: {told}"


def _json(proof: Proof) -> dict[str, Any]:
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
        "counts": {str(status): proof.count(status) for status in Status},
        "regressions": sum(verdict.is_regression for verdict in proof.verdicts),
        "rules": [_rule_json(verdict) for verdict in proof.verdicts],
        "notes": list(proof.notes),
    }


def for_registry(proof: Proof) -> dict[str, Any]:
    """Return what a registry keeps of a proof: how many rules of each collective became what."""
    collectives: dict[str, dict[str, int]] = {}
    for verdict in proof.verdicts:
        counts = collectives.setdefault(verdict.rule.collective.value, dict.fromkeys(Status, 0))
        counts[verdict.judgement.status] += 1
    known = FORMATS.get(proof.format)
    return {
        "passed": proof.passed,
        "file": str(proof.readability.path),
        "format": proof.format or None,
        "library": known.library if known else None,
        "release": proof.release or None,
        "nodes": len(proof.nodes),
        "processes": sum(n for _, n in proof.nodes),
        "regressions": sum(verdict.is_regression for verdict in proof.verdicts),
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


def _rule_json(verdict: Verdict) -> dict[str, Any]:
    rule, call, gain = verdict.rule, verdict.call, verdict.gain
    return {
        "line": rule.line,
        "text": rule.text,
        "collective": str(rule.collective),
        "configuration": rule.configuration.id if rule.configuration else None,
        "status": str(verdict.judgement.status),
        "why": verdict.judgement.why,
        "ran": verdict.judgement.ran or None,
        "default_ran": verdict.default_ran or None,
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
        "regression": verdict.is_regression,
    }
