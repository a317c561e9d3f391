"""How launches were measured: what has to be alike before their times are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import pandas as pd

from colltune.dataset.frame import CELL_COLUMNS, PerformanceDataset
from colltune.errors import say
from colltune.text import counted

ALL = "all"
IN_PLACE_OF = "synchronisation_asked_for"
LAYOUT = "process_layout"
"""Fact of launches whose ranks do not fill node by node, as they do everywhere else."""
CONDITIONS = ("memory", "datatype", "operation", "cache", "root", "barrier", "sync")
"""What else an import knows of its measurements, and has to be alike in a dataset."""
MEASURED_UNDER = "imported_conditions"
Condition = tuple[str, str]
"""A collective and one of `CONDITIONS`."""
_BY_CLOCKS = ("window", "start time")


def in_provenance(conditions: Mapping[Condition, str]) -> str:
    """Return what `conditions_of` reads."""
    return "; ".join(
        f"{collective}.{name}={value.replace(';', ',')}"
        for (collective, name), value in sorted(conditions.items())
    )


def conditions_of(facts: Mapping[str, str]) -> dict[Condition, str]:
    """Return the known conditions under which a launch with the provenance `facts` was imported."""
    found = {}
    for part in facts.get(MEASURED_UNDER, "").split("; "):
        key, _, value = part.partition("=")
        collective, _, name = key.partition(".")
        if name:
            found[collective, name] = value
    return found


def _memory(facts: Mapping[str, str]) -> str:
    """Return the kind of memory that messages lay in, if it is known not to be the host's."""
    known = [value for (_, name), value in conditions_of(facts).items() if name == "memory"]
    return next((f"{value} memory" for value in known if value != "host"), "")


def method_of(facts: Mapping[str, str]) -> str:
    """Return benchmark, synchronisation, clocks and layout in words; empty where they are untold.

    `facts` are the provenance of a launch. Of an import it is the memory where that is no host's.
    """
    if memory := _memory(facts):
        return memory
    how = facts.get("sync") or facts.get("synchronisation", "")
    backend = facts.get("backend", "")
    if not how or not backend:
        return ""
    clocks = facts.get("clock_synchronisation", "")
    layout = f", {facts[LAYOUT]}" if LAYOUT in facts else ""
    if not how.startswith(_BY_CLOCKS):
        return f"{backend}, barriers{layout}"
    if clocks == "unknown":
        return ""
    return f"{backend}, windows{f' by {clocks} clocks' if clocks else ''}{layout}"


def _told(facts: Mapping[str, str]) -> str:
    asked = facts.get(IN_PLACE_OF)
    return method_of(facts) + (f" in place of the {asked}s asked for" if asked else "")


def methods(provenances: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Return how many launches were measured by each known method, the most first."""
    found = Counter(map(_told, provenances))
    found.pop("", None)
    return dict(found.most_common())


def worth_telling(found: Mapping[str, int]) -> dict[str, int]:
    """Return `found` where it is not the one method that was asked for."""
    return dict(found) if len(found) > 1 or any("in place of" in m for m in found) else {}


def in_words(found: Mapping[str, int]) -> str:
    return "; ".join(f"{method}: {n}" for method, n in found.items())


def cells_by_method(
    dataset: PerformanceDataset, provenances: Mapping[str, Mapping[str, str]]
) -> dict[str, int]:
    """Return how many cells were timed by each known method, the most first.

    `provenances` are what is known of each launch.
    """
    timed = dataset.timed()
    cells = timed[CELL_COLUMNS].assign(method=_methods_of(timed["launch"], provenances))
    counts = Counter(cells.drop_duplicates()["method"].tolist())
    counts.pop("", None)
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0])))


def in_cells(found: Mapping[str, int]) -> list[str]:
    """Return methods with their numbers of cells in words."""
    return [f"{method} ({counted(n, 'cell')})" for method, n in found.items()]


def measured_by(
    dataset: PerformanceDataset, provenances: Mapping[str, Mapping[str, str]], method: str
) -> PerformanceDataset:
    """Return what was measured by `method`, and what nothing is known of."""
    ways = _methods_of(dataset.frame["launch"], provenances)
    return dataset.where(ways.isin(["", method]))


def _methods_of(
    launches: pd.Series[str], provenances: Mapping[str, Mapping[str, str]]
) -> pd.Series[str]:
    names = {str(name) for name in launches.unique()}
    ways = {name: method_of(provenances.get(name, {})) for name in names}
    if any(way.endswith(" memory") for way in ways.values()):
        # what tells nothing was measured in the host's, as all was before it was told
        ways = {name: way or "host memory" for name, way in ways.items()}
    return launches.astype(str).map(ways)


def chosen(wanted: str, known: Collection[str]) -> str:
    """Return the one of the methods `known` that is, or else contains, the text `wanted`.

    Raises
    ------
    DataError
        If it is none of them, or several.
    """
    found = [method for method in known if method == wanted]
    found = found or [method for method in known if wanted in method]
    if len(found) != 1:
        count, names = len(found), "; ".join(known) or "none"
        raise say("no-such-method", wanted=wanted, count=count, known=names)
    return found[0]


def mixed_in_words(
    dataset: PerformanceDataset, provenances: Mapping[str, Mapping[str, str]]
) -> str:
    """Return what to know of a picture of `dataset` if several methods measured it, else nothing.

    `provenances` are what is known of each launch.
    """
    found = cells_by_method(dataset, provenances)
    if len(found) < 2:
        return ""
    return (
        "measured by different methods, whose times need not be comparable: "
        f"{'; '.join(in_cells(found))}"
    )


def alike(
    dataset: PerformanceDataset,
    provenances: Mapping[str, Mapping[str, str]],
    wanted: str | None,
    source: str,
) -> PerformanceDataset:
    """Return the measurements of `dataset` that may be fitted together.

    `wanted` names a method, or is `ALL`; None: there has to be one alone. `source` is how the
    dataset is called in messages.

    Raises
    ------
    DataError
        If several methods measured it and none is wanted, or the wanted one did not.
    """
    found = cells_by_method(dataset, provenances)
    if wanted == ALL or (wanted is None and len(found) < 2):
        return dataset
    if wanted is not None:
        return measured_by(dataset, provenances, chosen(wanted, found))
    methods, first = "; ".join(in_cells(found)), next(iter(found))
    raise say("several-methods", file=source, methods=methods, first=first)
