"""`colltune report`."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from colltune.cli.app import app
from colltune.dataset import write_csv
from colltune.domain import Collective, Context, Instance, Shape
from colltune.models.bundle import Bundle, load
from colltune.models.fitting import fit
from colltune.selector.argmin import ModelSelector
from colltune.text import bytes_text
from tests.cli.conftest import Verb
from tests.cli.report_html import Page
from tests.models.machines import FORMULAS, measured

BOTH = (Collective.ALLREDUCE, Collective.BCAST)
NASTY = "<script>alert(1)</script>&\"'\u202e"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a bundle of two collectives and the data that it was fitted to."""
    folder = tmp_path_factory.mktemp("report")
    data = measured(collectives=BOTH, noise=0.1)
    write_csv(data, folder / "data.csv")
    return fit(data, "knn").save(folder / "bundle"), folder / "data.csv"


class Reported(NamedTuple):
    """A page that several tests read, where it lies, and what was printed beside it."""

    page: Page
    path: Path
    out: str


@pytest.fixture(scope="module")
def reported(both: tuple[Path, Path]) -> dict[str, Reported]:
    """Return the pages of `both` without the data, and with them and what was held out."""
    found = {}
    for name, words in (("plain", ()), ("measured", ("--data", both[1], "--held-out"))):
        path = both[0].parent / f"{name}.html"
        command = ["report", *map(str, (both[0], *words)), "--out", str(path)]
        answer = CliRunner().invoke(app(["report"]), command)
        assert (answer.exit_code, answer.stderr) == (0, "")
        found[name] = Reported(Page.of(path.read_text(encoding="utf-8")), path, answer.stdout)
    return found


@pytest.fixture(scope="module")
def bundle(both: tuple[Path, Path]) -> Bundle:
    """Return the bundle of `both`."""
    return load(both[0])


