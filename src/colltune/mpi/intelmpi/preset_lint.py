"""What is wrong with a preset, in either file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from colltune.domain import Collective
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.intelmpi import presets
from colltune.mpi.intelmpi.presets import shown
from colltune.mpi.intelmpi.releases import entry_of


def findings(
    line: int, text: str, collective: Collective, number: int, release: str
) -> Iterator[Finding]:
    """Yield what is wrong with `number`, which stands in `text` on `line`."""
    if number == presets.BUILT_IN:
        message = f"{shown(text)}: {presets.BUILT_IN_LOGIC}"
        yield Finding(line, Fault.REMARK, message, "none needed if that is meant")
        return
    if presets.as_read(release, collective, number) != number:
        top = presets.highest(release, collective)
        message = (
            f"{shown(text)}: Intel MPI {release} has presets 1 to {top} for {collective}; after a"
            " message it runs preset 1"
        )
        yield Finding(line, Fault.FALLS_BACK, message, "name one of them")
        return
    algorithm = entry_of(release, collective).numbered(number)
    if algorithm is not None and algorithm.wrong:
        message = f"{shown(text)}: {algorithm.wrong}"
        yield Finding(line, Fault.WRONG_RESULT, message, "name another preset")
    if algorithm is not None and algorithm.limits:
        needs = ", ".join(sorted(algorithm.limits)).replace("_", " ")
        message = f"{shown(text)} needs {needs}; elsewhere {algorithm.fallback} runs"
        yield Finding(line, Fault.NOT_EVERYWHERE, message, "none needed if that is meant")


def once(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of one collective, that of the built-in logic where it is first only."""
    told = False
    for finding in found:
        is_built_in = presets.BUILT_IN_LOGIC in finding.message
        if not (is_built_in and told):
            yield finding
        told = told or is_built_in
