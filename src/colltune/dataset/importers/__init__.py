"""Readers of other programs' measurements, one module each."""

from colltune.dataset.importers import assembly, detail, imb, osu, reprompi
from colltune.dataset.importers.protocol import Algorithms, Imported, Importer, Request, Source

IMPORTERS: dict[str, Importer] = {
    "reprompi": reprompi.IMPORTER,
    "osu": osu.IMPORTER,
    "imb": imb.IMPORTER,
    "detail": detail.IMPORTER,
    "csv": assembly.CSV,
}

__all__ = ["IMPORTERS", "Algorithms", "Imported", "Importer", "Request", "Source"]
