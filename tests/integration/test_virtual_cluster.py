"""Virtual clusters: latency and rate as asked for, hosts apart from each other, nothing left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cluster import (
    Network,
    VirtualCluster,
    found,
    obstacle,
    running,
    start,
    stop,
    virtual_cluster,
)
from cluster.__main__ import main
from cluster.launching import OnCluster
from cluster.slurm import cluster_slurm, missing
from colltune import process
from colltune.bench.backends.native import NativeBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import launcher_of
from colltune.bench.runner import run_campaign
from colltune.dataset import read_parquet
from colltune.domain import Collective
from colltune.errors import ProgramError
from tests.integration.real import installed

pytestmark = pytest.mark.mpi
LATENCY_S, FAST_S = 0.02, 0.004
SLOW = Network(3, 2, LATENCY_S * 1e6, rates_mbit=(100.0, 50.0))
TALKING = Path(__file__).with_name("talking.py")
LARGE_BYTES = 500_000
PORT = 6000
ROOT = Path(__file__).parents[2]
# two runs of the tests at once must not take each other's names
MINE = "".join(chr(ord("a") + int(digit)) for digit in str(os.getpid()))
TWICE, HELD = f"twice-{MINE}", f"held-{MINE}"
# holds a cluster until it is killed
HOLDER = f"""
import time
from cluster import Network, virtual_cluster
with virtual_cluster(Network(2, 1), "{HELD}"):
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True, scope="module")
def _possible() -> None:
    """Skip, with the reason, where no cluster can be started."""
    reason = obstacle()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def slow(_possible: None) -> Iterator[VirtualCluster]:
    """Return a cluster whose latency is far above what the machine itself adds."""
    with virtual_cluster(SLOW) as cluster:
        yield cluster


def say(cluster: VirtualCluster, script: str, host: int = 0) -> str:
    """Return what a shell script says on a host."""
    outcome = cluster.run(["sh", "-ec", script], host=host)
    assert outcome.ok, outcome.explain()
    return outcome.stdout.strip()


@contextmanager
def listening(cluster: VirtualCluster) -> Iterator[None]:
    """Let the second host answer."""
    command = cluster.enter([sys.executable, TALKING, "listen", str(PORT), str(PORT + 1)], 1)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"listening\n"
        yield
        other.kill()


def test_each_rail_has_its_latency_and_rate(slow: VirtualCluster) -> None:
    """On each rail nothing is faster than the latency and the rate that this rail was given.

    How much slower a busy machine makes it is what `make figure NAME=virtual_cluster_error` tells.
    """
    with listening(slow):
        commands = [
            slow.enter([sys.executable, TALKING, "talk", slow.named.address(1, rail), *words])
            for rail in range(SLOW.rails)
            for words in [[str(PORT + rail), str(LARGE_BYTES), "8"]]
        ]
        talking = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in commands]
        said = [talk.communicate(timeout=600)[0].split() for talk in talking]
    for (small, large), rate_mbit in zip(said, SLOW.rates_mbit, strict=True):
        assert float(small) / 2 >= LATENCY_S
        wire_s = LARGE_BYTES * 8e-6 / rate_mbit
        assert float(large) - 2 * LATENCY_S >= wire_s


