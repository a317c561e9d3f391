"""Takes any CSV, its columns mapped to ours."""

from __future__ import annotations

from colltune.dataset.importers.protocol import Imported, Request, TimeKind
from colltune.dataset.importers.source import Source
from colltune.dataset.tidy_csv import read_csv
from colltune.domain import Configuration
from colltune.errors import DataError


class CsvImporter:
    """An `Importer` of what `colltune.dataset.tidy_csv` reads."""

    title = "CSV"

    def recognises(self, line: str) -> bool:
        """See `Importer.recognises`: no line is unmistakable."""
        return False

    def load(self, source: Source, request: Request) -> Imported:
        """See `Importer.load` and `read_csv`; a configuration told is that of all rows."""
        constants = dict(request.settings)
        told = constants.pop("configuration", "")
        chosen = request.algorithms.canonical(Configuration.parse(told)) if told else None
        if chosen:
            constants["algorithm"] = chosen.stored_algorithm
            constants["parameters"] = chosen.parameter_text
        if request.launch:
            constants["launch"] = request.launch
        dataset = read_csv(
            source.path,
            columns=request.columns,
            constants=constants,
            where=request.where,
            time_unit=request.time_unit,
        )
        if chosen and (dataset.context.library, *dataset.collectives) != (
            chosen.library,
            chosen.collective,
        ):
            raise DataError(
                f"{source.name}: has measurements that --set configuration={chosen.id} does not"
                " speak of: of another library or collective; keep the others out with"
                f" --where collective={chosen.collective}"
            )
        return Imported(dataset, frozenset({TimeKind.UNTOLD}))
