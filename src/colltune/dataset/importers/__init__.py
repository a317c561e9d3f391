"""Readers of other programs' measurements: the Protocol, and the registry beside it."""

from colltune.dataset.importers import imb, osu, reprompi_rows
from colltune.dataset.importers.assembly import CsvImporter, TextImporter
from colltune.dataset.importers.detail import DetailImporter
from colltune.dataset.importers.protocol import Algorithms, Imported, Importer, Request, Source

IMPORTERS: dict[str, Importer] = {
    "reprompi": TextImporter("ReproMPI", reprompi_rows.SIGNS, reprompi_rows.parse),
    "osu": TextImporter("OSU Micro-Benchmarks", osu.SIGNS, osu.parse),
    "imb": TextImporter("Intel MPI Benchmarks", imb.SIGNS, imb.parse),
    "detail": DetailImporter(),
    "csv": CsvImporter(),
}

__all__ = ["IMPORTERS", "Algorithms", "Imported", "Importer", "Request", "Source"]
