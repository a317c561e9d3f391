"""CSV of instances in, CSV of decisions out; standard library only, to start quickly."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colltune.domain import Instance, Shape, parse_collective
from colltune.errors import DataError
from colltune.files import whole
from colltune.files.reading import text_of

_COLUMNS = ("collective", "nodes", "ppn", "msize_bytes")


_WHOLE = re.compile(r"[0-9]{1,18}")


def read_instances(path: Path) -> list[Instance]:
    """Read a CSV with the columns collective, nodes, ppn, msize_bytes; others are ignored.

    Raises
    ------
    DataError
        Naming file, line and column of what is missing or malformed.
    """
    text = text_of(path, DataError, f"name a CSV file with the columns {', '.join(_COLUMNS)}")
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    try:
        missing = [c for c in _COLUMNS if c not in (reader.fieldnames or ())]
        if missing:
            raise DataError(
                f"{path}: missing column {', '.join(missing)}; needed: {', '.join(_COLUMNS)}"
            )
        return [_instance(row, f"{path}, line {reader.line_num}") for row in reader]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: no CSV: {error}; mend it") from error


def _instance(row: Mapping[str, str | None], where: str) -> Instance:
    numbers = {}
    for column in _COLUMNS[1:]:
        text = (row[column] or "").strip()
        least = 0 if column == "msize_bytes" else 1
        if not _WHOLE.fullmatch(text) or int(text) < least:
            raise DataError(f"{where}, column {column}: {text!r} is not an integer >= {least}")
        numbers[column] = int(text)
    try:
        collective = parse_collective(row["collective"] or "")
    except DataError as error:
        raise DataError(f"{where}, column collective: {error}") from None
    return Instance(collective, Shape(numbers["nodes"], numbers["ppn"]), numbers["msize_bytes"])


def write_rows(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a CSV file, whole or not at all.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    with whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
