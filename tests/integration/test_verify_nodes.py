"""`colltune verify` across (emulated) nodes: who outranks the rules, who cannot read the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from colltune.domain import Collective, Shape
from colltune.mpi.formats import FORMATS
from colltune.mpi.programs import SAME_TYPES
from tests.integration.real import RealMpi
from tests.integration.verifying import verified
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts
from tests.mpi.tables import intervals, table

pytestmark = [pytest.mark.mpi, pytest.mark.root]
RULES = """1
7
3
0 1
0 0 0 0
2 1
0 6 0 0
4 2
0 5 0 0
8192 3 0 4096
"""
HAN = """1
bcast
1
global_communicator
1
1
3
0 han @simple
4096 tuned
1048576 han @intra
"""
# on the second node an empty folder lies over the one with the rules
HIDING_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
hide=true
[ "$host" = nb ] && hide="mount -t tmpfs none FOLDER"
run="hostname $host; $hide; exec /bin/sh -c \\"\\$*\\""
exec unshare --uts --ipc --mount /bin/sh -c "$run" sh "$@"
"""


class Nodes:
    """Two emulated nodes with two processes each."""

    def __init__(self, mpi: RealMpi, spaces: Namespaces, folder: Path) -> None:
        self.mpi, self.spaces, self.folder = mpi, spaces, folder
        self.options = openmpi_hosts(folder, ["na", "nb"], slots=2)

    def verify(self, rules: Path, *options: str) -> tuple[int, Any]:
        """Run the verb; return its status and what it printed as JSON."""
        line = (self.mpi.installation.mpirun, "-np", "4", *self.options)
        before = self.spaces.enter([])
        return verified(self.mpi, rules, *options, launcher=line, before=before)[:2]


@pytest.fixture(scope="module")
def nodes(mpi: RealMpi, spaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """Return two emulated nodes, or skip with the reason."""
    if not mpi.release.startswith("5.0."):
        pytest.skip(f"Open MPI {mpi.release} does not prefer coll/han")
    return Nodes(mpi, spaces, tmp_path_factory.mktemp("nodes"))


def test_han_outranks_the_rules_of_the_whole_job(nodes: Nodes, tmp_path: Path) -> None:
    """Rules for all processes lose against coll/han, those for its parts are applied in them."""
    rules = tmp_path / "rules"
    rules.write_text(RULES)
    status, report = nodes.verify(rules, "--no-measure")
    assert status == 1
    assert list(report["nodes"].values()) == [2, 2]
    by_line = {rule["rule"]["line"]: rule for rule in report["results"]}
    assert {line: rule["assessment"]["status"] for line, rule in by_line.items()} == {
        5: "unreachable",
        7: "applied",
        9: "overridden",
        10: "overridden",
    }
    assert by_line[9]["assessment"]["why"].startswith("by coll/han: ")
    assert by_line[10]["assessment"]["ran"] == "coll/han bcast_intra"


def test_a_written_configuration_is_applied_across_nodes(nodes: Nodes, tmp_path: Path) -> None:
    """What colltune writes, with its file for coll/han beside it, runs flat where it says so."""
    bcast = intervals(
        (0, "bcast.default"), (1024, "bcast.pipeline:segsize=4096"), (65536, "bcast.default")
    )
    barrier = intervals((0, "barrier.bruck"))
    rows = {(Collective.BCAST, 4): bcast, (Collective.BARRIER, 4): barrier}
    form = FORMATS["openmpi-classic"]
    written = form.write(table(Shape(2, 2), rows), nodes.mpi.release, programs=SAME_TYPES)
    rules = tmp_path / "rules"
    for end, text in written.texts.items():
        rules.with_name(rules.name + end).write_text(text)
    status, report = nodes.verify(rules, "--no-measure")
    assert status == 0
    assert "OMPI_MCA_coll_han_dynamic_rules_filename" in report["activation"]
    ran = {
        rule["assessment"]["ran"]
        for rule in report["results"]
        if rule["assessment"]["status"] == "applied" and rule["call"]
    }
    assert {"pipeline:segsize=4096", "bruck"} <= ran
    changing = [r for r in report["results"] if not r["rule"]["configuration"].endswith(".default")]
    assert [
        (r["assessment"]["status"], r["assessment"]["why"], r["call"]["nodes"]) for r in changing
    ] == [("applied", "", 2)] * len(changing)


def test_a_file_for_han_is_proved(nodes: Nodes, tmp_path: Path) -> None:
    """Each of its rules names a component or an algorithm of coll/han, which is seen to run."""
    rules = tmp_path / "han"
    rules.write_text(HAN)
    status, report = nodes.verify(rules, "--no-measure")
    assert status == 0
    assert [
        (rule["assessment"]["status"], rule["assessment"]["ran"]) for rule in report["results"]
    ] == [
        ("applied", "coll/han bcast_intra_simple"),
        ("applied", "binomial:segsize=0"),
        ("applied", "coll/han bcast_intra"),
    ]


def test_a_node_that_cannot_read_the_file_is_reported_without_a_deadlock(
    nodes: Nodes, tmp_path: Path
) -> None:
    """The node is named before MPI starts, with and without the check of readability only."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    rules = hidden / "rules"
    rules.write_text(RULES)
    shell = nodes.folder / "remote_shell"
    usual = shell.read_text()
    shell.write_text(HIDING_SHELL.replace("FOLDER", str(hidden)))
    try:
        for options in (("--readable-only",), ("--no-measure",)):
            status, report = nodes.verify(rules, *options)
            read = report.get("readability", report)
            assert status == 1
            assert list(read["problems"]) == ["nb"]
            assert "No such file" in read["problems"]["nb"]
            assert read["hosts"] == ["na", "nb"]
    finally:
        shell.write_text(usual)
