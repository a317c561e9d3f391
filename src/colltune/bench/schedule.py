"""In which order cells are measured, and for how long; pure functions.

A campaign first surveys every cell briefly, then spends the rest of its time where the decision is
made: on the default and on the configurations near the best. Cells are interleaved in random order
over several rounds, so that drift of the machine hits all alike (Hunold and Carpen-Amarie, 2016).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colltune.domain import Configuration, Instance

SURVEY_SHARE = 0.35
_SURVEY_REPS = 20
_SURVEY_ROUNDS = 2
_REFINE_ROUNDS = 3
_SPARE_ROUNDS = 9
_LEAST_STEP_S = 0.0005
_NEAR_BEST = 1.3
_MOST_NEAR = 6


@dataclass(frozen=True)
class Cell:
    """One configuration on one instance."""

    configuration: Configuration
    instance: Instance


@dataclass(frozen=True)
class Step:
    """A visit to a cell (by index): up to `max_reps` repetitions or `max_seconds` of them."""

    cell: int
    max_reps: int
    max_seconds: float


def survey(n_cells: int, budget_s: float, cell_s: float, rng: random.Random) -> tuple[Step, ...]:
    """Visit every cell a few times, briefly enough that all have their turn in `budget_s`."""
    fair_s = min(cell_s, _fair_share_s(budget_s, n_cells, _SURVEY_ROUNDS))
    return _rounds(range(n_cells), _SURVEY_ROUNDS, _SURVEY_REPS, fair_s, rng)


def refine(
    cells: Sequence[Cell],
    times_s: Mapping[Cell, float],
    budget_s: float,
    max_reps: int,
    rng: random.Random,
) -> tuple[Step, ...]:
    """Spend `budget_s` on the default and on what is within 1.3x of the best of each instance.

    `times_s` holds the median time of every cell measured so far. Fast cells use less than their
    share; spare rounds spend what they leave, until the launch's budget ends it.
    """
    by_instance: dict[Instance, list[int]] = {}
    for index, cell in enumerate(cells):
        if cell in times_s:
            by_instance.setdefault(cell.instance, []).append(index)
    chosen: list[int] = []
    for indices in by_instance.values():
        ranked = sorted(indices, key=lambda i: times_s[cells[i]])
        best_s = times_s[cells[ranked[0]]]
        near = [i for i in ranked if times_s[cells[i]] <= _NEAR_BEST * best_s][:_MOST_NEAR]
        default = [i for i in ranked if cells[i].configuration.is_default and i not in near]
        chosen += near + default
    fair_s = _fair_share_s(budget_s, len(chosen), _REFINE_ROUNDS)
    return _rounds(chosen, _REFINE_ROUNDS + _SPARE_ROUNDS, max_reps, fair_s, rng)


def _fair_share_s(budget_s: float, n_cells: int, rounds: int) -> float:
    return max(_LEAST_STEP_S, budget_s / (max(1, n_cells) * rounds))


def _rounds(
    indices: Sequence[int], rounds: int, max_reps: int, max_seconds: float, rng: random.Random
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for _ in range(rounds):
        order = list(indices)
        rng.shuffle(order)
        steps += [Step(index, max_reps, max_seconds) for index in order]
    return tuple(steps)
