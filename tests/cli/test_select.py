"""`colltune select`."""

from __future__ import annotations

import csv
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from colltune.models.fitting import fit
from tests.cli.conftest import Verb
from tests.models.machines import measured

SHAPE = ("--nodes", 8, "--ppn", 4)


def test_one_decision(colltune: Verb, bundle_path: Path) -> None:
    """One decision names configuration, predicted times and the reason."""
    question = ("--bundle", bundle_path, *SHAPE, "--collective", "bcast", "--msize", 4096)
    found = colltune("select", *question, "--json").json
    assert found["configuration"] == "openmpi.bcast.binomial"
    assert found["time_s"] < found["default_time_s"]
    assert found["lower_s"] <= found["time_s"] <= found["upper_s"]
    assert found["gain"] == pytest.approx(found["default_time_s"] / found["time_s"])
    assert "openmpi.bcast.binomial" in colltune("select", *question).out


def test_table_for_people(colltune: Verb, bundle_path: Path) -> None:
    """The table's intervals are ascending, adjacent, and start at 0."""
    found = colltune("select", "--bundle", bundle_path, *SHAPE, "--json").json["intervals"]
    assert found[0]["first_bytes"] == 0
    assert found[-1]["last_bytes"] is None
    for before, after in itertools.pairwise(found):
        assert after["first_bytes"] == before["last_bytes"] + 1
    assert "binomial" in colltune("select", "--bundle", bundle_path, *SHAPE).out


def test_many_instances_at_once(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """Each instance of a CSV gets its row, in order, with the columns promised."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("collective,nodes,ppn,msize_bytes\nbcast,8,4,64\nbcast,7,4,512\n")
    answer = colltune("select", "--bundle", bundle_path, "--instances", source, "--out", out)
    assert answer.status == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == [
        *("collective", "nodes", "ppn", "msize_bytes", "algorithm", "parameters"),
        *("segsize_bytes", "time_s", "lower_s", "upper_s", "default_time_s", "reason"),
    ]
    assert [(r["nodes"], r["msize_bytes"], r["algorithm"]) for r in rows] == [
        ("8", "64", "binomial"),
        ("7", "512", "binomial"),
    ]


def test_instances_without_models_keep_the_default(
    colltune: Verb, bundle_path: Path, tmp_path: Path
) -> None:
    """Rows of a collective that was never measured do not keep the others from being decided."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    rows = ("bcast,8,4,64", "alltoall,8,4,64", "gather,8,4,64", "gather,8,4,128")
    source.write_text("collective,nodes,ppn,msize_bytes\n" + "\n".join(rows) + "\n")
    words = ("select", "--bundle", bundle_path, "--instances", source, "--out", out)
    answer = colltune(*words)
    assert answer.status == 0, answer.err
    assert "2 instances of gather: default kept: the bundle has no models of gather" in answer.err
    written = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["algorithm"] for row in written] == ["binomial", *["default"] * 3]
    for row in written[1:]:
        assert row["time_s"] == ""
        assert "the bundle has no models of" in row["reason"]
    assert colltune(*words, "--json").json["without_models"] == {"alltoall": 1, "gather": 2}


