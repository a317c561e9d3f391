"""Where fits are computed: on this host by joblib, or on a cluster by Dask.

What is computed does not depend on it: on processors of one kind bundles have the same id. Others
may round last bits in another way.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from colltune import __version__
from colltune.errors import ProgramError
from colltune.interrupts import handlers_kept
from colltune.provenance import usable_cores

JOBLIB, DASK = "joblib", "dask"
_CELLS_WORTH_PROCESSES = 3000
_CONNECT_S = 20.0
_WORKERS_S = 600.0
_cluster: ContextVar[bool] = ContextVar("cluster", default=False)
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Slurm:
    """What each of ``jobs`` batch jobs asks for; ``directives`` are further options of sbatch."""

    cores: int
    memory: str
    jobs: int = 1
    walltime: str = "01:00:00"
    queue: str | None = None
    account: str | None = None
    interface: str | None = None
    directives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workers:
    """Who computes.

    ``backend`` is a key of `BACKENDS`; ``jobs`` the processes at most on this host, None for one
    per usable core. Dask is reached at ``scheduler``, started in ``slurm`` jobs, or else started on
    this host.
    """

    backend: str = JOBLIB
    jobs: int | None = None
    scheduler: str | None = None
    slurm: Slurm | None = None


@contextmanager
def at_work(workers: Workers) -> Iterator[None]:
    """Let `spread` give its calls to `workers`.

    Raises
    ------
    ProgramError
        If they cannot be reached, or lack this colltune.
    """
    with BACKENDS[workers.backend](workers):
        yield


def cluster() -> bool:
    """Tell whether calls are spread over a cluster, so that each should itself stay alone."""
    return _cluster.get()


def processes(n_calls: int, n_cells: int, jobs: int | None) -> int:
    """Return how many processes of this host are worth their start for so many calls and cells."""
    return min(jobs or usable_cores(), n_calls) if n_cells >= _CELLS_WORTH_PROCESSES else 1


def spread(calls: Iterable[Call], n_processes: int) -> Iterator[Any]:
    """Make `calls`, as joblib's ``delayed`` returns them, and yield their results in order.

    On this host in `n_processes` (1: in this one), on a cluster by all of its workers.
    """
    from joblib import Parallel  # noqa: PLC0415

    if cluster():
        yield from Parallel(n_jobs=-1, return_as="generator")(calls)
    elif n_processes == 1:
        # in a worker of Dask, joblib would hand even these back to the cluster
        for function, arguments, named in calls:
            yield function(*arguments, **named)
    else:
        yield from Parallel(n_jobs=n_processes, return_as="generator", max_nbytes=None)(calls)


@contextmanager
def _local(workers: Workers) -> Iterator[None]:
    del workers
    yield


@contextmanager
def _dask(workers: Workers) -> Iterator[None]:
    try:
        import distributed  # noqa: PLC0415
        from joblib import parallel_config  # noqa: PLC0415
    except ImportError as error:
        raise _missing("dask", error) from error
    started = _started(workers)
    try:
        with _connected(distributed, started or workers.scheduler) as client:
            _check_workers(client)
            token = _cluster.set(True)
            try:
                with parallel_config("dask"):
                    yield
            except (
                distributed.scheduler.KilledWorker,
                distributed.client.FutureCancelledError,
            ) as e:
                raise ProgramError(
                    f"workers of Dask died at their work ({e}); give them more memory, or fit with"
                    " fewer jobs"
                ) from e
            finally:
                _cluster.reset(token)
    finally:
        if started is not None:
            started.close(timeout=_CONNECT_S)


BACKENDS = {"joblib": _local, "dask": _dask}


def _missing(extra: str, error: ImportError) -> ProgramError:
    return ProgramError(
        f"--backend dask needs the package {error.name}, which is not installed; install"
        f" colltune[{extra}]"
    )


def _started(workers: Workers) -> Any:
    """Start a cluster, unless there is a scheduler already."""
    import distributed  # noqa: PLC0415

    if workers.scheduler is not None:
        return None
    if workers.slurm is not None:
        return slurm_cluster(workers.slurm)
    # an interrupt reaches workers too, and each would tell of it at length
    return distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers.jobs or usable_cores(),
        threads_per_worker=1,
        dashboard_address=None,
        host="127.0.0.1",
        silence_logs=logging.ERROR,
    )


def slurm_cluster(slurm: Slurm) -> Any:
    """Return a Dask cluster whose workers are batch jobs of Slurm; they are submitted.

    Raises
    ------
    ProgramError
        If dask-jobqueue is not installed or Slurm takes no job.
    """
    try:
        with handlers_kept():  # its import makes Ctrl-C a silent exit
            dask_jobqueue: Any = importlib.import_module("dask_jobqueue")
    except ImportError as error:
        raise _missing("dask", error) from error
    try:
        found = dask_jobqueue.SLURMCluster(**slurm_options(slurm))
        found.scale(jobs=slurm.jobs)
    except (RuntimeError, OSError, ValueError) as error:
        raise ProgramError(f"no Dask workers through Slurm: {error}") from error
    return found


def slurm_options(slurm: Slurm) -> Mapping[str, Any]:
    """Return what dask-jobqueue's ``SLURMCluster`` is asked for."""
    return {
        "cores": slurm.cores,
        "processes": slurm.cores,
        "memory": slurm.memory,
        "walltime": slurm.walltime,
        "queue": slurm.queue,
        "account": slurm.account,
        "interface": slurm.interface,
        "job_extra_directives": list(slurm.directives),
        "scheduler_options": {"dashboard_address": None},
    }


@contextmanager
def _connected(distributed: Any, where: Any) -> Iterator[Any]:
    try:
        client = distributed.Client(where, timeout=_CONNECT_S)
    except (OSError, TimeoutError, ValueError) as error:
        raise ProgramError(
            f"no scheduler of Dask answers at {where}: {error}; start one, or leave --scheduler out"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=_CONNECT_S)


def _check_workers(client: Any) -> None:
    """Wait for a worker, and refuse those with another colltune: they would fit other bundles.

    Raises
    ------
    ProgramError
        If none comes in time, or one has another colltune, or none.
    """
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
        versions = client.run(_version)
    except (ImportError, AttributeError) as error:
        raise ProgramError(
            f"a worker of Dask has no colltune ({error}); install colltune {__version__} there"
        ) from error
    except (OSError, TimeoutError) as error:
        raise ProgramError(f"no worker of Dask came within {_WORKERS_S:.0f} s") from error
    others = {where: found for where, found in versions.items() if found != __version__}
    if others:
        where, found = next(iter(others.items()))
        raise ProgramError(
            f"the worker {where} of Dask has colltune {found}; install {__version__} there"
        )


def _version() -> str:
    return __version__
