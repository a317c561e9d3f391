"""Takes any CSV, its columns mapped to ours."""

from __future__ import annotations

from colltune.dataset.importers.protocol import Imported, Request, TimeKind
from colltune.dataset.importers.source import Source
from colltune.dataset.tidy_csv import read_csv


class CsvImporter:
    """An `Importer` of what `colltune.dataset.tidy_csv` reads."""

    title = "CSV"

    def recognises(self, line: str) -> bool:
        """See `Importer.recognises`: no line is unmistakable."""
        return False

    def load(self, source: Source, request: Request) -> Imported:
        """See `Importer.load` and `read_csv`."""
        launch = {"launch": request.launch} if request.launch else {}
        dataset = read_csv(
            source.path,
            columns=request.columns,
            constants={**request.settings, **launch},
            where=request.where,
            time_unit=request.time_unit,
        )
        return Imported(dataset, frozenset({TimeKind.UNTOLD}))
