"""How launches were measured."""

from __future__ import annotations

from colltune.dataset.method import IN_PLACE_OF, method_of, methods, worth_telling

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
    """Launches that tell nothing of them have none."""
    assert method_of(NATIVE) == "native, windows"
    assert method_of(WINDOWS) == "reprompi, windows by HCA3O clocks"
    assert method_of(BARRIERS) == "reprompi, barriers"
    assert method_of({"imported_from": "a.csv"}) == ""


def test_other_methods_than_asked_for_are_worth_telling() -> None:
    """Several methods, and one in place of another."""
    assert worth_telling(methods([NATIVE, NATIVE, {}])) == {}
    assert worth_telling(methods([BARRIERS, NATIVE, NATIVE])) == {
        "native, windows": 2,
        "reprompi, barriers": 1,
    }
    replaced = methods([{**BARRIERS, IN_PLACE_OF: "window"}])
    assert worth_telling(replaced) == {"reprompi, barriers in place of the windows asked for": 1}