def test_bad_instances_name_their_line(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """A malformed list of instances is refused with line and column; nothing is written."""
    for text, message in (
        ("collective,nodes,ppn\nbcast,8,4\n", "in.csv: the columns must be"),
        ("collective,nodes,ppn,msize_bytes\nbcast,0,4,8\n", "line 2, column nodes"),
        ("collective,nodes,ppn,msize_bytes\nbcast,8,4,x\n", "line 2, column msize_bytes"),
        ("collective,nodes,ppn,msize_bytes\nbkast,8,4,8\n", "line 2, column collective"),
    ):
        source, out = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_text(text)
        answer = colltune("select", "--bundle", bundle_path, "--instances", source, "--out", out)
        assert answer.status == 3, text
        assert message in answer.err, text
        assert not out.exists(), text


def test_configuration_for_open_mpi(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """The rules file names the fast algorithm by its number, and the job's line the file."""
    out = tmp_path / "rules"
    answer = colltune(
        "select", "--bundle", bundle_path, *SHAPE, "--format", "openmpi", "--out", out, "--json"
    )
    assert answer.status == 0
    rules = [line.split("#")[0].split() for line in out.read_text().splitlines()]
    assert ["0", "6", "0", "0"] in rules
    assert answer.json["release"] == "4.1.4"
    assert answer.json["environment"]["OMPI_MCA_coll_tuned_dynamic_rules_filename"] == str(out)
    assert f"dynamic_rules_filename {out}" in Path(answer.json["parameters"]).read_text()


def test_unsafe_algorithms_need_the_switch(
    colltune: Verb, tmp_path: Path, measurements_csv: Path
) -> None:
    """An algorithm that is wrong for non-commutative operations is written only on request."""
    text = measurements_csv.read_text().replace("bcast", "allreduce")
    for bcast, allreduce in (
        ("binomial", "ring"),
        ("chain", "recursive_doubling"),
        ("pipeline", "nonoverlapping"),
    ):
        text = text.replace(bcast, allreduce)
    data = tmp_path / "data.csv"
    data.write_text(text)
    assert colltune("fit", data, "--out", tmp_path / "b", "--learner", "knn").status == 0
    command = ("select", "--bundle", tmp_path / "b", *SHAPE, "--format", "openmpi")
    colltune(*command, "--out", tmp_path / "safe")
    colltune(*command, "--out", tmp_path / "all", "--builtin-operations-only")
    assert ": ring" not in (tmp_path / "safe").read_text()
    assert ": ring" in (tmp_path / "all").read_text()


def test_what_cannot_be_answered_says_why(
    colltune: Verb, bundle_path: Path, tmp_path: Path
) -> None:
    """An unknown library, release or collective ends with its own status and is named."""
    for words, status, message in (
        (("--format", "openmpi", "--release", "3.1.6"), 8, "3.1.6"),
        (("--format", "nompi"), 8, "nompi"),
        (("--collective", "bkast"), 3, "bkast"),
        (("--collective", "gather"), 7, "gather"),
    ):
        answer = colltune(
            "select", "--bundle", bundle_path, *SHAPE, *words, "--out", tmp_path / "o"
        )
        assert answer.status == status, words
        assert message in answer.err, words


def test_missing_options_are_usage_errors(
    colltune: Verb, bundle_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing on the command line ends with status 2."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for words in (
        ("select", "--bundle", bundle_path),
        ("select", "--nodes", 4),
        ("select", "--bundle", bundle_path, *SHAPE, "--format", "openmpi"),
        ("select", "--bundle", bundle_path, "--nodes", 0, "--ppn", 1),
        ("selct",),
    ):
        assert colltune(*words).status == 2


def test_damaged_bundles_are_refused(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """A missing bundle, or one cut in half, ends with status 7 and names the file."""
    assert colltune("select", "--bundle", tmp_path / "none", *SHAPE).status == 7
    cut = tmp_path / "cut"
    shutil.copytree(bundle_path, cut)
    for file in sorted(cut.iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        answer = colltune("select", "--bundle", cut, *SHAPE)
        assert answer.status == 7
        assert file.name in answer.err
        file.write_bytes(whole)
    assert colltune("select", "--bundle", cut, *SHAPE).status == 0


def test_a_decision_needs_numpy_alone(bundle_path: Path) -> None:
    """A cold decision imports neither pandas nor any learning library."""
    code = (
        "import sys\n"
        f"sys.argv = ['colltune', 'select', '--bundle', {str(bundle_path)!r}, '--nodes', '8',"
        " '--ppn', '4', '--collective', 'bcast', '--msize', '8']\n"
        "from colltune.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'pandas', 'scipy', 'sklearn', 'xgboost', 'pygam', 'joblib', 'pyarrow', 'rich',"
        " 'pydantic', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_file_for_one_library_needs_few_modules(bundle_path: Path, tmp_path: Path) -> None:
    """Writing Open MPI's file imports at most 63 modules, and no other library."""
    words = ["--nodes", "8", "--ppn", "4", "--format", "openmpi", "--out", str(tmp_path / "rules")]
    code = (
        "import sys\n"
        f"sys.argv = ['colltune', 'select', '--bundle', {str(bundle_path)!r}, *{words!r}]\n"
        "from colltune.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "ours = sorted(name for name in sys.modules if name.split('.')[0] == 'colltune')\n"
        "assert len(ours) <= 63, (len(ours), ours)\n"
        "others = [name for name in ours if '.mpich' in name or '.intelmpi' in name]\n"
        "assert not others, others\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "rules").exists()


def test_caution_is_how_much_doubt_a_gain_must_survive(colltune: Verb, tmp_path: Path) -> None:
    """With more caution fewer gains are believed, and their lower bounds are lower."""
    bundle = tmp_path / "bundle"
    fit(measured(nodes=(2, 4, 8, 16), ppn=(1, 4), noise=0.2), jobs=1).save(bundle)
    asked = ("--bundle", bundle, "--nodes", 6, "--ppn", 3, "--collective", "bcast", "--json")
    bold, timid = (
        [colltune("select", *asked, "--msize", 4**k, "--caution", caution).json for k in range(12)]
        for caution in (0, 100)
    )
    replaced = [sum(row["algorithm"] != "default" for row in rows) for rows in (bold, timid)]
    assert replaced[0] > replaced[1]
    for before, after in zip(bold, timid, strict=True):
        if before["algorithm"] != "default":
            # noise is doubted with any caution
            assert before["gain_bound"] <= before["gain"]
            assert after["gain_bound"] <= before["gain_bound"]
    assert colltune("select", *asked, "--msize", 64, "--caution", -1).status == 2
