"""Which configurations the native benchmark gives up, in noise that is known."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from colltune import process
from tests.integration.real import Real, installed

pytestmark = pytest.mark.mpi
NATIVE = Path(str(resources.files("colltune.bench"))) / "native"
FAST_S, SLOW_S = 2e-5, 0.05


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[float, float, float]]:
    """Return a function that lets two configurations race; see race.c."""
    mpi = Real(installed(), tmp_path_factory.mktemp("race"))
    program = mpi.compiled("race.c", options=[f"-I{NATIVE}", NATIVE / "racing.c", "-lm"])

    def run(
        ratio: float, noise: float, between: float, time_s: float = FAST_S, reps: int = 20
    ) -> tuple[float, float, float]:
        words = map(str, (ratio, noise, between, time_s, reps))
        outcome = process.check(process.run([program, *words], timeout_s=120.0), "racing")
        slower, faster, mean_reps = map(float, outcome.stdout.split())
        return slower, faster, mean_reps

    return run


@pytest.mark.parametrize(("noise", "between"), [(0.1, 0.05), (0.5, 0.1), (0.5, 0.3)])
def test_equals_are_kept(
    race: Callable[..., tuple[float, float, float]], noise: float, between: float
) -> None:
    """Of two that are equally fast hardly any is abandoned, however noisy the machine."""
    slower, faster, _ = race(1.0, noise, between)
    assert slower + faster < 0.12


@pytest.mark.parametrize("ratio", [1.05, 1.3, 3.0])
@pytest.mark.parametrize(("noise", "between"), [(0.1, 0.05), (0.2, 0.1), (0.5, 0.3)])
def test_the_faster_one_is_kept(
    race: Callable[..., tuple[float, float, float]], ratio: float, noise: float, between: float
) -> None:
    """The faster one is hardly ever abandoned, and never where it is much faster."""
    _, faster, _ = race(ratio, noise, between)
    assert faster < (0.001 if ratio >= 3 else 0.05)


def test_the_hopeless_are_given_up_after_a_few_repetitions(
    race: Callable[..., tuple[float, float, float]],
) -> None:
    """What is three times slower costs two visits at most, ten times slower half of one."""
    slower, _, reps = race(3.0, 0.3, 0.1)
    assert (slower, reps < 40) == (1.0, True)
    slower, _, reps = race(10.0, 0.3, 0.1)
    assert (slower, reps < 12) == (1.0, True)


def test_visits_of_two_repetitions_are_enough(
    race: Callable[..., tuple[float, float, float]],
) -> None:
    """Repetitions that are long by themselves count from the first one on."""
    slower, faster, _ = race(10.0, 0.2, 0.1, SLOW_S, 2)
    assert (slower, faster) == (1.0, 0.0)
    slower, faster, _ = race(1.0, 0.2, 0.1, SLOW_S, 2)
    assert slower + faster < 0.01
