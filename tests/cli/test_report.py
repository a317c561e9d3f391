"""`colltune report`."""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.dataset import write_csv
from colltune.domain import Collective, Context
from colltune.models.fitting import fit
from tests.cli.conftest import Verb
from tests.models.machines import FORMULAS, measured
from tests.page.reading import facts_of

BOTH = (Collective.ALLREDUCE, Collective.BCAST)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a bundle of two collectives and the data that it was fitted to."""
    folder = tmp_path_factory.mktemp("report")
    data = measured(collectives=BOTH, noise=0.1)
    write_csv(data, folder / "data.csv")
    return fit(data, "knn").save(folder / "bundle"), folder / "data.csv"


def test_a_report_without_data_waits_for_little(both: tuple[Path, Path], tmp_path: Path) -> None:
    """Only measurements need pandas and pyarrow, and nothing needs matplotlib."""
    words = ["report", str(both[0]), "--out", str(tmp_path / "report.html")]
    code = (
        f"import sys\nsys.argv = ['colltune', *{words!r}]\n"
        "from colltune.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'pandas', 'pyarrow', 'matplotlib', 'pydantic'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "report.html").exists()


def test_the_terminal_says_what_the_page_says(
    colltune: Verb, both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Sentence and cautions first, the file's name last."""
    out = tmp_path / "r.html"
    answer = colltune("report", both[0], "--out", out)
    told = facts_of(out.read_text(encoding="utf-8"))["answers"]["v1/view/gains"]
    lines = answer.out.splitlines()
    assert lines[:-1] == [told["sentence"], *told["cautions"]]
    assert lines[-1].endswith(str(out))


def test_json_holds_what_the_page_holds(
    colltune: Verb, both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Machines read the same facts, and the page is written all the same."""
    path, data = both
    out = tmp_path / "deep" / "r.html"
    told = colltune("report", path, "--data", data, "--held-out", "--out", out, "--json").json
    answers = facts_of(out.read_text(encoding="utf-8"))["answers"]
    assert told.keys() == {"gains", "evidence", "maps", "out"}
    assert told["out"] == str(out)
    assert told["gains"] == answers["v1/view/gains"]
    assert told["evidence"] == answers["v1/view/evidence"]
    assert told["maps"][1] == answers["v1/view/map?collective=bcast"]
    samples = told["evidence"]["collectives"][1]["samples"]
    assert [one["sample"] for one in samples] == ["held_out", "in_sample"]


def test_a_bundle_without_the_default_is_shown_honestly(colltune: Verb, tmp_path: Path) -> None:
    """It is said that nobody knows the gain, and none is claimed."""
    algorithms = [name for name in FORMULAS if name != "default"]
    data = measured(algorithms=algorithms)
    write_csv(data, tmp_path / "d.csv")
    fit(data, "knn").save(tmp_path / "bundle")
    words = ("report", tmp_path / "bundle", "--data", tmp_path / "d.csv")
    told = colltune(*words, "--out", tmp_path / "r.html", "--json").json
    assert any(text.startswith("NOT COMPARED") for text in told["gains"]["cautions"])
    ranges = [r for s in told["gains"]["collectives"][0]["shapes"] for r in s["ranges"]]
    assert {(one["standing"], one["gain"]) for one in ranges} == {("unknown", None)}
    (sample,) = told["evidence"]["collectives"][0]["samples"]
    assert (sample["decisions"]["compared"], sample["decisions"]["speedup"]) == (0, None)


@pytest.mark.parametrize("msizes", [(0,), (64,), (1, 1 << 40)])
def test_one_shape_and_few_sizes_are_enough(
    colltune: Verb, tmp_path: Path, msizes: tuple[int, ...]
) -> None:
    """A single shape, a single size and no bytes at all give a whole page."""
    data = measured(nodes=(4,), ppn=(1,), msizes=msizes)
    write_csv(data, tmp_path / "d.csv")
    fit(data, "knn").save(tmp_path / "bundle")
    words = ("report", tmp_path / "bundle", "--data", tmp_path / "d.csv", "--held-out")
    told = colltune(*words, "--out", tmp_path / "r.html", "--json").json
    (bcast,) = told["gains"]["collectives"]
    assert bcast["msize_bytes"] == list(msizes)
    (sample,) = told["evidence"]["collectives"][0]["samples"]
    assert sample["sample"] == "in_sample"


def test_bad_input_is_one_clear_error(
    colltune: Verb, both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Each mistake has its status and names what it is about, and no page is left behind."""
    path, data = both
    out = tmp_path / "r.html"
    (tmp_path / "empty").mkdir()
    write_csv(replace(measured(), context=Context("else<", "mpich", "4.2")), tmp_path / "else.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(data.read_bytes())[:100])
    cases = [
        ((tmp_path / "none",), 7, "none"),
        ((tmp_path / "empty",), 7, "empty"),
        ((data,), 7, "data.csv"),
        ((path, "--held-out"), 3, "--data"),
        ((path, "--data", tmp_path / "none.csv"), 3, "none.csv"),
        ((path, "--data", tmp_path / "cut.csv.gz"), 3, "cut.csv.gz"),
        ((path, "--data", tmp_path / "else.csv"), 3, "else<"),
        ((path, "--data", data, "--where", "machine"), 3, "--where"),
    ]
    for words, status, named in cases:
        answer = colltune("report", *words, "--out", out)
        assert (answer.status, named in answer.err) == (status, True), answer.err
    assert not out.exists()
    assert colltune("report", path, "--out", data / "r.html").status == 9


def test_an_existing_page_is_replaced_whole(
    colltune: Verb, measurements_csv: Path, bundle_path: Path, tmp_path: Path
) -> None:
    """The page takes the place of an older file, and shows the gain that the data have."""
    out = tmp_path / "r.html"
    out.write_text("old")
    words = ("report", bundle_path, "--data", measurements_csv, "--out", out, "--json")
    (found,) = colltune(*words).json["evidence"]["collectives"]
    assert found["samples"][0]["decisions"]["speedup"] == pytest.approx(3.0)
    facts_of(out.read_text(encoding="utf-8"))
