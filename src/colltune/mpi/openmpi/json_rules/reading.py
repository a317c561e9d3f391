"""What JSON rules for coll/tuned hold, as a release of Open MPI reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from colltune.domain import Collective
from colltune.errors import say
from colltune.mpi import located_json
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.located_json import Member, Node
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.decide import decide_without
from colltune.mpi.openmpi.decide.tuned import (
    configuration_of,
    library_name,
    number_of,
)
from colltune.mpi.openmpi.mca import as_int
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Call,
    Entry,
    Fault,
    Finding,
    Layout,
    Numbers,
    Outcome,
    Rule,
)

_TOP = ("rule_file_version", "module", "collectives")
_COMMUNICATOR = ("comm_size_min", "comm_size_max", "comm_rank_distribution", "rules")
_RULE = ("msg_size_min", "msg_size_max", "alg", "faninout", "seg_size", "reqs")
_MEANT = {
    "algorithm": "alg",
    "maxrequests": "reqs",
    "fanout": "faninout",
    "msgsize": "msg_size_min",
}
# Open MPI knows these collectives and coll/tuned has no algorithms for them
_NOT_SELECTABLE = frozenset(
    {"alltoallw", "gatherv", "scatterv"}
    | {f"neighbor_{name}" for name in ("allgather", "allgatherv")}
    | {f"neighbor_{name}" for name in ("alltoall", "alltoallv", "alltoallw")}
)
_TEXT_LENGTH = 160
_COMMENT = re.compile(r"^[_#/$]|comment|description|note|^(name|title|author|date|version)$", re.I)


@dataclass
class Reading:
    """What was read: by collective, everything that is wrong, and what that does to the file."""

    entries: dict[Collective, tuple[Entry, ...]] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    dropped: str = ""
    ends_program: str = ""


def read(root: Node, catalogue: Catalogue) -> Reading:
    """Return what a release makes of a file, parsed already, with `catalogue`'s algorithms."""
    reader = _Reader(catalogue)
    reader.file(root)
    return reader.reading


