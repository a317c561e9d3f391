"""Campaign files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from colltune.bench import campaign_file
from colltune.bench.campaign import Campaign, CampaignPart, SizeWeight
from colltune.bench.campaign_file import KEYS
from colltune.bench.simulated import Simulation
from colltune.domain import Collective, Shape, Synchronisation
from colltune.errors import CampaignError
from colltune.mpi.programs import MOST_PROMISED
from colltune.text import counted

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
        programs=MOST_PROMISED,
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
    named = {t: keys for t, keys in KEYS.items() if t != "weights"}
    missing = {f"{t}.{k}" for t, keys in named.items() for k in keys if k not in both[t]}
    assert missing == {"space.only", "budget.total_s", "smpi.platform"}
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
    with pytest.raises(CampaignError, match=r"key space\.msizes_bytes: '1T' is not a size"):
        campaign_file.parse(WHOLE.replace("[1, 1024]", '["1T"]'), "w.toml")


def test_every_key_is_documented() -> None:
    """The guide's table of campaign files names each key; those of weights are collectives."""
    guide = (Path(__file__).parents[2] / "docs" / "reference" / "campaign-files.md").read_text()
    table = guide.partition("| key |")[2].partition("\n\n")[0]
    names = set(re.findall(r"[a-z_]{2,}", " ".join(re.findall(r"`[^`]*`", table))))
    named = {t: keys for t, keys in KEYS.items() if t != "weights"}
    assert {"weights", *(key for keys in named.values() for key in keys)} <= names


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
        with pytest.raises(CampaignError, match="part"):
            CampaignPart.parse(text)


def test_more_parts_than_shapes_are_refused() -> None:
    """A part without a shape would measure nothing."""
    with pytest.raises(CampaignError, match="5 parts, but only 4 shapes"):
        campaign_file.parse(WHOLE, "w.toml").changed(part=CampaignPart(1, 5))


MISTAKES = (
    ("nodes", "node", r"c\.toml, line 6, key space\.node: unknown key \(did you mean nodes\?\)"),
    ("[machine]", "[machin]", r"c\.toml, line 2, key machin: unknown table \(did you mean"),
    ("[machine]", "machine = 3\n[x]", r"c\.toml, line 2, key machine: must be a table"),
    ("[1, 2]", "1", r"c\.toml, line 6, key space\.nodes: 1 must be a list of whole numbers"),
    ("[1, 2]", '["1"]', r"line 6, key space\.nodes: \['1'\] must be a list of whole numbers"),
    ("[1, 2]", "[true]", r"line 6, key space\.nodes"),
    ("total_s = 60", "total_s = true", r"line 11, key budget\.total_s: True must be a number"),
    ("total_s = 60", 'total = "4 weeks"', r"line 11, key budget\.total: '4 weeks' is not a wall"),
    ("total_s = 60", "total_s = 60\ntotal = 60", r"line 12, .*given 2 times"),
    ('"bcast"', '"bkast"', r"line 5, key space\.collectives: unknown collective 'bkast'"),
    ("[1, 1024]", "[]", r"msizes_bytes is empty"),
    ("[1, 1024]", "[-1]", r"msizes_bytes must not be negative"),
    ("[1, 2]", "[0]", r"nodes must be at least 1"),
    ("total_s = 60", "total_s = 0", r"line 11, key budget\.total_s: .*must be positive"),
    ("total_s = 60", "total_s = nan", r"line 11, key budget\.total_s: .*must be positive"),
    ("cell_s = 0.5", "cell_s = inf", r"cell_s must be positive"),
    ("[machine]", "[machine", r"c\.toml: not valid TOML.*line 2"),
    ("msizes_bytes = [1, 1024]", "", r"c\.toml: key space\.msizes_bytes is missing"),
    ("[budget]", "[space.msizes_bytes_of]\nfoo = [1]", r"unknown collective 'foo'"),
    ("[budget]", "[space.msizes_bytes_of]\nscan = 1", r"key space\.msizes_bytes_of"),
    ("[budget]", '[measure]\nsynchronisation = "w"', r'"barrier", "window"'),
    ("[budget]", "[measure]\nrepeat_shapes = 2", r"repeat_shapes must be from 0"),
    (
        "[budget]",
        "[weights]\nbcast = 11",
        r"line 11, key weights\.bcast: 11 must be a number from 0\.1 to 10",
    ),
    ("[budget]", "[weights]\nbkast = 1", r"did you mean bcast\?"),
    ("[budget]", "[weights]\nscan = 2", r"weights\.scan: is not measured. Add it"),
    (
        "[budget]",
        '[weights.bcast]\n"4K" = 2',
        r'c\.toml, line 10, key weights\.bcast: "4K" is not a range of bytes. Write "0\.\.4096"',
    ),
    (
        "[budget]",
        '[weights]\nbcast = { "2..64" = 2 }',
        r"line 11, key weights\.bcast: 2\.\.64 contains none of the campaign's message sizes",
    ),
    (
        "[budget]",
        '[weights]\nbcast = { "0..1024" = 2, "512.." = 3 }',
        r"weights\.bcast: 0\.\.1024 overlaps another range",
    ),
    (
        "[budget]",
        '[measure]\nstrategy = "greedy"',
        r"key measure\.strategy: unknown strategy 'greedy'; known",
    ),
    ("[budget]", '[measure]\nstrategy = "adaptive"', r"take full_grid in its place"),
)


def test_a_wrong_key_is_named() -> None:
    """Every mistake names the file and the line or key."""
    for old, new, message in MISTAKES:
        added = f"{new}\n[budget]" if old == "[budget]" else new
        with pytest.raises(CampaignError, match=message):
            campaign_file.parse(GOOD.replace(old, added, 1), "c.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A campaign file that is not there is named."""
    with pytest.raises(CampaignError, match=r"none\.toml"):
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
    with pytest.raises(CampaignError, match="one process per core is one process"):
        campaign_file.laptop().changed(library="mpich")


def test_the_built_in_campaign_fits_this_machine() -> None:
    """The built-in campaign measures the three collectives on one node."""
    laptop = campaign_file.laptop()
    assert set(laptop.collectives) == {"bcast", "allreduce", "alltoall"}
    (shape,) = laptop.shapes
    assert shape.nodes == 1
    assert laptop.changed(total_s=5.0, ppn=None).total_s == 5.0
