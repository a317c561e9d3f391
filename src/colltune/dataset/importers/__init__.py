"""Readers of other programs' measurements, one module each."""

from colltune.dataset.importers import detail, imb, mpibench, osu, reprompi, table
from colltune.dataset.importers.protocol import (
    Algorithms,
    Imported,
    Importer,
    ImportRequest,
    SourceFile,
)

IMPORTERS: dict[str, Importer] = {
    "reprompi": reprompi.IMPORTER,
    "osu": osu.IMPORTER,
    "imb": imb.IMPORTER,
    "mpibench": mpibench.IMPORTER,
    "detail": detail.IMPORTER,
    "csv": table.CSV,
}

__all__ = ["IMPORTERS", "Algorithms", "ImportRequest", "Imported", "Importer", "SourceFile"]