class _Reader:
    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.reading = Reading()
        # once an object was read whole, errors before the next list of rules free it again
        self.freed = False

    def note(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.reading.findings.append(Finding(line, fault, message, mend))

    def drop(self, line: int, why: str, mend: str, *, in_rules: bool = False) -> None:
        """Note why the library ignores the file, or dies while it tidies up after that."""
        first = not self.reading.dropped and not self.reading.ends_program
        if self.freed and not in_rules:
            message = f"{why}: the library tries to drop the file, frees memory twice and crashes"
            self.note(line, Fault.ENDS_PROGRAM, message, mend)
            if first:
                self.reading.ends_program = f"line {line}: {message}"
            return
        message = f"{why}: the library drops the whole file without a message"
        self.note(line, Fault.FILE_DROPPED, message, mend)
        if first:
            self.reading.dropped = f"line {line}: {message}"

    def crash(self, line: int, why: str, mend: str) -> None:
        self.note(line, Fault.ENDS_PROGRAM, why, mend)
        if not self.reading.dropped and not self.reading.ends_program:
            self.reading.ends_program = f"line {line}: {why}"

    def file(self, root: Node) -> None:
        self.unknown_keys(root, _TOP)
        member = _first(root, "collectives")
        if member is None:
            self.drop(root.line, "there is no object 'collectives'", "put the rules into one")
        elif not member.node.is_object:
            self.drop(member.line, "'collectives' is not an object", "write {...} after it")
        else:
            for collective in member.node.members:
                self.collective(collective)

    def collective(self, member: Member) -> None:
        """Read the rules of one collective; those of a later one of the same name replace them."""
        name, node = member.key, member.node
        known = name in list(Collective) and Collective(name) in self.catalogue.collectives
        if not known and name not in _NOT_SELECTABLE:
            self.drop(member.line, f"{name!r} is not a collective", _spelled(name))
            return
        if not node.is_array:
            self.drop(member.line, f"the rules of {name} are not an array", "write [...] after it")
            return
        if not known:
            self.not_selectable(member)
            return
        collective = Collective(name)
        if collective in self.reading.entries:
            why = f"{name} appears a second time, and the library forgets the first one"
            self.note(member.line, Fault.DEAD_RULE, why, "join the two")
        found = [self.communicator(collective, item) for item in node.items]
        self.reading.entries[collective] = tuple(found)

    def not_selectable(self, member: Member) -> None:
        found = (_first(item, "rules") for item in member.node.items)
        rules = [rule for each in found if each is not None for rule in each.node.items]
        told = next((rule for rule in rules if _first(rule, "alg") is not None), None)
        self.freed = self.freed or bool(member.node.items)
        why = f"coll/tuned has no algorithms for {member.key}"
        if told is not None:
            why += ": the library crashes when it looks up the algorithm of this rule"
            self.crash(told.line, why, "remove it")
        else:
            why += ", so this has no effect"
            self.note(member.line, Fault.NO_EFFECT, why, "remove it")

    def communicator(self, collective: Collective, node: Node) -> Entry:
        self.unknown_keys(node, _COMMUNICATOR)
        first = self.integer(node, "comm_size_min", 0)
        last = self.integer(node, "comm_size_max", LARGEST_COMM_SIZE)
        layout = self.distribution(node)
        rules = _first(node, "rules")
        found: list[Rule] = []
        if rules is None:
            why = f"an entry of {collective} without 'rules'"
            self.drop(node.line, why, 'give it "rules": [...]')
        elif rules.node.is_array:
            found = [self.rule(collective, item) for item in rules.node.items]
        elif not rules.node.is_object:
            self.drop(rules.line, "'rules' is not an array", "write [...] after it", in_rules=True)
        elif rules.node.members:
            self.crash(
                rules.line,
                "'rules' is an object where the library expects an array, so it crashes",
                "write [...] after it",
            )
        self.freed = True
        largest = _first(node, "comm_size_max")
        if largest is not None and isinstance(largest.node.plain, str):
            self.note(
                largest.line,
                Fault.DEAD_RULE,
                '"inf" becomes -1 as a communicator size, so this entry matches nothing',
                "leave comm_size_max out",
            )
        return Entry(collective, node.line, as_int(first), as_int(last), tuple(found), layout)

    def distribution(self, node: Node) -> Layout:
        member = _first(node, "comm_rank_distribution")
        if member is None:
            return Layout.ANY
        value = member.node.plain
        known = ", ".join(Layout)
        if not isinstance(value, str):
            self.drop(member.line, "comm_rank_distribution is not text", f"write one of {known}")
            return Layout.ANY
        if value not in list(Layout):
            why = f"the library does not know the distribution {value!r} and uses any"
            self.note(member.line, Fault.UNKNOWN, why, f"write one of {known}")
            return Layout.ANY
        return Layout(value)

    def rule(self, collective: Collective, node: Node) -> Rule:
        entry = self.catalogue.collectives[collective]
        if not node.is_object:
            why = "a rule is not an object: the library reads it as one without keys"
            self.note(node.line, Fault.MALFORMED, why, "write {...}")
        self.unknown_keys(node, _RULE)
        first = self.integer(node, "msg_size_min", 0, in_rules=True) % 2**64
        last = self.integer(node, "msg_size_max", LARGEST_SIZE, in_rules=True) % 2**64
        values = [self.integer(node, key, 0, in_rules=True) for key in _RULE[3:]]
        number = self.algorithm(entry, node)
        numbers = Numbers(number or 0, *values)
        configuration = configuration_of(entry, numbers) if number is not None else None
        sized = _first(node, "msg_size_min")
        rule = Rule(
            node.line,
            _text(node),
            collective,
            configuration,
            first,
            last,
            numbers,
            size_line=sized.line if sized is not None else 0,
            ignored=number is None,
        )
        self.reading.rules.append(rule)
        return rule

    def algorithm(self, entry: CollectiveEntry, node: Node) -> int | None:
        """Return the algorithm's number; None if the release does not have it."""
        member = _first(node, "alg")
        if member is None:
            why = "a rule without 'alg' leaves its sizes to the library, and hides later rules"
            self.note(node.line, Fault.MALFORMED, why, 'give it "alg"')
            return 0
        value = member.node.plain
        if type(value) not in (int, str):
            why = "'alg' is neither text nor a whole number, so the library decides by itself"
            self.note(member.line, Fault.MALFORMED, why, "write a name or a number")
            return 0
        number = _number(entry, value)
        if number is None:
            known = ", ".join(f"{a.number} {library_name(a.name)}" for a in entry.algorithms)
            self.note(
                member.line,
                Fault.RULE_DROPPED,
                f"there is no {entry.collective} algorithm {value!r}, so the library ignores "
                "this rule",
                f"write one of {known}",
            )
        return number

    def integer(self, node: Node, key: str, default: int, *, in_rules: bool = False) -> int:
        """Return the number of a key as 64 bits hold it."""
        member = _first(node, key)
        if member is None:
            return default
        value = member.node.plain
        if isinstance(value, str) and value[:3] in ("inf", "Inf", "INF"):
            return LARGEST_SIZE
        if type(value) is int and abs(value) <= LARGEST_SIZE:
            if value < 0:
                why = f"{key} is negative, and the library reads it as another number"
                self.note(member.line, Fault.MALFORMED, why, "write 0 or more")
            return value
        mend = 'write a whole number below 2^63 or "inf"'
        self.drop(member.line, f"{key} is not a whole number", mend, in_rules=in_rules)
        return default

    def unknown_keys(self, node: Node, known: tuple[str, ...]) -> None:
        """Note keys that are ignored, and those that stand a second time."""
        seen: set[str] = set()
        for member in node.members:
            meant = _meant(member.key, known)
            if member.key in seen:
                why = f"{member.key!r} appears twice, and the first one counts"
                self.note(member.line, Fault.MALFORMED, why, "remove one")
            elif member.key not in known and _COMMENT.search(member.key):
                why = f"the library ignores the key {member.key!r}"
                self.note(member.line, Fault.REMARK, why, "nothing, if it is a comment")
            elif member.key not in known:
                why = f"the library ignores the key {member.key!r}"
                mend = f"write {meant!r}" if meant else "remove it"
                self.note(member.line, Fault.UNKNOWN, why, mend)
            seen.add(member.key)


def _first(node: Node, key: str) -> Member | None:
    return next((m for m in node.members if m.key == key), None)


def _number(entry: CollectiveEntry, value: object) -> int | None:
    """Return the number of an algorithm that is given by number or name."""
    if isinstance(value, str):
        return number_of(entry, value)
    if type(value) is int and abs(value) <= LARGEST_SIZE:
        number = as_int(value)
        return number if 0 <= number <= len(entry.algorithms) else None
    return None


def _spelled(name: str) -> str:
    plain = re.sub("[^a-z]", "", name.lower().removeprefix("mpi"))
    for known in (*Collective, *_NOT_SELECTABLE):
        if known.replace("_", "") == plain:
            return f"write {str(known)!r}"
    return f"write one of {', '.join(Collective)}"


def _meant(key: str, known: tuple[str, ...]) -> str:
    plain = re.sub("[^a-z]", "", key.lower())
    for name in known:
        if name.replace("_", "") == plain:
            return name
    if _MEANT.get(plain) in known:
        return _MEANT[plain]
    return next(iter(get_close_matches(key.lower(), known, 1)), "")


def _text(node: Node) -> str:
    text = json.dumps(_plain(node), ensure_ascii=False)
    return text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}..."


