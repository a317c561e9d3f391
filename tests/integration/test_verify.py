"""`colltune verify` with a real Open MPI on one node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colltune import process
from tests.integration.real import RealMpi
from tests.integration.verifying import verified

pytestmark = pytest.mark.mpi
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


@pytest.fixture(autouse=True)
def _reads_classic_files(mpi: RealMpi) -> None:
    if mpi.release.startswith("6."):
        pytest.skip("Open MPI 6 reads classic files otherwise")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a good rules file."""
    path = tmp_path / "my rules"
    path.write_text(RULES)
    return path


def _statuses(report: Any) -> dict[int, str]:
    return {rule["rule"]["line"]: rule["assessment"]["status"] for rule in report["results"]}


def test_a_good_file_is_applied(mpi: RealMpi, rules: Path) -> None:
    """Each rule that the job can reach runs what it says; one for 16 processes is out of reach."""
    status, report, errors = verified(mpi, rules, "--no-measure")
    assert status == 0, errors
    assert report["verdict"] == "passed"
    assert report["format"] == "openmpi-classic"
    assert report["release"] == mpi.release
    assert list(report["nodes"].values()) == [4]
    by_line = {rule["rule"]["line"]: rule for rule in report["results"]}
    assert _statuses(report) == dict.fromkeys((5, 7, 8, 9, 13, 14), "applied") | {16: "unreachable"}
    assert by_line[8]["assessment"]["ran"] == "pipeline:segsize=4096"
    assert by_line[14]["assessment"]["ran"] == "ring"
    assert "a communicator of 16 processes" in by_line[16]["assessment"]["why"]


def test_a_users_variable_is_blamed(mpi: RealMpi, rules: Path) -> None:
    """A forced algorithm, by environment or by option, takes the rules of its collective away."""
    if mpi.release.startswith("4."):
        pytest.skip("in Open MPI 4.1 a rule goes before a forced algorithm")
    line = (mpi.installation.mpirun, "--oversubscribe", "-np", "4")
    option = (*line, "--mca", FORCED.removeprefix("OMPI_MCA_"), "1")
    by_environment = verified(mpi, rules, "--no-measure", env={FORCED: "1"})
    by_option = verified(mpi, rules, "--no-measure", launcher=option)
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
        (rule,) = (rule for rule in report["results"] if rule["rule"]["line"] == 8)
        assert rule["assessment"]["why"] == f"by {FORCED}=1 ({origin})"
        assert rule["assessment"]["ran"] == "basic_linear"


def test_a_parameter_file_is_blamed(mpi: RealMpi, rules: Path, tmp_path: Path) -> None:
    """A forgotten file in the home folder takes the rules away, and is named."""
    if mpi.release.startswith("4."):
        pytest.skip("in Open MPI 4.1 a rule goes before a forced algorithm")
    folder = tmp_path / ".openmpi"
    folder.mkdir()
    (folder / "mca-params.conf").write_text("coll_tuned_bcast_algorithm = 1\n")
    status, report, _ = verified(mpi, rules, "--no-measure", env={"HOME": str(tmp_path)})
    assert status == 1
    (rule,) = (rule for rule in report["results"] if rule["rule"]["line"] == 8)
    assert rule["assessment"]["status"] == "overridden"
    assert FORCED in rule["assessment"]["why"]
    assert "parameter" in rule["assessment"]["why"]


def test_a_dropped_file_is_ignored_with_the_reason(mpi: RealMpi, rules: Path) -> None:
    """A file that begins at another size than 0 is dropped by the library without a word."""
    rules.write_text("1\n7\n1\n0 1\n8 6 0 0\n")
    status, report, _ = verified(mpi, rules, "--no-measure")
    assert status == 1
    assert report["dropped"]
    assert _statuses(report) == {5: "ignored"}


def test_a_rule_that_breaks_programs_is_harmful(mpi: RealMpi, rules: Path) -> None:
    """An algorithm that does not exist ends programs; the other rules are proved all the same."""
    rules.write_text(RULES.replace("262144 9", "262144 99"))
    status, report, _ = verified(mpi, rules, "--no-measure")
    assert status == 1
    found = _statuses(report)
    assert (found[9], found[8], found[14]) == ("harmful", "applied", "applied")


SUMS = """1
2 # allreduce
2
2 1
0 0 0 0
5 3
0 {small} 0 0
2048 0 0 0
1048576 {large} 0 0
"""
LINEAR, RECURSIVE_DOUBLING, RING, RABENSEIFNER = 1, 3, 4, 6


