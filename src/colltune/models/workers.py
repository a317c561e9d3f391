"""Where fits are computed: on this host by joblib, or on a cluster by Dask.

What is computed does not depend on it: on processors of one kind bundles have the same id. Others
may round last bits in another way.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any

from colltune import __version__
from colltune.errors import ColltuneError, say
from colltune.files.settings import Key, SettingTable
from colltune.interrupts import handlers_kept
from colltune.on_demand import require
from colltune.provenance import usable_cores

JOBLIB, DASK = BACKENDS = "joblib", "dask"
_CELLS_WORTH_PROCESSES = 3000
_CONNECT_S = 20.0
_WORKERS_S = 600.0
_cluster: ContextVar[bool] = ContextVar("cluster", default=False)
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Slurm:
    """What each of ``jobs`` batch jobs asks for."""

    cores: Annotated[int, Key("Cores of each batch job.", 1, 100_000, example=16)]
    memory: Annotated[str, Key("Memory of each batch job.", example="32GB")]
    jobs: Annotated[int, Key("How many batch jobs.", 1, 100_000)] = 1
    walltime: Annotated[str, Key("How long they may run.")] = "01:00:00"
    queue: Annotated[str | None, Key("Their partition.", example="short")] = None
    account: Annotated[str | None, Key("Who pays for them.", example="project")] = None
    interface: Annotated[str | None, Key("Their network interface.", example="ib0")] = None
    directives: Annotated[
        tuple[str, ...], Key("Further options of sbatch.", example=["--exclusive"])
    ] = ()


@dataclass(frozen=True)
class Workers:
    """Who computes.

    ``backend`` is one of `BACKENDS`; ``jobs`` the processes at most on this host, None for one
    per usable core. Dask is reached at ``scheduler``, started in ``slurm`` jobs, or else started on
    this host.
    """

    backend: Annotated[str, Key("This host by joblib, or a cluster by Dask.", names=BACKENDS)] = (
        JOBLIB
    )
    jobs: Annotated[
        int | None, Key("Processor cores of this host; by default all.", 1, 1_000_000, example=2)
    ] = None
    scheduler: Annotated[
        str | None, Key("Of a Dask that runs already.", example="tcp://host:8786")
    ] = None
    slurm: Annotated[
        Slurm | None, SettingTable("A Dask cluster that is started as batch jobs.")
    ] = None


@contextmanager
def at_work(workers: Workers) -> Iterator[None]:
    """Let `spread` give its calls to `workers`."""
    with _dask(workers) if workers.backend == DASK else nullcontext():
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
    from joblib import Parallel

    if cluster():
        yield from Parallel(n_jobs=-1, return_as="generator")(calls)
    elif n_processes == 1:
        # in a worker of Dask, joblib would hand even these back to the cluster
        for function, arguments, named in calls:
            yield function(*arguments, **named)
    else:
        with _explained((BrokenExecutor,), lambda why: say("process-ended", why=why)):
            yield from Parallel(n_jobs=n_processes, return_as="generator", max_nbytes=None)(calls)


@contextmanager
def _dask(workers: Workers) -> Iterator[None]:
    distributed = _package("distributed")
    from joblib import parallel_config

    died = (distributed.scheduler.KilledWorker, distributed.client.FutureCancelledError)
    with ExitStack() as stack:
        where: Any = workers.scheduler
        if where is None:
            where = _started(workers, distributed)
            stack.callback(where.close, timeout=_CONNECT_S)
        errors = (OSError, TimeoutError, ValueError)
        with _explained(errors, lambda why: say("no-scheduler", where=where, why=why)):
            client = distributed.Client(where, timeout=_CONNECT_S)
        stack.callback(client.close, timeout=_CONNECT_S)
        _check_workers(client)
        stack.callback(_cluster.reset, _cluster.set(True))
        stack.enter_context(parallel_config("dask"))
        with _explained(died, lambda why: say("workers-died", why=why)):
            yield


@contextmanager
def _explained(
    errors: tuple[type[Exception], ...], tell: Callable[[str], ColltuneError]
) -> Iterator[None]:
    """Make an error of colltune of what goes wrong."""
    try:
        yield
    except errors as error:
        # joblib tells at length how workers can end, and then how they did
        told = re.search(r"The exit codes.*", str(error))
        raise tell(told[0] if told else str(error)) from error


def _package(name: str) -> Any:
    require("dask", name)
    with handlers_kept():  # dask_jobqueue's import makes Ctrl-C a silent exit
        return importlib.import_module(name)


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
    errors = (RuntimeError, OSError, ValueError)
    with _explained(errors, lambda why: say("no-workers", where="from Slurm", why=why)):
        found = dask_jobqueue.SLURMCluster(**slurm_options(workers.slurm))
        found.scale(jobs=workers.slurm.jobs)
    return found


def slurm_options(slurm: Slurm) -> Mapping[str, Any]:
    """Return what dask-jobqueue's ``SLURMCluster`` is asked for."""
    plain = ("cores", "memory", "walltime", "queue", "account", "interface")
    return {name: getattr(slurm, name) for name in plain} | {
        "processes": slurm.cores,
        "job_extra_directives": list(slurm.directives),
        "scheduler_options": {"dashboard_address": None},
    }


def _check_workers(client: Any) -> None:
    """Wait for a worker, and refuse those with another colltune: they would fit other bundles."""

    def another(found: str, where: str = "a Dask worker") -> ColltuneError:
        return say("worker-of-another-release", where=where, found=found, release=__version__)

    where = f"within {_WORKERS_S:.0f} s"
    with (
        _explained((ImportError, AttributeError), another),
        _explained((OSError,), lambda why: say("no-workers", where=where, why=why)),
    ):
        client.wait_for_workers(1, timeout=_WORKERS_S)
        versions = client.run(_version)
    for where, found in versions.items():
        if found != __version__:
            raise another(found, where)


def _version() -> str:
    return __version__
