"""What Open MPI up to 5.0 decides with a rules file (``coll_tuned_dynamic_rules.c``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.openmpi.releases import entry_of
from colltune.mpi.openmpi.running import Numbers, configuration_of
from colltune.mpi.protocol import CommunicatorRules, Decision, RulesFile

_LIBRARY_DECIDES = Decision(0)
_ANY_RELEASE = "5.0.11"


def simulate(
    rules: RulesFile, collective: Collective, comm_size: int, msize_bytes: int
) -> Decision:
    """Return what the library decides for a call on a communicator of `comm_size` processes.

    Entries are scanned in file order and the last one that is not larger counts; a communicator
    that is smaller than all entries gets the first. In-place calls, of which the library forgets
    the size, are not covered.
    """
    entries = rules.rules.get(collective, ())
    if comm_size < 2 or not entries:
        return _LIBRARY_DECIDES
    entry = _matching(entries, comm_size)
    size = size_in_file(entry_of(_ANY_RELEASE, collective), comm_size, msize_bytes)
    not_larger = takewhile(lambda rule: rule.first_bytes <= size, entry.rules)
    *_, decision = (_LIBRARY_DECIDES, *(rule.decision for rule in not_larger))
    return decision if decision.algorithm else _LIBRARY_DECIDES


def size_in_file(entry: CollectiveEntry, comm_size: int, msize_bytes: int) -> int:
    """Return the size that the library compares with a rule's threshold, in its own unit."""
    if entry.size is SizeUnit.MSIZE:
        return msize_bytes
    if entry.size is SizeUnit.MSIZE_TIMES_NPROCS:
        return comm_size * msize_bytes
    return 0


def decided(release: str, collective: Collective, decision: Decision) -> Configuration:
    """Return the configuration that a decision stands for.

    Raises
    ------
    LibraryError
        If this release has no algorithm of that number.
    """
    found = configuration_of(entry_of(release, collective), Numbers(*decision))
    if found is None:
        raise LibraryError(
            f"Open MPI {release} has no {collective} algorithm number {decision.algorithm}"
        )
    return found


def _matching(entries: Sequence[CommunicatorRules], comm_size: int) -> CommunicatorRules:
    fitting = list(takewhile(lambda entry: entry.comm_size <= comm_size, entries))
    return fitting[-1] if fitting else entries[0]