OWN, BUILTIN = "any-legal", "builtin-operations"


@pytest.mark.parametrize(
    ("algorithms", "programs", "results", "became"),
    [
        # on 5 processes these add in the same order, which is that of the default
        ((RECURSIVE_DOUBLING, RABENSEIFNER), BUILTIN, "same-bits", ("applied", "applied")),
        # it leaves a program's own operations to another algorithm
        ((RECURSIVE_DOUBLING, RABENSEIFNER), OWN, "same-bits", ("applied", "other bits")),
        ((RING, LINEAR), BUILTIN, "same-bits", ("other bits", "other bits")),
        ((RING, LINEAR), OWN, "ranks-agree", ("applied", "applied")),
    ],
)
def test_bits_of_reductions_are_proved(
    mpi: RealMpi,
    rules: Path,
    algorithms: tuple[int, int],
    programs: str,
    results: str,
    became: tuple[str, str],
) -> None:
    """Promised the bits of the default, a rule that reduces in another order fails."""
    if mpi.release != "5.0.11":
        pytest.skip("which algorithms add like the default was measured with 5.0.11")
    rules.write_text(SUMS.format(small=algorithms[0], large=algorithms[1]))
    line = (mpi.installation.mpirun, *mpi.crowded, "-n", "5")
    options = ("--no-measure", "--programs", programs)
    promised = {"COLLTUNE_RESULTS": results}
    status, report, errors = verified(mpi, rules, *options, launcher=line, env=promised)
    found = _statuses(report)
    assert (found[7], found[9]) == became, errors
    passed = "other bits" not in became
    assert (status, report["verdict"]) == ((0, "passed") if passed else (1, "failed"))
    assert report["promised"] == results
    # what another component reduces with by default is left to it, as in a job
    assert ("OMPI_MCA_coll_hcoll_enable" in report["activation"]) is (results != "same-bits")


def test_ranks_that_hold_other_bits_are_harmful(mpi: RealMpi, rules: Path) -> None:
    """Where one rank's sums of floats differ with the file, its rules of allreduce are to blame."""
    library = mpi.folder / "perturb.so"
    mpicc, source = mpi.installation.mpicc, Path(__file__).with_name("perturb.c")
    compiled = [mpicc, "-shared", "-fPIC", "-o", library, source]
    process.check(process.run([*map(str, compiled)], timeout_s=60.0), "compiling perturb.c")
    with_file = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
    words = ["COLLTUNE_PERTURB=float", "COLLTUNE_PERTURBED=1", f"COLLTUNE_PERTURB_IF={with_file}"]
    spoilt = [option for word in (f"LD_PRELOAD={library}", *words) for option in ("-x", word)]
    line = (mpi.installation.mpirun, *mpi.crowded, "-n", "4", *spoilt)
    status, report, errors = verified(mpi, rules, "--no-measure", launcher=line)
    found = _statuses(report)
    assert [found[line] for line in (13, 14)] == ["harmful"] * 2, errors
    assert [found[line] for line in (5, 7, 8, 9)] == ["applied"] * 4
    assert status == 1
    options = ("--no-measure", "--results", "any")
    status, report, errors = verified(mpi, rules, *options, launcher=line)
    assert [_statuses(report)[line] for line in (13, 14)] == ["applied"] * 2, errors
    assert status == 0


@pytest.mark.slow
def test_default_and_file_are_measured_in_turns(mpi: RealMpi, rules: Path) -> None:
    """Rules that change what runs have a speed-up; those that do not have none."""
    rules.write_text("1\n7\n1\n0 2\n0 1 0 0\n65536 3 0 64\n")
    status, report, errors = verified(mpi, rules, "--budget", "45s")
    assert status in (0, 1), errors
    slow = report["results"][1]
    assert slow["assessment"]["status"] == "applied"
    assert slow["gain"]["pairs"] >= 1
    # segments of 64 bytes cannot be as fast, whatever else runs on this machine
    assert slow["gain"]["ratio"] < 1
    assert report["regressions"] <= 2


def test_only_readability_is_checked(mpi: RealMpi, rules: Path) -> None:
    """A prologue learns whether all processes read the same bytes, without MPI being started."""
    status, report, _ = verified(mpi, rules, "--readable-only")
    assert status == 0
    assert report == {
        "path": str(rules),
        "nprocs": 4,
        "hosts": report["hosts"],
        "problems": {},
    }
    gone = verified(mpi, rules.with_name("gone"), "--readable-only")
    assert gone[0] == 8
    assert "gone: cannot be read" in gone[2]


