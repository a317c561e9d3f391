"""`colltune rules explain`."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset import read
from colltune.domain import Shape
from colltune.errors import LibraryError
from colltune.models.fitting import fit
from colltune.selector.explaining import callers
from tests.cli.conftest import Verb
from tests.mpi.plain_format import PlainFormat, offer
from tests.refusals import refused

RULES = "plain\nbcast 4 0 binomial\nbcast 4 1024 chain:fanout=4,segsize=8192\nbarrier 2 0 abort\n"
JOB = ("--nodes", 2, "--ppn", 4, "--release", "5.0.11")


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of a format that only the tests have."""
    offer(monkeypatch, "openmpi", PlainFormat)
    path = tmp_path / "rules"
    path.write_text(RULES)
    return path


def test_what_only_the_job_knows_is_told(colltune: Verb, tmp_path: Path) -> None:
    """A script's value that depends on the job is named beside what runs without it."""
    script = tmp_path / "job.sh"
    script.write_text(
        "export OMPI_MCA_coll_tuned_use_dynamic_rules=1\n"
        "export OMPI_MCA_coll_tuned_bcast_algorithm=$ALG\nmpirun ./prog\n"
    )
    asked = ("rules", "explain", script, *JOB, "--collective", "bcast", "--msize", 8)
    answer = colltune(*asked)
    assert answer.status == 0
    assert "depends on $ALG" in answer.out
    assert any("$ALG" in reason for reason in colltune(*asked, "--json").json["outcome"]["reasons"])


def test_what_runs_is_told_in_a_paragraph(colltune: Verb, rules: Path) -> None:
    """It names call, algorithm, line, rule and reasons, what ends programs, and what is assumed."""
    for collective, msize, told in (
        (
            "bcast",
            4096,
            f"With Open MPI 5.0.11 and {rules}, MPI_Bcast of 4 KiB on MPI_COMM_WORLD (8 processes"
            " on 2 nodes) runs chain with fanout 4, segsize 8192 by component tuned. The rule"
            " is on line 3 of the file: `bcast 4 1024 chain:fanout=4,segsize=8192`. A rule fits."
            " This holds for a job that sets exactly the variables that put the file into"
            " effect.\n",
        ),
        ("scan", 7, "MPI_Scan of 7 B on"),
        ("scan", 7, "runs the library's own decision"),
        ("scan", 7, "No rule of the file applies. Nothing is said."),
        (
            "barrier",
            0,
            "MPI_Barrier on MPI_COMM_WORLD (8 processes on 2 nodes) fails: it has no such",
        ),
    ):
        words = (*JOB, "--collective", collective, "--msize", msize)
        answer = colltune("rules", "explain", rules, *words)
        assert (answer.status, told in answer.out) == (0, True), answer.out
    rules.write_text(RULES + "drop\n")
    out = colltune("rules", "explain", rules, *JOB, "--collective", "bcast", "--msize", 0).out
    assert "The library ignores the whole file: it says drop." in out


def test_a_job_whose_variables_are_known(colltune: Verb, rules: Path) -> None:
    """With the job's own variables another component decides, and the rule has no say."""
    words = (*JOB, "--collective", "bcast", "--msize", 0, "-e", "PLAIN_ON=1")
    out = colltune("rules", "explain", rules, *words).out
    assert "runs the library's own decision by component han. The rule is on line 2" in out
    assert "han is above tuned. The file chose binomial, but something else runs." in out
    assert "exactly what puts" not in out


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    """Return a rules file of Open MPI: alltoall is pairwise from 1000 bytes in all on."""
    path = tmp_path / "classic.rules"
    path.write_text("1\n3\n1\n0 2\n0 1 0 0\n1000 2 0 0\n")
    return path


def test_a_call_without_data_runs_nothing(colltune: Verb, classic: Path) -> None:
    """Nothing is said to run, whatever the rule chooses."""
    out = colltune("rules", "explain", classic, *JOB, "--collective", "alltoall", "--msize", 0).out
    assert "MPI_Alltoall of 0 B per process on MPI_COMM_WORLD (8 processes on 2 nodes)" in out
    assert "returns without running an algorithm. " in out
    assert " runs." not in out.replace("before anything runs.", "")


def test_the_send_arguments_of_in_place_calls_are_asked_for(colltune: Verb, classic: Path) -> None:
    """They are taken to be empty, unless an option tells what they describe."""
    words = (*JOB, "--collective", "alltoall", "--msize", 1000)
    assert "runs pairwise" in colltune("rules", "explain", classic, *words).out
    assumed = colltune("rules", "explain", classic, *words, "--in-place").out
    assert "runs linear" in assumed
    assert "they are assumed to be empty" in assumed
    told = colltune(
        "rules", "explain", classic, *words, "--in-place", "--ignored-send-bytes", 1000
    ).out
    assert "runs pairwise" in told
    assert "they describe 1000 bytes per process" in told
    refused = colltune("rules", "explain", classic, *words, "--ignored-send-bytes", 1000)
    assert (refused.status, refused.says("works-only-with other=--in-place")) == (2, True)


