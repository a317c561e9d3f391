"""Open MPI 6 runs what its JSON rules, and classic files that it reads shifted, are said to run.

No package of it is to be had yet: the variable COLLTUNE_TEST_OPENMPI6 names the folder that it was
installed into, or the tests are skipped. One without a launcher is started by the mpirun of another
Open MPI.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import ProgramError
from colltune.mpi import trace
from colltune.mpi.formats import FORMATS
from colltune.mpi.installation import Installation
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.rules import Call, Rules
from colltune.mpi.running import Promises
from tests.integration.real import Real, RealMpi, installed
from tests.integration.test_openmpi_han_reads import compare_han_file, random_han_file
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts

pytestmark = pytest.mark.mpi
VARIABLE = "COLLTUNE_TEST_OPENMPI6"
RELEASE = "6.1.0"
HERE = OPENMPI.at(RELEASE)
NPROCS = 5
_MSIZES = (1, 8, 60, 120, 1000, 4080, 9000)


@pytest.fixture(scope="session")
def mpi(tmp_path_factory: pytest.TempPathFactory) -> RealMpi:
    """Return the MPI under test, or skip with the reason."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no Open MPI 6")
    if reason := trace.unavailable():
        pytest.skip(reason)
    prefix, folder = Path(named), tmp_path_factory.mktemp("openmpi6")
    try:
        mpirun = prefix / "bin" / "mpirun"
        if not mpirun.exists():
            mpirun = installed().mpirun
        libmpi = next((prefix / "lib").glob("libmpi.so.*"))
        found = Installation("openmpi", RELEASE, mpirun, prefix / "bin/mpicc", libmpi, named)
        tracer = trace.build(found, folder)
    except (ProgramError, StopIteration) as error:
        pytest.skip(f"{VARIABLE}={named}: {error}")
    return RealMpi(found, folder, "", tracer, program=Real(found, folder).compiled("calls.c"))


def _calls(rng: Random, collectives: list[Collective], count: int) -> list[Call]:
    """Return random calls on communicators that are not MPI_COMM_WORLD."""
    found = []
    for _ in range(count):
        collective, ranks = rng.choice(collectives), rng.randint(2, NPROCS)
        msize = 0 if collective is Collective.BARRIER else rng.choice(_MSIZES)
        if collective is Collective.REDUCE_SCATTER:
            msize -= msize % ranks or 0
            msize = max(msize, ranks)
        found.append(Call(collective, ranks, msize, is_world=False))
    return found


def _steps(calls: list[Call]) -> list[str]:
    return [f"{c.collective}:{c.msize_bytes}:plain:{c.comm_size}" for c in calls]


def _compared(
    mpi: RealMpi, folder: Path, name: str, text: str, calls: list[Call]
) -> tuple[Rules, list[str], int]:
    """Return what a file in effect says, the calls that ran otherwise, how many a rule decided."""
    path = folder / "rules"
    path.write_text(text, encoding="utf-8")
    parsed = FORMATS[name].parse(text, str(path), RELEASE)
    environment = FORMATS[name].activation(RELEASE, {"": str(path)}, Shape(1, NPROCS))
    seen, plain = (_functions(mpi, calls, used) for used in (environment, {}))
    wrong, decided = [], 0
    for call, with_file, without in zip(calls, seen, plain, strict=True):
        outcome = parsed.decide(call)
        expected = without[:1]
        if not outcome.chosen.is_default:
            decided += 1
            # what it falls back to comes later
            both = (outcome.chosen, outcome.configuration)
            expected = [HERE.space.algorithm_of(one).symbol for one in both]
        if with_file[:1] != expected[:1] or not set(expected) <= set(with_file):
            wrong.append(f"{call}: {with_file}, not {expected}")
    return parsed, wrong, decided


def _functions(mpi: RealMpi, calls: list[Call], environment: Mapping[str, str]) -> list[list[str]]:
    """Return the functions behind each call, in order; results must be right."""
    outcome = mpi.call(NPROCS, _steps(calls), environment)
    assert outcome.ok, outcome.explain()
    assert "WRONG" not in outcome.stderr
    return [[f.symbol for f in call.functions] for call in trace.marked(outcome.stderr)]


def _random_rule(rng: Random, collective: Collective, first_size: int, last_size: int) -> object:
    entry = catalogue_of(RELEASE).collectives[collective]
    allowed = [
        a
        for a in entry.algorithms
        if not a.wrong and ("two_proc" not in a.name or (first_size, last_size) == (2, 2))
    ]
    algorithm = rng.choice(allowed)
    spelled = "default" if algorithm.name == "basic_default" else algorithm.name
    rule: dict[str, object] = {"alg": rng.choice([spelled, spelled.upper(), algorithm.number])}
    if rng.random() < 0.15:
        rule["alg"] = rng.choice(["no_such", 77, 0, "ignore"])
    if not entry.one_rule and rng.random() < 0.8:
        first = rng.choice([0, 1, 16, 240, 3000])
        rule |= {"msg_size_min": first, "msg_size_max": rng.choice([first + 500, "inf", 9000])}
    if "fanout" in algorithm.parameters:
        rule["faninout"] = rng.randint(2, 4)
    if "segsize" in algorithm.parameters:
        rule["seg_size"] = rng.choice([0, 64, 1024])
    return rule


