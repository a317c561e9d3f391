"""How launches were measured."""

from __future__ import annotations

from colltune.dataset import PerformanceDataset
from colltune.dataset.method import (
    ALL,
    IN_PLACE_OF,
    LAYOUT,
    MEASURED_UNDER,
    alike,
    cells_by_method,
    conditions_of,
    in_provenance,
    method_of,
    methods,
    worth_telling,
)
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import DataError
from tests.refusals import refused

NATIVE = {"backend": "native", "sync": "window: common start on a global clock"}
WINDOWS = {
    "backend": "reprompi",
    "synchronisation": "start time agreed upon by synchronised clocks (ReproMPI's roundtime)",
    "clock_synchronisation": "HCA3O",
}
BARRIERS = {
    "backend": "reprompi",
    "synchronisation": "the library's barrier before each repetition (ReproMPI's roundtime)",
    "clock_synchronisation": "None",
}


def test_a_method_is_benchmark_synchronisation_and_clocks() -> None:
    """Launches that tell nothing of them have none; what was asked for is no part of it."""
    assert method_of(NATIVE) == "native, windows"
    assert method_of(WINDOWS) == "reprompi, windows by HCA3O clocks"
    assert method_of(BARRIERS) == "reprompi, barriers"
    assert method_of({"imported_from": "a.csv"}) == ""
    assert method_of({**WINDOWS, "clock_synchronisation": "unknown"}) == ""
    assert method_of({**BARRIERS, IN_PLACE_OF: "window"}) == "reprompi, barriers"
    assert method_of({**BARRIERS, LAYOUT: "by node"}) == "reprompi, barriers, by node"


def test_other_methods_than_asked_for_are_worth_telling() -> None:
    """Several methods, and one in place of another."""
    assert worth_telling(methods([NATIVE, NATIVE, {}])) == {}
    assert worth_telling(methods([BARRIERS, NATIVE, NATIVE])) == {
        "native, windows": 2,
        "reprompi, barriers": 1,
    }
    replaced = methods([{**BARRIERS, IN_PLACE_OF: "window"}])
    assert worth_telling(replaced) == {"reprompi, barriers in place of the windows asked for": 1}


def _dataset(**launches: int) -> PerformanceDataset:
    """Return a dataset whose launches timed so many sizes each."""
    default = Configuration.default("openmpi", Collective.BCAST)
    return PerformanceDataset.of(
        Context("m", "openmpi", "5.0.11"),
        [
            Measurement(
                Instance(Collective.BCAST, Shape(1, 4), 8 << k), default, launch, times_s=(1e-6,)
            )
            for launch, n in launches.items()
            for k in range(n)
        ],
    )


KNOWN = {"a": WINDOWS, "b": WINDOWS, "c": BARRIERS}


def _launches(wanted: str | None, **launches: int) -> set[str]:
    return set(alike(_dataset(**launches), KNOWN, wanted, "the data").frame["launch"])


def test_cells_are_counted_by_method() -> None:
    """A cell that two launches timed counts once; unknown methods count nowhere."""
    found = cells_by_method(_dataset(a=2, b=3, c=1, d=4), KNOWN)
    assert found == {"reprompi, windows by HCA3O clocks": 3, "reprompi, barriers": 1}


def test_what_different_methods_measured_is_fitted_together_only_if_asked_for() -> None:
    """Refused with the methods and the option; a part of a name chooses it, `all` takes all."""
    with refused("several-methods", DataError):
        _launches(None, a=2, b=3, c=1, d=1)
    assert _launches("windows", a=2, b=3, c=1, d=1) == {"a", "b", "d"}
    assert _launches("reprompi, barriers", a=2, c=1) == {"c"}
    assert _launches(ALL, a=2, c=1) == {"a", "c"}


def test_one_method_need_not_be_named() -> None:
    """Launches of which nothing is known go with any; a name that fits none, or several, fails."""
    assert _launches(None, a=1, d=1) == {"a", "d"}
    with refused("no-such-method", DataError, count=0):
        _launches("osu", a=1)
    with refused("no-such-method", DataError, count=2):
        _launches("reprompi", a=1, c=1)


def test_memory_of_a_device_is_a_method_of_its_own() -> None:
    """What tells no memory, or nothing at all, was measured in that of the host."""
    imported = {MEASURED_UNDER: in_provenance({("bcast", "memory"): "CUDA"})}
    known = {"a": imported, "b": {MEASURED_UNDER: "bcast.memory=host"}}
    assert conditions_of(imported) == {("bcast", "memory"): "CUDA"}
    data = _dataset(a=2, b=1, d=1)
    with refused("several-methods", DataError, first="CUDA memory"):
        alike(data, known, None, "the data")
    assert set(alike(data, known, "CUDA", "the data").frame["launch"]) == {"a"}
    assert set(alike(_dataset(b=1, d=1), known, None, "the data").frame["launch"]) == {"b", "d"}
