"""A benchmark backend that is added from outside the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.backends import Backend
from colltune.dataset import read
from colltune.domain import RunStatus
from tests.extension.exercise import contract, verbs

LINE = "tests.extension.backend.line"
CAMPAIGN = """
[machine]
name = "stand-in"
[space]
collectives = ["bcast"]
nodes = [1]
ppn = [4]
msizes_bytes = [64, 4096]
only = ["*.basic_linear", "*.binomial:segsize=0", "*.chain:fanout=2,segsize=0"]
[measure]
backend = "osu"
[budget]
total = "20s"
"""
MPIRUN = """[ "$1" = --version ] && echo 'mpirun (Open MPI) 5.0.11' && exit
while [ "${1#-}" != "$1" ]; do [ "$1" = -np ] && shift; shift; done
exec "$@"
"""
MPICC = """case "$1" in
--showme:version) echo 'mpicc: Open MPI 5.0.11 (Language: C)';;
--showme) echo 'sh -I/include -L{lib} -lmpi';;
esac
"""
# what osu_bcast 7.4 prints with -f, at a time that the forced algorithm decides
OSU_BCAST = """algorithm=${OMPI_MCA_coll_tuned_bcast_algorithm:-0}
[ "$algorithm" = 2 ] && { echo "cannot chain" >&2; exit 134; }
while [ $# -gt 0 ]; do
  case $1 in -i) calls=$2; shift ;; -m) size=${2%%:*}; shift ;; esac
  shift
done
cat <<END

# OSU MPI Broadcast Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
$size              4$algorithm.10             40.20             5$algorithm.50         $calls
END
"""


def _program(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}")
    file.chmod(0o755)


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of stand-ins for Open MPI and osu_bcast."""
    _program(tmp_path / "bin" / "mpirun", MPIRUN)
    _program(tmp_path / "bin" / "mpicc", MPICC.format(lib=tmp_path / "lib"))
    _program(tmp_path / "bin" / "osu_bcast", OSU_BCAST)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so").write_bytes(b"\x7fELF")
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    monkeypatch.setenv("COLLTUNE_OSU", str(tmp_path / "bin"))
    return tmp_path


def test_it_keeps_the_contract() -> None:
    """All contract tests of backends run for it and pass."""
    ran = contract(LINE, "osu", "backends")
    assert not ran["failed"] + ran["error"]
    methods = [n for n in vars(Backend) if not n.startswith("_") and callable(getattr(Backend, n))]
    assert ran["passed"] > len(methods)


def test_a_campaign_is_planned_and_measured_with_it(prefix: Path) -> None:
    """Every cell has the time of the algorithm that was forced; the one that dies is a crash."""
    campaign, data = prefix / "campaign.toml", prefix / "data"
    planned, measured = verbs(
        [LINE],
        ["plan", campaign, "--mpi", prefix, "--json"],
        ["measure", campaign, "--mpi", prefix, "--out", data, "--json"],
    )
    assert planned.json["plan"]["backend"] == "osu"
    assert measured.status == 0, measured.err
    found = {
        (m.configuration.id.removeprefix("openmpi.bcast."), m.instance.msize_bytes): m
        for m in read([data]).measurements()
    }
    times_us = {
        (name, msize): round(m.summary.time_s * 1e6, 3)
        for (name, msize), m in found.items()
        if m.summary is not None
    }
    for name, us in (("default", 50.5), ("basic_linear", 51.5), ("binomial:segsize=0", 56.5)):
        assert {times_us[name, 64], times_us[name, 4096]} == {us}
    died = [m.status for (name, _), m in found.items() if name.startswith("chain")]
    assert RunStatus.CRASH in died


def test_a_missing_program_is_one_clear_error(prefix: Path) -> None:
    """The message names the program and the mend."""
    (prefix / "bin" / "osu_bcast").unlink()
    campaign, data = prefix / "campaign.toml", prefix / "data"
    [refused] = verbs([LINE], ["measure", campaign, "--mpi", prefix, "--out", data])
    assert refused.status == 5
    assert (
        "'osu_bcast' not found; put the programs of the OSU Micro-Benchmarks on PATH" in refused.err
    )