def test_a_hanging_job_is_ended(mpi: RealMpi, rules: Path, tmp_path: Path) -> None:
    """A launcher that never comes back is stopped at its limit, with a clear message."""
    hanging = tmp_path / "mpirun"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    line = (str(hanging), "-np", "2")
    status, _, errors = verified(
        mpi, rules, "--limit", "2s", "--mpi", str(mpi.installation.mpirun), launcher=line
    )
    assert status == 5
    assert "did not end within 2 s and was stopped" in errors


def test_a_failing_launcher_says_why(mpi: RealMpi, rules: Path) -> None:
    """What the launcher complained of is shown, with a hint."""
    line = (mpi.installation.mpirun, "-np", "4", "--no-such-option")
    status, _, errors = verified(mpi, rules, launcher=line)
    assert status == 5
    assert "the launcher failed before the test program reported anything" in errors
    assert "no-such-option" in errors


def test_a_launcher_of_no_mpi_job_is_noticed(mpi: RealMpi, rules: Path) -> None:
    """A program that just starts another one makes a job of one process: nothing to prove."""
    line = ("env", "A=1")
    status, _, errors = verified(mpi, rules, "--mpi", str(mpi.installation.mpirun), launcher=line)
    assert status == 4
    assert "one process" in errors


def test_another_release_than_asked_for_is_an_error(mpi: RealMpi, rules: Path) -> None:
    """--release insists: the proof holds for what the job runs."""
    status, _, errors = verified(mpi, rules, "--release", "4.0.0")
    assert status == 8
    assert f"the job runs openmpi {mpi.release}, but --release says 4.0.0" in errors


def _home(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / ".openmpi").mkdir()
    (tmp_path / ".openmpi" / "mca-params.conf").write_text(text)
    return {"HOME": str(tmp_path)}


@pytest.mark.parametrize("value", ["1", "yes", "0"])
def test_the_environment_goes_before_a_parameter_file(
    mpi: RealMpi, rules: Path, tmp_path: Path, value: str
) -> None:
    """What a file in the home folder says of a variable that verify sets has no effect."""
    text = f"coll_tuned_use_dynamic_rules = {value}\ncoll_tuned_dynamic_rules_filename = /none\n"
    status, report, errors = verified(mpi, rules, "--no-measure", env=_home(tmp_path, text))
    assert status == 0, errors
    assert _statuses(report)[8] == "applied"
    assert not [name for name in report["user_settings"] if "tuned" in name]


def test_another_spelling_is_no_other_setting(mpi: RealMpi, rules: Path, tmp_path: Path) -> None:
    """A link to the file, and a word for a switch, are what verify would set itself."""
    (tmp_path / "link").symlink_to(rules)
    for path in (tmp_path / "link", f"{rules.parent}/./{rules.name}"):
        env = {
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "true",
            "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path),
        }
        status, report, errors = verified(mpi, rules, "--no-measure", env=env)
        assert status == 0, errors
        assert _statuses(report)[8] == "applied"


def test_another_file_is_blamed(mpi: RealMpi, rules: Path, tmp_path: Path) -> None:
    """Who names another file does not use this one."""
    other = tmp_path / "other"
    other.write_text(RULES)
    name = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
    status, report, _ = verified(mpi, rules, "--no-measure", env={name: str(other)})
    assert status == 1
    (rule,) = (rule for rule in report["results"] if rule["rule"]["line"] == 8)
    assert (rule["assessment"]["status"], rule["assessment"]["why"]) == (
        "overridden",
        f"by {name}={other} (the environment)",
    )


def test_a_fanout_of_none_is_one(mpi: RealMpi, rules: Path) -> None:
    """A chain whose file says 0 runs as one chain, which is what is seen."""
    rules.write_text("1\n7\n1\n0 1\n0 2 0 1024\n")
    status, report, errors = verified(mpi, rules, "--no-measure")
    assert status == 0, errors
    assert [rule["assessment"]["ran"] for rule in report["results"]] == [
        "chain:fanout=1,segsize=1024"
    ]


def test_a_blank_in_the_path_of_the_test_program(mpi: RealMpi, rules: Path, tmp_path: Path) -> None:
    """The call tracer is preloaded from wherever it lies."""
    folder = tmp_path / "a b:c"
    status, report, errors = verified(replace(mpi, folder=folder), rules, "--no-measure")
    assert status == 0, errors
    assert _statuses(report)[8] == "applied"
