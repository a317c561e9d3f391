"""A strict reader of classic rules files.

Open MPI drops a file that it does not like without a word, and reads nonsense from one that is
merely shifted (``coll_tuned_dynamic_file.c``). Both are errors here, with line and mend.
"""

from __future__ import annotations

from colltune.errors import LibraryError
from colltune.mpi.file_format import Fault, Finding, Severity
from colltune.mpi.openmpi.classic.content import Entry
from colltune.mpi.openmpi.classic.parsed import ClassicFile
from colltune.mpi.protocol import CommunicatorRules, Decision, Rule, RulesFile

_NEWEST = "5.0.11"
# these break programs that are rare, and are what somebody chose
_ALLOWED = (Fault.WRONG_RESULT,)
# of several on one line the one that is the cause of the others
_FIRST = (Fault.MALFORMED, Fault.UNSORTED, Fault.RANKS_DISAGREE, Fault.DEAD_RULE)


def read(text: str, source: str, release: str | None = None) -> RulesFile:
    """Return what the rules file `text` says; `source` names it in messages.

    Algorithm numbers are checked against the list of `release`, or of the newest known one.

    Raises
    ------
    LibraryError
        For everything that the library would drop, ignore or misread, or that would end or
        corrupt a program: the message names the line and the mend.
    """
    file = ClassicFile(text, source, release or _NEWEST)
    refused = [finding for finding in file.findings if _refused(finding)]
    if refused:
        worst = min(refused, key=_rank)
        raise LibraryError(f"{source}:{worst.line}: {worst.message}; {worst.mend}")
    return RulesFile(
        text,
        {
            collective: tuple(_communicator(entry) for entry in section.entries)
            for collective, section in file.sections.items()
        },
    )


def _refused(finding: Finding) -> bool:
    if finding.fault is Fault.MALFORMED:
        return True
    return finding.severity is Severity.ERROR and finding.fault not in _ALLOWED


def _rank(finding: Finding) -> tuple[int, int]:
    fault = finding.fault
    return finding.line, _FIRST.index(fault) if fault in _FIRST else len(_FIRST)


def _communicator(entry: Entry) -> CommunicatorRules:
    rules = tuple(
        Rule(
            rule.size.value,
            Decision(rule.algorithm.value, rule.fanout.value, rule.segsize.value),
        )
        for rule in entry.rules
    )
    return CommunicatorRules(entry.comm_size.value, rules)
