"""Where a job's settings come from, and which of them are in effect beside a file's."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective
from colltune.mpi.activation_check import effect_findings, outranked_findings
from colltune.mpi.formats import FORMATS
from colltune.mpi.in_effect import Rank, Setting, of_environment
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.release import MpiLibrary
from colltune.mpi.rules import Call, Fault
from colltune.verify.rule_status import JobSettings, culprits, gathered, same_decision

USE = "OMPI_MCA_coll_tuned_use_dynamic_rules"
RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"


@pytest.mark.parametrize("mpi", [OPENMPI, with_libcolltune(OPENMPI)], ids=["alone", "both"])
def test_each_setting_has_its_origin(mpi: MpiLibrary, tmp_path: Path) -> None:
    """Environment, launcher's options, the launcher itself, and the library's parameter files."""
    (tmp_path / ".openmpi").mkdir()
    file = tmp_path / ".openmpi" / "mca-params.conf"
    file.write_text("\ncoll_adapt_priority = 7\n")
    seen = {
        "OMPI_MCA_coll_han_priority": "3",
        "OMPI_MCA_coll_tuned_priority": "90",
        "OMPI_MCA_coll_adapt_priority": "7",
        "OMPI_MCA_coll": "^sm",
    }
    system = "/etc/openmpi-mca-params.conf:4"
    override = "/etc/openmpi-mca-params-override.conf:1"
    shown = {
        "coll_tuned_bcast_algorithm": ("6", f"file ({system})"),
        "coll_tuned_priority": ("90", "environment"),
        "coll_han_priority": ("2", f"file ({override})"),
        "coll": ("^ucc", f"file ({system})"),
    }
    words = ("mpirun", "--mca", "coll_tuned_priority", "90")
    user = {"OMPI_MCA_coll_han_priority": "3", "HOME": str(tmp_path)}
    assert gathered(mpi, seen, shown, user, words) == {
        "OMPI_MCA_coll_han_priority": Setting("2", override, Rank.OVERRIDE),
        "OMPI_MCA_coll_tuned_priority": Setting("90", "the launcher's options", Rank.LAUNCHER),
        "OMPI_MCA_coll_adapt_priority": Setting("7", f"{file}:2", Rank.FILE),
        "OMPI_MCA_coll": Setting("^sm", "the launcher", Rank.LAUNCHER),
        "OMPI_MCA_coll_tuned_bcast_algorithm": Setting("6", system, Rank.FILE),
    }


def test_the_users_settings_stand_over_the_activation() -> None:
    """What he sets otherwise counts, what he sets alike is not against the file."""
    user = {"MPICH_A": "1", "MPICH_B": "0", "I_MPI_ADJUST_D": "4", "OMPI_MCA_num_procs": "4"}
    activation = {"MPICH_A": "1", "MPICH_B": "1", "MPICH_C": "1"}
    settings = JobSettings.of(OPENMPI, of_environment(user), activation)
    assert settings.environment == {**activation, **user}
    assert settings.against() == ("I_MPI_ADJUST_D", "MPICH_B")
    assert settings.text("MPICH_B") == "MPICH_B=0 (the environment)"


@pytest.mark.parametrize(
    ("rank", "value"),
    [(Rank.FILE, "1"), (Rank.ENVIRONMENT, "no"), (Rank.LAUNCHER, "no"), (Rank.OVERRIDE, "no")],
)
def test_a_parameter_file_stands_behind_the_activation(rank: Rank, value: str) -> None:
    """The environment goes before it; who goes before the environment counts, and is named."""
    user = {USE: Setting("no", "somebody", rank)}
    settings = JobSettings.of(OPENMPI, user, {USE: "1"})
    assert settings.environment == {USE: value}
    assert settings.against() == ((USE,) if value == "no" else ())


def test_another_spelling_is_no_other_setting(tmp_path: Path) -> None:
    """Words for a switch, and other paths of the same file, are spelled as the file needs them."""
    rules, link = tmp_path / "rules", tmp_path / "link"
    rules.touch()
    link.symlink_to(rules)
    for path in (link, f"{tmp_path}/x/../rules", f"{tmp_path}//rules"):
        activation = {USE: "1", RULES: str(rules)}
        user = of_environment({USE: "true", RULES: str(path)})
        settings = JobSettings.of(OPENMPI, user, activation)
        assert settings.environment == activation
        assert settings.against() == ()


OUTRANKED = [
    ("tuned_priority=30", "tuned", "tuned", "tuned", "han"),
    ("ucc_enable=1", "tuned", "tuned", "tuned", "han"),
    ("ucc_enable=1 ucc_priority=5", "tuned", "tuned", "tuned", "han"),
    ("ucc_enable=1 ucc_priority=100", "ucc", "ucc", "ucc", "ucc"),
    ("hcoll_enable=1", "hcoll", "hcoll", "hcoll", "hcoll"),
    ("hcoll_enable=1 hcoll_priority=1", "tuned", "tuned", "tuned", "han"),
    ("hcoll_enable=0 hcoll_priority=90", "tuned", "tuned", "tuned", "han"),
    ("han_priority=0", "tuned", "tuned", "tuned", "tuned"),
    ("han_priority=100", "tuned", "han", "tuned", "han"),
    ("tuned_priority=0", "basic", "basic", "basic", "han"),
    ("tuned_priority=60", "tuned", "tuned", "tuned", "tuned"),
    ("adapt_priority=90", "adapt", "adapt", "adapt", "adapt"),
]
"""Parameters of components, and who decides in 4.1.4 and 5.0.11, on one node and on two each."""


@pytest.mark.parametrize(("told", "components"), [(row[0], row[1:]) for row in OUTRANKED])
@pytest.mark.parametrize(("release", "at"), [("4.1.4", 0), ("5.0.11", 2)])
def test_who_outranks_the_rules_is_said_alike(
    tmp_path: Path, told: str, components: tuple[str, ...], release: str, at: int
) -> None:
    """By explain, which decides; by lint, which warns; and by verify, which names the setting."""
    rules = tmp_path / "rules"
    rules.write_text("1\n7\n1\n4\n1\n0 3 4 1024\n")
    form, paths = FORMATS["openmpi-classic"], {"": str(rules)}
    parsed = form.parse(rules.read_text(), str(rules), release)
    activation = form.activation(release, paths)
    pairs = (word.split("=") for word in told.split())
    user = {f"OMPI_MCA_coll_{name}": value for name, value in pairs}
    settings = JobSettings.of(OPENMPI, of_environment(user), activation)
    calls = [Call(Collective.BCAST, 4, 64, nodes) for nodes in (1, 2)]
    explained = tuple(parsed.decide(call, settings.environment).component for call in calls)
    assert explained == components[at : at + 2]
    own, job = form.lint(parsed), settings.environment
    found = (
        *outranked_findings(own, parsed, paths, job),
        *effect_findings(OPENMPI, parsed, activation, paths, job),
    )
    warned = any(finding.fault is Fault.OUTRANKED for finding in found)
    assert warned == (set(explained) != {"tuned"})
    for call, component in zip(calls, explained, strict=True):
        planned, there = (parsed.decide(call, job) for job in (activation, settings.environment))
        assert same_decision(planned, there) == (component == planned.component), call
        assert component == planned.component or "coll_" in culprits(parsed, call, settings)
