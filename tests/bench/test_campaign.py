"""Campaign files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from colltune.bench import campaign_file
from colltune.bench.campaign import Campaign, CampaignPart
from colltune.bench.simulated import Simulation
from colltune.bench.weights import SizeWeight
from colltune.domain import Collective, Shape, Synchronisation
from colltune.errors import CampaignError
from colltune.files.settings import keys_of
from colltune.mpi.programs import Programs
from colltune.text import counted
from tests.refusals import refused

SHIPPED = sorted((Path(__file__).parents[2] / "reprompi_configs").glob("*.toml"))
GOOD = """
[machine]
name = "hydra"
[space]
collectives = ["bcast", "MPI_Alltoall"]
nodes = [1, 2]
ppn = [4]
msizes_bytes = [1, 1024]
only = ["*.bcast.*"]
[budget]
total_s = 60
cell_s = 0.5
"""
WHOLE = """
[machine]
name = "hydra"
fabric = "Omni-Path"
cores_per_node = 32
[library]
name = "openmpi"
interposed = true
release = "2019.5"
mpi = "/opt/mpi"
[launcher]
name = "srun"
program = "/opt/site/launch"
options = ["--mpi=pmix"]
hostfile = "hosts"
[space]
collectives = ["bcast", "alltoall", "barrier"]
nodes = [4, 8]
ppn = [1, 32]
msizes_bytes = [1, 1024]
skip = ["*.linear"]
segsizes_bytes = [1024]
fanouts = [2]
programs = "builtin-operations, same-types"
profile = "profiles"
[space.msizes_bytes_of]
alltoall = [16]
[weights]
alltoall = 2
bcast = { "0..64" = 0.5, "65.." = 10 }
[measure]
backend = "replay"
strategy = "full_grid"
synchronisation = "window"
subshapes = false
side_by_side = true
repeat_shapes = 0.5
mpibenchmark = "/opt/mpibenchmark"
[budget]
total = "1h30m"
launch_s = 1.5
max_reps = 100
cell_s = 1
max_buffer_bytes = 1000
[smpi]
topology = "torus"
parameters = "8"
cores = 1
speed_gflops = 2
latency_us = 3
rate_mbit = 4
memory_latency_us = 5
memory_rate_mbit = 6
overhead_us = 7
overhead_ns_per_byte = 8
eager_bytes = 9
checked_bytes = 10
limit_s = 11
"""


def test_shipped_campaigns_parse() -> None:
    """Every campaign file that is shipped is valid."""
    assert all(campaign_file.load(path).collectives for path in SHIPPED)


def test_every_key_has_its_field() -> None:
    """A file with all keys sets all fields, and no key is known that the test leaves out."""
    parsed = campaign_file.parse(WHOLE, "w.toml")
    assert parsed == Campaign(
        (Collective.BCAST, Collective.ALLTOALL, Collective.BARRIER),
        (1, 1024),
        machine="hydra",
        fabric="Omni-Path",
        cores_per_node=32,
        library="openmpi",
        release="2019.5",
        mpi="/opt/mpi",
        interposed=True,
        launcher="srun",
        launcher_program="/opt/site/launch",
        launcher_options=("--mpi=pmix",),
        hostfile="hosts",
        nodes=(4, 8),
        ppn=(1, 32),
        skip=("*.linear",),
        segsizes_bytes=(1024,),
        fanouts=(2,),
        programs=Programs(same_types=True, builtin_operations=True),
        profile="profiles",
        msizes_bytes_of={Collective.ALLTOALL: (16,)},
        weights=(
            SizeWeight(Collective.ALLTOALL, 0, None, 2.0),
            SizeWeight(Collective.BCAST, 0, 64, 0.5),
            SizeWeight(Collective.BCAST, 65, None, 10.0),
        ),
        backend="replay",
        synchronisation=(Synchronisation.WINDOW,),
        subshapes=False,
        side_by_side=True,
        repeat_shapes=0.5,
        mpibenchmark="/opt/mpibenchmark",
        total_s=5400.0,
        launch_s=1.5,
        max_reps=100,
        cell_s=1,
        max_buffer_bytes=1000,
        smpi=Simulation(
            topology="torus",
            parameters="8",
            cores=1,
            speed_gflops=2.0,
            latency_us=3.0,
            rate_mbit=4.0,
            memory_latency_us=5.0,
            memory_rate_mbit=6.0,
            overhead_us=7.0,
            overhead_ns_per_byte=8.0,
            eager_bytes=9,
            checked_bytes=10,
            limit_s=11.0,
        ),
    )
    both = tomllib.loads(WHOLE)
    given = {f"{t}.{k}" for t, keys in both.items() for k in keys} | {"weights"}
    missing = {key.path for key in keys_of(Campaign)} - given
    assert missing == {"space.only", "smpi.platform"}
    sizes = [parsed.msizes_of(c) for c in parsed.collectives]
    assert sizes == [(1, 1024), (16,), (0,)]


def test_sizes_in_words_are_bytes() -> None:
    """A campaign with sizes such as "1k" is the same as one with their bytes."""
    in_words = (
        WHOLE.replace("[1, 1024]", '[1, "1KiB"]')
        .replace("[1024]", '["1k"]')
        .replace("[16]", '["16"]')
    )
    assert campaign_file.parse(in_words, "w.toml") == campaign_file.parse(WHOLE, "w.toml")
    with refused("malformed", CampaignError, key="space.msizes_bytes", value="1T"):
        campaign_file.parse(WHOLE.replace("[1, 1024]", '["1T"]'), "w.toml")


def test_parts_share_shapes_and_budget() -> None:
    """The parts of a campaign cover each shape once and the budget together."""
    whole = campaign_file.parse(WHOLE, "w.toml")
    parts = [whole.changed(part=CampaignPart(i, 3)) for i in (1, 2, 3)]
    assert sorted(s for part in parts for s in part.shapes) == sorted(whole.shapes)
    assert sum(part.budget_s for part in parts) == whole.total_s
    assert len({part.identity for part in parts}) == 3


def test_the_budget_is_no_part_of_the_identity() -> None:
    """A killed campaign can be resumed with more time, but not as another campaign."""
    whole = campaign_file.parse(WHOLE, "w.toml")
    assert whole.changed(total_s=1.0).identity == whole.identity
    assert whole.changed(skip=("*.ring",)).identity != whole.identity


def test_a_wrong_part_is_refused() -> None:
    """A part must be I/N with 1 <= I <= N."""
    for text in ("0/2", "3/2", "x", "1/", "-1/2"):
        with pytest.raises(CampaignError):
            CampaignPart.parse(text)


def test_more_parts_than_shapes_are_refused() -> None:
    """A part without a shape would measure nothing."""
    with refused("too-many-parts", parts=5, shapes="4 shapes"):
        campaign_file.parse(WHOLE, "w.toml").changed(part=CampaignPart(1, 5))


MISTAKES: tuple[tuple[str, str, str, dict[str, object]], ...] = (
    ("nodes", "node", "unknown-key", {"line": 6, "key": "space.node"}),
    ("[machine]", "[machin]", "unknown-table", {"line": 2, "key": "machin"}),
    ("[machine]", "machine = 3\n[x]", "not-a-table", {"line": 2, "key": "machine"}),
    ("[1, 2]", "1", "not-allowed", {"line": 6, "key": "space.nodes", "value": 1}),
    ("[1, 2]", '["1"]', "not-allowed", {"line": 6, "value": ["1"]}),
    ("[1, 2]", "[true]", "not-allowed", {"line": 6, "key": "space.nodes"}),
    ("[1, 2]", "[0]", "not-allowed", {"line": 6, "key": "space.nodes"}),
    ("total_s = 60", "total_s = true", "not-allowed", {"line": 11, "key": "budget.total_s"}),
    ("total_s = 60", 'total = "4 weeks"', "malformed", {"line": 11, "key": "budget.total"}),
    ("total_s = 60", "total_s = 0", "not-allowed", {"line": 11, "key": "budget.total_s"}),
    ("total_s = 60", "total_s = nan", "not-allowed", {"line": 11}),
    ("total_s = 60", "total_s = 60\ntotal = 60", "given-twice", {"key": "budget.total_s"}),
    ("cell_s = 0.5", "cell_s = inf", "not-allowed", {"key": "budget.cell_s"}),
    ('"bcast"', '"bkast"', "unknown", {"line": 5, "key": "space.collectives"}),
    ("[1, 1024]", "[]", "not-allowed", {"value": []}),
    ("[1, 1024]", "[-1]", "not-allowed", {"value": [-1]}),
    ("[machine]", "[machine", "not-toml", {"file": "c.toml"}),
    ("msizes_bytes = [1, 1024]", "", "key-missing", {"key": "space.msizes_bytes"}),
    ("[budget]", "[space.msizes_bytes_of]\nfoo = [1]", "unknown", {"name": "foo"}),
    ("[budget]", "[space.msizes_bytes_of]\nscan = 1", "not-allowed", {"value": 1}),
    ("[budget]", "[space.msizes_bytes_of]\nscan = [-1]", "no-sizes", {}),
    ("[budget]", '[measure]\nsynchronisation = "w"', "not-allowed", {"value": "w"}),
    ("[budget]", "[measure]\nrepeat_shapes = 2", "not-allowed", {"value": 2}),
    ("[budget]", "[weights]\nbcast = 11", "not-a-weight", {"key": "weights", "value": 11}),
    ("[budget]", "[weights]\nbkast = 1", "unknown", {"name": "bkast"}),
    ("[budget]", "[weights]\nscan = 2", "weight-not-measured", {"key": "weights.scan"}),
    ("[budget]", '[weights.bcast]\n"4K" = 2', "malformed", {"line": 10, "value": "4K"}),
    (
        "[budget]",
        '[weights]\nbcast = { "2..64" = 2 }',
        "weight-of-nothing",
        {"line": 11, "key": "weights.bcast"},
    ),
    (
        "[budget]",
        '[weights]\nbcast = { "0..1024" = 2, "512.." = 3 }',
        "weights-overlap",
        {"key": "weights.bcast"},
    ),
    ("[budget]", '[measure]\nstrategy = "greedy"', "unknown", {"key": "measure.strategy"}),
    ("[budget]", '[measure]\nstrategy = "adaptive"', "removed-strategy", {"instead": "full_grid"}),
)


def test_a_wrong_key_is_named(subtests: pytest.Subtests) -> None:
    """Every mistake names the file and the line or key."""
    for old, new, code, values in MISTAKES:
        added = f"{new}\n[budget]" if old == "[budget]" else new
        with subtests.test(new=new), refused(code, CampaignError, **values) as raised:
            campaign_file.parse(GOOD.replace(old, added, 1), "c.toml")
        assert str(raised.value).startswith("c.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A campaign file that is not there is named."""
    with refused("unreadable", CampaignError, path=tmp_path / "none.toml"):
        campaign_file.load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("library", "cores", "ppn", "shared"),
    [
        ("openmpi", 1, 4, "4 processes on 1 core per node"),
        ("openmpi", 2, 4, "4 processes on 2 cores per node"),
        ("openmpi", 8, 8, ""),
        ("mpich", 2, 2, ""),
        ("intelmpi", 3, 3, ""),
        ("intelmpi", 64, 64, ""),
    ],
)
def test_there_are_as_many_processes_as_cores(
    monkeypatch: pytest.MonkeyPatch, library: str, cores: int, ppn: int, shared: str
) -> None:
    """Only a library whose processes leave their core to others gets more of them, and says so."""
    monkeypatch.setattr("colltune.bench.campaign.usable_cores", lambda: cores)
    found = campaign_file.laptop().changed(library=library)
    assert found.shapes == (Shape(1, ppn),)
    assert found.cores_shared(cores) == shared
    asked = found.changed(ppn=(cores + 1,))
    assert asked.cores_shared(cores) == f"{counted(cores + 1, 'process', 'es')} on " + (
        f"{counted(cores, 'core')} per node"
    )


def test_other_nodes_have_the_cores_that_the_campaign_names() -> None:
    """Cores of this host say nothing about nodes elsewhere."""
    across = campaign_file.laptop().changed(nodes=(2,), ppn=(64,))
    assert across.cores_shared(2) == ""
    told = across.changed(cores_per_node=32)
    assert told.cores_shared(2) == "64 processes on 32 cores per node"


def test_one_core_is_too_little_for_processes_that_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one process there is nothing to measure, which is said."""
    monkeypatch.setattr("colltune.bench.campaign.usable_cores", lambda: 1)
    with refused("one-process"):
        campaign_file.laptop().changed(library="mpich")


def test_the_built_in_campaign_fits_this_machine() -> None:
    """The built-in campaign measures the three collectives on one node."""
    laptop = campaign_file.laptop()
    assert set(laptop.collectives) == {"bcast", "allreduce", "alltoall"}
    (shape,) = laptop.shapes
    assert shape.nodes == 1
    assert laptop.changed(total_s=5.0, ppn=None).total_s == 5.0
