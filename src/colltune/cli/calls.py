"""Calls of collectives as command lines describe them."""

from __future__ import annotations

from dataclasses import dataclass

from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Call


@dataclass(frozen=True)
class CallersOf:
    """Who calls in a job: ``world``, ``leaders``, ``node``, or some `comm_size` processes."""

    job: Shape
    communicator: str = "world"
    comm_size: int | None = None

    @property
    def comm_size_and_nodes(self) -> tuple[int, int]:
        """Processes that call, and over how many nodes they lie.

        Raises
        ------
        LibraryError
            If the job has fewer processes.
        """
        job = self.job
        if self.comm_size is not None:
            if self.comm_size > job.nprocs:
                raise LibraryError(
                    f"--comm-size {self.comm_size}: the job has {job.nprocs} processes only"
                )
            return self.comm_size, -(-self.comm_size // job.ppn)
        if self.communicator == "leaders":
            return job.nodes, job.nodes
        if self.communicator == "node":
            return job.ppn, 1
        return job.nprocs, job.nodes

    @property
    def is_world(self) -> bool:
        """Whether it is MPI_COMM_WORLD that they call on."""
        if self.comm_size is not None:
            return self.comm_size == self.job.nprocs
        return self.communicator == "world"


def call_of(
    collective: Collective,
    msize_bytes: int,
    callers: CallersOf,
    *,
    in_place: bool = False,
    commutative: bool = True,
    element_bytes: int = 1,
    ignored_send_bytes: int | None = None,
) -> Call:
    """Return the call; an operation that does not commute is one of the program's own.

    Raises
    ------
    LibraryError
        If the job has fewer processes than are to call.
    """
    comm_size, nodes = callers.comm_size_and_nodes
    return Call(
        collective,
        comm_size,
        msize_bytes,
        nodes,
        is_world=callers.is_world,
        in_place=in_place,
        commutative=commutative,
        builtin_operation=commutative,
        element_bytes=element_bytes,
        ignored_send_bytes=ignored_send_bytes,
    )
