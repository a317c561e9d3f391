"""Where a job's settings come from, and which of them are in effect beside a file's."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.mpi.in_effect import Rank, Setting, of_environment
from colltune.mpi.openmpi.library import OPENMPI
from colltune.verify.settings import JobSettings, gathered

USE = "OMPI_MCA_coll_tuned_use_dynamic_rules"
RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"


def test_each_setting_has_its_origin(tmp_path: Path) -> None:
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
    assert gathered(OPENMPI, seen, shown, user, words) == {
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