def test_messages_take_longer_once_the_latency_is_changed() -> None:
    """What is sent after the change needs the new latency at least."""
    with virtual_cluster(Network(2, 1, latency_us=1000.0)) as cluster, listening(cluster):
        cluster.change_latency(LATENCY_S * 1e6)
        address = cluster.named.address(1)
        # while there is traffic the switch looks for a new latency
        for port in (PORT, PORT + 1):
            words = (TALKING, "talk", address, str(port), "1", "3")
            talk = process.run(cluster.enter([sys.executable, *words]), timeout_s=600)
            time.sleep(0.2)
        said = talk.stdout.split()
    assert float(said[0]) / 2 >= LATENCY_S


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.root
def test_a_slurm_runs_jobs_of_other_users_on_it() -> None:
    """A job of an ordinary user runs on all hosts, and its status is known."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="ctslurm"))
    folder.chmod(0o755)
    try:
        with cluster_slurm(Network(2, 2), folder, 2) as slurm:
            told = slurm.run("srun", "--quiet", "-N2", "sh", "-c", "hostname; id -un", user="games")
            assert sorted(told.stdout.split()) == sorted([*slurm.cluster.hosts, "games", "games"])
            slurm.restart_controller()
            slurm.wait_idle()
            assert slurm.run("srun", "--quiet", "sh", "-c", "exit 3", user="games").returncode == 3
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_hosts_are_apart(slow: VirtualCluster) -> None:
    """Each host has its own name, address, shared memory and temporary folder; files are shared."""
    for host, name in enumerate(slow.hosts):
        assert say(slow, "hostname", host) == name
        say(slow, f'touch /dev/shm/{name} "$TMPDIR/{name}"', host)
    seen = [say(slow, 'cd /dev/shm; echo *; cd "$TMPDIR"; echo *', host) for host in range(3)]
    assert seen == [f"{name}\n{name}" for name in slow.hosts]
    address = say(slow, "getent hosts " + slow.hosts[2]).split()[0]
    assert address == slow.named.address(2)
    assert say(slow, f"cat {slow.hostfile}") == slow.hostfile.read_text().strip()


def test_two_at_once_have_nothing_in_common(slow: VirtualCluster) -> None:
    """A second cluster has other names and subnets, and its host cannot reach the first one."""
    with virtual_cluster(Network(2, 1)) as second:
        assert {slow.named.name, second.named.name} <= set(running())
        assert not set(slow.hosts) & set(second.hosts)
        assert not set(slow.named.subnets) & set(second.named.subnets)
        assert not second.run(["ip", "route", "get", slow.named.address(1)]).ok
        again = found(second.named.name)
        assert again == second
    assert second.named.name not in running()
    assert not second.folder.exists()


def test_starting_twice_and_ending_twice_do_no_harm(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that runs is refused; ending what has ended says so; after a crash it starts again."""
    cluster = start(Network(2, 1), TWICE)
    try:
        with pytest.raises(ProgramError, match="runs already"):
            start(Network(2, 1), TWICE)
        assert main(["run", "--name", TWICE, "--", "sh", "-c", "exit 7"]) == 7
        os.kill(cluster.keeper, signal.SIGKILL)
        deadline = time.monotonic() + 120
        while cluster.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not cluster.alive()
        assert cluster.folder.exists()
        assert start(Network(2, 1), TWICE).alive()
    finally:
        assert stop(TWICE)
    assert main(["down", "--name", TWICE]) == 0
    assert capsys.readouterr().out == f"cluster {TWICE} was not up\n"
    with pytest.raises(ProgramError, match=f"no virtual cluster '{TWICE}'"):
        found(TWICE)


def test_a_killed_holder_takes_its_cluster_along() -> None:
    """SIGKILL to the program that holds a cluster ends all processes of it."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        held = found(HELD)
        holder.kill()
    deadline = time.monotonic() + 120
    while held.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not held.alive()
    stop(HELD)


def test_a_switch_that_ends_takes_the_cluster_along() -> None:
    """A cluster without its network is no cluster: it ends, in place of hanging every program."""
    with virtual_cluster(Network(2, 1)) as cluster:
        assert say(cluster, "ls /proc | grep -c '^[0-9]'")
        with suppress(AssertionError):
            say(cluster, "kill $(grep -l switch- /proc/[0-9]*/comm | cut -d/ -f3)")
        deadline = time.monotonic() + 120
        while cluster.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not cluster.alive()


def test_a_campaign_runs_on_it(tmp_path: Path) -> None:
    """`colltune measure` fills every shape, and no broadcast is faster than the network."""
    mpi = installed("openmpi")
    campaign = Campaign(
        (Collective.BCAST,),
        (8,),
        nodes=(2, 3),
        ppn=(2,),
        only=("*.binomial:segsize=0",),
        total_s=9.0,
        max_reps=2,
        cell_s=0.3,
    )
    with virtual_cluster(Network(3, 2, FAST_S * 1e6)) as cluster:
        launcher = OnCluster(launcher_of(mpi), cluster, realtime=True)
        backend = NativeBackend(mpi, launcher=launcher)
        run_campaign(campaign, backend, tmp_path, seed=1)
    frame = read_parquet(tmp_path).frame
    found_shapes = set(zip(frame["nodes"], frame["ppn"], strict=True))
    assert found_shapes == {(2, 2), (3, 2)}
    assert frame["time_s"].min() > FAST_S
