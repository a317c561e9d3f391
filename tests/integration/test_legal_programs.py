"""Real MPIs do to legal programs what the outcomes that colltune brings along say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration
from colltune.mpi import Release
from colltune.mpi.programs import Measured, ProgramOutcome, measured
from colltune.verify import legal_programs
from colltune.verify.legal_programs import LegalCall, LegalityMeasurement, Matrix
from tests.integration import real

FOUND = {
    ("openmpi", Collective.BCAST): ({"binomial", "pipeline", "linear"}, "mixed_types"),
    ("openmpi", Collective.ALLGATHER): ({"sparbit", "ring"}, "layouts"),
    ("openmpi", Collective.ALLREDUCE): ({"ring", "recursive_doubling"}, "non_commutative"),
    ("mpich", Collective.ALLGATHER): ({"recexch_doubling", "ring"}, "layouts"),
    ("mpich", Collective.ALLTOALL): ({"k_brucks", "pairwise"}, "mixed_types"),
}


@pytest.mark.parametrize(("library", "collective"), FOUND, ids=str)
def test_known_faults_are_found_again(library: str, collective: Collective, tmp_path: Path) -> None:
    """Each algorithm is right or not in a mode as its release's file says."""
    mpi = real.installed(library)
    algorithms, mode = FOUND[library, collective]
    release = mpi.mpi.at(mpi.release)
    known = next((each for each in measured(library) if each.release == mpi.release), None)
    if known is None:
        pytest.skip(f"{mpi.mpi.title} {mpi.release} was not measured")

    def keeps(_release: Release, configuration: Configuration) -> bool:
        return configuration.algorithm in algorithms

    matrix = Matrix((3,), (collective,), calls=_in_modes("tidy", mode), keeps=keeps)
    found = LegalityMeasurement(mpi, tmp_path / "outcomes.toml", matrix).run()
    for configuration in matrix.configurations(release)[collective]:
        assert found.outcome(configuration, "tidy") is ProgramOutcome.RIGHT, configuration.id
        assert _is_right(found, configuration, mode) == _is_right(known, configuration, mode)


@pytest.mark.parametrize("library", ["mpich", "openmpi", "intelmpi"])
def test_libcolltune_takes_data_at_bottom(library: str, tmp_path: Path) -> None:
    """Its algorithms move data at MPI_BOTTOM, also several elements of a type with gaps."""
    collectives = (Collective.ALLGATHER, Collective.ALLTOALLV, Collective.BCAST)
    matrix = Matrix((3,), collectives, own=True, calls=_in_modes("absolute"))
    measurement = LegalityMeasurement(real.installed(library), tmp_path / "outcomes.toml", matrix)
    measurement.run()
    assert measurement.answers[ProgramOutcome.RIGHT] > 0
    assert set(measurement.answers) == {ProgramOutcome.RIGHT}


def _in_modes(*modes: str) -> Callable[[Collective, int], Iterator[LegalCall]]:
    """Return what yields the calls of these modes alone."""

    def calls(wanted: Collective, nprocs: int) -> Iterator[LegalCall]:
        return (call for call in legal_programs.calls(wanted, nprocs) if call.mode in modes)

    return calls


def _is_right(one: Measured, configuration: Configuration, mode: str) -> bool:
    """Tell whether nothing went wrong; what of that is seen first, is chance."""
    return one.outcome(configuration, mode) is ProgramOutcome.RIGHT
