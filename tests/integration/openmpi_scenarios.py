"""Configurations of Open MPI on which the library and `decide` are compared, and the comparing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random

from colltune.domain import Collective, Shape
from colltune.mpi.formats import FORMATS
from colltune.mpi.rules import Call, Rules
from tests.integration import random_parameters, random_rules
from tests.integration.differential_openmpi import (
    Agreement,
    Bench,
    Decide,
    Request,
    Seen,
    agreed_on_by_ranks,
    compare,
    requests,
)
from tests.integration.random_rules import Style
from tests.integration.real import traced_openmpi

CLASSIC, PARAMETERS = "openmpi-classic", "openmpi-parameters"
SMALL_WORLD = 7
WORLDS = {16: 220, SMALL_WORLD: 120}
"""Processes of a launch, and how many calls it performs."""


@dataclass(frozen=True)
class Scenario:
    """A rules file in a job: `forced` are the user's own variables beside those that activate it.

    `activated` tells whether the job is told at all to read the file.
    """

    name: str
    text: str
    world: int
    forced: Mapping[str, str] = field(default_factory=dict)
    activated: bool = True


def scenarios(seed: int = 0) -> tuple[Scenario, ...]:
    """Return scenarios of all kinds; another `seed` makes others of the same kinds."""
    return (
        *(_with_file(style, 16, seed) for style in random_rules.READ),
        *(_with_file(style, 7, seed) for style in random_rules.DROPPED),
        *(_with_variables(world, seed + at) for at, world in enumerate((16, 16, 7))),
        Scenario("a file that nobody activates", _text(random_rules.TIDY, seed), 7, {}, False),
        *(_with_components(seed + at) for at in range(6)),
    )


def _with_file(style: Style, world: int, seed: int) -> Scenario:
    return Scenario(style.name, _text(style, seed), world)


def _with_variables(world: int, seed: int) -> Scenario:
    rng = Random(f"variables {seed}")
    name = f"variables {seed} beside a file, {world} processes"
    return Scenario(
        name,
        _text(random_rules.TIDY, seed + 100),
        world,
        random_parameters.variables(random_parameters.forced(rng)),
    )


def _with_components(seed: int) -> Scenario:
    """Return a scenario in which users brought other components up, or left some out."""
    rng = Random(f"components {seed}")
    forced = random_parameters.components(rng)
    name = f"components {seed}"
    return Scenario(name, _text(random_rules.TIDY, seed + 200), SMALL_WORLD, forced)


def _text(style: Style, seed: int) -> str:
    return random_rules.random_file(Random(f"{style.name} {seed}"), style)


class Comparison:
    """Performs scenarios on one Open MPI; the calls, and what runs without a file, are kept."""

    def __init__(self, bench: Bench, seed: int = 0) -> None:
        self.bench = bench
        self.release = bench.mpi.release
        self._seed = seed
        self._default = cache(self._performed_by_default)

    def calls(self, world: int) -> tuple[Request, ...]:
        """Return the calls of all scenarios on a world of that size."""
        return requests(Random(f"calls {world} {self._seed}"), world, WORLDS[world])

    def parse(self, scenario: Scenario) -> Rules:
        """Return what the release under test makes of a scenario's file."""
        return FORMATS[CLASSIC].parse(scenario.text, scenario.name, self.release)

    def run(self, scenario: Scenario) -> Agreement:
        """Perform all calls of a scenario and compare what ran with what is said to run."""
        parsed = self.parse(scenario)
        rules = self.bench.folder / "rules"
        rules.write_bytes(scenario.text.encode())
        world = Shape(1, scenario.world)
        active = FORMATS[CLASSIC].activation(self.release, {"": str(rules)}, world)
        environment = {**(active if scenario.activated else {}), **scenario.forced}
        by_rule = environment == active
        decide = partial(parsed.decide, environment=None if by_rule else environment)
        return self._compared(decide, scenario.world, environment, by_rule=by_rule)

    def run_parameters(self, kind: random_parameters.Kind, seed: int) -> Agreement:
        """Perform calls under a random parameter file, every other one naming a rules file."""
        rng, path = Random(f"{kind.name} {seed}"), self.bench.folder / "parameters"
        rules = self.bench.folder / "named_rules"
        rules.write_text(_text(random_rules.TIDY, seed))
        text = random_parameters.random_file(rng, kind, rules if seed % 2 else None)
        path.write_text(text)
        parsed = FORMATS[PARAMETERS].parse(text, str(path), self.release)
        decide = partial(parsed.decide, environment={})
        environment = {kind.variable: str(path)}
        return self._compared(decide, SMALL_WORLD, environment, by_rule=False)

    def _compared(
        self, decide: Decide, world: int, environment: Mapping[str, str], *, by_rule: bool
    ) -> Agreement:
        both = zip(self.calls(world), self._default(world), strict=True)
        pairs = [(request, seen) for request, seen in both if _ends_well(decide, request)]
        wanted, default = [r for r, _ in pairs], [s for _, s in pairs]
        split = can_split(decide, world)
        ran = self.bench.perform(world, wanted, environment, split=split)
        return compare(self.release, decide, wanted, ran, default, by_rule=by_rule)

    def _performed_by_default(self, world: int) -> Sequence[Seen]:
        return self.bench.perform(world, self.calls(world), {})


def _ends_well(decide: Decide, request: Request) -> bool:
    """Tell whether a call comes to an end; an exscan of one process may crash instead."""
    one = request.call.comm_size == 1
    return agreed_on_by_ranks(decide, request) and not (one and decide(request.call).ends_program)


def can_split(decide: Decide, world: int, nodes: int = 1) -> bool:
    """Tell whether MPI_Comm_split, which gathers two integers of every process, does not fail."""
    call = Call(Collective.ALLGATHER, world, 8, nodes, element_bytes=4)
    return not decide(call).ends_program


def comparison(folder: Path, seed: int = 0) -> Comparison:
    """Return the comparison on the Open MPI under test, or skip with the reason."""
    return Comparison(Bench(traced_openmpi(folder), folder), seed)


def agreements(folder: Path, seed: int = 0) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield what was compared, how often, and the disagreements, for the Open MPI under test."""
    compared = comparison(folder, seed)
    for scenario in scenarios(seed):
        found = compared.run(scenario)
        yield scenario.name, found.compared, found.disagreements
    for kind in random_parameters.KINDS:
        for other in (seed, seed + 1):
            found = compared.run_parameters(kind, other)
            yield f"{kind.name} {other}", found.compared, found.disagreements