def test_json(colltune: Verb, rules: Path) -> None:
    """The JSON has the call as it was understood, and the whole outcome."""
    words = ("--collective", "MPI_Bcast", "--msize", 4096, "--communicator", "leaders", "--json")
    found = colltune(
        "rules", "explain", rules, *JOB, *words, "--in-place", "--non-commutative"
    ).json
    assert found["call"] == {
        "collective": "bcast",
        "comm_size": 2,
        "msize_bytes": 4096,
        "nodes": 2,
        "is_world": False,
        "in_place": True,
        "commutative": False,
        "builtin_operation": False,
        "element_bytes": 1,
        "ignored_send_bytes": None,
    }
    outcome = found["outcome"]
    assert outcome["configuration"] == outcome["chosen"] == "openmpi.bcast.default"
    assert outcome["rule"] is None
    bigger = colltune("rules", "explain", rules, *JOB, *words, "--comm-size", 5).json
    assert (bigger["call"]["comm_size"], bigger["call"]["nodes"]) == (5, 2)
    rule = bigger["outcome"]["rule"]
    assert (rule["line"], rule["text"]) == (3, "bcast 4 1024 chain:fanout=4,segsize=8192")
    assert bigger["outcome"]["reasons"] == ["A rule fits."]


def test_wrong_questions(colltune: Verb, rules: Path) -> None:
    """More processes than the job has, unknown collectives and files are one clear error."""
    job = (*JOB, "--msize", 0)
    many = colltune("rules", "explain", rules, *job, "--collective", "bcast", "--comm-size", 9)
    assert (many.status, many.code) == (8, "not-allowed")
    assert colltune("rules", "explain", rules, *job, "--collective", "nonsense").status == 3
    assert colltune("rules", "explain", "no", *job, "--collective", "bcast").status == 8


def test_who_calls() -> None:
    """A communicator of some size fills node by node; only the whole job is MPI_COMM_WORLD."""
    job = Shape(3, 4)
    for communicator, comm_size, expected in (
        ("world", None, (12, 3, True)),
        ("leaders", None, (3, 3, False)),
        ("node", None, (4, 1, False)),
        ("world", 12, (12, 3, True)),
        ("world", 4, (4, 1, False)),
        ("world", 5, (5, 2, False)),
    ):
        assert callers(job, communicator, comm_size) == expected, (communicator, comm_size)
    with refused("not-allowed", LibraryError):
        callers(job, "world", 13)


def test_cost_terms(colltune: Verb, rules: Path, bundle_path: Path, measurements_csv: Path) -> None:
    """With a bundle and measurements, time and terms of what runs and of the default are shown."""
    words = ("--collective", "bcast", "--msize", 512, "--bundle", bundle_path)
    out = colltune("rules", "explain", rules, *JOB, *words, "--data", measurements_csv).out
    head, decision, table = out.split("\n\n", 2)
    assert "runs binomial" in head
    assert decision.startswith("For this call the bundle decides binomial, predicted: ")
    assert table.startswith("Predicted by the bundle's models on 2x4:\n")
    assert f"Cost terms from a cost model fitted to {measurements_csv}:" in table
    assert "latency between nodes" in table
    assert "the algorithm behind the default is unknown" in table
    found = colltune(
        "rules", "explain", rules, *JOB, *words, "--data", measurements_csv, "--json"
    ).json
    parts = found["costs"]["parts"]
    assert [p["configuration"] for p in parts] == [
        "openmpi.bcast.binomial",
        "openmpi.bcast.default",
    ]
    for part in parts:
        assert sum(term["share"] for term in part["terms"]) == pytest.approx(1.0)
        assert part["prediction"]["lower_s"] <= part["prediction"]["time_s"]


def test_cost_terms_that_are_not_known(colltune: Verb, rules: Path, bundle_path: Path) -> None:
    """Without a cost model, and of what was not measured, nothing is invented."""
    words = ("--collective", "bcast", "--msize", 4096, "--bundle", bundle_path)
    out = colltune("rules", "explain", rules, *JOB, *words).out
    assert "need a cost model. Name measurements with --data" in out
    assert "not known" in out.split("\n\n")[2]
    default = colltune("rules", "explain", rules, *JOB, *words, "-e", "PLAIN_ON=1", "--json").json
    assert [c["configuration"] for c in default["costs"]["parts"]] == ["openmpi.bcast.default"]


def test_wrong_bundles(
    colltune: Verb, rules: Path, bundle_path: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """A bundle that is none, lacks the collective or is of another library is one clear error."""
    words = (*JOB, "--msize", 0, "--bundle")
    assert (
        colltune("rules", "explain", rules, *words, tmp_path, "--collective", "bcast").status == 7
    )
    lacks = colltune("rules", "explain", rules, *words, bundle_path, "--collective", "scan")
    assert (lacks.status, "no models of scan" in lacks.err) == (7, True)
    other = tmp_path / "mpich.csv"
    other.write_text(measurements_csv.read_text().replace("openmpi", "mpich"))
    bundle = fit(read([other]), "knn").save(tmp_path / "bundle")
    strange = colltune("rules", "explain", rules, *words, bundle, "--collective", "bcast")
    assert (strange.status, strange.code) == (7, "libraries-differ")
    alone = colltune(
        "rules", "explain", rules, *JOB, "--msize", 0, "--collective", "bcast", "--data", other
    )
    assert (alone.status, alone.says("works-only-with option=--data")) == (2, True)


def test_which_programs_an_algorithm_breaks_is_told(colltune: Verb, tmp_path: Path) -> None:
    """With the promise that leaves them out; of a harmless one there is nothing to tell."""
    rules = tmp_path / "rules"
    asked = ("--release", "5.0.11", "--nodes", 1, "--ppn", 8, "--collective", "bcast")
    for row, breaks in (("0 2 4 1024", True), ("0 1 0 0", False)):
        rules.write_text(f"1\n7\n1\n0 1\n{row}\n")
        found = colltune("rules", "explain", rules, *asked, "--msize", 65536, "--json").json
        assert bool(found["breaks"]) == breaks
        assert {each["mode"]["left_out_by"] for each in found["breaks"]} <= {"same-types"}
        said = colltune("rules", "explain", rules, *asked, "--msize", 65536).out
        assert ("same-types" in said) == breaks
