"""The figures of `colltune.plots.predictions` drawn by R's ggplot2.

R is a program here: the table goes into a temporary folder as CSV, `r/draw.R` draws it, and the
picture comes back. R 3.6 and ggplot2 3.4 or later are needed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from colltune import process
from colltune.errors import DataError, ProgramError
from colltune.files import whole
from colltune.plots.saving import picture_format

SCRIPT = Path(__file__).with_name("r") / "draw.R"
_MEND = (
    "install R with its package ggplot2 (on Debian: r-base-core and r-cran-ggplot2; elsewhere"
    ' install.packages("ggplot2") in R fetches it from CRAN)'
)
_NO_GGPLOT2, _NO_FORMAT = 3, 4
_TIMEOUT_S = 120.0
_CURVES = ("learner", "configuration", "msize_bytes", "time_s")
_ERRORS = ("learner", "configuration", "measured_s", "predicted_s")


def curves(table: pd.DataFrame, path: Path, dpi: int = 100) -> Path:
    """Draw a `table` of `colltune.models.plain_fit.curves` into `path` and return it.

    The kind of picture is told by the name: PNG, SVG or PDF; `dpi` (dots per inch) is for PNG.

    Raises
    ------
    DataError
        If the table is empty or lacks a column.
    OutputError
        If the name ends with no kind of picture, or the file cannot be written.
    ProgramError
        If R or ggplot2 is missing or fails; the message says what to install.
    """
    rows = -(-table["configuration"].nunique() // 5) if "configuration" in table else 1
    return _drawn("curves", table, _CURVES, path, (13.0, 2.4 * rows + 1.0), dpi)


def errors(table: pd.DataFrame, path: Path, dpi: int = 100) -> Path:
    """Draw a `table` of `colltune.models.plain_fit.compared` into `path` and return it.

    `path` and `dpi` are as for `curves`.

    Raises
    ------
    DataError, OutputError, ProgramError
        As `curves`.
    """
    return _drawn("errors", table, _ERRORS, path, (9.0, 4.4), dpi)


def _drawn(
    figure: str,
    table: pd.DataFrame,
    columns: tuple[str, ...],
    path: Path,
    size_in: tuple[float, float],
    dpi: int,
) -> Path:
    kind = picture_format(path)
    missing = [name for name in columns if name not in table]
    if missing or table.empty:
        what = f"lacks {', '.join(missing)}" if missing else "is empty"
        raise DataError(f"a table that {what} cannot be drawn as {figure}")
    rscript = process.find("Rscript", _MEND)
    with tempfile.TemporaryDirectory(prefix="colltune-ggplot-") as name:
        folder = Path(name)
        table[list(columns)].to_csv(folder / "table.csv", index=False)
        options = (kind, *(f"{inches:g}" for inches in size_in), str(dpi))
        command: list[str | Path] = [rscript, "--vanilla", SCRIPT, figure, folder, *options]
        _check(process.run(command, timeout_s=_TIMEOUT_S), kind)
        picture = (folder / "figure").read_bytes()
    with whole(path) as temporary:
        temporary.write_bytes(picture)
    return path


def _check(outcome: process.Outcome, kind: str) -> None:
    """Insist that R has drawn the picture.

    Raises
    ------
    ProgramError
        If it has not; with the mend where that is known.
    """
    if outcome.returncode == _NO_GGPLOT2:
        raise ProgramError(f"R has no package ggplot2; {_MEND}")
    if outcome.returncode == _NO_FORMAT:
        raise ProgramError(f"this R was built without cairo and draws no {kind}; ask for .pdf")
    process.check(outcome, "drawing with ggplot2")
