"""What is known of an MPI library's algorithms, series by series."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.mpi import LIBRARIES, MpiLibrary
from colltune.mpi.reference import (
    AlgorithmFacts,
    CollectiveFacts,
    facts,
    formats_of,
    release_of,
)
from docs._ext.markdown import code, heading, table, text

_HEAD = ("number", "algorithm", "parameters", "needs", "otherwise", "never used, since")


def markdown(library: str) -> str:
    """Return the catalogues of a library, the newest series first."""
    mpi = LIBRARIES[library]
    return "".join(_series(mpi, series) for series in reversed(mpi.series))


def _series(mpi: MpiLibrary, series: str) -> str:
    release = release_of(mpi, series)
    formats = ", ".join(map(code, formats_of(release)))
    parts = [
        heading(2, f"{mpi.title} {series}"),
        f"Known from {text(release.name)} on; reads {formats}.\n\n",
    ]
    for collective in release.catalogue.collectives:
        known = facts(release, collective)
        parts += [heading(3, f"{mpi.name} {series}: {collective}"), *_collective(known)]
    return "".join(parts)


def _collective(facts: CollectiveFacts) -> Iterator[str]:
    yield from (f"{line}\n\n" for line in [" ".join(_sentences(facts))])
    yield table(_HEAD, (_algorithm(algorithm) for algorithm in facts.algorithms))


def _sentences(facts: CollectiveFacts) -> Iterator[str]:
    if facts.id is not None:
        yield f"Number {facts.id} in rules files."
    yield f"Chosen by {code(facts.variable)}."
    if facts.one_rule:
        yield "Only one rule for all message sizes is safe."
    if not facts.runtime:
        yield "Cannot be changed in a running program."
    if facts.one_node == facts.across_nodes:
        yield text(f"Decides: {facts.one_node}.")
    else:
        yield text(f"Decides on one node: {facts.one_node}; across nodes: {facts.across_nodes}.")
    if facts.note:
        yield text(f"Note: {facts.note}.")


def _algorithm(algorithm: AlgorithmFacts) -> tuple[str, ...]:
    named = ", ".join(map(code, (algorithm.name, *algorithm.aliases)))
    parameters = (
        f"{code(f'{p.name}={p.default}')} ({p.low} … {p.high})" for p in algorithm.parameters
    )
    needs = "; ".join(condition.needs for condition in algorithm.conditions)
    otherwise = dict.fromkeys(c.otherwise for c in algorithm.conditions if c.otherwise)
    return (
        str(algorithm.number),
        named,
        ", ".join(parameters),
        text(needs),
        text("; ".join(otherwise)),
        text(algorithm.wrong),
    )