def _random_json(rng: Random, collectives: list[Collective]) -> str:
    content: dict[str, list[object]] = {}
    for collective in collectives:
        entries: list[object] = []
        for _ in range(rng.randint(1, 4)):
            first = rng.randint(0, NPROCS)
            last = rng.choice([first, first, first + 1, NPROCS])
            entry = catalogue_of(RELEASE).collectives[collective]
            count = 1 if entry.one_rule else rng.randint(0, 3)
            rules = [_random_rule(rng, collective, first, last) for _ in range(count)]
            communicator: dict[str, object] = {"comm_size_min": first, "rules": rules}
            if rng.random() < 0.8:
                communicator["comm_size_max"] = last
            else:
                communicator["rules"] = [
                    _random_rule(rng, collective, first, NPROCS) for _ in range(count)
                ]
            if rng.random() < 0.4:
                layout = rng.choice(["any", "one-per-node", "single-node"])
                communicator["comm_rank_distribution"] = layout
            entries.append(communicator)
        content[str(collective)] = entries
    return json.dumps({"rule_file_version": 3, "collectives": content}, indent=1)


@pytest.mark.parametrize("seed", range(4))
def test_random_json_rules_are_obeyed(mpi: RealMpi, tmp_path: Path, seed: int) -> None:
    """Overlapping ranges, layouts, unknown algorithms: what runs is what is said."""
    rng = Random(seed)
    collectives = rng.sample(list(Collective), 6)
    text, calls = _random_json(rng, collectives), _calls(rng, collectives, 80)
    parsed, wrong, decided = _compared(mpi, tmp_path, "openmpi-json", text, calls)
    assert not parsed.dropped
    assert wrong == []
    assert decided >= 5


def test_classic_files_are_read_shifted(mpi: RealMpi, tmp_path: Path) -> None:
    """Entries for 3, 4 and 5 processes hold for 0 to 2, 3, and 4 and more."""
    entries = "\n".join(
        f"{size} 1\n0 {algorithm} 0 0" for size, algorithm in ((3, 1), (4, 3), (5, 6))
    )
    text = f"2\n7\n3\n{entries}\n2\n3\n{entries}\n"
    calls = [
        Call(collective, ranks, 4000, is_world=False)
        for collective in (Collective.BCAST, Collective.ALLREDUCE)
        for ranks in range(2, NPROCS + 1)
    ]
    parsed, wrong, decided = _compared(mpi, tmp_path, "openmpi-classic", text, calls)
    assert (wrong, decided) == ([], len(calls))
    third = Configuration.parse("openmpi.bcast.binomial:segsize=0")
    assert parsed.decide(calls[2]).chosen == third


@pytest.mark.parametrize("name", ["openmpi-json", "openmpi-classic"])
def test_what_is_written_is_obeyed(mpi: RealMpi, tmp_path: Path, name: str) -> None:
    """A table of all safe configurations, radixes included, runs as it says."""
    rng = Random(7)
    rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {}
    for collective in Collective:
        for size in range(2, NPROCS + 1):
            offered = HERE.portfolio(collective, (0, 1024), (2, 3)).configurations
            configurations = [
                c for c in offered if not HERE.runs(c, size, Promises(MOST_PROMISED)).refusal
            ]
            rules[collective, size] = (Interval(0, None, rng.choice(configurations)),)
    table = DecisionTable("openmpi", Shape(1, NPROCS), rules)
    written = FORMATS[name].write(table, RELEASE, programs=MOST_PROMISED)
    calls = _calls(rng, list(Collective), 60)
    _, wrong, decided = _compared(mpi, tmp_path, name, written.text, calls)
    assert wrong == []
    assert decided >= 20


@pytest.mark.parametrize(
    "text",
    [
        '{"collectives": {"reducescatter": []}}',
        '{"collectives": {"bcast": [{"comm_size_min": 2.5, "rules": [{"alg": 1}]}]}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": 1, "msg_size_max": "many"}]}]}}',
        '{"collectives": {"bcast": [{"comm_size_max": "inf", "rules": [{"alg": 1}]}]}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": null}]}]}}',
        '{"collectives": {"bcast": [{"rules": [7, {"alg": 1}]}]}}',
        '{"collectives": {"bcast": [{"rules": []}, {"rules": [{"alg": 1}]}]}}',
        '\ufeff{"collectives": {"bcast": [{"rules": [{"alg": 4294967302,}],},],}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": 1}]}], "bcast": []}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": "0x3", "alg": 1}]}]}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": "", "msg_size_max": -1}]}]}}',
        '{"collectives": {"bcast": [{"comm_rank_distribution": "x", "rules": [{"alg": 1}]}]}}',
    ],
)
def test_odd_files_do_what_is_said(mpi: RealMpi, tmp_path: Path, text: str) -> None:
    """What is dropped is dropped, what is read over is read over."""
    calls = [Call(Collective.BCAST, ranks, 4000, is_world=False) for ranks in (3, 4)]
    assert _compared(mpi, tmp_path, "openmpi-json", text, calls)[1] == []