def _plain(node: Node) -> object:
    if node.is_object:
        value: Mapping[str, object] = {m.key: _plain(m.node) for m in reversed(node.members)}
        return dict(reversed(list(value.items())))
    return [_plain(item) for item in node.items] if node.is_array else node.plain


NAME = "openmpi-json"


class JsonFile(TunedRules):
    format = NAME

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        if not self.dropped and not self.ends_program:
            return super().decide(call, environment)
        why = f"{self.source}: {self.ends_program or self.dropped}"
        by = (mca.USE_RULES, mca.RULES_FILE)
        if environment is None:
            environment = mca.environment({by[0]: "1", by[1]: self.source or NAME})
        ends = bool(self.ends_program)
        return decide_without(self.release, call, environment, by, why, ends=ends)


def json_file(text: str, source: str, release: str, unreadable: str) -> JsonFile:
    """Return what `release` makes of a file; `unreadable` tells why it reads none."""
    plain = text.removeprefix("\ufeff")
    if not plain.lstrip(" \t\r\n").startswith(("{", "[")):
        raise say("begins-otherwise", file=source, what="a file of JSON rules", start="a brace")
    parsed = JsonFile(source, release)
    try:
        root = located_json.parse(plain, trailing_commas=True)
    except located_json.JsonSyntaxError as error:
        parsed.dropped = f"line {error.line}: this is not JSON: {error}"
        message = (
            f"this is not JSON: {error}. The library then tries to read a classic file, "
            "and drops the whole file without a message"
        )
        form = Finding(error.line, Fault.FILE_DROPPED, message, "correct the JSON")
        parsed.form_findings = (form,)
    else:
        found = read(root, parsed.catalogue)
        parsed.dropped, parsed.ends_program = found.dropped, found.ends_program
        parsed.rules, parsed.entries = tuple(found.rules), found.entries
        parsed.form_findings = tuple(found.findings)
    if unreadable:
        parsed.dropped, parsed.ends_program = unreadable, ""
        message = f"{unreadable}: the library drops the file without a message"
        form = Finding(0, Fault.FILE_DROPPED, message, "convert it to openmpi-classic")
        parsed.form_findings = (form,)
    return parsed
