"""The beds of the integration tests: each MPI is found, and each program compiled for it, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from colltune.bench.backends.native import NativeBackend
from tests.integration import real
from tests.integration.real import Real, RealMpi, RealMpich
from tests.integration.virtual_nodes import Namespaces, skip_without


@pytest.fixture(scope="session")
def mpi(tmp_path_factory: pytest.TempPathFactory) -> RealMpi:
    """Return the Open MPI under test with the tracer, or skip with the reason."""
    return real.traced_openmpi(tmp_path_factory.mktemp("mpi"))


@pytest.fixture(scope="session")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> RealMpich:
    """Return the MPICH under test, or skip with the reason."""
    return real.visible_mpich(tmp_path_factory.mktemp("mpich"))


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Return the MPI under test with libcolltune, or skip with the reason."""
    return real.with_libcolltune(tmp_path_factory.mktemp("preloaded"))


@pytest.fixture(scope="session", params=("openmpi", "mpich"))
def each(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Return each MPI of this machine with libcolltune, or skip with the reason."""
    return real.with_libcolltune(tmp_path_factory.mktemp("each"), request.param)


@pytest.fixture(scope="session")
def backend() -> NativeBackend:
    """Return the native backend for the MPI of this environment, or skip with the reason."""
    return real.native_backend()


@pytest.fixture(scope="module")
def spaces() -> Iterator[Namespaces]:
    """Return namespaces in which nodes can be emulated, or skip with the reason."""
    skip_without()
    with Namespaces("launcher") as inside:
        yield inside
