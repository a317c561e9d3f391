"""`colltune rules convert`."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.mpi.formats import FORMATS
from tests.cli.conftest import Verb
from tests.mpi.plain_format import PlainFormat, offer

CHAIN = """{"collectives": {"bcast": [
{"rules": [{"alg": "chain", "faninout": 4, "seg_size": 1024}]}
]}}
"""
RULES = "plain\nbcast 4 0 binomial\nbcast 4 1024 chain\n"


class _OtherFormat(PlainFormat):
    name = "other"
    library = "intelmpi"

    def recognises(self, text: str) -> bool:
        return text.startswith("other")


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of a format that only the tests have."""
    offer(monkeypatch, "openmpi", PlainFormat)
    offer(monkeypatch, "intelmpi", _OtherFormat)
    path = tmp_path / "rules"
    path.write_text(RULES)
    return path


def test_printed(colltune: Verb, rules: Path) -> None:
    """Without --out the file alone is printed; what was assumed is told on standard error."""
    answer = colltune("rules", "convert", rules, "--to", "plain")
    assert (answer.status, answer.out) == (0, RULES)
    assert "read as a file for Open MPI 5.0.11. Name another release with --from" in answer.err
    named = colltune("rules", "convert", rules, "--to", "plain", "--release", "4.1.4")
    assert "read as a file for Open MPI 5.0.11" in named.err
    assert not colltune("rules", "convert", rules, "--to", "plain", "--from-release", "4.1.4").err


def test_written(colltune: Verb, rules: Path, tmp_path: Path) -> None:
    """With --out the file is written, and the job's lines are printed."""
    out = tmp_path / "new" / "converted"
    answer = colltune(
        "rules", "convert", rules, "--to", "plain", "--out", out, "--release", "4.1.4"
    )
    assert answer.status == 0
    assert out.read_text() == RULES
    assert answer.out.startswith(f"plain for Open MPI 4.1.4:\n  {out}\n")
    assert f"  export PLAIN_FILE={out}\n" in answer.out


def test_what_is_not_kept(colltune: Verb, rules: Path, tmp_path: Path) -> None:
    """Notes go to standard error; with --strict they end with 1 and nothing is written."""
    rules.write_text(RULES + "note\n")
    out = tmp_path / "out"
    strict = colltune("rules", "convert", rules, "--to", "plain", "--out", out, "--strict")
    assert strict.status == 1
    assert not out.exists()
    answer = colltune("rules", "convert", rules, "--to", "plain", "--out", out)
    assert answer.status == 0
    assert "not converted: line 4: it says note" in answer.err
    assert out.read_text() == RULES


def test_rules_that_break_programs_are_told(colltune: Verb, tmp_path: Path) -> None:
    """A rule that breaks some of the programs is kept and told; with --strict nothing is written.

    Promises that leave these programs out are no finding.
    """
    file = tmp_path / "rules.json"
    file.write_text(CHAIN)
    out = tmp_path / "out"
    words = ("rules", "convert", file, "--to", "openmpi-json", "--release", "6.0.0", "--out", out)
    told = colltune(*words)
    assert (told.status, "same-types" in told.err, out.exists()) == (0, True, True)
    assert "same-types" not in colltune(*words, "--programs", "same-types").err
    out.unlink()
    assert colltune(*words, "--strict").status == 1
    assert not out.exists()
    assert colltune(*words, "--strict", "--programs", "same-types").status == 0


def test_json(colltune: Verb, rules: Path, tmp_path: Path) -> None:
    """The JSON has the texts, the notes, the files and how they are put into effect."""
    words = ("--to", "plain", "--from-release", "5.0.11", "--json")
    found = colltune("rules", "convert", rules, *words).json
    assert found["written"]["texts"] == {"": RULES}
    assert (found["files"], found["activation"], found["written"]["notes"]) == ({}, {}, [])
    out = tmp_path / "out"
    found = colltune("rules", "convert", rules, *words, "--out", out).json
    assert found["files"] == {"": str(out)}
    assert found["activation"]["PLAIN_FILE"] == str(out)


def test_refused(colltune: Verb, rules: Path) -> None:
    """Other libraries' formats, dropped files, unknown formats and releases are one clear error."""
    across = colltune("rules", "convert", rules, "--to", "other", "--release", "5.0.11")
    assert across.status == 8
    assert across.code == "libraries-differ"
    unknown = colltune("rules", "convert", rules, "--to", "nonsense")
    assert (unknown.status, "known: " in unknown.err) == (8, True)
    assert (
        colltune("rules", "convert", rules, "--to", "plain", "--release", "mpich@4.0.2").status == 8
    )
    assert colltune("rules", "convert", rules, "--to", "plain", "--release", "9.9.9").status == 8
    rules.write_text(RULES + "drop\n")
    dropped = colltune("rules", "convert", rules, "--to", "plain")
    assert (dropped.status, "it says drop" in dropped.err) == (8, True)


LISTS = {
    "openmpi": (
        "export OMPI_MCA_coll_tuned_use_dynamic_rules=1\n"
        "export OMPI_MCA_coll_tuned_bcast_algorithm=6\n"
        "export OMPI_MCA_coll_ucc_enable=1 OMPI_MCA_coll_libnbc_ibcast_algorithm=2\n"
        "export OMPI_MCA_coll_han_bcast_segsize=4096 OMPI_MCA_coll_sm_priority=$X\n",
        {"ucc_enable", "libnbc_ibcast", "han_bcast_segsize", "sm_priority"},
    ),
    "mpich": (
        "export MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=ring MPIR_CVAR_CH4_NUM_VCIS=2\n"
        "export MPIR_CVAR_IBCAST_INTRA_ALGORITHM=sched_ring MPIR_CVAR_POLLS_BEFORE_YIELD=$Y\n",
        {"CH4_NUM_VCIS", "IBCAST_INTRA", "POLLS_BEFORE_YIELD"},
    ),
    "intelmpi": (
        "export I_MPI_ADJUST_BARRIER=2 I_MPI_ADJUST_GATHERV=3 I_MPI_ADJUST_IBCAST=1\n"
        "export I_MPI_ADJUST_SCATTER=$Z\n",
        {"ADJUST_GATHERV", "ADJUST_IBCAST", "ADJUST_SCATTER"},
    ),
}
TARGETS = [
    (library, known.name)
    for library in LISTS
    for known in FORMATS.values()
    if known.library == library and not known.lists_variables and not known.interposed
]


@pytest.mark.parametrize(("library", "target"), TARGETS)
def test_what_a_format_cannot_say_is_named(
    colltune: Verb, tmp_path: Path, library: str, target: str
) -> None:
    """The settings read less those written are those named, and with --strict nothing is lost."""
    script, lost = LISTS[library]
    path = tmp_path / "job.sh"
    path.write_text(script)
    answer = colltune("rules", "convert", path, "--to", target, "--json")
    if answer.status == 8:
        assert "cannot express" in answer.err
        return
    assert answer.status == 0
    assert all(name in answer.err for name in lost), answer.err
    assert colltune("rules", "convert", path, "--to", target, "--json", "--strict").status == 1
