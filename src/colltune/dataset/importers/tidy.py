"""Takes any CSV, its columns mapped to ours."""

from __future__ import annotations

from colltune.dataset.importers.protocol import Imported, Importer, Request, Source, TimeKind
from colltune.dataset.tidy_csv import read_csv
from colltune.domain import Configuration
from colltune.errors import DataError


def load(source: Source, request: Request) -> Imported:
    """Read a CSV; a configuration that the user told is that of all rows."""
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


IMPORTER = Importer("CSV", None, load)
