"""libcolltune's algorithms with a real MPI: measured, put into a table, and seen to run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from colltune import process
from colltune.bench.backends import LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.errors import CampaignError
from colltune.files import cache_folder
from colltune.mpi import installation, trace
from colltune.mpi.libcolltune.space import ALGORITHMS
from colltune.selector.configuration import Target, rendered
from colltune.verify import observing as verify

pytestmark = pytest.mark.mpi
SHAPE = Shape(1, 2)
OWN = tuple(
    Configuration.parse(f"colltune.{text}")
    for text in (
        "bcast.hierarchical:groups=1,inner=pipeline,outer=same,segsize=8192",
        "allgather.hierarchical:chunk=0,exchange=ring,leaders=1,overlap=yes",
        "allreduce.ring:chunk=0,exchange=ring,leaders=1,overlap=yes",
        "alltoallv.eager_pairwise:threshold=1024",
    )
)
DOUBLING = Configuration.parse("colltune.allreduce.doubling")
CHAIN = Configuration.parse("openmpi.bcast.chain:fanout=1,segsize=0")
TIMEOUT_S = 120.0
_C_SIDE = """
import ctypes, json
class Parameter(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("low", ctypes.c_long), ("high", ctypes.c_long),
                ("usual", ctypes.c_long), ("words", ctypes.POINTER(ctypes.c_char_p))]
class Algorithm(ctypes.Structure):
    _fields_ = [("collective", ctypes.c_int), ("name", ctypes.c_char_p),
                ("parameters", Parameter * 4)]
library = ctypes.CDLL(None)
library.colltune_algorithms.restype = ctypes.POINTER(ctypes.POINTER(Algorithm))
found = []
for pointer in library.colltune_algorithms():
    if not pointer:
        break
    told = []
    for p in pointer.contents.parameters:
        if not p.name:
            break
        words = []
        while p.words and p.words[len(words)]:
            words.append(p.words[len(words)].decode())
        told.append([p.name.decode(), p.low, p.high, p.usual, words])
    found.append([pointer.contents.collective, pointer.contents.name.decode(), told])
print(json.dumps(found))
"""


def _instance(configuration: Configuration) -> Instance:
    return Instance(configuration.collective, SHAPE, 4096)


def test_python_and_c_know_the_same_algorithms(backend: NativeBackend) -> None:
    """Names, parameters, ranges, words and usual values are those of the compiled library."""
    command = [sys.executable, "-c", _C_SIDE]
    preloaded = {**os.environ, "LD_PRELOAD": str(backend.interposed())}
    outcome = process.run(command, timeout_s=TIMEOUT_S, env=preloaded)
    told = json.loads(process.check(outcome, "reading libcolltune").stdout)
    known = [
        [
            list(Collective).index(algorithm.collective),
            algorithm.name,
            [
                [p.name, p.low, p.high, p.usual, []]
                if not p.words
                else [p.name, p.words.index(str(p.usual)), list(p.words)]
                for p in algorithm.parameters
            ],
        ]
        for algorithm in ALGORITHMS
    ]
    # a word's range means nothing
    seen = [[c, n, [[p[0], *p[3:]] if p[4] else p for p in ps]] for c, n, ps in told]
    assert sorted(seen) == sorted(known)


def test_measured_configurations_are_those_that_run(
    backend: NativeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the library's own they are forced one after the other, and their data are right."""
    monkeypatch.setenv("COLLBENCH_MARK", "1")
    every = (Configuration.default("openmpi", Collective.BCAST), CHAIN, *OWN, DOUBLING)
    cells = tuple(Cell(c, _instance(c)) for c in every)
    steps = tuple(ScheduleStep(i, 3, 600.0) for _ in range(2) for i in range(len(cells)))
    result = backend.run(LaunchPlan(SHAPE, cells, steps, 600.0), "l", tmp_path, lambda _: None)
    statuses = {m.configuration: m.status for m in result.measurements}
    assert statuses == dict.fromkeys(every, RunStatus.OK), result.message


def test_the_users_table_keeps_anything_from_being_measured(
    backend: NativeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a table decides would be measured under false names."""
    monkeypatch.setenv("COLLTUNE_TABLE", "/site/table")
    with pytest.raises(CampaignError, match="COLLTUNE_TABLE"):
        backend.feasible(Cell(OWN[0], _instance(OWN[0])))


def test_a_job_runs_what_the_table_says(backend: NativeBackend, tmp_path: Path) -> None:
    """Ours by their ids, the library's by its functions, and the default where the table has 0."""
    release = backend.context("m").library_version
    bcast = (
        Interval(0, 1023, Configuration.default("openmpi", Collective.BCAST)),
        Interval(1024, 8191, OWN[0]),
        Interval(8192, None, CHAIN),
    )
    rules = {(c.collective, 2): (Interval(0, None, c),) for c in OWN[1:]}
    table = DecisionTable("openmpi", SHAPE, {(Collective.BCAST, 2): bcast, **rules})
    found = rendered(Target.named("openmpi-table", release), table)
    path = tmp_path / "table"
    path.write_text(found.written.text)
    tracer = trace.build(installation.find(), cache_folder())
    asked = [Instance(Collective.BCAST, SHAPE, m) for m in (64, 4096, 65536)]
    asked += [_instance(c) for c in OWN[1:]]
    seen = verify.watch_algorithms(
        backend, SHAPE, asked, found.environment(str(path), str(backend.interposed())), tracer
    )
    assert [seen[_instance(c)] for c in OWN] == [c.id for c in OWN]
    assert seen[asked[0]].startswith("ompi_coll_base_")
    assert seen[asked[2]] == "ompi_coll_base_bcast_intra_chain"
