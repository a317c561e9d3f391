"""The search for alltoallv's threshold, in C, on made-up times."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process

SOURCE = Path(__file__).with_name("search_simulation.c")
SEARCH = Path(__file__).parents[1] / "src" / "search.c"
VALLEY = (10, 9, 8, 6, 5, 6, 8, 10, 12)
TWO_VALLEYS = (7, 9, 12, 12, 9, 7, 5, 6)
EAGER = (20, 15, 12, 9, 7, 6, 5.2, 5.1, 5)
LOWEST_THRESHOLD = 32  # the rung above 0: bin 4 holds messages of 16 to 31 bytes
SEEDS = range(1, 11)


@dataclass(frozen=True)
class Period:
    """A measured period: what was best after it, and what was tested in it."""

    number: int
    best: int
    candidate: int
    verdict: str


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled simulation."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("search") / "simulation"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SEARCH.parent}"]
    command: list[str | Path] = [compiler, *flags, SOURCE, SEARCH, "-o", program]
    process.check(process.run(command, timeout_s=60), "compiling the simulation")
    return program


def _simulate(
    program: Path,
    costs: tuple[float, ...],
    *,
    seed: int,
    noise: float = 0.1,
    outliers: float = 0.0,
    start: int = LOWEST_THRESHOLD,
    periods: int = 400,
    later: tuple[float, ...] = (),
) -> list[Period]:
    numbers = [seed, periods, start, 3, noise, outliers]
    rungs = [",".join(map(str, these)) for these in (costs, later) if these]
    outcome = process.run([program, *map(str, numbers), *rungs], timeout_s=60)
    process.check(outcome, "the simulation")
    rows = [line.split(" ") for line in outcome.stdout.splitlines()]
    return [Period(int(n), int(best), int(tested), what) for n, best, tested, what in rows]


def _cost(costs: tuple[float, ...], threshold: int) -> float:
    rung = 0
    while rung + 1 < len(costs) and LOWEST_THRESHOLD << rung <= threshold:
        rung += 1
    return costs[rung]


@pytest.mark.parametrize("start", [0, 32, 512, 1 << 20])
@pytest.mark.parametrize("costs", [VALLEY, TWO_VALLEYS, EAGER, EAGER[::-1]])
def test_the_best_threshold_is_found(
    simulation: Path, costs: tuple[float, ...], start: int
) -> None:
    """From any start, on slopes, in valleys and over hills, it ends within 5 % of the best."""
    for seed in SEEDS[:4]:
        last = _simulate(simulation, costs, seed=seed, start=start)[-1]
        assert _cost(costs, last.best) <= 1.05 * min(costs)


def test_noise_and_outliers_rarely_make_it_flip(simulation: Path) -> None:
    """With 10 % of noise and every 20th time tenfold, few values are kept, most of them well."""
    runs = [_simulate(simulation, VALLEY, seed=seed, outliers=0.05) for seed in SEEDS]
    kept = [sum(period.verdict == "kept" for period in run) for run in runs]
    assert statistics.mean(kept) <= 4
    assert all(_cost(VALLEY, run[-1].best) <= 1.05 * min(VALLEY) for run in runs)


def test_equal_values_are_rarely_changed(simulation: Path) -> None:
    """Where the threshold does not matter, noise of 10 % is not taken for improvements for long."""
    runs = [_simulate(simulation, (5.0,) * 8, seed=seed) for seed in SEEDS]
    late = [p for run in runs for p in run if p.number > 200 and p.verdict == "kept"]
    assert len(late) <= len(runs)


def test_what_was_rejected_rests(simulation: Path) -> None:
    """A value that was rejected is not tested in the next 16 periods, later in 32 and more."""
    for seed in SEEDS:
        rejected: dict[int, list[int]] = {}
        for period in _simulate(simulation, VALLEY, seed=seed, noise=0.02):
            assert period.verdict != "restarted"
            if period.candidate >= 0:
                known = rejected.setdefault(period.candidate, [])
                assert not known or period.number - known[-1] >= min(16 * len(known), 512)
                known += [period.number] * (period.verdict == "rejected")
                if period.verdict == "" and known:
                    rejected[period.candidate] = []


def test_in_the_end_tests_are_rare(simulation: Path) -> None:
    """When all is settled, fewer than one period in ten tests anything."""
    for seed in SEEDS:
        run = _simulate(simulation, VALLEY, seed=seed, noise=0.05)
        late = [p for p in run if p.number > 300 and p.candidate >= 0]
        assert len(late) < 10


@pytest.mark.parametrize("later", [EAGER, EAGER[::-1]])
def test_a_changed_workload_is_followed(simulation: Path, later: tuple[float, ...]) -> None:
    """When the times change, rests end, and the new best threshold is found."""
    for seed in SEEDS:
        twice = tuple(2 * cost for cost in later)
        run = _simulate(simulation, VALLEY, seed=seed, periods=800, later=twice)
        assert any(p.verdict == "restarted" for p in run if p.number >= 400)
        assert _cost(later, run[-1].best) <= 1.1 * min(later)
