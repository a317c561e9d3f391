"""Forced algorithms: the variables of coll/tuned that choose one algorithm for all calls."""

from __future__ import annotations

from dataclasses import dataclass

from colltune.domain import Collective
from colltune.mpi.catalogue import CollectiveEntry
from colltune.mpi.openmpi.running import Numbers
from colltune.mpi.openmpi.variables import Variables, whole_number

_BY_CHAINS = (Collective.BCAST, Collective.REDUCE)
_WITH_REQUESTS = (Collective.ALLTOALL, Collective.REDUCE, Collective.SCATTER)
_ONLY_ALGORITHM = (Collective.ALLTOALLV, Collective.BARRIER, Collective.SCAN, Collective.EXSCAN)
_DEFAULT_FANOUT = 4


@dataclass(frozen=True)
class Value:
    """The text of ``coll_tuned_<collective>_algorithm`` and the number it means.

    ``number`` is None where the release has no such algorithm: it prints a help text and goes on
    without (``mca_base_var_enum.c``).
    """

    text: str
    number: int | None


def stem(collective: Collective) -> str:
    """Return the name of the variable that forces an algorithm, without prefix."""
    return f"coll_tuned_{collective}_algorithm"


def fanout_name(collective: Collective) -> str:
    """Return the end of the variable's name from which `collective` takes its fan-out."""
    return "chain_fanout" if collective in _BY_CHAINS else "tree_fanout"


def parameter_names(collective: Collective) -> tuple[str, ...]:
    """Return the ends of the names of all variables beside the algorithm."""
    if collective in _ONLY_ALGORITHM:
        return ()
    names = ("segmentsize", "tree_fanout", "chain_fanout")
    return (*names, "max_requests") if collective in _WITH_REQUESTS else names


def value(entry: CollectiveEntry, variables: Variables) -> Value | None:
    text = variables.text(stem(entry.collective))
    return None if text is None else Value(text, number_of(entry, text))


def number_of(entry: CollectiveEntry, text: str) -> int | None:
    """Return the number of an algorithm that is given by number or name, in any case."""
    if not text:
        return 0
    word = text.lower()
    names = {"ignore": 0} | {library_name(a.name): a.number for a in entry.algorithms}
    if word in names:
        return names[word]
    number = whole_number(text)
    return number if number is not None and 0 <= number <= len(entry.algorithms) else None


def numbers(entry: CollectiveEntry, variables: Variables) -> Numbers:
    """Return the forced algorithm with its parameters; algorithm 0 where none is forced."""
    given = value(entry, variables)
    if given is None or not given.number:
        return Numbers(0)
    collective = entry.collective
    name = f"{stem(collective)}_{{}}"
    chains = fanout_name(collective)
    initial = f"coll_tuned_init_{chains}"
    fanout = variables.integer(name.format(chains), variables.integer(initial, _DEFAULT_FANOUT))
    requests = (
        variables.integer(name.format("max_requests"), 0) if collective in _WITH_REQUESTS else 0
    )
    return Numbers(given.number, fanout, variables.integer(name.format("segmentsize"), 0), requests)


def requests_of_rules(variables: Variables) -> int:
    """Return the limit of requests of a rule that has none, of whichever collective it is."""
    return variables.integer("coll_tuned_alltoall_algorithm_max_requests", 0)


def shown(variables: Variables, collective: Collective) -> str:
    """Return the forcing variable with its value, for messages."""
    return variables.shown(stem(collective))


def library_name(name: str) -> str:
    """Return how the library spells an algorithm of the catalogue."""
    # "default" is our word for the library's own decision
    return "default" if name == "basic_default" else name
