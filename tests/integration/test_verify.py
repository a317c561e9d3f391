"""`colltune verify` with a real Open MPI on one node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from colltune.errors import ProgramError
from colltune.mpi import installation, trace

pytestmark = pytest.mark.mpi
COLLTUNE = str(Path(sys.executable).with_name("colltune"))
RULES = """2
7 # bcast
2
0 1
0 0 0 0
4 3
0 6 0 0
8192 3 0 4096
262144 9 0 0
2 # allreduce
2
4 2
0 3 0 0
65536 4 0 0
16 1
0 4 0 0
"""
FORCED = "OMPI_MCA_coll_tuned_bcast_algorithm"


@dataclass(frozen=True)
class Verifying:
    """The MPI under test, and a folder for what is compiled."""

    mpi: installation.Installation
    work: Path

    def __call__(
        self,
        rules: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        launcher: tuple[str, ...] = (),
    ) -> tuple[int, Any, str]:
        """Run the verb; return status, what it printed as JSON, and its messages."""
        line = launcher or (str(self.mpi.mpirun), "--oversubscribe", "-np", "4")
        free = {n: v for n, v in os.environ.items() if not n.startswith("OMPI_MCA_coll")}
        words = ["verify", str(rules), "--work", str(self.work), "--json", *options, "--", *line]
        done = subprocess.run(
            [COLLTUNE, *words],
            capture_output=True,
            text=True,
            check=False,
            env=free | self.mpi.launch_environment() | dict(env or {}),
        )
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout or "null"), done.stderr


@pytest.fixture(scope="module")
def verify(tmp_path_factory: pytest.TempPathFactory) -> Verifying:
    """Return the verb for the MPI under test, or skip with the reason."""
    if reason := trace.unavailable():
        pytest.skip(reason)
    try:
        found = installation.find(os.environ.get("COLLTUNE_TEST_MPI"), "openmpi")
    except ProgramError as error:
        pytest.skip(str(error))
    if found.release.startswith("6."):
        pytest.skip("Open MPI 6 reads classic files otherwise")
    return Verifying(found, tmp_path_factory.mktemp("work"))


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a good rules file."""
    path = tmp_path / "my rules"
    path.write_text(RULES)
    return path


def _statuses(report: Any) -> dict[int, str]:
    return {rule["line"]: rule["status"] for rule in report["rules"]}


def test_a_good_file_is_applied(verify: Verifying, rules: Path) -> None:
    """Each rule that the job can reach runs what it says; one for 16 processes is out of reach."""
    status, report, errors = verify(rules, "--no-measure")
    assert status == 0, errors
    assert report["passed"]
    assert report["format"] == "openmpi-classic"
    assert report["release"] == verify.mpi.release
    assert [node["processes"] for node in report["nodes"]] == [4]
    by_line = {rule["line"]: rule for rule in report["rules"]}
    assert _statuses(report) == dict.fromkeys((5, 7, 8, 9, 13, 14), "applied") | {16: "unreachable"}
    assert by_line[8]["ran"] == "pipeline:segsize=4096"
    assert by_line[14]["ran"] == "ring"
    assert "a communicator of 16 processes" in by_line[16]["why"]


def test_a_users_variable_is_blamed(verify: Verifying, rules: Path) -> None:
    """A forced algorithm, by environment or by option, takes the rules of its collective away."""
    if verify.mpi.release.startswith("4."):
        pytest.skip("in Open MPI 4.1 a rule goes before a forced algorithm")
    line = (str(verify.mpi.mpirun), "--oversubscribe", "-np", "4")
    option = (*line, "--mca", FORCED.removeprefix("OMPI_MCA_"), "1")
    by_environment = verify(rules, "--no-measure", env={FORCED: "1"})
    by_option = verify(rules, "--no-measure", launcher=option)
    for (status, report, _), origin in (
        (by_environment, "the environment"),
        (by_option, "the launcher's options"),
    ):
        assert status == 1
        assert _statuses(report) == {
            **dict.fromkeys((5, 7, 8, 9), "overridden"),
            **dict.fromkeys((13, 14), "applied"),
            16: "unreachable",
        }
        (rule,) = (rule for rule in report["rules"] if rule["line"] == 8)
        assert rule["why"] == f"by {FORCED}=1 ({origin})"
        assert rule["ran"] == "basic_linear"


