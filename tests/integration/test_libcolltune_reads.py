"""libcolltune reads tables and rules, survives damaged ones, and decides by what it read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Collective
from colltune.mpi.formats import FORMATS
from colltune.mpi.libcolltune import NATIVE
from colltune.mpi.rules import Call
from tests.integration.real import HEADERS, Real, installed
from tests.integration.tables_for_libcolltune import MPICH, OF_THE_FUTURE, OPENMPI, sealed

pytestmark = pytest.mark.mpi
GOLDEN = Path(__file__).parents[1] / "golden" / "interposed"
FLAGS = ("-g", "-O0", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-rdynamic")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
RELEASE = "5.0.11"


@dataclass(frozen=True)
class Decides:
    """The test program, linked with libcolltune's sources."""

    program: Path
    real: Real

    def run(self, *words: str, variables: Mapping[str, str] | None = None) -> list[str]:
        """Return the lines it prints; fail with what it says if a check does."""
        outcome = process.run(
            [self.program, *words], timeout_s=300.0, env={**os.environ, **(variables or {})}
        )
        assert outcome.ok, outcome.explain()
        return outcome.stdout.splitlines()

    def ask(
        self, table: str, *questions: str, variables: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return what a table decides; a question is COLLECTIVE:SIZE:NODESxPPN:BYTES."""
        path = self.real.folder / "asked"
        path.write_text(table, encoding="utf-8")
        return self.run("ask", str(path), *questions, variables=variables)[:-1]


@pytest.fixture(scope="module")
def decides(tmp_path_factory: pytest.TempPathFactory) -> Decides:
    """Return the test program, under the address and undefined-behaviour sanitizers."""
    folder = tmp_path_factory.mktemp("decides")
    sources = sorted((NATIVE / "src").glob("*.c"))
    flags = (*FLAGS, *SANITIZERS, *HEADERS, *sources, "-lm", "-lrt")
    real = Real(installed(), folder)
    return Decides(real.compiled("decides.c", options=flags), real)


def test_the_step_that_begins_last_decides(decides: Decides) -> None:
    """Each message takes the last step that begins at or below its size."""
    sizes = (0, 4095, 4096, 32767, 32768, 99999, 100000, 2**62)
    found = decides.ask(
        sealed(OPENMPI.format(release=RELEASE)), *(f"bcast:4:1x4:{s}" for s in sizes)
    )
    chain, pipeline = "chain:fanout=2,segsize=1024", "pipeline:segsize=4096"
    own = "colltune.bcast.hierarchical:groups=2,inner=binomial"
    steered = [f"openmpi.bcast.{name}" for name in (chain, chain, pipeline, pipeline)]
    assert found == ["library", "library", *steered, own, own]


def test_a_layout_goes_before_its_size(decides: Decides) -> None:
    """A communicator takes the rules for its layout, else its size's, else none."""
    table = sealed(OPENMPI.format(release=RELEASE))
    found = decides.ask(table, "bcast:4:2x2:9", "bcast:4:4x1:9", "bcast:4:2x0:9", "bcast:8:4x2:9")
    assert found == ["openmpi.bcast.chain:fanout=2,segsize=1024", "library", "library", "library"]
    assert decides.ask(table, "allreduce:4:2x2:9", "gather:4:2x2:9") == [
        "openmpi.allreduce.ring",
        "library",
    ]


def test_the_users_variables_are_seen(decides: Decides) -> None:
    """A variable that matches a pattern decides unless it is excepted."""
    table = sealed(OPENMPI.format(release=RELEASE))
    for name, seen in (
        ("OMPI_MCA_coll", True),
        ("OMPI_MCA_coll_tuned_bcast_algorithm", True),
        ("OMPI_MCA_coll_tuned_verbose", False),
        ("OMPI_MCA_coll_tuned_use_dynamic_rules", False),
        ("OMPI_MCA_collective", False),
    ):
        told = [f"overruled: {name}=1"] if seen else []
        assert decides.ask(table, variables={name: "1"}) == told


def test_what_is_unknown_is_left_to_the_library(decides: Decides) -> None:
    """An algorithm that this library lacks is named; the other steps hold."""
    found = decides.ask(sealed(OF_THE_FUTURE), "bcast:4:1x4:63", "bcast:4:1x4:64")
    unknown = "colltune.bcast.by_carrier_pigeon"
    assert found == [
        f"unknown: {unknown}: this library has no algorithm by_carrier_pigeon for bcast",
        "library",
        "colltune.bcast.hierarchical:groups=3,inner=chain",
    ]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("", "it is no decision table"),
        ("#!/bin/sh\n", "it is no decision table"),
        ("colltune-table 2\n", "it has a version that this library does not know"),
        (MPICH, "it is damaged: no checksum ends it"),
        (sealed(MPICH)[:-9], "it is damaged: no checksum ends it"),
        (sealed(MPICH).replace("1000", "1001"), "it is damaged: the checksum is another one"),
        (sealed(MPICH + "\0"), "it is damaged: it has NUL bytes"),
        (
            sealed(MPICH + "rules bcast size 4\n0 1\n"),
            "line 12: these communicators have rules already",
        ),
        (sealed(MPICH + "30000 4\n"), "line 12: it is no step"),
        (sealed(MPICH + "20000 1\n"), "line 12: steps begin at 0 bytes and ascend"),
        (sealed(MPICH + "9223372036854775808 1\n"), "line 12: it is no step"),
        (sealed(MPICH + "rules bcast layout 65536x65536\n"), "line 12: it is no size such as 8"),
        (
            sealed(MPICH + "rules gather size 4\n0 1\n"),
            "line 13: its configuration is one of another",
        ),
        (sealed(MPICH + "rules gather size 4\n"), "line 13: the rules before have no step"),
        (sealed(MPICH.replace("shape 1x4\n", "")), "library or shape is missing"),
    ],
)
def test_a_broken_table_is_ignored_as_a_whole(decides: Decides, table: str, why: str) -> None:
    """The reason names the line, where there is one."""
    (ignored,) = decides.ask(table)
    assert ignored.startswith("ignored: ")
    assert why in ignored


