"""Pictures by R's ggplot2."""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.image import imread

from colltune import process
from colltune.errors import DataError, OutputError, ProgramError
from colltune.plots import ggplot
from tests.plots.made_up_predictions import compared, curves


@cache
def _missing() -> str:
    """Return why R cannot draw here, or nothing."""
    try:
        rscript = process.find("Rscript", "install R")
    except ProgramError as error:
        return str(error)
    asked: list[str | Path] = [
        rscript,
        "--vanilla",
        "-e",
        'quit(status = !requireNamespace("ggplot2"))',
    ]
    return "" if process.run(asked, timeout_s=60).ok else "R has no package ggplot2"


@pytest.fixture
def with_r() -> None:
    """Skip, with the reason, where R or ggplot2 is missing."""
    if _missing():
        pytest.skip(_missing())


@pytest.mark.usefixtures("with_r")
def test_both_figures_come_back_as_pictures_of_what_is_in_the_table(tmp_path: Path) -> None:
    """A PNG with many colours; an SVG of a table with signs that CSV and XML care for."""
    path = ggplot.errors(compared(), tmp_path / "errors.png")
    pixels = imread(path)
    assert min(pixels.shape[:2]) > 100
    assert len({tuple(pixel) for pixel in pixels[::3, ::3].reshape(-1, pixels.shape[2])}) > 10
    table = curves().replace({"configuration": {"default": 'é "$x", <2>'}})
    picture = ggplot.curves(table, tmp_path / "sub" / "ä.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    assert len(picture) > 10_000


def _program(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a shell script stand for Rscript."""
    program = folder / "Rscript"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_without_r_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of the packages are told, and nothing is written."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match=r"not found; install R .*r-cran-ggplot2.*CRAN"):
        ggplot.curves(curves(), tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 3", "R has no package ggplot2; install .*r-cran-ggplot2"),
        ("exit 4", "without cairo and draws no png; ask for .pdf"),
        ("echo no such device >&2; exit 1", "drawing with ggplot2 failed(.|\\n)*no such device"),
    ],
)
def test_what_goes_wrong_in_r_is_one_error(
    body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing package, a missing format and a failure are told apart; no file is left."""
    _program(tmp_path, body, monkeypatch)
    with pytest.raises(ProgramError, match=message):
        ggplot.errors(compared(), tmp_path / "out" / "x.png")
    assert not (tmp_path / "out").exists()


def test_a_wrong_name_is_refused_before_r_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind of picture is told by the name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OutputError, match="no kind of picture"):
        ggplot.errors(compared(), tmp_path / "x.docx")


@pytest.mark.usefixtures("with_r")
def test_an_unwritable_place_is_an_output_error(tmp_path: Path) -> None:
    """A file stands where a folder is needed."""
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        ggplot.errors(compared(), tmp_path / "file" / "x.pdf")


@pytest.mark.parametrize(
    ("table", "message"),
    [(curves().head(0), "is empty"), (pd.DataFrame({"learner": ["gam"]}), "lacks configuration")],
)
def test_a_table_that_cannot_be_drawn_is_refused(
    table: pd.DataFrame, message: str, tmp_path: Path
) -> None:
    """Columns and rows are checked before R is started."""
    with pytest.raises(DataError, match=message):
        ggplot.curves(table, tmp_path / "x.png")