def test_a_parameter_file_is_blamed(verify: Verifying, rules: Path, tmp_path: Path) -> None:
    """A forgotten file in the home folder takes the rules away, and is named."""
    if verify.mpi.release.startswith("4."):
        pytest.skip("in Open MPI 4.1 a rule goes before a forced algorithm")
    folder = tmp_path / ".openmpi"
    folder.mkdir()
    (folder / "mca-params.conf").write_text("coll_tuned_bcast_algorithm = 1\n")
    status, report, _ = verify(rules, "--no-measure", env={"HOME": str(tmp_path)})
    assert status == 1
    (rule,) = (rule for rule in report["rules"] if rule["line"] == 8)
    assert rule["status"] == "overridden"
    assert FORCED in rule["why"]
    assert "parameter" in rule["why"]


def test_a_dropped_file_is_ignored_with_the_reason(verify: Verifying, rules: Path) -> None:
    """A file that begins at another size than 0 is dropped by the library without a word."""
    rules.write_text("1\n7\n1\n0 1\n8 6 0 0\n")
    status, report, _ = verify(rules, "--no-measure")
    assert status == 1
    assert report["dropped"]
    assert _statuses(report) == {5: "ignored"}


def test_a_rule_that_breaks_programs_is_harmful(verify: Verifying, rules: Path) -> None:
    """An algorithm that does not exist ends programs; the other rules are proved all the same."""
    rules.write_text(RULES.replace("262144 9", "262144 99"))
    status, report, _ = verify(rules, "--no-measure")
    assert status == 1
    found = _statuses(report)
    assert (found[9], found[8], found[14]) == ("harmful", "applied", "applied")


@pytest.mark.slow
def test_default_and_file_are_measured_in_turns(verify: Verifying, rules: Path) -> None:
    """Rules that change what runs have a speed-up; those that do not have none."""
    rules.write_text("1\n7\n1\n0 2\n0 1 0 0\n65536 3 0 64\n")
    status, report, errors = verify(rules, "--budget", "45s")
    assert status in (0, 1), errors
    slow = report["rules"][1]
    assert slow["status"] == "applied"
    assert slow["speedup"]["pairs"] >= 1
    # segments of 64 bytes cannot be as fast, whatever else runs on this machine
    assert slow["speedup"]["ratio"] < 1
    assert report["regressions"] <= 2


def test_only_readability_is_checked(verify: Verifying, rules: Path) -> None:
    """A prologue learns whether all processes read the same bytes, without MPI being started."""
    status, report, _ = verify(rules, "--readable-only")
    assert status == 0
    assert report == {
        "file": str(rules),
        "readable": True,
        "unreadable_on": {},
        "processes": 4,
        "hosts": report["hosts"],
    }
    gone = verify(rules.with_name("gone"), "--readable-only")
    assert gone[0] == 8
    assert "gone: cannot be read" in gone[2]


def test_a_hanging_job_is_ended(verify: Verifying, rules: Path, tmp_path: Path) -> None:
    """A launcher that never comes back is stopped at its limit, with a clear message."""
    hanging = tmp_path / "mpirun"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    line = (str(hanging), "-np", "2")
    status, _, errors = verify(
        rules, "--limit", "2s", "--mpi", str(verify.mpi.mpirun), launcher=line
    )
    assert status == 5
    assert "did not end within 2 s and was stopped" in errors


def test_a_failing_launcher_says_why(verify: Verifying, rules: Path) -> None:
    """What the launcher complained of is shown, with a hint."""
    line = (str(verify.mpi.mpirun), "-np", "4", "--no-such-option")
    status, _, errors = verify(rules, launcher=line)
    assert status == 5
    assert "the launcher failed before the canary could tell anything" in errors
    assert "no-such-option" in errors


def test_a_launcher_of_no_mpi_job_is_noticed(verify: Verifying, rules: Path) -> None:
    """A program that just starts another one makes a job of one process: nothing to prove."""
    line = ("env", "A=1")
    status, _, errors = verify(rules, "--mpi", str(verify.mpi.mpirun), launcher=line)
    assert status == 4
    assert "one process" in errors


def test_another_release_than_asked_for_is_an_error(verify: Verifying, rules: Path) -> None:
    """--release insists: the proof holds for what the job runs."""
    status, _, errors = verify(rules, "--release", "4.0.0")
    assert status == 8
    assert f"the job runs openmpi {verify.mpi.release}, not 4.0.0" in errors
