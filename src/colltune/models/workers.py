"""Where fits are computed: on this host by joblib, or on a cluster by Dask.

What is computed does not depend on it: on processors of one kind bundles have the same id. Others
may round last bits in another way.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from colltune import __version__
from colltune.errors import ProgramError
from colltune.interrupts import handlers_kept
from colltune.provenance import usable_cores

JOBLIB, DASK = BACKENDS = "joblib", "dask"
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

    ``backend`` is one of `BACKENDS`; ``jobs`` the processes at most on this host, None for one
    per usable core. Dask is reached at ``scheduler``, started in ``slurm`` jobs, or else started on
    this host.
    """

    backend: str = JOBLIB
    jobs: int | None = None
    scheduler: str | None = None
    slurm: Slurm | None = None


@contextmanager
def at_work(workers: Workers) -> Iterator[None]:
    """Let `spread` give its calls to `workers`."""
    if workers.backend == DASK:
        with _dask(workers):
            yield
    else:
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
def _dask(workers: Workers) -> Iterator[None]:
    distributed = _package("distributed")
    from joblib import parallel_config  # noqa: PLC0415

    died = (distributed.scheduler.KilledWorker, distributed.client.FutureCancelledError)
    with ExitStack() as stack:
        where: Any = workers.scheduler
        if where is None:
            where = _started(workers, distributed)
            stack.callback(where.close, timeout=_CONNECT_S)
        try:
            client = distributed.Client(where, timeout=_CONNECT_S)
        except (OSError, TimeoutError, ValueError) as error:
            raise ProgramError(
                f"no scheduler of Dask answers at {where}: {error}; start one, or leave --scheduler"
                " out"
            ) from error
        stack.callback(client.close, timeout=_CONNECT_S)
        _check_workers(client)
        stack.callback(_cluster.reset, _cluster.set(True))
        stack.enter_context(parallel_config("dask"))
        try:
            yield
        except died as e:
            raise ProgramError(
                f"workers of Dask died at their work ({e}); give them more memory, or fit with"
                " fewer jobs"
            ) from e


def _package(name: str) -> Any:
    try:
        with handlers_kept():  # dask_jobqueue's import makes Ctrl-C a silent exit
            return importlib.import_module(name)
    except ImportError as error:
        raise ProgramError(
            f"--backend dask needs the package {error.name}, which is not installed; install"
            " colltune[dask]"
        ) from error


def _started(workers: Workers, distributed: Any) -> Any:
    """Start a cluster: batch jobs of Slurm, or processes of this host."""
    if workers.slurm is None:
        # an interrupt reaches workers too, and each would tell of it at length
        return distributed.LocalCluster(
            n_workers=workers.jobs or usable_cores(),
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.ERROR,
        )
    dask_jobqueue = _package("dask_jobqueue")
    try:
        found = dask_jobqueue.SLURMCluster(**slurm_options(workers.slurm))
        found.scale(jobs=workers.slurm.jobs)
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


def _check_workers(client: Any) -> None:
    """Wait for a worker, and refuse those with another colltune: they would fit other bundles."""
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
