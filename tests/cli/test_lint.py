"""`colltune rules lint`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Verb
from tests.mpi.plain_format import PlainFormat, offer

RULES = "plain\nbcast 4 0 binomial\nbcast 4 1024 chain\nallgather 2 0 ring\n"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the format of the tests be one of the formats."""
    offer(monkeypatch, "openmpi", PlainFormat)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a file in which nothing is wrong."""
    path = tmp_path / "rules"
    path.write_text(RULES)
    return path


def test_nothing_found(colltune: Verb, rules: Path) -> None:
    """A sound file ends with 0, names the release that was assumed and how to use the file."""
    answer = colltune("rules", "lint", rules)
    assert answer.status == 0
    assert answer.out == (
        f"{rules}: plain for Open MPI 5.0.11 (assumed; name your release with --release):"
        " nothing found\n"
        "to put it into effect, add to the job:\n"
        f"  export PLAIN_ON=1\n  export PLAIN_FILE={rules}\n  export PLAIN_HAN=0\n"
    )


def test_findings_are_sorted_and_counted(colltune: Verb, rules: Path) -> None:
    """Findings come by line, as compilers print them, and end with 1."""
    rules.write_text(RULES + "warning\nerror\nnote\nnote\n")
    answer = colltune("rules", "lint", rules, "--release", "openmpi@4.1.4")
    assert answer.status == 1
    assert answer.out.splitlines()[:4] == [
        f"{rules}:5: warning: it says warning. Remove it (unknown)",
        f"{rules}:6: error: it says error. Remove it (rule-dropped)",
        f"{rules}:7: note: it says note. Remove it (remark) Also on 1 more line: 8",
        f"{rules}: plain for Open MPI 4.1.4: 1 error, 1 warning, 2 notes",
    ]


@pytest.mark.parametrize(
    ("promised", "fault", "status"),
    [((), "rounds-otherwise", 0), (("--results", "same-bits"), "other-bits", 1)],
)
def test_reductions_that_may_round_otherwise_are_told(
    colltune: Verb, rules: Path, promised: tuple[str, ...], fault: str, status: int
) -> None:
    """Once for each reduction, and as a warning where its bits are promised."""
    rules.write_text("plain\nallreduce 2 0 recursive_doubling\nreduce 2 0 chain\nscan 2 0 linear\n")
    answer = colltune("rules", "lint", rules, "--release", "5.0.11", "--json", *promised)
    assert answer.status == status
    found = answer.json["files"][0]["findings"]
    assert [(f["line"], f["fault"]) for f in found] == [(2, fault), (3, fault), (4, fault)]


def test_notes_count_only_when_strict(colltune: Verb, rules: Path) -> None:
    """Notes alone end with 0, with --strict with 1."""
    rules.write_text(RULES + "note\n")
    assert colltune("rules", "lint", rules).status == 0
    assert colltune("rules", "lint", rules, "--strict").status == 1


def test_what_cannot_be_read(colltune: Verb, rules: Path, tmp_path: Path) -> None:
    """A file that is missing, no text, or of no format ends with 2; the others are read on."""
    binary, other, bad = tmp_path / "binary", tmp_path / "other", tmp_path / "bad"
    binary.write_bytes(b"plain\n\0\0")
    other.write_text("something else\n")
    bad.write_text("plain\nbcast four 0 ring\n")
    answer = colltune("rules", "lint", tmp_path / "no", binary, other, bad, tmp_path, rules)
    assert answer.status == 2
    lines = answer.out.splitlines()
    assert "No such file" in lines[0]
    assert ":2: this is not a text file" in lines[1]
    assert "this is not a configuration file" in lines[2]
    assert lines[3].startswith(f"{bad}: ")
    assert "Is a directory" in lines[4]
    assert "nothing found" in lines[5]
    assert lines[-1] == "6 files: 5 cannot be read"


def test_json(colltune: Verb, rules: Path, tmp_path: Path) -> None:
    """The JSON has everything that people see; docs/reference/lint.md describes it."""
    rules.write_text(RULES + "error\n")
    answer = colltune("rules", "lint", rules, tmp_path / "no", "--release", "5.0.11", "--json")
    assert answer.status == 2
    document = answer.json
    assert document["exit_status"] == 2
    good, missing = document["files"]
    assert good == {
        "file": str(rules),
        "error": "",
        "format": "plain",
        "library": "openmpi",
        "release": "5.0.11",
        "release_assumed": False,
        "dropped": "",
        "rules": 3,
        "findings": [
            {
                "line": 5,
                "fault": "rule-dropped",
                "severity": "error",
                "message": "it says error",
                "mend": "remove it",
                "promise": "",
            }
        ],
        "activation": {"PLAIN_ON": "1", "PLAIN_FILE": str(rules), "PLAIN_HAN": "0"},
        "activation_checked": False,
    }
    assert missing.keys() == good.keys()
    assert "No such file" in missing["error"]


def test_a_file_that_is_dropped(colltune: Verb, rules: Path) -> None:
    """A file that the release ignores is a finding; nothing would put it into effect."""
    rules.write_text(RULES + "drop\n")
    answer = colltune("rules", "lint", rules)
    assert answer.status == 1
    assert answer.out.startswith(f"{rules}: error: it says drop. Do not (file-dropped)\n")
    assert "export" not in answer.out


def test_standard_input(colltune: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """- reads standard input, of which no path is known."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RULES.encode())))
    answer = colltune("rules", "lint", "-")
    assert answer.status == 0
    assert answer.out.startswith("<stdin>: plain for Open MPI 5.0.11")
    assert "export" not in answer.out


