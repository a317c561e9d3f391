"""Measurements with their context: in memory, as Parquet on disk, as tidy CSV at the edge."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colltune.dataset.frame import PerformanceDataset
    from colltune.dataset.parquet import append, read, read_parquet
    from colltune.dataset.tidy_csv import read_csv, write_csv

__all__ = ["PerformanceDataset", "append", "read", "read_csv", "read_parquet", "write_csv"]
_MODULES = {
    "PerformanceDataset": "frame",
    **dict.fromkeys(("append", "read", "read_parquet"), "parquet"),
    **dict.fromkeys(("read_csv", "write_csv"), "tidy_csv"),
}


def __getattr__(name: str) -> Any:
    # who has no data need not wait for pandas
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    # the reference lists a module's names by this
    return [*globals(), *__all__]
