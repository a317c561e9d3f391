"""Whether a job's variables put a configuration file into effect, and what outranks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from colltune.domain import Collective
from colltune.mpi import MpiLibrary
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rules

_MOST_SIZES = 12
"""Of communicators, and of messages, that are tried; variables never act on single ones."""
_LAYOUTS = ((1, "within a node"), (2, "across nodes"))


@dataclass(frozen=True)
class _Loss:
    """A call for which the file has a rule that the job's variables keep from running."""

    call: Call
    meant: Outcome
    found: Outcome


def named_variables(activation: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Return the variables of `activation` that `environment` sets, to whatever value."""
    return [name for name in activation if name in environment]


def missing(
    mpi: MpiLibrary, activation: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what has to be set, or set otherwise, to put the file into effect."""
    return {
        name: value
        for name, value in activation.items()
        if name not in environment or not mpi.same(name, environment[name], value)
    }


def effect_findings(
    mpi: MpiLibrary,
    parsed: Rules,
    activation: Mapping[str, str],
    paths: Mapping[str, str],
    environment: Mapping[str, str],
) -> tuple[Finding, ...]:
    """Return why a job with the variables of `environment` would not run what the file says.

    `activation` is what `Format.activation` asks for, with these `paths`.
    """
    if parsed.dropped:
        return ()
    lacking = missing(mpi, activation, environment)
    unread = [name for name, value in activation.items() if value in paths.values()]
    for name in unread:
        if name in lacking:
            message = f"no variable tells the library to read this file: {name} is not set"
            if name in environment:
                message = (
                    f"{name} is set to {environment[name]} in this job, which is not this file"
                )
            return (_not_activated(name, activation[name], message),)
    # another spelling of a path is still the same file
    respelled = {n: activation[n] for n in unread if "," not in environment[n]}
    job = {**environment, **respelled}
    found = []
    for name in respelled:
        if not (value := environment[name]).startswith("/"):
            where = "and each process resolves it in its own working directory"
            message = f"{name} is set to the path {value}, {where}"
            found.append(_not_activated(name, activation[name], message))
    for collective in dict.fromkeys(rule.collective for rule in parsed.rules):
        found += _of_collective(parsed, collective, job, lacking)
    return tuple(found)


def _not_activated(name: str, wanted: str, message: str) -> Finding:
    return Finding(0, Fault.NOT_ACTIVATED, message, f"set {name}={wanted}")


def outranked_findings(
    findings: tuple[Finding, ...],
    parsed: Rules,
    paths: Mapping[str, str],
    environment: Mapping[str, str],
) -> tuple[Finding, ...]:
    """Return the `findings` on the file itself in the light of a job's variables.

    A note that another component goes first on some communicators is dropped where the variables
    prevent that, and else becomes a warning. It stays a note where other files, which belong to
    this one, may steer that component.
    """
    if len(paths) > 1 or parsed.dropped:
        return findings
    found = []
    for finding in findings:
        if finding.fault is not Fault.NOT_EVERYWHERE:
            found.append(finding)
        elif _is_outranked(parsed, environment):
            found.append(finding._replace(fault=Fault.OUTRANKED))
    return tuple(found)


def _is_outranked(parsed: Rules, environment: Mapping[str, str]) -> bool:
    """Tell whether a rule that holds within a node is another component's across nodes."""
    for collective in dict.fromkeys(rule.collective for rule in parsed.rules):
        for call in _calls(parsed, collective):
            across = parsed.decide(call, environment)
            within = parsed.decide(replace(call, nodes=1), environment)
            if across.rule is not None and across.component != within.component:
                return True
    return False


def _of_collective(
    parsed: Rules,
    collective: Collective,
    environment: Mapping[str, str],
    lacking: Mapping[str, str],
) -> Iterator[Finding]:
    """Yield a finding for each way in which rules lose their say."""
    ruled, losses = 0, list[_Loss]()
    for call in _calls(parsed, collective):
        meant = parsed.decide(call)
        if not _obeyed(meant):
            continue
        ruled += 1
        found = parsed.decide(call, environment)
        if not _alike(found, meant):
            losses.append(_Loss(call, meant, found))
    by_fault: dict[tuple[Fault, str], list[_Loss]] = {}
    for loss in losses:
        by_fault.setdefault((_fault(loss, lacking), loss.found.component), []).append(loss)
    for (fault, _), lost in by_fault.items():
        message = _message(fault, lost, everywhere=len(lost) == ruled)
        line = min(loss.meant.rule.line for loss in lost if loss.meant.rule)
        yield Finding(line, fault, message, _mend(parsed, lost[-1], environment, lacking))


def _calls(parsed: Rules, collective: Collective) -> Iterator[Call]:
    sizes = sorted({max(2, size) for size in parsed.comm_sizes(collective)})
    for comm_size in _some(sizes):
        for nodes, _ in _LAYOUTS:
            for msize in _some(parsed.switch_points(collective, comm_size, nodes)):
                yield Call(collective, comm_size, msize, nodes)


def _some(sizes: Sequence[int]) -> Sequence[int]:
    """Return up to `_MOST_SIZES`, spread evenly."""
    return sizes[:: max(1, -(-len(sizes) // _MOST_SIZES))]


def _obeyed(outcome: Outcome) -> bool:
    """Tell whether a rule chooses something that then runs."""
    runs = outcome.configuration == outcome.chosen and not outcome.ends_program
    return outcome.rule is not None and not outcome.chosen.is_default and runs


def _alike(found: Outcome, meant: Outcome) -> bool:
    return found.configuration == meant.configuration and not found.ends_program


def _fault(loss: _Loss, lacking: Mapping[str, str]) -> Fault:
    if loss.found.component != loss.meant.component:
        return Fault.OUTRANKED
    unset = loss.found.rule is None and loss.found.configuration.is_default
    return Fault.NOT_ACTIVATED if unset and lacking else Fault.OVERRIDDEN


def _message(fault: Fault, losses: Sequence[_Loss], *, everywhere: bool) -> str:
    call, meant, found = losses[-1].call, losses[-1].meant, losses[-1].found
    layouts = {loss.call.nodes for loss in losses}
    where = "" if everywhere else f" for communicators {_where(layouts)}"
    why = "; ".join(r.rstrip(".") for r in found.reasons if r not in meant.reasons)
    if fault is Fault.OUTRANKED:
        who = found.component or "another component"
        return f"{who} decides {call.collective} before this file's rules are read{where}: {why}"
    if fault is Fault.NOT_ACTIVATED:
        return f"the job's variables make the rules for {call.collective} ineffective{where}: {why}"
    runs = found.configuration.id
    return f"the job's variables override the rules for {call.collective}{where}, {runs}: {why}"


def _mend(
    parsed: Rules, loss: _Loss, environment: Mapping[str, str], lacking: Mapping[str, str]
) -> str:
    """Return which variables to set, or to unset, such that the rule has its say."""

    def mends(job: Mapping[str, str]) -> bool:
        return _alike(parsed.decide(loss.call, job), loss.meant)

    if mends({**environment, **lacking}):
        needed = dict(lacking)
        for name in lacking:
            fewer = {n: value for n, value in needed.items() if n != name}
            if mends({**environment, **fewer}):
                needed = fewer
        return "set " + " ".join(f"{name}={value}" for name, value in needed.items())
    for name in environment:
        if mends({n: value for n, value in environment.items() if n != name}):
            return f"unset {name}"
    return f"remove the job's variables that decide {loss.call.collective}"


def _where(layouts: set[int]) -> str:
    return " and ".join(text for nodes, text in _LAYOUTS if nodes in layouts)