@pytest.mark.parametrize(
    "text",
    [
        '{"collectives": {"alltoallw": [{"rules": [{"alg": 1}]}]}}',
        '{"collectives": {"gatherv": [{"rules": [{"alg": "linear"}]}]}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": 1}]}], "reducescatter": []}}',
        '{"collectives": {"bcast": [{"rules": [{"alg": 1}]}, {"comm_size_min": 2}]}}',
        '{"collectives": {"bcast": [{"rules": {"alg": 1}}]}}',
    ],
)
def test_programs_die_of_what_is_said(mpi: RealMpi, tmp_path: Path, text: str) -> None:
    """The library crashes while it reads the file."""
    path = tmp_path / "rules.json"
    path.write_text(text, encoding="utf-8")
    known = FORMATS["openmpi-json"]
    parsed = known.parse(text, str(path), RELEASE)
    call = Call(Collective.BCAST, 3, 64, is_world=False)
    assert parsed.decide(call).ends_program
    environment = known.activation(RELEASE, {"": str(path)}, Shape(1, 3))
    assert not mpi.call(3, _steps([call]), environment).ok


def test_every_configuration_can_be_forced_in_one_launch(mpi: RealMpi) -> None:
    """Control variables switch between all algorithms, radixes included, and results are right."""
    steps, wanted = [], []
    for collective in Collective:
        for choice in HERE.portfolio(collective, (1024,), (2, 3)).configurations:
            safe = not HERE.runs(choice, 4, Promises(MOST_PROMISED)).refusal
            if choice.is_default or not safe or not HERE.settable_at_runtime(choice):
                continue
            steps += [f"set:{name}={value}" for name, value in HERE.force(choice).items()]
            steps.append(f"{collective}:{0 if collective is Collective.BARRIER else 9600}")
            wanted.append(HERE.expected_symbols(choice))
    seen = mpi.observe(4, steps, HERE.base_environment())
    assert len(seen) >= 60
    assert [o for o, symbols in zip(seen, wanted, strict=True) if o.symbol not in symbols] == []


@pytest.mark.parametrize("seed", range(4))
def test_files_for_han_are_read_as_is_said(mpi: RealMpi, tmp_path: Path, seed: int) -> None:
    """The library reads as many rules as are told, or forgets the file as is told."""
    compare_han_file(mpi, tmp_path, random_han_file(Random(seed)))


@pytest.mark.root
def test_layouts_are_told_apart_across_nodes(
    mpi: RealMpi, spaces: Namespaces, tmp_path: Path
) -> None:
    """One process per node, a single node and all others each get what was written for them."""
    bcast, job = Collective.BCAST, Shape(3, 2)
    default = Configuration.default("openmpi", bcast)

    def always(algorithm: str) -> tuple[Interval, ...]:
        return (Interval(0, None, Configuration.parse(f"openmpi.bcast.{algorithm}:segsize=0")),)

    table = DecisionTable(
        "openmpi",
        job,
        {(bcast, 3): always("pipeline"), (bcast, 6): always("knomial")},
        {
            (bcast, Shape(3, 1)): always("binomial"),
            (bcast, Shape(2, 1)): always("binary_tree"),
            (bcast, Shape(1, 2)): always("knomial"),
        },
    )
    known = FORMATS["openmpi-json"]
    written = known.write(table, RELEASE)
    path = tmp_path / "rules.json"
    path.write_text(written.text, encoding="utf-8")
    parsed = known.parse(written.text, str(path), RELEASE)
    flat = {"OMPI_MCA_coll_han_priority": "0"}
    environment = known.activation(RELEASE, {"": str(path)}, job) | flat
    nodes_of = {
        "slot": {2: 1, 3: 2, 6: 3},  # processes 0 and 1 are on the first node
        "node": {2: 2, 3: 3, 6: 3},  # every process is on the next one
    }
    options = openmpi_hosts(tmp_path, ["na", "nb", "nc"], slots=2)
    for how, nodes in nodes_of.items():
        calls = [Call(bcast, ranks, 4000, nodes[ranks], is_world=False) for ranks in nodes]
        mapped = [*options, "--map-by", how]
        seen = mpi.observe(6, _steps(calls), environment, mapped, spaces.enter([]))
        for call, observation in zip(calls, seen, strict=True):
            chosen = parsed.decide(call, environment).configuration
            assert chosen != default
            assert observation.symbol == HERE.space.algorithm_of(chosen).symbol, call