def test_wrong_options_are_no_fault_of_the_file(colltune: Verb, rules: Path) -> None:
    """An unknown release, library or format is an error of the command."""
    assert colltune("rules", "lint", rules, "--release", "9.9.9").status == 8
    assert colltune("rules", "lint", rules, "--release", "nompi@1.0").status == 8
    assert colltune("rules", "lint", rules, "--release", "a@b@c").status == 8
    unknown = colltune("rules", "lint", rules, "--format", "nonsense")
    assert unknown.status == 8
    assert "plain" in unknown.err


def test_what_a_terminal_would_act_upon_is_shown(colltune: Verb, tmp_path: Path) -> None:
    """Control characters and bytes that are no UTF-8 are printed as escapes."""
    path = tmp_path / "odd\x1b[31m"
    path.write_bytes(b"plain\nbcast \xff\x1b 0 ring\n")
    answer = colltune("rules", "lint", path)
    assert answer.status == 2
    assert "\x1b" not in answer.out
    assert "\\x1b[31m" in answer.out


def test_a_job_that_sets_everything(colltune: Verb, rules: Path) -> None:
    """With the job's variables as they should be, nothing is found nor hinted at."""
    set_up = ("-e", "PLAIN_ON=1", "-e", f"PLAIN_FILE={rules}", "-e", "PLAIN_HAN=0")
    answer = colltune("rules", "lint", rules, *set_up)
    assert answer.status == 0
    assert "export" not in answer.out
    assert colltune("rules", "lint", rules, *set_up, "--json").json["files"][0][
        "activation_checked"
    ]


def test_a_job_that_does_not_name_the_file(colltune: Verb, rules: Path) -> None:
    """Without the variable that names the file, or with another file's name, it has no effect."""
    unset = colltune("rules", "lint", rules, "-e", "PLAIN_ON=1")
    assert unset.status == 1
    assert "PLAIN_FILE is not set. Set PLAIN_FILE=" in unset.out
    other = colltune("rules", "lint", rules, "-e", "PLAIN_ON=1", "-e", "PLAIN_FILE=/no/such")
    assert "PLAIN_FILE is set to /no/such in this job, which is not this file" in other.out
    assert "(not-activated)" in other.out


def test_a_parameter_file_of_the_job(colltune: Verb, rules: Path, tmp_path: Path) -> None:
    """What a parameter file sets counts, and --environment goes before it."""
    job = tmp_path / "job.sh"
    job.write_text(f"export OMPI_A=1 PLAIN_ON=1\nexport PLAIN_FILE={rules} PLAIN_HAN=0\n")
    assert colltune("rules", "lint", rules, "--parameters", job).status == 0
    answer = colltune("rules", "lint", rules, "--parameters", job, "-e", "PLAIN_FORCE=linear")
    assert answer.status == 1
    assert answer.out.count("override the rules for") == 2
    assert "Unset PLAIN_FORCE (overridden)" in answer.out


