"""Open MPI 5.0 across (emulated) nodes: coll/han stays the default, our rules take effect.

Two host names on this machine stand for two nodes: the launcher's remote shell is a script that
changes the host name, all inside a network namespace of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import configurable
from colltune.mpi.trace import Observation
from tests.integration.real_mpi import RealMpi, prepare
from tests.mpi.tables import intervals, table

pytestmark = [pytest.mark.mpi, pytest.mark.root]
OPENMPI = configurable("openmpi")
REMOTE_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec unshare -u /bin/sh -c "hostname $host; exec /bin/sh -c \\"\\$*\\"" sh "$@"
"""
NAMESPACE = """#!/bin/sh
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.77.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
exec "$@"
"""
TABLE = table(
    Shape(2, 2),
    {
        (Collective.BCAST, 4): intervals(
            (0, "bcast.default"), (1024, "bcast.pipeline:segsize=4096"), (65536, "bcast.default")
        ),
        (Collective.ALLREDUCE, 4): intervals(
            (0, "allreduce.recursive_doubling"), (2048, "allreduce.default")
        ),
        (Collective.ALLGATHER, 4): intervals((0, "allgather.default"), (64, "allgather.neighbor")),
        (Collective.GATHER, 4): intervals((0, "gather.binomial")),
        (Collective.BARRIER, 4): intervals((0, "barrier.bruck")),
        (Collective.ALLTOALL, 4): intervals((0, "alltoall.default"), (64, "alltoall.pairwise")),
    },
)
LEFT = [
    *("bcast:1023", "bcast:65536", "allreduce:2048", "allgather:63", "alltoall:63", "reduce:64"),
    *("scatter:64", "bcast:2000:plain:3", "bcast:2000:plain:2", "barrier:0:plain:3"),
    *("gather:64:plain:3", "allreduce:8:plain:3"),
]
CHOSEN = {
    "bcast:1024": "bcast_intra_pipeline",
    "bcast:65535": "bcast_intra_pipeline",
    "allreduce:2047": "allreduce_intra_recursivedoubling",
    "allgather:64": "allgather_intra_neighborexchange",
    "allgather:64:inplace": "allgather_intra_recursivedoubling",
    "gather:64": "gather_intra_binomial",
    "gather:64:inplace": "gather_intra_binomial",
    "gather:64:null": "gather_intra_binomial",
    "barrier:0": "barrier_intra_bruck",
    "alltoall:64": "alltoall_intra_pairwise",
}


class Nodes:
    """Two emulated nodes with two processes each."""

    def __init__(self, mpi: RealMpi, folder: Path) -> None:
        self.mpi = mpi
        self.namespace, shell = folder / "namespace", folder / "remote_shell"
        for file, text in ((self.namespace, NAMESPACE), (shell, REMOTE_SHELL)):
            file.write_text(text)
            file.chmod(0o755)
        hosts = folder / "hosts"
        hosts.write_text("na slots=2\nnb slots=2\n")
        self.options = ["--prtemca", "plm_ssh_agent", str(shell)]
        self.options += ["--prtemca", "plm_ssh_no_tree_spawn", "1", "--hostfile", str(hosts)]

    def observe(self, steps: Sequence[str], environment: Mapping[str, str]) -> list[Observation]:
        """Run the steps across both nodes and return what ran first for each."""
        before = ["unshare", "-n", str(self.namespace)]
        return self.mpi.observe(4, steps, environment, self.options, before)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """Return two emulated nodes, or skip with the reason."""
    if os.geteuid() != 0:
        pytest.skip("emulating nodes by namespaces needs root")
    for needed in ("unshare", "ip", "hostname"):
        if shutil.which(needed) is None:
            pytest.skip(f"emulating nodes needs the program {needed}")
    allowed = process.run(["unshare", "-n", "-u", "true"], timeout_s=10)
    if not allowed.ok:
        pytest.skip(f"namespaces are not allowed here: {allowed.stderr.strip()}")
    folder = tmp_path_factory.mktemp("nodes")
    mpi = prepare(folder)
    if not mpi.release.startswith("5.0."):
        pytest.skip(f"Open MPI {mpi.release} does not prefer coll/han")
    return Nodes(mpi, folder)


def activate(nodes: Nodes, folder: Path) -> dict[str, str]:
    """Write both files of the table and return the environment that puts them into effect."""
    written = OPENMPI.write(TABLE, nodes.mpi.release)
    rules, dispatch = folder / "rules", folder / "dispatch"
    rules.write_text(written.text)
    dispatch.write_text(written.dispatch)
    return OPENMPI.environment(
        OPENMPI.activation(nodes.mpi.release, rules, spans_nodes=True, dispatch_path=dispatch)
    )


def test_chosen_sizes_run_flat_and_the_rest_stays_with_han(nodes: Nodes, tmp_path: Path) -> None:
    """Listed sizes of the listed communicator run our algorithms, all else as without any file."""
    steps = [*CHOSEN, *LEFT]
    without = nodes.observe(steps, {})
    seen = nodes.observe(steps, activate(nodes, tmp_path))
    chosen, left = seen[: len(CHOSEN)], seen[len(CHOSEN) :]
    assert [o.symbol for o in chosen] == [f"ompi_coll_base_{s}" for s in CHOSEN.values()]
    assert left == without[len(CHOSEN) :]
    han = [o for o in left if o.symbol.startswith("mca_coll_han_")]
    assert len(han) >= 9


def test_the_rules_alone_never_reach_a_communicator_across_nodes(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Without the dispatch file coll/han keeps every collective that it serves."""
    steps = ["bcast:1024", "allreduce:2047", "barrier:0"]
    both = activate(nodes, tmp_path)
    alone = {name: value for name, value in both.items() if "coll_han" not in name}
    assert nodes.observe(steps, alone) == nodes.observe(steps, {})


def test_forcing_takes_han_away_and_the_default_gives_it_back(nodes: Nodes) -> None:
    """Within one launch: default, forced, default again."""
    release = nodes.mpi.release
    forced = OPENMPI.force(release, Configuration.parse("openmpi.bcast.binomial:segsize=0"))
    default = OPENMPI.force(release, Configuration.default("openmpi", Collective.BCAST))
    steps = ["bcast:1024"]
    for variables in (forced, default):
        steps += [f"set:{name}={value}" for name, value in variables.items()] + ["bcast:1024"]
    seen = nodes.observe(steps, OPENMPI.base_environment(release))
    assert [o.symbol for o in seen] == [
        "mca_coll_han_bcast_intra",
        "ompi_coll_base_bcast_intra_binomial",
        "mca_coll_han_bcast_intra",
    ]
