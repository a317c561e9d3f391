"""``python -m cluster up|down|run|list``; ``make cluster`` and ``cluster/run`` call it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from cluster.network import Network
from cluster.virtual import VirtualCluster, found, obstacle, running, start, stop
from colltune.errors import ColltuneError, ProgramError


def main(words: Sequence[str]) -> int:
    """Do what `words` ask for; return the exit status."""
    asked = _parser().parse_args(words)
    try:
        return int(asked.do(asked))
    except ColltuneError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return error.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("cluster", description="Hosts in namespaces of one machine.")
    verbs = parser.add_subparsers(required=True)
    up = verbs.add_parser("up", help="start a cluster, and say how to use it")
    up.set_defaults(do=_up)
    down = verbs.add_parser("down", help="end a cluster and all that runs on it")
    down.set_defaults(do=_down)
    run = verbs.add_parser("run", help="run a command on its first host; start one if none runs")
    run.set_defaults(do=_run)
    run.add_argument("--fair", action="store_true", help="not in the real-time class: for MPICH")
    for verb in (up, run):
        _add_network(verb)
    for verb in (up, down, run):
        verb.add_argument("--name", default="virtual", help="what its hosts' names begin with")
    run.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("list", help="name those that run").set_defaults(do=_list)
    return parser


def _add_network(verb: argparse.ArgumentParser) -> None:
    usual = Network()
    verb.add_argument("--nodes", type=int, default=usual.nodes)
    verb.add_argument("--ppn", type=int, default=usual.ppn, help="slots of a host")
    verb.add_argument("--latency-us", type=float, default=usual.latency_us, help="one way")
    verb.add_argument("--rate-mbit", type=_rates, default=usual.rates_mbit, help="or one per rail")
    verb.add_argument("--rails", type=int, help="networks that join the hosts")


def _rates(text: str) -> tuple[float, ...]:
    return tuple(float(rate) for rate in text.split(","))


def _network(asked: argparse.Namespace) -> Network:
    rates = asked.rate_mbit
    if asked.rails is not None and len(rates) == 1:
        rates = rates * asked.rails
    if asked.rails not in (None, len(rates)):
        raise ProgramError(f"{asked.rails} rails, but {len(rates)} rates; give one rate, or each")
    return Network(asked.nodes, asked.ppn, asked.latency_us, rates)


def _started(asked: argparse.Namespace) -> VirtualCluster:
    reason = obstacle()
    if reason:
        raise ProgramError(reason)
    return start(_network(asked), asked.name)


def _up(asked: argparse.Namespace) -> int:
    print(_usage(_started(asked)))
    return 0


def _usage(cluster: VirtualCluster) -> str:
    network, name = cluster.named.network, cluster.named.name
    shape = f"{network.nodes * network.ppn}", f"{network.ppn}"
    option = "" if name == "virtual" else f"--name {name} "
    variable = "" if name == "virtual" else f" NAME={name}"
    return f"""\
cluster {name} is up: {network}
  hosts     {cluster.hosts[0]} .. {cluster.hosts[-1]}; {", ".join(cluster.named.subnets)}
  hostfile  {cluster.hostfile}
Open MPI    cluster/run {option}mpirun -n {shape[0]} --map-by ppr:{shape[1]}:node PROGRAM
MPICH       cluster/run {option}--fair mpiexec -n {shape[0]} -ppn {shape[1]} PROGRAM
colltune    cluster/run {option}colltune measure {cluster.folder / "campaign.toml"} --out measured
end         make cluster-down{variable}"""


def _run(asked: argparse.Namespace) -> int:
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not command:
        raise ProgramError("nothing to run; name a command")
    temporary = asked.name not in running()
    cluster = _started(asked) if temporary else found(asked.name)
    try:
        words = cluster.enter(command, realtime=not asked.fair)
        return subprocess.run(words, env=os.environ | cluster.environment, check=False).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        if temporary:
            cluster.stop()


def _down(asked: argparse.Namespace) -> int:
    ran = stop(asked.name)
    print(f"cluster {asked.name} {'ended' if ran else 'was not up'}")
    return 0


def _list(_: argparse.Namespace) -> int:
    for name in running():
        print(f"{name}: {found(name).named.network}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
