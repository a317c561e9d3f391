"""Measurements with their context: in memory, as Parquet on disk, as tidy CSV at the edge."""

from colltune.dataset.frame import PerformanceDataset
from colltune.dataset.parquet import append, read, read_parquet
from colltune.dataset.tidy_csv import read_csv, write_csv

__all__ = ["PerformanceDataset", "append", "read", "read_csv", "read_parquet", "write_csv"]
