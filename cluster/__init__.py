"""A virtual cluster on one machine: hosts in network namespaces, joined with latency and rate.

``make cluster`` starts one; `virtual_cluster` is for tests and benchmarks. The README beside this
file tells how it works.
"""

from cluster.network import Network
from cluster.virtual import VirtualCluster, found, obstacle, running, start, stop, virtual_cluster

__all__ = [
    "Network",
    "VirtualCluster",
    "found",
    "obstacle",
    "running",
    "start",
    "stop",
    "virtual_cluster",
]