def test_damaged_tables_do_no_harm(decides: Decides) -> None:
    """Cut, changed, very long, or with NUL bytes: no sanitizer finds anything."""
    path = decides.real.folder / "whole"
    path.write_text(sealed(OPENMPI.format(release=RELEASE)), encoding="utf-8")
    decides.run("damage", str(path), os.environ.get("COLLTUNE_TEST_DAMAGED_TABLES", "2000"))


@pytest.mark.parametrize("how", [(), ("alone",)])
def test_rules_decide_and_change(decides: Decides, how: tuple[str, ...]) -> None:
    """Operators, parameters, named values by attribute, replacement, and threads that decide."""
    # MPI itself leaves memory behind
    leaks = {"ASAN_OPTIONS": "detect_leaks=0"}
    outcome = decides.real.run(1, [decides.program, "rules", *how], leaks)
    assert outcome.ok, outcome.explain()
    assert int(outcome.stdout.split()[1]) > 700


@pytest.mark.parametrize("library", ["openmpi", "mpich", "intelmpi"])
def test_it_reads_what_colltune_writes(decides: Decides, library: str) -> None:
    """The library and colltune's own reader come to the same about every call."""
    text = (GOLDEN / f"{library}.table").read_text(encoding="utf-8")
    release = text.split()[4]
    parsed = FORMATS[f"{library}-table"].parse(text, "/t", release)
    calls = [
        Call(collective, size, msize, nodes)
        for collective in (Collective.BCAST, Collective.ALLREDUCE, Collective.BARRIER)
        for size, nodes in ((4, 1), (8, 1), (8, 4), (8, 8), (16, 4))
        for point in parsed.switch_points(collective, size, nodes)
        for msize in (max(0, point - 1), point)
    ]
    questions = [
        f"{c.collective}:{c.comm_size}:{c.nodes}x{c.comm_size // c.nodes}:{c.msize_bytes}"
        for c in calls
    ]
    chosen = [parsed.decide(call).chosen for call in calls]
    ids = ["library" if one.is_default else one.id for one in chosen]
    assert len(set(ids)) > 1
    assert decides.ask(text, *questions) == ids
