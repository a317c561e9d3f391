"""What every learner asks of the data that it is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

Numbers = NDArray[np.float64]


def validated(learner: object, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return features (n, k) and times (n) as float64, as scikit-learn's contract asks.

    Raises
    ------
    ValueError
        If a value is missing or infinite, lengths differ, or a time is not positive.
    """
    features, times = validate_data(learner, X, y, dtype=np.float64, y_numeric=True)
    times = np.asarray(times, np.float64)
    if not (times > 0).all():
        raise ValueError(
            f"{type(learner).__name__} models runtimes, which are positive;"
            f" the smallest given is {times.min()}"
        )
    return features, times


def validated_features(learner: object, X: ArrayLike) -> Numbers:
    """Return features (n, k) as float64; ValueError unless they are like those fitted to."""
    features: Numbers = validate_data(learner, X, dtype=np.float64, reset=False)
    return features