def test_the_own_environment(colltune: Verb, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this process's variables already name the file, they are what is checked."""
    monkeypatch.setenv("PLAIN_FILE", str(rules))
    monkeypatch.setenv("PLAIN_ON", "1")
    answer = colltune("rules", "lint", rules)
    assert answer.status == 1
    assert (
        "han decides bcast before this file's rules are read for communicators across" in answer.out
    )
    assert ". Set PLAIN_HAN=0 (outranked)" in answer.out


def test_a_job_script_is_checked_for_each_library_of_which_it_sets_variables(
    colltune: Verb, tmp_path: Path
) -> None:
    """One answer for each; a release picks one of them."""
    job = tmp_path / "job.sh"
    job.write_text(
        "#!/bin/bash\nmodule load mpi\nexport I_MPI_ADJUST_BCAST=1\n"
        "export MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=nosuch\nmpirun -n 2 ./prog\n"
    )
    answer = colltune("rules", "lint", job, "--json")
    assert answer.status == 1
    found = json.loads(answer.out)["files"]
    assert [(each["library"], each["error"]) for each in found] == [("mpich", ""), ("intelmpi", "")]
    assert colltune("rules", "lint", job, "--release", "intelmpi@2021.18.1").status == 0
    job.write_text("export MV2_USE_RDMA_BCAST=1\nmpirun ./prog\n")
    answer = colltune("rules", "lint", job)
    assert answer.status == 0
    assert "derivatives" in answer.out


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash -l\nmodule load mpi\nmpirun -np 4 ./p\n",
        "#! /usr/bin/env bash\nsrun ./p\n",
        "#!/bin/tcsh -f\nsetenv A 1\n",
        "#SBATCH -N 2\nsrun ./p\n",
        '-- a module\nhelp([[\nLoads\n]])\nload("mpi")\nsetenv("CC", "mpicc")\n',
        "#%Module1.0\nsetenv CC mpicc\n",
        "FROM ubuntu\nRUN apt-get install openmpi\n",
        "module load mpi\ncd work\nexport A=1\nmpirun -n 2 ./p\n",
        "#!/bin/bash\nmpi=openmpi\ncase $mpi in\nopenmpi) module load mpi;;\nesac\nmpirun ./p\n",
    ],
)
def test_a_script_that_sets_no_variable_of_mpi_is_fine(
    colltune: Verb, tmp_path: Path, text: str
) -> None:
    """Nothing is to be checked in it; verbs that need settings say so, as an error."""
    job = tmp_path / "job"
    job.write_text(text)
    answer = colltune("rules", "lint", job, "--json")
    assert answer.status == 0
    (found,) = json.loads(answer.out)["files"]
    assert [each["fault"] for each in found["findings"]] == ["remark"]
    assert not found["error"]
    assert "sets no variable" in colltune("rules", "lint", job).out
    answer = colltune("rules", "convert", job, "--to", "openmpi-classic")
    assert answer.status == 8
    assert "sets no variable" in answer.err


def test_a_script_for_a_shell_is_put_into_effect_by_a_shell(colltune: Verb, tmp_path: Path) -> None:
    """Exports by a dot, a list of variables with all of it exported, a job script as it stands."""
    script = tmp_path / "mpi.sh"
    for text, advice in (
        ("export OMPI_MCA_coll=^han\n", f"  . {script}"),
        ("OMPI_MCA_coll=^han\n", f"  set -a; . {script}; set +a"),
    ):
        script.write_text(text)
        assert colltune("rules", "lint", script).out.splitlines()[-1] == advice
    for text in (
        "export OMPI_MCA_coll=^han\nmpirun ./prog\n",
        "#!/bin/sh\n#PBS -l nodes=2\nexport OMPI_MCA_coll=^han\nfluent 3d\n",
    ):
        script.write_text(text)
        assert "to put it into effect" not in colltune("rules", "lint", script).out


def test_equal_findings_are_folded(colltune: Verb, tmp_path: Path) -> None:
    """Those that differ in numbers only are told once, with the other lines and how many."""
    path = tmp_path / "rules"
    rules = "".join(f"{64 * k} 1 {k} 0\n" for k in range(200))
    path.write_text(f"1\n7\n1\n0\n200\n{rules}")
    answer = colltune("rules", "lint", path)
    told = [line for line in answer.out.splitlines() if "ignores the fan-out" in line]
    assert len(told) == 1
    assert told[0].endswith("Also on 198 more lines: 8, 9, …")
    found = json.loads(colltune("rules", "lint", path, "--json").out)["files"][0]["findings"]
    assert sum("ignores the fan-out" in finding["message"] for finding in found) == 199


def test_no_more_than_a_page_is_printed(colltune: Verb, tmp_path: Path) -> None:
    """The worst kinds of findings are shown, and how many there are besides."""
    path = tmp_path / "job.sh"
    path.write_text("".join(f"export MPIR_CVAR_{'X' * k}Y=1\n" for k in range(1, 90)))
    answer = colltune("rules", "lint", path)
    assert len(answer.out.splitlines()) <= 60
    assert "39 more kinds" in answer.out
