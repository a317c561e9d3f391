"""`colltune plot`, and pictures of other verbs."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.conftest import Verb

KINDS = ("map", "curves", "regret")
LEARNER = ("--learner", "knn", "--jobs", "1")
SVG = "{http://www.w3.org/2000/svg}"


def _texts(picture: Path) -> list[str]:
    """Return the texts of an SVG, which stand in comments beside their outlines."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    root = ET.parse(picture, parser).getroot()
    assert root.tag == f"{SVG}svg"
    return [str(node.text).strip() for node in root.iter() if callable(node.tag)]


@pytest.fixture
def strange_csv(measurements_csv: Path, tmp_path: Path) -> Path:
    """Return measurements whose names look like formulas or need other fonts."""
    text = measurements_csv.read_text()
    for name, other in (("hydra", "hy$dra$_漢"), ("binomial", "_$x^2$-bäum"), ("chain", "$\\frac")):
        text = text.replace(f"{name},", f"{other},")
    path = tmp_path / "straße.csv"
    path.write_text(text)
    return path


def test_help_has_an_example(colltune: Verb) -> None:
    """The help of each kind of picture shows how to draw one of a bundle and of measurements."""
    for kind in KINDS:
        text = colltune("plot", kind, "--help").out
        assert f"colltune plot {kind} bundle" in text
        assert f"colltune plot {kind} measurements.csv.gz" in text
        assert ".png, .svg or .pdf" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_a_bundle(
    colltune: Verb, bundle_path: Path, measurements_csv: Path, tmp_path: Path, kind: str
) -> None:
    """A bundle with measurements beside it is drawn, and the same again is the same file."""
    part = ("--nodes", "2,4,16", "--ppn", "4")
    words = ("plot", kind, bundle_path, "--data", measurements_csv, *part, "--out")
    first = colltune(*words, tmp_path / "a.svg")
    assert first.status == 0, first.err
    assert (tmp_path / "a.svg").name in first.out
    texts = _texts(tmp_path / "a.svg")
    assert any("MPI_Bcast" in text for text in texts)
    assert {"message size", "default"} & set(texts)
    assert colltune(*words, tmp_path / "b.svg").status == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_what_is_drawn_of_measurements(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """With --json the map's choices, the curves' times and the regrets' ratios are told."""
    told = {}
    for kind, words in zip(KINDS, ((), ("--ppn", "1"), LEARNER), strict=True):
        picture = tmp_path / f"{kind}.png"
        answer = colltune("plot", kind, measurements_csv, "--out", picture, "--json", *words)
        assert (answer.status, answer.err) == (0, "")
        assert picture.read_bytes().startswith(b"\x89PNG")
        told[kind] = answer.json
        assert told[kind]["out"] == str(picture)
    (drawn,) = told["map"]["maps"]
    assert len(drawn["rows"]) == 12
    assert {run["configuration"] for row in drawn["rows"] for run in row["runs"]} == {
        "openmpi.bcast.binomial"
    }
    panels = told["curves"]["panels"]
    assert [panel["shape"] for panel in panels] == ["2x1", "4x1", "8x1", "16x1"]
    assert panels[0]["msize_bytes"] == [8, 64, 512, 4096, 32768]
    both = zip(*(panels[0][name]["time_s"] for name in ("default", "chosen")), strict=True)
    assert [default_s / best_s for default_s, best_s in both] == pytest.approx([3.0] * 5)
    selectors = told["regret"]["groups"][0]["selectors"]
    assert selectors["default"]["geometric_mean"] == pytest.approx(3.0)
    assert selectors["knn, held out"]["sorted"] == [1.0] * 60


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_only_names(colltune: Verb, strange_csv: Path, tmp_path: Path, kind: str) -> None:
    """Names are no formulas, whatever they contain, and what the font lacks is written out."""
    picture = tmp_path / "bild_ä.svg"
    words = LEARNER if kind == "regret" else ("--ppn", "1")
    answer = colltune("plot", kind, strange_csv, "--out", picture, *words)
    assert (answer.status, answer.err) == (0, "")
    texts = _texts(picture)
    assert any(r"hy$dra$_\u6f22" in text for text in texts)
    assert kind == "regret" or "_$x^2$-bäum" in texts


def test_a_pdf_of_one_shape(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """A shape that was never measured is drawn into a PDF, with a cautious guard."""
    picture = tmp_path / "curves.pdf"
    words = ("--shape", "12x3", "--collective", "MPI_Bcast", "--caution", "2")
    answer = colltune("plot", "curves", bundle_path, *words, "--out", picture)
    assert answer.status == 0
    assert "1 panel ->" in answer.out
    assert picture.read_bytes().startswith(b"%PDF")


BAD_REQUESTS_OF_A_BUNDLE = (
    ("map --collective scan", 7, "no-models-of collective=scan"),
    ("map --shape 12", 3, "malformed like=16x32"),
    ("map --nodes 0", 3, "malformed value=0"),
    ("map --nodes 4 --shape 2x1", 3, "exclusive one=shapes"),
    ("map --over ranks", 2, ""),
    ("curves --objective median", 3, "works-only-with option=--objective other=measurements"),
    ("curves --no-guard --caution 2", 3, "exclusive one=--caution other=--no-guard"),
    ("curves --where machine=x", 3, "works-only-with other=--data"),
    ("regret", 3, "works-only-with other=--data"),
    ("regret --learner knn", 3, "works-only-with option=--learner other=measurements"),
)
BAD_REQUESTS_OF_MEASUREMENTS = (
    ("map --collective scan", 3, "unknown name=scan known=bcast"),
    ("map --ppn 3", 3, "nothing-there"),
    ("map --caution 2", 3, "works-only-with option=--caution"),
    ("map --no-guard", 3, "works-only-with option=--no-guard"),
    ("curves --objective best", 3, "unknown what=objective name=best"),
    ("curves --data other.csv", 3, "works-only-with option=--data"),
    ("curves --where machine=x", 3, "no-row-has column=machine value=x"),
    ("regret --split half", 3, "unknown what=split"),
    ("regret --learner oracle", 3, "unknown name=oracle"),
)


def test_bad_requests(
    colltune: Verb, bundle_path: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """Each mistake has its exit status and a message; nothing is drawn."""
    for source, cases in (
        (bundle_path, BAD_REQUESTS_OF_A_BUNDLE),
        (measurements_csv, BAD_REQUESTS_OF_MEASUREMENTS),
    ):
        for words, status, code in cases:
            kind, *options = words.split()
            answer = colltune("plot", kind, source, *options, "--out", tmp_path / "p.png")
            assert (answer.status, answer.out) == (status, ""), words
            assert answer.says(code), (words, answer.code, answer.err)
            assert not list(tmp_path.iterdir()), words


def test_bad_sources(
    colltune: Verb, bundle_path: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """Missing, empty, damaged and mixed sources are errors of their kind."""
    empty, damaged = tmp_path / "empty.csv", tmp_path / "damaged"
    empty.write_text(measurements_csv.read_text().splitlines()[0] + "\n")
    shutil.copytree(bundle_path, damaged)
    arrays = damaged / "bcast.arrays"
    arrays.write_bytes(arrays.read_bytes()[:100])
    beheaded = tmp_path / "beheaded"
    shutil.copytree(bundle_path, beheaded)
    (beheaded / "manifest.json").unlink()
    for sources, status, message in (
        ([tmp_path / "none"], 3, "no such file or folder"),
        ([empty], 3, "empty.csv"),
        ([damaged], 7, "cut short or damaged"),
        ([beheaded], 7, "no manifest.json"),
        ([bundle_path, measurements_csv], 3, "only one bundle can be drawn"),
    ):
        answer = colltune("plot", "map", *sources, "--out", tmp_path / "p.png")
        assert (answer.status, answer.out) == (status, "")
        assert message in answer.err


def test_an_unwritable_place(colltune: Verb, measurements_csv: Path) -> None:
    """A picture that cannot be written is an error of output."""
    answer = colltune("plot", "map", measurements_csv, "--out", "/proc/nowhere/p.png")
    assert answer.status == 9
    assert "writable place" in answer.err


def test_the_kind_of_picture_is_checked_first(colltune: Verb) -> None:
    """A name that ends like no picture is refused before anything is read or measured."""
    for words in (
        *(f"plot {kind} nothing --out" for kind in KINDS),
        "data noise nothing --picture",
    ):
        for name in ("picture.gif", "picture", "png"):
            answer = colltune(*words.split(), name)
            assert (answer.status, answer.out) == (9, ""), words
            assert (answer.code, ".png, .svg, .pdf" in answer.err) == ("unknown", True), words


def test_another_verb_draws_other_formats(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """`data noise` writes SVG and PDF, too, whatever the case of the ending."""
    for name in ("n.svg", "n.PDF"):
        answer = colltune("data", "noise", measurements_csv, "--picture", tmp_path / name)
        assert answer.status == 0
    assert "along a launch" in _texts(tmp_path / "n.svg")
    assert (tmp_path / "n.PDF").read_bytes().startswith(b"%PDF")


def test_a_csv_is_checked_as_an_import_checks_it(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Times in host memory and on GPUs are refused by all that compare them."""
    head, *rows = measurements_csv.read_text().splitlines()
    mixed = tmp_path / "mixed.csv"
    memory = ("host", "cuda")
    lines = (f"{row},{memory[at % 2]}" for at, row in enumerate(rows))
    mixed.write_text("\n".join([f"{head},memory", *lines]) + "\n")
    out = tmp_path / "map.svg"
    evaluated = ("evaluate", mixed, "--split", "leave-nodes-out")
    for words in (("plot", "map", mixed, "--out", out), ("noise", mixed), evaluated):
        answer = colltune(*words)
        assert (answer.status, "memory" in answer.err) == (3, True), words
    assert colltune("plot", "map", mixed, "--out", out, "--where", "memory=host").status == 0
