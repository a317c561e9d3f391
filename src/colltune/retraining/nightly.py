"""One run: what came in is fitted, compared with the bundle in force, and promoted if it may be.

Whatever ends a run midway, the bundle in force is the old one or, wholly, the new one: promoting is
one file that appears whole in the registry's history. What a run knows of earlier ones stands in
the report that it leaves at its end; without it the next run does everything again and comes to the
same bundle, since bundles are named by their content.
"""

from __future__ import annotations

import json
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

from colltune import errors, process
from colltune.errors import ColltuneError, say
from colltune.json_text import plain
from colltune.models.fitting import Progress
from colltune.models.workers import at_work
from colltune.registry import Registry
from colltune.retraining import lease, record
from colltune.retraining.arrivals import Arrivals, arrivals
from colltune.retraining.lease import LeaseTakenError
from colltune.retraining.site_file import Hooks, RunOutcome, Site, Webhook
from colltune.retraining.slot_run import SlotResult, SlotRun
from colltune.text import UNPRINTED, computed

Phase = Callable[[str], AbstractContextManager[Progress]]
DRIFT = "drift"
_LONGEST_SECRET = 4096


@dataclass(frozen=True)
class Night:
    """What a run found and did."""

    site: Site = field(metadata=UNPRINTED)
    results: tuple[SlotResult, ...] = field(metadata=UNPRINTED)
    left_out: tuple[str, ...] = ()
    """which files were not read, and why"""
    took_over: str | None = None
    """the interrupted run that this one took over from"""
    hooks: dict[str, str] = field(default_factory=dict)
    """how each hook fared"""

    @computed
    def machine(self) -> str:
        """Machine of the site."""
        return self.site.machine

    @computed
    def registry(self) -> str:
        """The registry."""
        return self.site.registry

    @computed
    def slots(self) -> dict[str, SlotResult]:
        """By library and release."""
        return {result.slot: result for result in self.results}

    @property
    def drifted(self) -> bool:
        """Whether any library's runtimes changed."""
        return any(r.drift is not None and r.drift.alarms for r in self.results)

    @computed
    def outcomes(self) -> tuple[RunOutcome, ...]:
        """All that happened, once each, drift included."""
        found = dict.fromkeys(result.outcome for result in self.results)
        return (*found, RunOutcome.DRIFT) if self.drifted else tuple(found)

    @computed
    def exit_status(self) -> int:
        """The status of the process.

        What someone should look at goes first: a failure (its own status), drift, a candidate that
        was kept back; then what was done; then that nothing was to be done.
        """
        outcomes = {result.outcome for result in self.results}
        if RunOutcome.FAILED in outcomes:
            failures = [r.failure for r in self.results if r.failure is not None]
            return failures[0].exit_status if failures else 1
        if self.drifted:
            return errors.DRIFT
        if RunOutcome.KEPT in outcomes:
            return errors.KEPT
        return errors.NOTHING_NEW if outcomes == {RunOutcome.NOTHING_NEW} else 0


def retrain(site: Site, phase: Phase, lines: Callable[[Night], Iterable[str]]) -> Night:
    """Retrain `site` and tell its hooks."""
    try:
        night = _run(site, phase)
    except LeaseTakenError:
        raise
    except ColltuneError as error:
        _tell_failure(site, error)
        raise
    told = set(site.hooks.told)
    if told.isdisjoint(night.outcomes):
        return night
    text = "\n".join(lines(night))
    return replace(night, hooks=notify(site.hooks, plain(night) | {"text": text}))


def _tell_failure(site: Site, error: ColltuneError) -> None:
    if RunOutcome.FAILED in site.hooks.told:
        facts = {
            "machine": site.machine,
            "registry": site.registry,
            "outcomes": [RunOutcome.FAILED.value],
            "exit_status": error.exit_status,
            "text": str(error),
        }
        notify(site.hooks, facts)


def _run(site: Site, phase: Phase) -> Night:
    registry = Registry(site.registry)
    with lease.held(registry.store) as mine:
        with phase("reading"):
            arrived = arrivals(site.datasets, site.machine, site.fabric)
        known = record.latest(registry)
        with at_work(site.workers):
            results = tuple(
                SlotRun(site, registry, mine, known, phase, slot, of_slot).run()
                for slot, of_slot in arrived.by_slot.items()
            )
        night = Night(site, results, arrived.left_out, mine.took_over)
        _report(registry, known, night, arrived)
    return night


def _report(
    registry: Registry, known: record.RetrainRecord, night: Night, arrived: Arrivals
) -> None:
    """Leave what the next run, and the service, want to know.

    A slot that failed, or waits for more measurements, stays as the last run left it.
    """
    ended = {r.slot: r.record() for r in night.results if r.ended}
    fitted = {
        result.candidate: arrived.by_slot[result.slot].fitted_tokens
        for result in night.results
        if result.candidate is not None
    }
    content = record.content(known, ended, fitted)
    content |= {
        "outcomes": list(night.outcomes),
        "host": socket.gethostname(),
        "left_out": list(night.left_out),
        "failed": {r.slot: r.reason for r in night.results if r.outcome is RunOutcome.FAILED},
    }
    found = {r.slot: r.drift for r in night.results if r.drift is not None}
    if found:
        slots = {
            r.slot: {"bundle": r.was_in_force, **plain(found[r.slot])}
            for r in night.results
            if r.slot in found
        }
        registry.put_report(DRIFT, {"alarm": night.drifted, "slots": slots})
    if set(night.outcomes) != {RunOutcome.NOTHING_NEW} or content["slots"] != _slots(known):
        registry.put_report(record.KIND, content)


def _slots(known: record.RetrainRecord) -> dict[str, Any]:
    return {name: slot.as_dict() for name, slot in known.slots.items()}


def notify(hooks: Hooks, facts: Mapping[str, Any]) -> dict[str, str]:
    """Tell a program and a POST what happened; return how each fared: ``sent``, or why not.

    Their failure never changes the result.
    """
    result = {}
    command, webhook, timeout_s = hooks.command, hooks.webhook, hooks.timeout_s
    if command is not None:
        result["command"] = _tried(lambda: _start(command, facts, timeout_s))
    if webhook is not None:
        result["webhook"] = _tried(lambda: _post(webhook, facts, timeout_s))
    return result


def _tried(send: Callable[[], None]) -> str:
    try:
        send()
    except (OSError, HTTPException, ValueError, ColltuneError) as error:
        return f"failed: {error}"
    return "sent"


def _start(command: tuple[str, ...], facts: Mapping[str, Any], timeout_s: float) -> None:
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(facts, allow_nan=False).encode())
        stdin.seek(0)
        outcome = process.run(command, timeout_s=timeout_s, stdin=stdin)
    if not outcome.ok:
        raise say("hook-failed", what=" ".join(outcome.explain().split()))


def _post(webhook: Webhook, facts: Mapping[str, Any], timeout_s: float) -> None:
    headers = {"Content-Type": "application/json"}
    if webhook.secret_file is not None:
        headers[webhook.header] = _secret(webhook.secret_file)
    body = json.dumps(facts, allow_nan=False).encode()
    request = urllib.request.Request(webhook.url, body, headers, method="POST")  # noqa: S310
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"{webhook.url} answers {error.code}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, which would carry the secret to wherever it points."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _secret(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            found = stream.read(_LONGEST_SECRET).partition(b"\n")[0].strip().decode("ascii")
    except OSError as error:
        raise say("secret-unreadable", file=file, why=error.strerror) from error
    except UnicodeDecodeError:
        found = ""
    if not found or not found.isprintable():
        raise say("secret-not-ascii", file=file)
    return found
