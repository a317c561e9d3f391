"""Open MPI 5.0 across (emulated) nodes: coll/han stays the default, our rules take effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import library
from colltune.mpi.formats import FORMATS
from colltune.mpi.programs import SAME_TYPES
from colltune.mpi.trace import Observation
from tests.integration.real import RealMpi
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts
from tests.mpi.tables import intervals, table

pytestmark = [pytest.mark.mpi, pytest.mark.root]
OPENMPI = library("openmpi")
CLASSIC = FORMATS["openmpi-classic"]
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
        (Collective.GATHER, 4): intervals((0, "gather.basic_linear")),
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
    "gather:64": "gather_intra_basic_linear",
    "gather:64:inplace": "gather_intra_basic_linear",
    "gather:64:null": "gather_intra_basic_linear",
    "barrier:0": "barrier_intra_bruck",
    "alltoall:64": "alltoall_intra_pairwise",
}


class Nodes:
    """Two emulated nodes with two processes each."""

    def __init__(self, mpi: RealMpi, spaces: Namespaces, folder: Path) -> None:
        self.mpi = mpi
        self.spaces = spaces
        self.options = openmpi_hosts(folder, ["na", "nb"], slots=2)

    def observe(self, steps: Sequence[str], environment: Mapping[str, str]) -> list[Observation]:
        """Run the steps across both nodes and return what ran first for each."""
        return self.mpi.observe(4, steps, environment, self.options, self.spaces.enter([]))


@pytest.fixture(scope="module")
def nodes(mpi: RealMpi, spaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """Return two emulated nodes, or skip with the reason."""
    if not mpi.release.startswith("5.0."):
        pytest.skip(f"Open MPI {mpi.release} does not prefer coll/han")
    return Nodes(mpi, spaces, tmp_path_factory.mktemp("nodes"))


def activate(nodes: Nodes, folder: Path) -> dict[str, str]:
    """Write both files of the table and return the environment that puts them into effect."""
    written = CLASSIC.write(TABLE, nodes.mpi.release, programs=SAME_TYPES)
    paths = {end: folder / f"rules{end}" for end in written.texts}
    for end, path in paths.items():
        path.write_text(written.texts[end])
    named = {end: str(path) for end, path in paths.items()}
    return CLASSIC.activation(nodes.mpi.release, named, TABLE.shape)


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


def test_forcing_takes_han_away_and_the_default_gives_it_back(nodes: Nodes) -> None:
    """Within one launch: default, forced, default again."""
    release = nodes.mpi.release
    forced = OPENMPI.at(release).force(Configuration.parse("openmpi.bcast.binomial:segsize=0"))
    default = OPENMPI.at(release).force(Configuration.default("openmpi", Collective.BCAST))
    steps = ["bcast:1024"]
    for variables in (forced, default):
        steps += [f"set:{name}={value}" for name, value in variables.items()] + ["bcast:1024"]
    seen = nodes.observe(steps, OPENMPI.at(release).base_environment())
    assert [o.symbol for o in seen] == [
        "mca_coll_han_bcast_intra",
        "ompi_coll_base_bcast_intra_binomial",
        "mca_coll_han_bcast_intra",
    ]


def test_a_parameter_file_forces_flat_algorithms_and_leaves_the_rest_to_han(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Every collective of coll/han can be sent to a forced algorithm; others do not change."""
    parameters = FORMATS["openmpi-parameters"]
    forced = {
        "bcast:64": ("bcast.pipeline:segsize=0", "bcast_intra_pipeline"),
        "allreduce:64": ("allreduce.recursive_doubling", "allreduce_intra_recursivedoubling"),
        "allgather:64": ("allgather.neighbor", "allgather_intra_neighborexchange"),
        "gather:64": ("gather.basic_linear", "gather_intra_basic_linear"),
        "scatter:64": ("scatter.binomial", "scatter_intra_binomial"),
        "reduce:64": ("reduce.linear", "reduce_intra_basic_linear"),
        "barrier:0": ("barrier.bruck", "barrier_intra_bruck"),
        "alltoall:64": ("alltoall.pairwise", "alltoall_intra_pairwise"),
    }
    rules = {
        (Collective(step.partition(":")[0]), 4): intervals((0, text))
        for step, (text, _) in forced.items()
    }
    for chosen in (list(forced), ["reduce:64"]):
        kept = {
            key: value
            for key, value in rules.items()
            if f"{key[0]}:64" in chosen or len(chosen) > 1
        }
        written = parameters.write(table(Shape(2, 2), kept), nodes.mpi.release)
        assert not written.notes
        path = tmp_path / "forced"
        path.write_text(written.text)
        environment = parameters.activation(nodes.mpi.release, {"": str(path)})
        seen = nodes.observe(list(forced), environment)
        without = nodes.observe(list(forced), {})
        expected = [
            f"ompi_coll_base_{forced[step][1]}" if step in chosen else before.symbol
            for step, before in zip(forced, without, strict=True)
        ]
        assert [o.symbol for o in seen] == expected