def test_a_report_without_data_waits_for_no_pandas(both: tuple[Path, Path], tmp_path: Path) -> None:
    """Only measurements need pandas and pyarrow."""
    words = ["report", str(both[0]), "--out", str(tmp_path / "report.html")]
    code = (
        f"import sys\nsys.argv = ['colltune', *{words!r}]\n"
        "from colltune.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'pandas', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "report.html").exists()


def _page(colltune: Verb, out: Path, *words: object) -> Page:
    answer = colltune("report", *words, "--out", out)
    assert (answer.status, answer.err) == (0, "")
    return Page.of(out.read_text(encoding="utf-8"))


def test_every_collective_has_its_pictures_and_tables(reported: dict[str, Reported]) -> None:
    """Maps, gains, runtimes and calibration are there for each collective, and tags are closed."""
    page = reported["measured"].page
    assert page.unbalanced == []
    for name in ("MPI_Allreduce", "MPI_Bcast"):
        assert name in page.headings
        for what in ("what is used where", "why", "predicted gain"):
            assert f"{name}: {what}" in page.pictures
    assert page.text.count("16x4, not trained on") == 2
    assert page.pictures.count("normalised runtimes") == 2
    assert page.pictures.count("predicted against measured gain") == 4
    captions = [caption for caption, _ in page.tables]
    assert sum("predicted 90 % interval, faster than" in caption for caption in captions) == 4


def test_tables_say_what_the_selector_says(bundle: Bundle, reported: dict[str, Reported]) -> None:
    """Each row of the table of decisions is what select answers at its first and last size."""
    page = reported["plain"].page
    selector = ModelSelector(bundle)
    sizes = {bytes_text(m): m for k in range(40) for m in (1 << k, (1 << k) * 3 // 2)} | {"0": 0}
    for number, collective in enumerate(BOTH):
        rows = page.table("Decisions by shape and message size", number=number)
        assert len(rows) > 8
        for shape, configuration, first, last, gain, _, why in rows:
            found = re.match(r"(\d+) x (\d+)", shape)
            assert found
            gains = []
            for size in sorted({s for s in sizes.values() if sizes[first] <= s <= sizes[last]}):
                asked = Instance(collective, Shape(int(found[1]), int(found[2])), size)
                selection = selector.select(asked)
                chosen = selection.configuration
                assert configuration == f"{chosen.algorithm} {chosen.parameter_text}".strip()
                assert ("outside the measured range" in why) >= selection.extrapolated
                if not chosen.is_default:
                    gains.append(selection.gain)
            assert not gains or min(gains) - 0.005 <= float(gain) <= max(gains) + 0.005


def test_nothing_is_loaded_and_nothing_is_run(reported: dict[str, Reported]) -> None:
    """The page has no script, and refers to nothing but its own parts."""
    page, out, _ = reported["measured"]
    tags = {tag for tag, _, _ in page.attributes}
    assert not tags & {"script", "link", "img", "iframe", "object", "image"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    references = {v for _, name, v in page.attributes if name in ("href", "src", "xlink:href")}
    assert references >= {"#allreduce", "#bcast"}
    text = out.read_text(encoding="utf-8")
    assert "://" not in text
    assert "@import" not in text
    targets = set(re.findall(r"url\(([^)]*)\)", text))
    ids = {f"#{value}" for _, name, value in page.attributes if name == "id"}
    assert targets | references <= ids


def test_the_same_bundle_gives_the_same_bytes(
    colltune: Verb, both: tuple[Path, Path], reported: dict[str, Reported], tmp_path: Path
) -> None:
    """Nothing in the page depends on when or where it was made."""
    again = tmp_path / "b.html"
    _page(colltune, again, both[0], "--data", both[1], "--held-out")
    assert reported["measured"].path.read_bytes() == again.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.html"]


def test_names_cannot_become_markup(colltune: Verb, tmp_path: Path) -> None:
    """Markup in the names of machine and algorithms, and in the evidence, is shown as text."""
    data = measured()
    frame = data.frame.replace({"algorithm": {"binomial": NASTY, "linear": "<b>&amp;"}})
    data = replace(data, frame=frame, context=Context(NASTY, "openmpi", "4<1", NASTY))
    fitted = fit(data, "knn")
    evidence = {NASTY: {"x": NASTY}, "learners": {"bcast": {"knn": {NASTY: NASTY}}}}
    told = Bundle.new(data.context, fitted.models, fitted.training_shapes, evidence=evidence)
    told.save(tmp_path / "bundle")
    page = _page(colltune, tmp_path / "r.html", tmp_path / "bundle")
    assert page.unbalanced == []
    assert "script" not in {tag for tag, _, _ in page.attributes}
    assert "b" not in {tag for tag, _, _ in page.attributes}
    shown = NASTY.replace("\u202e", "\\u202e")
    assert any(row[0] == shown for row in page.table("What is used on the measured shapes"))
    assert page.headings[0] == f"colltune report: {shown}, openmpi 4<1 over {shown}"
    assert "\u202e" not in page.text
    raw = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script" not in raw
    assert "<b>" not in raw


def test_a_bundle_without_the_default_is_shown_honestly(colltune: Verb, tmp_path: Path) -> None:
    """It is said that nobody knows the gain, and none is claimed."""
    algorithms = [name for name in FORMULAS if name != "default"]
    data = measured(algorithms=algorithms)
    write_csv(data, tmp_path / "d.csv")
    fit(data, "knn").save(tmp_path / "bundle")
    page = _page(colltune, tmp_path / "r.html", tmp_path / "bundle", "--data", tmp_path / "d.csv")
    assert "The library's default was not measured" in page.text
    assert page.table("In-sample")[0][1:6] == ["0", "–", "–", "–", "–"]


@pytest.mark.parametrize("msizes", [(0,), (64,), (1, 1 << 40)])
def test_one_shape_and_few_sizes_are_enough(
    colltune: Verb, tmp_path: Path, msizes: tuple[int, ...]
) -> None:
    """A single shape, a single size and no bytes at all give a whole page."""
    data = measured(nodes=(4,), ppn=(1,), msizes=msizes)
    write_csv(data, tmp_path / "d.csv")
    fit(data, "knn").save(tmp_path / "bundle")
    words = (tmp_path / "bundle", "--data", tmp_path / "d.csv", "--held-out")
    page = _page(colltune, tmp_path / "r.html", *words)
    assert page.unbalanced == []
    assert "MPI_Bcast: why" in page.pictures
    assert "takes --held-out, data of at least 3 node counts" in page.text


def test_without_data_predictions_are_called_so(reported: dict[str, Reported]) -> None:
    """Nobody takes the models' own opinion for a measurement."""
    page = reported["plain"].page
    assert "it would tell launches and days" in page.text
    assert "PREDICTED runtimes" in page.text
    assert "measured gain" not in page.text
    assert not any(caption.startswith("In-sample") for caption, _ in page.tables)
    assert "Not known: no measurements of this collective were given" in page.text


def test_evidence_of_the_manifest_is_shown(colltune: Verb, bundle: Bundle, tmp_path: Path) -> None:
    """Figures of learners are a table; whatever else there is stands as JSON."""
    evidence = {
        "learners": {"bcast": {"knn": {"share": 0.91234, "harm": 0.01}}},
        "splits": {"a": {"b": {"c": {"d": {"e": 1}}}}, "nodes": [2, 4]},
    }
    shapes = bundle.training_shapes
    Bundle.new(bundle.context, bundle.models, shapes, evidence=evidence).save(tmp_path / "b")
    page = _page(colltune, tmp_path / "r.html", tmp_path / "b")
    assert page.table("Decisions on instances that were left out") == [
        ["MPI_Allreduce", "knn", "", ""],
        ["MPI_Bcast", "knn", "0.9123", "0.01"],
    ]
    told = page.text.split("What else the bundle states")[1].partition("What is decided")[0]
    assert json.loads(told) == {"splits": evidence["splits"]}


def test_the_terminal_shows_the_first_paragraph(reported: dict[str, Reported]) -> None:
    """What the page begins with is printed, too, part by part, and the page's name behind it."""
    page, _, out = reported["plain"]
    parts = out.replace("`", "").splitlines()[:-1]
    assert len(parts) == 5
    assert [part for part in parts if part not in page.text] == []


def test_json_holds_the_figures(colltune: Verb, both: tuple[Path, Path], tmp_path: Path) -> None:
    """Machines read the same figures, and the page is written all the same."""
    path, data = both
    out = tmp_path / "deep" / "r.html"
    told = colltune("report", path, "--data", data, "--out", out, "--json").json
    assert out.stat().st_size > 10000
    assert told["out"] == str(out)
    bcast = told["collectives"]["bcast"]
    assert bcast["data"]["decisions"]["compared"] == 48
    assert bcast["held_out"] is None
    page = Page.of(out.read_text(encoding="utf-8"))
    measured_gains = {row[0]: row for row in page.table("In-sample")}
    assert measured_gains["MPI_Bcast"][2] == f"{bcast['data']['decisions']['speedup']:.2f}"
    rows = page.table("Decisions by shape and message size", number=1)
    assert len(rows) == len(bcast["decisions"])


def test_collectives_of_the_data_alone_are_told(
    colltune: Verb, both: tuple[Path, Path], tmp_path: Path
) -> None:
    """The page says of which collectives of the data the bundle has no models."""
    fit(measured(), "knn").save(tmp_path / "b")
    page = _page(colltune, tmp_path / "r.html", tmp_path / "b", "--data", both[1])
    assert "The data also have MPI_Allreduce, of which this bundle has no models." in page.text


def test_bad_input_is_one_clear_error(
    colltune: Verb, both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Each mistake has its message and status, and no page is left behind."""
    path, data = both
    out = tmp_path / "r.html"
    (tmp_path / "empty").mkdir()
    write_csv(replace(measured(), context=Context("else<", "mpich", "4.2")), tmp_path / "else.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(data.read_bytes())[:100])
    cases = [
        ((tmp_path / "none",), 7, "no such bundle"),
        ((tmp_path / "empty",), 7, "not a bundle"),
        ((data,), 7, "a bundle is a folder"),
        ((path, "--held-out"), 3, "Name them with --data"),
        ((path, "--data", tmp_path / "none.csv"), 3, "no such file"),
        ((path, "--data", tmp_path / "cut.csv.gz"), 3, "cut.csv.gz"),
        ((path, "--data", tmp_path / "else.csv"), 3, "have the context"),
        ((path, "--data", data, "--where", "machine"), 3, "NAME=VALUE"),
    ]
    for words, status, message in cases:
        answer = colltune("report", *words, "--out", out)
        assert (answer.status, message in answer.err) == (status, True), answer.err
    assert not out.exists()
    blocked = colltune("report", path, "--out", data / "r.html")
    assert blocked.status == 9
    assert "cannot write" in blocked.err


def test_an_existing_page_is_replaced_whole(
    colltune: Verb, measurements_csv: Path, bundle_path: Path, tmp_path: Path
) -> None:
    """The page takes the place of an older file, and shows the gain that the data have."""
    out = tmp_path / "r.html"
    out.write_text("old")
    page = _page(colltune, out, bundle_path, "--data", measurements_csv)
    assert "old" not in page.text.split()
    assert page.table("In-sample")[0][2] == "3.00"
