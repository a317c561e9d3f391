"""What production proved in a month: one HTML file without scripts that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from colltune import __version__
from colltune.errors import DataError
from colltune.plots.gains import intervals
from colltune.plots.saving import inline_svg
from colltune.production.status import JudgedDecision, Period, ProductionStatus
from colltune.registry.events import Action, Event
from colltune.report.figures import Child, Markup, document, element, figure, table
from colltune.report.page import STYLE
from colltune.text import counted, node_hours_text, number_text, range_text

_ACTIONS = {
    Action.PROMOTE: "in force",
    Action.ROLLBACK: "rolled back",
    Action.STEP: "step",
    Action.STOP: "stopped",
}
_DECISION = ["collective", "MPI", "nodes x ppn", "messages", "configuration", "gain", "jobs"]


def page(status: ProductionStatus, events: Sequence[Event], month: str = "") -> str:
    """Return the report of a month, by default the latest one that was judged."""
    saved = _month(status, month)
    name = f"{date.fromisoformat(f'{saved.period}-01'):%B %Y}"
    title = f"Production jobs on {status.machine} in {name}"
    body = element(
        "body",
        element("h1", title),
        *(element("p", sentence, class_="lead") for sentence in _headline(status, saved, name)),
        *_gains(status),
        *_refuted(status, saved.period),
        *_decisions("Proven decisions", status.proven, saved.period),
        *_roll_outs(events, saved.period),
        *_arms(status),
        *_months(status),
        element("h2", "What is not known"),
        element("ul", *(element("li", text) for text in _unknown(status))),
        element("p", f"Judged {status.judged_utc}, by colltune {__version__}.", class_="note"),
    )
    return document(title, STYLE, body)


def _hours(one: Period) -> str:
    return node_hours_text(one.node_hours, one.lower, one.upper)


def _month(status: ProductionStatus, month: str) -> Period:
    known = {one.period: one for one in status.months}
    if month not in known and (month or not known):
        there = f"There are {', '.join(known)}." if known else "Wait for the first jobs."
        raise DataError(f"nothing was judged in {month or 'any month'}. {there}")
    return known[month or max(known)]


def _headline(status: ProductionStatus, saved: Period, name: str) -> Iterator[str]:
    verb = "saved" if saved.node_hours >= 0 else "lost"
    shown = saved if verb == "saved" else Period("", -saved.node_hours, -saved.upper, -saved.lower)
    yield (
        f"In {name} tuned jobs {verb} {_hours(shown)} against the library's default, as the"
        " control group shows."
    )
    proven = sum(_is_in(one.since_utc, saved.period) for one in status.proven)
    refuted = [one for one in status.refuted if _is_in(one.since_utc, saved.period)]
    took = sum(bool(one.withdrawn_utc) for one in refuted)
    if not refuted:
        yield f"{counted(proven, 'decision')} proven, none refuted: nobody was shown to be harmed."
        return
    worst = max(refuted, key=lambda one: 1 / one.gain)
    yield (
        f"{counted(proven, 'decision')} proven, {len(refuted)} refuted, of these {took} withdrawn."
        f" The worst made {worst.mpi_name} {1 / worst.gain:.2f}x slower, shown after"
        f" {counted(worst.jobs, 'job')}."
    )


def _is_in(at_utc: str, month: str) -> bool:
    return at_utc.startswith(month)


def _gains(status: ProductionStatus) -> Iterator[Markup]:
    yield element("h2", "Gain by collective, since the beginning")
    rows = status.collectives
    if not rows:
        yield element("p", "No tuned decision was compared with the default yet.")
        return
    drawn = intervals([(row.mpi_name, row.gain, row.lower, row.upper) for row in rows])
    caption = "The default's time over the tuned one, by jobs of the same program and shape."
    yield figure(caption, Markup(inline_svg(drawn, "gain by collective with intervals")))
    yield table(
        "Gain: over all decisions on the collective, with its 95 % interval.",
        ["collective", "decisions", "gain", "interval", "node-hours saved"],
        (
            [
                row.mpi_name,
                str(row.decisions),
                f"{row.gain:.2f}x",
                f"{row.lower:.2f} to {row.upper:.2f}",
                number_text(row.saved_node_hours),
            ]
            for row in rows
        ),
    )


def _refuted(status: ProductionStatus, month: str) -> Iterator[Markup]:
    yield from _decisions("Refuted decisions", status.refuted, month)
    for one in status.refuted:
        if _is_in(one.since_utc, month) and one.note:
            yield element("p", f"{one.withdrawn_utc[:10]}: {one.note}")


def _decisions(title: str, decisions: Sequence[JudgedDecision], month: str) -> Iterator[Markup]:
    shown = [one for one in decisions if _is_in(one.since_utc, month)]
    yield element("h2", title)
    if not shown:
        yield element("p", "None in this month.")
    withdrawn = ["withdrawn", "revision"] if any(one.withdrawn_utc for one in shown) else []
    yield table(
        "Gain: the default's time over the decision's, with its interval. Jobs: of the decision,"
        " and of the control group.",
        [*_DECISION, *withdrawn],
        (
            [*_cells(one), *(one.withdrawn_utc[:10], one.revision[:12])[: len(withdrawn)]]
            for one in shown
        ),
        ["MPI", "configuration"],
    )


def _cells(one: JudgedDecision) -> list[Child]:
    first, last = one.nodes_first, one.nodes_last
    return [
        one.mpi_name,
        one.slot,
        f"{first if first == last else f'{first}-{last}'}x{one.ppn}",
        range_text(one.first_bytes, one.last_bytes),
        one.configuration,
        f"{one.gain:.2f}x ({one.lower:.2f} to {one.upper:.2f})",
        f"{one.jobs}, {one.control_jobs} control",
    ]


def _roll_outs(events: Sequence[Event], month: str) -> Iterator[Markup]:
    yield element("h2", "Roll-outs")
    tried = {event.bundle_id for event in events if event.action.is_of_trial}
    shown = [e for e in events if e.bundle_id in tried and _is_in(e.at_utc, month)]
    if not shown:
        yield element("p", "No bundle was rolled out by steps in this month.")
    yield table(
        "Each step gives a new bundle to more of the jobs, unless they are slower than control.",
        ["when", "MPI", "bundle", "what", "share", "by", "why"],
        (
            [
                event.at_utc,
                event.slot,
                event.bundle_id[:12],
                _ACTIONS[event.action],
                f"{event.share:.0%}" if event.share else "",
                event.by,
                event.note,
            ]
            for event in shown
        ),
        ["by", "why"],
    )


def _arms(status: ProductionStatus) -> Iterator[Markup]:
    yield element("h2", "Arms and their jobs")
    yield table(
        f"{status.control:.0%} of the jobs are the control group, by a hash of the job's id."
        " Silent: jobs that reported no run. Own: the user's settings decided, so that they are not"
        " compared.",
        ["MPI", "arm", "bundle", "asked", "reported", "silent", "own"],
        (
            [a.slot, a.arm, a.bundle_id[:12], *map(str, (a.asked, a.reported, a.silent, a.own))]
            for a in status.arms
        ),
        ["arm"],
    )


def _months(status: ProductionStatus) -> Iterator[Markup]:
    yield element("h2", "All months")
    rows = [[one.period, _hours(one)] for one in (*status.months, status.saved) if one]
    yield table("Node-hours saved.", ["month", "saved"], rows, ["saved"])


def _unknown(status: ProductionStatus) -> Iterator[str]:
    yield f"{counted(status.open_count, 'decision')} not proven or refuted yet, for want of jobs."
    yield f"{counted(status.not_compared_count, 'decision')} not compared: no two jobs of two arms."
    asked, silent = (sum(getattr(a, name) for a in status.arms) for name in ("asked", "silent"))
    yield (
        f"{silent} of {counted(asked, 'job')} that were given an arm reported no run. They count"
        " for no saving."
    )
    for one in status.set_aside:
        yield f"Set aside, never judged: {one.times} of the jobs' reports ({one.reason})."
    for one in status.left_out:
        yield f"Left out of the comparison: {one.times} ({one.reason})."
    for drift in status.drifts:
        yield f"{drift.slot}: {drift.text}"
    yield "Node-hours are those of recorded calls only. Nothing is extrapolated to other jobs."
