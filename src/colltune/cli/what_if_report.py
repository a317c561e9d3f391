"""What `colltune what-if` prints: now and then side by side, or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from colltune.cli.console import bytes_text, time_text
from colltune.cli.cost_terms import GENERIC, side_by_side, terms_json, terms_table

if TYPE_CHECKING:
    from colltune.decisions import Prediction
    from colltune.domain import Configuration, Instance
    from colltune.models.bundle import Bundle
    from colltune.selector.what_if import Answer

_HEADS = ("now", "then")


def text(
    bundle: Bundle, answers: Sequence[Answer], notes: Sequence[str], source: str | None
) -> str:
    """Return the report for people; `source` says what the cost model was fitted to."""
    return "\n".join(_lines(bundle, answers, notes, source))


def _lines(
    bundle: Bundle, answers: Sequence[Answer], notes: Sequence[str], source: str | None
) -> Iterator[str]:
    instance = answers[0].situation.instance
    yield f"{instance.collective.mpi_name} of {_size(instance)}; {bundle.context}"
    yield ""
    yield side_by_side(_HEADS, [[label, *map(cell, answers)] for label, cell in _ROWS])
    yield ""
    for head, answer in zip(_HEADS, answers, strict=True):
        yield f"{head}: {answer.selection.reason}"
    for head, answer in zip(_HEADS, answers, strict=True):
        if answer.outside:
            yield f"outside what was measured, {head}: {'; '.join(answer.outside)}"
    if source is not None:
        yield from _terms(answers, source)
        yield from _designs(answers)
    if notes:
        yield ""
        yield from (f"note: {note}" for note in notes)


def _terms(answers: Sequence[Answer], source: str) -> Iterator[str]:
    parts = [("chosen configuration", [a.chosen_terms for a in answers])]
    if not all(a.selection.configuration.is_default for a in answers):
        parts.append(("default", [a.default_terms for a in answers]))
    for what, terms in parts:
        yield ""
        yield f"cost terms of the {what}, by {source}:"
        yield terms_table(_HEADS, terms) if any(terms) else "  not known"
    if any(a.default_terms for a in answers):
        yield GENERIC


def _designs(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield what published designs would take, where there are any for the collective."""
    names = list(dict.fromkeys(d.name for a in answers for d in a.designs))
    if not names:
        return
    yield ""
    yield "published designs (no candidates), by formula with medians of the fitted parameters:"
    found = [{d.name: f"{time_text(d.time_s)}, {d.optimum}" for d in a.designs} for a in answers]
    yield side_by_side(_HEADS, [[name, *(f.get(name, "-") for f in found)] for name in names])


def _size(instance: Instance) -> str:
    shown = bytes_text(instance.msize_bytes)
    size = f"{shown} bytes" if shown.isdigit() else shown
    return f"{size} per process" if instance.collective.has_block_per_rank else size


def _job(answer: Answer) -> str:
    shape = answer.situation.instance.shape
    nodes = "1 node" if shape.nodes == 1 else f"{shape.nodes} nodes"
    return f"{nodes} x {shape.ppn}"


def _rails(answer: Answer) -> str:
    rails = answer.situation.rails
    return f"{rails.adapters}" if rails.adapters == 1 else f"{rails.adapters}, {rails.use}"


def _name(configuration: Configuration) -> str:
    return configuration.short


def _predicted(prediction: Prediction | None) -> str:
    if prediction is None:
        return "not known"
    low, high = time_text(prediction.lower_s), time_text(prediction.upper_s)
    return f"{time_text(prediction.time_s)} ({low} .. {high})"


_ROWS = (
    ("job", _job),
    ("rails per node", _rails),
    ("chosen", lambda answer: _name(answer.selection.configuration)),
    ("predicted", lambda answer: _predicted(answer.selection.prediction)),
    ("the default", lambda answer: _predicted(answer.selection.default)),
    ("gain over default", lambda answer: f"{answer.selection.gain:.2f}x"),
    ("extrapolated", lambda answer: "yes" if answer.selection.extrapolated else "no"),
)


def as_json(
    bundle: Bundle, answers: Sequence[Answer], notes: Sequence[str], source: str | None
) -> dict[str, Any]:
    """Return the same for machines; times that are not known are null."""
    instance = answers[0].situation.instance
    return {
        "version": 1,
        "bundle": bundle.id,
        "collective": instance.collective.value,
        "msize_bytes": instance.msize_bytes,
        "cost_model": source,
        **{head: _answer_json(a) for head, a in zip(_HEADS, answers, strict=True)},
        "notes": list(notes),
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    situation, selection = answer.situation, answer.selection
    shape = situation.instance.shape
    return {
        "nodes": shape.nodes,
        "ppn": shape.ppn,
        "rails": situation.rails.adapters,
        "rail_use": situation.rails.use.value,
        "configuration": selection.configuration.id,
        "prediction": _prediction_json(selection.prediction),
        "default": _prediction_json(selection.default),
        "gain": selection.gain,
        "extrapolated": selection.extrapolated,
        "outside": list(answer.outside),
        "reason": selection.reason,
        "terms": terms_json(answer.chosen_terms),
        "default_terms": terms_json(answer.default_terms),
        "designs": [design._asdict() for design in answer.designs],
    }


def _prediction_json(prediction: Prediction | None) -> dict[str, float] | None:
    return None if prediction is None else dict(vars(prediction))
