"""Batch jobs and allocations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from colltune.provenance import job

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_SLURM = {"SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "hydra"}


def _allocation(
    environment: dict[str, str], host: str = "n1", boot: str = "b0", now: datetime = _NOW
) -> str:
    return job.allocation(environment, host, boot, now)


_ARRAY = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "0"}
_JOBS = (
    # variables; system, id, array, task, allocation
    (_SLURM | _ARRAY, ("slurm", "77", "70", "0", "slurm/hydra/77/restart0")),
    (
        {"PBS_JOBID": "9.head", "PBS_ARRAY_INDEX": "3"},
        ("pbs", "9.head", None, "3", "pbs/9.head/task3/restart0"),
    ),
    ({"LSB_JOBID": "5", "LSB_JOBINDEX": "0"}, ("lsf", "5", None, None, "lsf/5/restart0")),
    ({"FLUX_JOB_ID": "ƒ2x"}, ("flux", "ƒ2x", None, None, "flux/ƒ2x/restart0")),
    (
        {"JOB_ID": "3", "SGE_ROOT": "/sge", "SGE_TASK_ID": "undefined"},
        ("sge", "3", None, None, "sge/3/restart0"),
    ),
)
_NAMES = ("job_system", "job_id", "job_array", "job_array_task", "allocation")


def test_job_is_told() -> None:
    """Each batch system's job, array task and allocation are told from its variables."""
    for environment, told in _JOBS:
        facts = {name: text for name, text in zip(_NAMES, told, strict=True) if text}
        assert job.job_facts(environment, "n1", "b0", _NOW) == facts


def test_a_job_is_one_allocation_on_all_its_hosts_and_days() -> None:
    """Neither the host that starts the launch nor midnight divides a job."""
    first = _allocation(_SLURM)
    assert _allocation(_SLURM, host="n2", boot="b2", now=_NOW + timedelta(days=1)) == first


def test_a_requeued_job_is_another_allocation() -> None:
    """After a restart a job may hold other nodes."""
    assert _allocation(_SLURM | {"SLURM_RESTART_COUNT": "1"}) != _allocation(_SLURM)
    assert _allocation(_SLURM | {"SLURM_JOB_ID": "78"}) != _allocation(_SLURM)


def test_interactive_runs_share_a_day_of_a_boot() -> None:
    """Without a batch system an allocation is one day of one boot of one host."""
    here = _allocation({})
    assert _allocation({}, now=_NOW + timedelta(hours=3)) == here
    others = (
        _allocation({}, now=_NOW + timedelta(days=1)),
        _allocation({}, boot="b1"),
        _allocation({}, host="n2"),
    )
    assert here not in others


def test_a_stray_job_id_is_no_batch_system() -> None:
    """JOB_ID means something only where Grid Engine is."""
    assert job.job_facts({"JOB_ID": "3"}, "n1", "b0", _NOW).keys() == {"allocation"}
