"""Where a job's settings come from."""

from __future__ import annotations

from colltune.verify.settings import JobSettings, gathered


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
    user = {"MPICH_A": "1", "MPICH_B": "0", "I_MPI_ADJUST_D": "4", "OMPI_MCA_num_procs": "4"}
    activation = {"MPICH_A": "1", "MPICH_B": "1", "MPICH_C": "1"}
    settings = JobSettings(user, activation, {})
    assert settings.environment == {**activation, **user}
    assert settings.against() == ("I_MPI_ADJUST_D", "MPICH_B")
    assert settings.text("MPICH_B") == "MPICH_B=0 (of unknown origin)"
