"""Whether rows from somebody else are measurements, as `read_csv` checks them in a CSV."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from colltune.dataset.frame import TIME_COLUMNS, PerformanceDataset, refuse_duplicates
from colltune.domain import Collective, RunStatus, parse_parameters
from colltune.errors import DataError

_MOST_RANKS = 2**31 - 1
_LONGEST_TEXT = 256
_CONTEXT = ("machine", "library", "library_version")
_TEXTS = ("collective", "algorithm", "parameters", "launch", "status")


def check_rows(dataset: PerformanceDataset, source: str) -> None:
    """Check every row of `dataset`, of which only the columns' types are known to be right."""
    _check_context(dataset, source)
    frame = dataset.frame
    if frame.empty:
        raise DataError(f"{source}: no measurements in it")
    for column in _TEXTS:
        _check_values(frame, column, source, _why_no_text)
    _check_values(frame, "collective", source, _why_not_in(list(Collective)))
    _check_values(frame, "status", source, _why_not_in(list(RunStatus)))
    _check_values(frame, "algorithm", source, lambda text: "" if text.strip() else "is empty")
    _check_values(frame, "parameters", source, _why_no_parameters)
    for column, least, most in (
        ("nodes", 1, _MOST_RANKS),
        ("ppn", 1, _MOST_RANKS),
        ("msize_bytes", 0, None),
        ("n_reps", 0, None),
    ):
        numbers = frame[column].to_numpy()
        wrong = (numbers < least) | (numbers > most if most else False)
        _refuse(frame, column, wrong, source, f"is not within {least} and {most or '2^63 - 1'}")
    _check_times(frame, source)
    refuse_duplicates(frame, source)


def _check_context(dataset: PerformanceDataset, source: str) -> None:
    context = dataset.context
    for name, value in vars(context).items():
        if not isinstance(value, str) or _why_no_text(value):
            raise DataError(f"{source}: its {name} is no short printable text")
    for name in _CONTEXT:
        if not str(getattr(context, name)).strip():
            raise DataError(f"{source}: its {name} is empty; measurements need their context")


def _check_times(frame: pd.DataFrame, source: str) -> None:
    timed = frame["status"].isin([s for s in RunStatus if s.is_timed]).to_numpy()
    for column in TIME_COLUMNS:
        times = frame[column].to_numpy(float)
        absent = np.isnan(times)
        wrong = ~absent & ~(np.isfinite(times) & (times > 0))
        if column == "time_s":
            wrong |= timed & absent
        _refuse(frame, column, wrong, source, "is not a positive time; remove the row or mend it")
        _refuse(frame, column, ~timed & ~absent, source, "is a time of what was not timed")
    lengths = frame["times_s"].map(len).to_numpy()
    raw = np.concatenate([np.asarray(times, float) for times in frame["times_s"]])
    rows = np.repeat(np.arange(len(frame)), lengths)
    wrong = np.zeros(len(frame), bool)
    wrong[rows[~(np.isfinite(raw) & (raw > 0))]] = True
    wrong |= (lengths > 0) & (lengths != frame["n_reps"].to_numpy())
    _refuse(frame, "times_s", wrong, source, "are not n_reps positive times")


def _check_values(
    frame: pd.DataFrame, column: str, source: str, why_wrong: Callable[[str], str]
) -> None:
    """Look at each different value once."""
    for value in frame[column].unique():
        why = why_wrong(value)
        if why:
            _refuse(frame, column, (frame[column] == value).to_numpy(), source, why)


def _why_no_text(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        return f"is longer than {_LONGEST_TEXT} characters"
    return "" if text.isprintable() else "has characters that cannot be printed"


def _why_not_in(known: list[str]) -> Callable[[str], str]:
    return lambda text: "" if text in known else f"is unknown; known: {', '.join(known)}"


def _why_no_parameters(text: str) -> str:
    try:
        pairs = parse_parameters(text)
    except DataError as error:
        return f"is wrong: {error}"
    canonical = ",".join(f"{name}={value}" for name, value in pairs)
    return "" if canonical == text else f"is not written as {canonical!r}"


def _refuse(frame: pd.DataFrame, column: str, wrong: np.ndarray, source: str, why: str) -> None:
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        value = str(frame[column].iloc[at])[:80]
        raise DataError(f"{source}, data row {at + 1}, column {column}: {value!r} {why}")
