"""What a real Open MPI runs across emulated nodes, against what `decide` says.

There coll/han may own a collective. Its own function is the first one of a call then, and the calls
that it makes on the processes of one node and on one process of every node are seen behind it.
Sub-communicators of coll/han are made within the first call on a communicator, so that all calls
are performed twice and the second time counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random

from colltune.domain import Collective
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.classic.reading import ClassicFile
from colltune.mpi.openmpi.decide import decide
from colltune.mpi.openmpi.han.rules import HanFile
from colltune.mpi.rules import Call, Outcome
from tests.integration.differential_openmpi import (
    Agreement,
    Bench,
    Decide,
    Request,
    Seen,
    algorithm_of,
    disagreement,
    requests,
)
from tests.integration.openmpi_scenarios import can_split
from tests.integration.random_rules import WITHOUT_TRAPS, random_file
from tests.integration.real import RealMpi, traced_openmpi
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, skip_without

NODES, PPN, CALLS = 3, 2, 200
WORLD = NODES * PPN
_HAN = "mca_coll_han_"
_PREFIX = "OMPI_MCA_"
_FLAT = {f"{_PREFIX}coll_han_priority": "0"}
_PREFERRED = {f"{_PREFIX}coll_han_priority": "40"}
_RUNS = re.compile(r"coll/han runs its (\w+) algorithm")
_SENT = (Collective.ALLGATHER, Collective.ALLREDUCE, Collective.BARRIER, Collective.BCAST)


@dataclass(frozen=True)
class Scenario:
    """Rules for coll/tuned, a file for coll/han or none, and variables beside them."""

    name: str
    rules: str
    dispatch: str
    variables: Mapping[str, str]


def scenarios(release: str, seed: int = 0) -> tuple[Scenario, ...]:
    """Return the scenarios for a release: coll/han as it is, off, and told by files."""
    rng = Random(f"nodes {seed}")
    rules = [random_file(rng, WITHOUT_TRAPS) for _ in range(4)]
    # 4.1 has coll/han with the lowest of all priorities
    usual = {} if release.startswith("5.") else _PREFERRED
    sent = f"{_PREFIX}coll_han_bcast_dynamic_global_communicator_module"
    return (
        Scenario("rules alone", rules[0], "", {}),
        Scenario("rules with coll/han switched off", rules[1], "", _FLAT),
        Scenario("rules under coll/han", rules[1], "", usual),
        Scenario("rules and coll/han's file", rules[2], dispatch(rng, release), usual),
        Scenario("another pair of files", rules[3], dispatch(rng, release), usual),
        Scenario("broadcasts sent to coll/tuned", rules[3], "", usual | {sent: "3"}),
    )


def dispatch(rng: Random, release: str) -> str:
    """Return a random file for coll/han, in the words that all releases know."""
    components, sent_away = ["han", "tuned", "tuned"], [*_SENT]
    if release.startswith("5."):
        components += ["han @simple", "han @intra"]
    else:
        # it crashes when it sends an allreduce away
        sent_away.remove(Collective.ALLREDUCE)
    lines = [f"{len(sent_away)}"]
    for collective in sent_away:
        lines += [collective, "1", "2"]
        entries = sorted(rng.sample(range(2, WORLD + 1), 2))
        lines.append(f"{len(entries) + 1}")
        for size in (1, *entries):
            firsts = (0, *sorted(rng.sample((17, 100, 1001, 4096, 20000), 2)))
            lines.append(f"{size} {len(firsts)}")
            lines += [f"{first} {_component(rng, collective, components)}" for first in firsts]
    return "\n".join(lines) + "\n"


def _component(rng: Random, collective: Collective, components: Sequence[str]) -> str:
    chosen = rng.choice(components)
    return "han" if collective is Collective.BARRIER and "@" in chosen else chosen


def hosts(mpi: RealMpi, folder: Path) -> list[str]:
    """Return the options with which mpirun starts processes on the emulated nodes."""
    return openmpi_hosts(folder, [f"n{at}" for at in range(NODES)], PPN, mpi.release)


def calls(seed: int) -> tuple[Request, ...]:
    """Return random calls, with the nodes on which their communicators lie.

    Roots are the first processes of their nodes, so that rank 0 takes part between nodes.
    """
    found = requests(Random(f"calls on nodes {seed}"), WORLD, CALLS)
    return tuple(
        replace(r, call=replace(r.call, nodes=-(-r.call.comm_size // PPN)), root=r.root & ~1)
        for r in found
    )


class NodesComparison:
    """Performs scenarios on one Open MPI across nodes."""

    def __init__(self, mpi: RealMpi, spaces: Namespaces, folder: Path, seed: int = 0) -> None:
        options = tuple(hosts(mpi, folder))
        self._bench = Bench(mpi, folder, options, tuple(spaces.enter([])))
        self.release = mpi.release
        self._folder = folder
        self._calls = calls(seed)
        self._flat = cache(self._performed_flat)

    def run(self, scenario: Scenario) -> Agreement:
        """Perform all calls of a scenario and compare what ran with what is said to run."""
        environment = self._written(scenario)
        decide = self._decide(scenario, environment)
        split = can_split(decide, WORLD, NODES)
        ran = self._twice(environment, split=split)
        complaints, decided = [], 0
        for request, now, flat in zip(self._calls, ran, self._flat(), strict=True):
            outcome = decide(request.call)
            decided += outcome.component == "han" or not outcome.configuration.is_default
            if complaint := across(self.release, outcome, now, flat):
                complaints.append(f"{request.call} root {request.root}: {complaint}")
        return Agreement(len(ran), decided, tuple(complaints))

    def _written(self, scenario: Scenario) -> dict[str, str]:
        rules, file = self._folder / "rules", self._folder / "dispatch"
        rules.write_text(scenario.rules)
        told = FORMATS["openmpi-classic"].activation(self.release, {"": str(rules)})
        if scenario.dispatch:
            file.write_text(scenario.dispatch)
            told |= FORMATS["openmpi-han"].activation(self.release, {"": str(file)})
        return {**told, **scenario.variables}

    def _decide(self, scenario: Scenario, environment: Mapping[str, str]) -> Decide:
        tuned = ClassicFile(scenario.rules, "rules", self.release)
        han: HanFile | None = None
        if scenario.dispatch:
            parsed = FORMATS["openmpi-han"].parse(scenario.dispatch, "dispatch", self.release)
            assert not parsed.dropped
            assert isinstance(parsed, HanFile)
            han = parsed
        return partial(decide, self.release, environment=environment, tuned=tuned, han=han)

    def _performed_flat(self) -> list[Seen]:
        return self._twice(_FLAT, split=True)

    def _twice(self, environment: Mapping[str, str], *, split: bool) -> list[Seen]:
        both = self._bench.perform(WORLD, [*self._calls, *self._calls], environment, split=split)
        return both[len(self._calls) :]


def agreements(folder: Path, seed: int = 0) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield what was compared, how often, and the disagreements, for the Open MPI under test."""
    skip_without()
    mpi = traced_openmpi(folder)
    with Namespaces("launcher") as spaces:
        compared = NodesComparison(mpi, spaces, folder, seed)
        for scenario in scenarios(mpi.release, seed):
            found = compared.run(scenario)
            yield f"{NODES} nodes, {scenario.name}", found.compared, found.disagreements


def across(release: str, outcome: Outcome, now: Seen, flat: Seen) -> str:
    """Return how what was seen differs from what was said; empty if it does not.

    `flat` is what coll/tuned runs without any file.
    """
    if outcome.component != "han" or outcome.returns_at_once:
        # what coll/han hands on is seen behind its own function
        own = [name for name in now.functions if not name.startswith(_HAN)]
        handed_on = replace(now, selected=own[0] if own else "")
        return disagreement(release, outcome, handed_on, flat, by_rule=True)
    runs = next((m[1] for reason in outcome.reasons if (m := _RUNS.search(reason))), "")
    ends = "_simple" if runs == "simple" else "_intra"
    if not (now.selected.startswith(_HAN) and now.selected.endswith(ends)):
        return f"said coll/han's {runs} algorithm; ran {now}"
    for call, inner in outcome.inner:
        if inner.configuration.is_default or inner.ends_program:
            continue
        if complaint := _inside(release, call, inner, now):
            return complaint
    return ""


def _inside(release: str, call: Call, inner: Outcome, now: Seen) -> str:
    symbol = algorithm_of(release, inner.configuration).symbol
    if symbol in now.functions:
        return ""
    return f"said {inner.configuration.id} inside for {call}; ran {now.functions}"
