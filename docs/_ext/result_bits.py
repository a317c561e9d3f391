"""Which bits the reductions of each algorithm give, release by release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from colltune.domain import INTERPOSED, Collective
from colltune.mpi import LIBRARIES
from colltune.mpi.bits import BitFacts, Differ, MeasuredBits, Ranges
from colltune.mpi.programs import Measured, measured
from colltune.text import bytes_text
from docs._ext.markdown import code, heading, table, text


def markdown(_argument: str) -> str:
    """Return what was measured of all releases."""
    found = [one for library in (*LIBRARIES, INTERPOSED) for one in measured(library)]
    return "".join(_release(one) for one in found if one.bits)


def _release(found: Measured) -> str:
    title = f"{LIBRARIES[found.over or found.library].title} {found.release}"
    if found.over:
        title = f"libcolltune over {title}"
    calls = sum(bits.calls for bits in found.bits.values())
    rows = [row for collective, bits in found.bits.items() for row in _rows(collective, bits)]
    names = ("reduction", "algorithms", "differ between", "default's bits", "own operations")
    layouts = ", ".join(
        dict.fromkeys(each for bits in found.bits.values() for each in bits.layouts)
    )
    told = f"{calls} calls, on nodes x processes {layouts}, too." if layouts else f"{calls} calls."
    return heading(2, title) + f"{told}\n\n" + table(names, rows)


def _rows(collective: Collective, bits: MeasuredBits) -> Iterable[tuple[str, ...]]:
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, facts in bits.facts.items():
        alike.setdefault(_told(facts, bits), []).append(name)
    for told, names in alike.items():
        yield (str(collective), _named(names), *map(text, told))


def _told(facts: BitFacts, bits: MeasuredBits) -> tuple[str, ...]:
    differ = ", ".join(d.value for d in Differ if d in facts.differ)
    return differ, _ranges(facts.builtin, bits), _ranges(facts.own, bits)


def _named(names: Iterable[str]) -> str:
    """Return algorithms, each once, with the number of their settings."""
    settings: dict[str, int] = {}
    for name in names:
        algorithm = name.partition(":")[0]
        settings[algorithm] = settings.get(algorithm, 0) + 1
    return ", ".join(code(a) + (f" ({n} settings)" if n > 1 else "") for a, n in settings.items())


def _ranges(found: Mapping[int, Ranges], bits: MeasuredBits) -> str:
    """Return for which numbers of processes and sizes."""
    alike: dict[str, list[int]] = {}
    for nprocs in bits.processes:
        if ranges := found.get(nprocs, ()):
            alike.setdefault(_sizes(ranges), []).append(nprocs)
    return "; ".join(f"{_numbers(nprocs)}: {sizes}" for sizes, nprocs in alike.items())


def _sizes(ranges: Ranges) -> str:
    if len(ranges) == 1 and not ranges[0][0]:
        return f"up to {bytes_text(ranges[0][1])}"
    return ", ".join(
        bytes_text(first) if first == last else f"{bytes_text(first)} to {bytes_text(last)}"
        for first, last in ranges
    )


def _numbers(numbers: list[int]) -> str:
    """Return numbers for people: ``2 to 5, 8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in runs)
