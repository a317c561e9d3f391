"""Share of the log gain over the default that is left where results are promised."""

from __future__ import annotations

from dataclasses import replace

from colltune.mpi.programs import SAME_TYPES, Results
from figures import promise_cost
from figures.figure import Figure


def run() -> Figure:
    """Return the share that `same-bits` keeps on recorded machines, beside those of the others.

    Files are for programs that name the data of a call alike on all ranks; see `promise_cost` for
    which data is read. Where an algorithm's bits are not known, its gain is lost.
    """
    promises = {
        each.replace("-", "_"): replace(SAME_TYPES, results=each) for each in reversed(Results)
    }
    unit = "share of log gain under same-bits"
    return promise_cost.shares("results_cost", promises, "same_bits", unit)
