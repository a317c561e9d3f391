"""Decision tables as libcolltune reads them, for tests: three real ones, and their checksum."""

from __future__ import annotations

OPENMPI = """\
colltune-table 1
library openmpi {release}
shape 2x2
bundle sha256:0f343b0931126a20f133d67c2b018a3b
unless OMPI_MCA_coll
unless OMPI_MCA_coll_tuned_*
but *_verbose
but OMPI_MCA_coll_tuned_use_dynamic_rules
configuration 1 openmpi.bcast.chain:fanout=2,segsize=1024 coll_han_priority=0\
 coll_tuned_bcast_algorithm=2 coll_tuned_bcast_algorithm_chain_fanout=2\
 coll_tuned_bcast_algorithm_segmentsize=1024
configuration 2 colltune.bcast.hierarchical:groups=2,inner=binomial
configuration 3 openmpi.bcast.pipeline:segsize=4096 coll_han_priority=0\
 coll_tuned_bcast_algorithm=3 coll_tuned_bcast_algorithm_segmentsize=4096
configuration 4 openmpi.allreduce.ring coll_han_priority=0 coll_tuned_allreduce_algorithm=4
rules bcast size 4
0 0
4096 1
32768 3
100000 2
rules bcast layout 2x2
0 1
5000 0
rules allreduce size 4
0 4
"""
MPICH = """\
colltune-table 1
library mpich {release}
shape 1x4
unless MPIR_CVAR_BCAST_*
configuration 1 mpich.bcast.scatter_ring_allgather MPIR_CVAR_BCAST_DEVICE_COLLECTIVE=0\
 MPIR_CVAR_BCAST_INTRA_ALGORITHM=scatter_ring_allgather MPIR_CVAR_COLLECTIVE_FALLBACK=0
configuration 2 mpich.bcast.binomial MPIR_CVAR_BCAST_DEVICE_COLLECTIVE=0\
 MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial
configuration 3 colltune.bcast.hierarchical:groups=2,inner=binomial
rules bcast size 4
0 0
1000 1
20000 2
"""
OF_THE_FUTURE = """\
colltune-table 1
library openmpi 5.0.11
shape 1x4
configuration 1 colltune.bcast.by_carrier_pigeon
configuration 2 colltune.bcast.hierarchical:groups=3,inner=chain
rules bcast size 4
0 1
64 2
"""
_64_BITS = (1 << 64) - 1


def sealed(body: str) -> str:
    """Return a table with its last line."""
    checksum = 0xCBF29CE484222325
    for byte in body.encode():
        checksum = (checksum ^ byte) * 0x100000001B3 & _64_BITS
    return f"{body}end {checksum:016x}\n"
