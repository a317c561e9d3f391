"""Open MPI 5.0 across (emulated) nodes: a file for coll/han sends calls where it is said to."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.han.rules import choices
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.rules import Call
from tests.integration.real import RealMpi
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts

pytestmark = [pytest.mark.mpi, pytest.mark.root]
JOB = Shape(2, 2)
STEP_BYTES = 128
# whose functions the tracer does not see
_UNSEEN = frozenset({"adapt"})


def _intervals(wanted: list[Configuration]) -> tuple[Interval, ...]:
    firsts = [at * STEP_BYTES for at in range(len(wanted))]
    lasts = [*(first - 1 for first in firsts[1:]), None]
    return tuple(map(Interval, firsts, lasts, wanted))


def _expected(choice: Configuration, without: dict[str, str]) -> str:
    """Return the function of a choice: coll/han's own, or what the component runs by itself."""
    if choice.algorithm.startswith("han_"):
        end = choice.algorithm.removeprefix("han_")
        suffix = {"intra": "intra", "simple": "intra_simple"}.get(end, end)
        return f"mca_coll_han_{choice.collective}_{suffix}"
    return without[choice.algorithm]


def test_components_get_the_calls_that_a_file_gives_them(
    mpi: RealMpi, spaces: Namespaces, tmp_path: Path
) -> None:
    """Each choice for each collective, by message size; what no rule names stays with coll/han."""
    if not mpi.release.startswith("5.0."):
        pytest.skip(f"Open MPI {mpi.release} is not started on emulated nodes")
    known, catalogue = FORMATS["openmpi-han"], catalogue_of(mpi.release)
    wanted: dict[Collective, list[Configuration]] = {}
    for collective in sorted(catalogue.han_collectives - {Collective.BARRIER}):
        found = [c for c in choices(catalogue, collective) if c.algorithm not in _UNSEEN]
        wanted[collective] = found
    wanted[Collective.BARRIER] = [Configuration.parse("openmpi.barrier.tuned")]
    rules = {(c, JOB.nprocs): _intervals(found) for c, found in wanted.items()}
    written = known.write(DecisionTable("openmpi", JOB, rules), mpi.release)
    assert written.notes == ()
    path = tmp_path / "han.rules"
    path.write_text(written.text, encoding="utf-8")
    parsed = known.parse(written.text, str(path), mpi.release)
    calls = [
        Call(c, JOB.nprocs, 0 if c is Collective.BARRIER else at * STEP_BYTES + 64, JOB.nodes)
        for c, found in wanted.items()
        for at in range(len(found))
    ]
    steps = [f"{call.collective}:{call.msize_bytes}" for call in calls]
    environments = {
        "file": known.activation(mpi.release, {"": str(path)}, JOB),
        "default": {},
        "tuned": {"OMPI_MCA_coll_han_priority": "0"},
        "basic": {"OMPI_MCA_coll": "basic,libnbc,self,inter"},
    }
    options = openmpi_hosts(tmp_path, ["na", "nb"], slots=2)
    seen = {
        name: mpi.observe(JOB.nprocs, steps, environment, options, spaces.enter([]))
        for name, environment in environments.items()
    }
    for at, call in enumerate(calls):
        outcome = parsed.decide(call)
        without = {name: observed[at].symbol for name, observed in seen.items()}
        assert outcome.configuration == outcome.chosen
        assert seen["file"][at].symbol == _expected(outcome.chosen, without), call
    assert len(calls) >= 24
