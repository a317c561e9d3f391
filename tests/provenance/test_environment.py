"""Environment variables in the provenance."""

from __future__ import annotations

from colltune.provenance import job as environment

RECORDED = (
    *("OMPI_MCA_coll_tuned_use_dynamic_rules", "PMIX_MCA_gds", "MPIR_CVAR_BCAST_INTRA_ALGORITHM"),
    *("PRTE_MCA_rmaps_default_mapping_policy", "MPICH_OFI_NIC_POLICY", "I_MPI_ADJUST_BCAST"),
    *("UCX_TLS", "FI_PROVIDER", "PSM2_DEVICES", "OMP_NUM_THREADS", "KMP_AFFINITY"),
    *("SLURM_JOB_NODELIST", "SLURM_CPU_BIND", "LD_PRELOAD"),
)
PRIVATE = {
    "SLURM_JWT": "eyJ",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_ACCOUNT": "project1",
    "SLURM_SUBMIT_DIR": "/home/ada/x",
    "UCX_api_key": "hush",
    "OMPI_MCA_mca_base_env_list": "PATH;API_TOKEN=hush",
    "OMPI_MCA_url": "http://ada:hush@proxy:80",
    "HOME": "/home/ada",
    "AWS_SECRET_ACCESS_KEY": "hush",
}


def test_settings_are_recorded() -> None:
    """What changes how MPI runs is recorded under its name."""
    told = environment.environment_facts(dict.fromkeys(RECORDED, "value"), "/home/ada")
    assert told == {f"env.{name}": "value" for name in RECORDED}


def test_private_things_are_not() -> None:
    """Secrets by name or in the value, and who ran it, are left out."""
    assert environment.environment_facts(PRIVATE, "/home/ada") == {}


def test_home_is_not_told() -> None:
    """Paths in the home folder are written with ~, and only those."""
    variables = {"LD_PRELOAD": "/home/ada/a.so:/home/adalbert/b.so:/usr/c.so"}
    told = environment.environment_facts(variables, "/home/ada/")
    assert told == {"env.LD_PRELOAD": "~/a.so:/home/adalbert/b.so:/usr/c.so"}
    assert environment.environment_facts(variables, "/") == {
        "env.LD_PRELOAD": variables["LD_PRELOAD"]
    }
