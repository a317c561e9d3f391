"""Small tables of predictions to be drawn."""

from __future__ import annotations

import pandas as pd

from colltune.models.plain_fit import MEASURED


def curves() -> pd.DataFrame:
    """Return runtimes over message size of three configurations and two learners."""
    rows = [
        (learner, configuration, size, 1e-5 * (1 + size / 1024))
        for configuration in ("default", "binomial", "chain segsize=1024")
        for learner, sizes in (
            (MEASURED, (0, 1024)),
            ("gam", (1, 512, 1024)),
            ("mgcv", (1, 512, 1024)),
        )
        for size in sizes
    ]
    table = pd.DataFrame(rows, columns=["learner", "configuration", "msize_bytes", "time_s"])
    table["time_s"] = table["time_s"].round(6)
    return table


def compared() -> pd.DataFrame:
    """Return predictions of two learners: one right up to 20 %, the other twice as long."""
    rows = [
        (learner, configuration, 1.0, factor * ratio)
        for configuration in ("default", "chain")
        for learner, factor in (("gam", 1.0), ("mgcv", 2.0))
        for ratio in (0.8, 0.9, 1.0, 1.1, 1.2)
    ]
    return pd.DataFrame(rows, columns=["learner", "configuration", "measured_s", "predicted_s"])
