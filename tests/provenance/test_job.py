"""Batch jobs and allocations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from colltune.provenance import job

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_SLURM = {"SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "hydra"}


def _allocation(
    environment: dict[str, str], host: str = "n1", boot: str = "b0", now: datetime = _NOW
) -> str:
    return job.allocation(environment, host, boot, now)


@pytest.mark.parametrize(
    ("environment", "facts"),
    [
        (
            _SLURM | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "0"},
            {
                "job_system": "slurm",
                "job_id": "77",
                "job_array": "70",
                "job_array_task": "0",
                "allocation": "slurm/hydra/77/restart0",
            },
        ),
        (
            {"PBS_JOBID": "9.head", "PBS_ARRAY_INDEX": "3"},
            {
                "job_system": "pbs",
                "job_id": "9.head",
                "job_array_task": "3",
                "allocation": "pbs/9.head/task3/restart0",
            },
        ),
        (
            {"LSB_JOBID": "5", "LSB_JOBINDEX": "0"},
            {"job_system": "lsf", "job_id": "5", "allocation": "lsf/5/restart0"},
        ),
        (
            {"FLUX_JOB_ID": "ƒ2x"},
            {"job_system": "flux", "job_id": "ƒ2x", "allocation": "flux/ƒ2x/restart0"},
        ),
        (
            {"JOB_ID": "3", "SGE_ROOT": "/sge", "SGE_TASK_ID": "undefined"},
            {"job_system": "sge", "job_id": "3", "allocation": "sge/3/restart0"},
        ),
    ],
)
def test_job_is_told(environment: dict[str, str], facts: dict[str, str]) -> None:
    """Each batch system's job, array task and allocation are told from its variables."""
    assert job.job_facts(environment, "n1", "b0", _NOW) == facts


def test_a_job_is_one_allocation_on_all_its_hosts_and_days() -> None:
    """Neither the host that starts the launch nor midnight divides a job."""
    first = _allocation(_SLURM)
    assert _allocation(_SLURM, host="n2", boot="b2", now=_NOW + timedelta(days=1)) == first


def test_a_requeued_job_is_another_allocation() -> None:
    """After a restart a job may hold other nodes."""
    assert _allocation(_SLURM | {"SLURM_RESTART_COUNT": "1"}) != _allocation(_SLURM)
    assert _allocation(_SLURM | {"SLURM_JOB_ID": "78"}) != _allocation(_SLURM)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"now": _NOW + timedelta(hours=3)}, True),
        ({"now": _NOW + timedelta(days=1)}, False),
        ({"boot": "b1"}, False),
        ({"host": "n2"}, False),
    ],
)
def test_interactive_runs_share_a_day_of_a_boot(change: dict[str, str], is_same: bool) -> None:
    """Without a batch system an allocation is one day of one boot of one host."""
    assert (_allocation({}, **change) == _allocation({})) is is_same  # type: ignore[arg-type]


def test_a_stray_job_id_is_no_batch_system() -> None:
    """JOB_ID means something only where Grid Engine is."""
    assert job.job_facts({"JOB_ID": "3"}, "n1", "b0", _NOW).keys() == {"allocation"}
