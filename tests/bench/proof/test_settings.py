"""Where a job's settings come from."""

from __future__ import annotations

from colltune.bench.proof.settings import JobSettings, gathered


def test_each_setting_has_its_origin() -> None:
    """Environment, launcher's options, and parameter files of the launcher or of the library."""
    seen = {
        "OMPI_MCA_coll_han_priority": "3",
        "OMPI_MCA_coll_tuned_priority": "90",
        "OMPI_MCA_coll": "^sm",
    }
    source = "file (/etc/openmpi-mca-params.conf)"
    shown = {
        "coll_tuned_bcast_algorithm": ("6", source),
        "coll_tuned_priority": ("90", "environment"),
    }
    words = ("mpirun", "--mca", "coll_tuned_priority", "90")
    settings, origins = gathered(seen, shown, {"OMPI_MCA_coll_han_priority": "3"}, words)
    assert settings == seen | {"OMPI_MCA_coll_tuned_bcast_algorithm": "6"}
    assert origins == {
        "OMPI_MCA_coll_han_priority": "the environment",
        "OMPI_MCA_coll_tuned_priority": "the launcher's options",
        "OMPI_MCA_coll": "the launcher, or a parameter file that it reads",
        "OMPI_MCA_coll_tuned_bcast_algorithm": f"parameter {source}",
    }


def test_the_users_settings_stand_over_the_activation() -> None:
    """What he sets otherwise counts, what he sets alike is not against the file."""
    settings = JobSettings({"A": "1", "B": "0", "D": "4"}, {"A": "1", "B": "1", "C": "1"}, {})
    assert settings.environment == {"A": "1", "B": "0", "C": "1", "D": "4"}
    assert settings.against() == ("B", "D")
    assert settings.text("B") == "B=0 (of unknown origin)"
