"""The format ``intelmpi-json``: the file that I_MPI_TUNING names.

It holds, for each collective, a tree of upper ends over presets. Every branch has keys with a
number: the first one whose number is not below the actual value is taken, else the last one. A
negative number is no limit. What is not as it looks: the number of ``comm_id`` is never matched,
message sizes are compared only below one, and processes only above it. What is not compared is as
if the actual value were beyond all numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from json import dumps

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import located_json
from colltune.mpi.file_format import Format, Written, absolute_path
from colltune.mpi.intelmpi import presets
from colltune.mpi.intelmpi.library import BUILT_IN, BUILT_IN_LOGIC, LIBRARY, variable
from colltune.mpi.intelmpi.presets import (
    PresetFile,
    leading_number,
    preset_findings,
    ran,
    rule_of,
    shown,
)
from colltune.mpi.intelmpi.writing import PresetChooser, converted, everywhere, merged, presets_of
from colltune.mpi.located_json import JsonSyntaxError, Member, Node
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Call,
    Entries,
    Entry,
    Fault,
    Finding,
    Outcome,
    Rule,
    Rules,
)
from colltune.mpi.running import Promises
from colltune.text import counted

PPN, COMM_SIZE, COMM_ID, MSG_SIZE = "ppn", "comm_size", "comm_id", "msg_size"
LEVELS = (PPN, COMM_SIZE, COMM_ID, MSG_SIZE)
_NO_END = LARGEST_SIZE
_ALL = (0, _NO_END)
_Known = dict[str, tuple[int, int]]
"""Between which values levels lie."""
_DEEPEST = 32
"""Levels that are surely read; a file with 46 was seen to be dropped."""
_PIECE = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*(?:"|\Z))
    |(?P<quoted>'(?:[^'\\]|\\.)*(?:'|\Z))
    |(?P<comment>/\*.*?(?:\*/|\Z)|//[^\n]*)
    |(?P<open>[{\[])
    |(?P<close>[}\]])""",
    re.VERBOSE | re.DOTALL,
)


def _standard(text: str) -> str:
    """Return `text` without comments and single quotes, up to the end of its first value."""
    pieces: list[str] = []
    at = depth = 0
    for match in _PIECE.finditer(text):
        pieces.append(text[at : match.start()])
        at = match.end()
        if match.lastgroup == "quoted" and len(match[0]) > 1 and match[0].endswith("'"):
            pieces.append(dumps(match[0][1:-1].replace("\\'", "'"), ensure_ascii=False))
        elif match.lastgroup == "comment":
            pieces.append("\n" * match[0].count("\n") or " ")
        else:
            pieces.append(match[0])
        depth += {"open": 1, "close": -1}.get(match.lastgroup or "", 0)
        if depth > _DEEPEST:
            line = text.count("\n", 0, at) + 1
            raise JsonSyntaxError(line, f"nested more than {_DEEPEST} levels deep")
        if match.lastgroup == "close" and depth <= 0:
            return "".join(pieces)
    return "".join([*pieces, text[at:]])


_COLLECTIVES = {c.upper(): c for c in Collective}
_OTHERS = ("ALLTOALLW", "GATHERV", "SCATTERV")
_NOT_READ = frozenset((*_OTHERS, *(f"I{name}" for name in (*_COLLECTIVES, *_OTHERS))))
_CRASHES = "the library crashes at the start of the program, or runs its built-in logic"
_OBJECT = 'write { "coll=Bcast": … }'


@dataclass(frozen=True)
class Step:
    """A key of a level: its upper end (None: no limit), and what stands below it.

    ``below`` is None where an empty object leaves it to the library's built-in logic.
    """

    line: int
    text: str
    level: str
    last: int | None
    below: Branch | Rule | None


@dataclass(frozen=True)
class Branch:
    """Keys of one level, in the order in which they are tried."""

    steps: tuple[Step, ...]

    @property
    def level(self) -> str:
        return self.steps[0].level

    def is_compared(self, *, below_id: bool) -> bool:
        """Tell whether the numbers of the keys are compared with actual values."""
        return self.level != COMM_ID and below_id == (self.level == MSG_SIZE)

    @cached_property
    def _reachable(self) -> tuple[list[int], list[Step]]:
        """Ends that are above all before them, and their keys; after one without limit, none."""
        ends: list[int] = []
        reachable: list[Step] = []
        for step in self.steps:
            if step.last is None:
                return [*ends, _NO_END], [*reachable, step]
            if not ends or step.last > ends[-1]:
                ends.append(step.last)
                reachable.append(step)
        return ends, reachable

    def reached(self, *, below_id: bool) -> list[tuple[int, int, Step]]:
        """Return the first and the last value for which each key holds, and the key."""
        ends, steps = self._reachable
        if not self.is_compared(below_id=below_id):
            return [(0, _NO_END, self._of_largest)]
        firsts = [0, *(end + 1 for end in ends)]
        found = list(zip(firsts, ends, steps, strict=False))
        return found if ends[-1] == _NO_END else [*found, (firsts[-1], _NO_END, self.steps[-1])]

    @property
    def _of_largest(self) -> Step:
        """The key for what is beyond all numbers."""
        return next((step for step in self.steps if step.last is None), self.steps[-1])


@dataclass
class Tree:
    """What a file says of one collective; ``root`` is None where it says nothing."""

    collective: Collective
    line: int
    root: Branch | Rule | None = None

    def leaves(self, node: Branch | Rule | None) -> Iterator[Rule]:
        if isinstance(node, Rule):
            yield node
        for step in node.steps if isinstance(node, Branch) else ():
            yield from self.leaves(step.below)

    def entries(self, release: str) -> tuple[Entry, ...]:
        """Return the rules in effect; an empty object counts as the built-in logic."""
        found: dict[tuple[int, ...], list[Rule]] = {}
        for known, rule in self._reached(
            self.root, {}, self.line, f"coll={self.collective}", release
        ):
            ppn, size = (known.get(level, _ALL) for level in (PPN, COMM_SIZE))
            first, last = known.get(MSG_SIZE, _ALL)
            own = found.setdefault((*ppn, *size), [])
            own.append(rule._replace(first=first, last=last))
        return tuple(
            Entry(
                self.collective,
                self.line,
                first,
                min(last, LARGEST_COMM_SIZE),
                tuple(rules),
                first_ppn=low,
                last_ppn=min(high, LARGEST_COMM_SIZE),
            )
            for (low, high, first, last), rules in found.items()
        )

    def _reached(
        self, node: Branch | Rule | None, known: _Known, line: int, text: str, release: str
    ) -> Iterator[tuple[_Known, Rule]]:
        """Yield the rules below a node that hold for some values, with these values."""
        if not isinstance(node, Branch):
            yield known, node or rule_of(line, text, self.collective, BUILT_IN, release)
            return
        below_id = COMM_ID in known
        for first, last, step in node.reached(below_id=below_id):
            low, high = known.get(step.level, _ALL)
            inside = (max(low, first), min(high, last))
            if inside[0] <= inside[1]:
                deeper = known | {step.level: inside}
                yield from self._reached(step.below, deeper, step.line, step.text, release)


@dataclass
class Document:
    """What a file holds.

    ``dropped`` says why the library ignores it as a whole, ``ends_program`` on which line is what
    was seen to end programs at their start.
    """

    release: str
    trees: dict[Collective, Tree] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    dropped: str = ""
    ends_program: str = ""

    def find(self, line: int, fault: Fault, what: str, mend: str) -> None:
        self.findings.append(Finding(line, fault, what, mend))

    def doom(self, line: int, what: str, mend: str) -> None:
        """Note what was seen to end programs."""
        self.find(line, Fault.ENDS_PROGRAM, f"{what}: {_CRASHES}", mend)
        self.ends_program = self.ends_program or f"line {line}: {what}: {_CRASHES}"

    def drop(self, line: int, why: str, mend: str) -> None:
        """Note why the library ignores everything."""
        self.dropped = why
        message = f"{why}, so the library ignores the file without a message"
        self.find(line, Fault.FILE_DROPPED, message, mend)


def read(text: str, release: str) -> Document:
    """Return what a release makes of the text of a file."""
    document = Document(release)
    if not text.strip():
        document.drop(0, "the file is empty", "write at least one coll=<collective>")
        return document
    try:
        if text.startswith("\ufeff"):
            raise JsonSyntaxError(1, "there is a byte order mark before the first character")
        top = located_json.parse(_standard(text), trailing_commas=True)
    except JsonSyntaxError as error:
        document.drop(error.line, f"this is not JSON: {error}", "correct the JSON")
        return document
    if not top.is_object:
        refuse = document.drop if top.plain is None and not top.items else document.doom
        refuse(top.line, "this is not an object", _OBJECT)
        return document
    for at, member in enumerate(_members(document, top)):
        _collective(document, member, is_first=at == 0)
    _check_levels(document)
    return document


def _members(document: Document, node: Node) -> list[Member]:
    """Return the members as the library keeps them: of equal keys the first place, last value."""
    kept: dict[str, Member] = {}
    for member in node.members:
        if before := kept.get(member.key):
            what = (
                f"{shown(member.key)} appears again on line {member.line}, which replaces this one"
            )
            document.find(before.line, Fault.DEAD_RULE, what, "remove one of them")
        kept[member.key] = member
    return list(kept.values())


def _collective(document: Document, member: Member, *, is_first: bool) -> None:
    level, equals, name = member.key.partition("=")
    if level != "coll" or not equals:
        what = f"{shown(member.key)} is in the place of coll=<collective>"
        document.doom(member.line, what, "remove it")
        return
    node = _object(document, member, is_first=is_first)
    found = _COLLECTIVES.get(name.upper())
    if found is not None:
        if found in document.trees:
            what = f"{shown(member.key)} appears twice in different spelling"
            document.find(member.line, Fault.MALFORMED, what, "write it once")
        root = None if node is None else _below(document, found, node)
        document.trees[found] = Tree(found, member.line, root)
    elif name.upper() in _NOT_READ:
        what = f"colltune knows no presets of {shown(name)}, although the library reads this part"
        document.find(member.line, Fault.REMARK, what, "nothing")
    else:
        what = (
            f"{shown(name)} is not a collective, so the library ignores this part without a message"
        )
        mend = "write MPI's name without MPI_: coll=Bcast, coll=Reduce_scatter"
        document.find(member.line, Fault.UNKNOWN, what, mend)


def _object(document: Document, member: Member, *, is_first: bool) -> Node | None:
    """Return the object that a key of a level holds; None if it holds none, or an empty one."""
    node, said = member.node, shown(member.key)
    if not node.is_object:
        document.doom(member.line, f"{said} has no object", "write { … }")
        return None
    if node.members:
        return node
    if is_first:
        what = f"{said} has an empty object before all others"
        document.doom(member.line, what, "remove it, or name a preset")
    else:
        what = (
            f"{said} has an empty object: the built-in logic runs, which differs from having "
            "no file"
        )
        document.find(member.line, Fault.NO_EFFECT, what, "name a preset")
    return None


def _below(document: Document, collective: Collective, node: Node) -> Branch | Rule:
    """Return what an object that is not empty holds."""
    members = _members(document, node)
    levels = {_level_of(member.key) for member in members}
    if levels == {None}:
        return _leaf(document, collective, members)
    if len(levels) > 1:
        document.doom(
            node.line, "keys of different levels are in the same object", "write one level"
        )
    steps = []
    for at, member in enumerate(members):
        level = _level_of(member.key)
        if level is None:
            continue
        inner = _object(document, member, is_first=at == 0)
        below = None if inner is None else _below(document, collective, inner)
        number = leading_number(member.key.partition("=")[2]) or 0
        last = None if number < 0 else number
        steps.append(Step(member.line, member.key, level, last, below))
    return Branch(tuple(steps))


def _level_of(key: str) -> str | None:
    name, equals, _ = key.partition("=")
    return name if equals and name in LEVELS else None


def _leaf(document: Document, collective: Collective, members: list[Member]) -> Rule:
    first = members[0]
    for other in members[1:]:
        what = f"{shown(other.key)} comes after {shown(first.key)}, which counts"
        document.find(other.line, Fault.DEAD_RULE, what, "remove one of them")
    name, equals, value = first.key.partition("=")
    if equals and name.upper() == collective.upper():
        digits = re.match("[0-9]+", value)
        number = leading_number(digits[0]) if digits else 0
        return rule_of(first.line, first.key, collective, max(number or 0, 0), document.release)
    wanted = f"{collective.upper()}=<preset>"
    if name.upper() in _COLLECTIVES:
        what = f"{shown(first.key)} belongs to another collective than {collective}"
        document.doom(first.line, what, f"write {wanted}")
    else:
        what = f"{shown(first.key)} is neither a level nor a preset, so the built-in logic runs"
        document.find(first.line, Fault.UNKNOWN, what, f"write {wanted}, or a level")
    return rule_of(first.line, first.key, collective, BUILT_IN, document.release)


def _check_levels(document: Document) -> None:
    """Note the first leaf that has other levels above it than the first leaf of the file."""
    seen: tuple[str, ...] | None = None

    def visit(node: Branch | Rule | None, levels: tuple[str, ...]) -> None:
        nonlocal seen
        if isinstance(node, Rule):
            seen = levels if seen is None else seen
            if levels != seen and not document.ends_program:
                what = (
                    f"{shown(node.text)} is below {', '.join(levels) or 'no level'}, but the "
                    f"first preset of the file is below {', '.join(seen) or 'no level'}"
                )
                document.doom(node.line, what, "use the same levels everywhere")
        elif isinstance(node, Branch):
            for step in node.steps:
                visit(step.below, (*levels, step.level))

    for tree in document.trees.values():
        visit(tree.root, ())


def findings(document: Document) -> Iterator[Finding]:
    """Yield what is wrong with a file; that the built-in logic runs once for a collective."""
    yield from document.findings
    for tree in document.trees.values():
        told = False
        for found in _visit(tree.root, document.release, below_id=False):
            is_built_in = BUILT_IN_LOGIC in found.message
            if not (is_built_in and told):
                yield found
            told = told or is_built_in


def _visit(node: Branch | Rule | None, release: str, *, below_id: bool) -> Iterator[Finding]:
    if isinstance(node, Rule):
        name, equals, value = node.text.partition("=")
        number = node.numbers.algorithm
        if equals and name.upper() == node.collective.upper():
            yield from preset_findings(node, release)
            if value != str(number):
                message = f"{shown(node.text)}: the library reads preset {number}"
                yield Finding(node.line, Fault.MALFORMED, message, "write the number alone")
    elif isinstance(node, Branch):
        compared = node.is_compared(below_id=below_id)
        yield from _compared(node) if compared else _not_compared(node)
        for step in node.steps:
            below = below_id or step.level == COMM_ID
            yield from _visit(step.below, release, below_id=below)


def _compared(node: Branch) -> Iterator[Finding]:
    """Yield keys that are never reached, badly written, or reach further than they say."""
    highest = node.steps[0]
    for step in node.steps:
        read = "-1" if step.last is None else str(step.last)
        if step.text.partition("=")[2] != read:
            message = f"{shown(step.text)}: the library reads {step.level}={read}"
            yield Finding(step.line, Fault.MALFORMED, message, f"write {step.level}={read}")
        if step is highest:
            continue
        if highest.last is None or (step.last is not None and step.last <= highest.last):
            message = (
                f"{shown(step.text)} is never reached, because {shown(highest.text)} on line "
                f"{highest.line} comes first"
            )
            yield Finding(step.line, Fault.DEAD_RULE, message, "sort the keys")
        else:
            highest = step
    last = node.steps[-1]
    if highest.last is not None:
        message = f"{shown(last.text)} also holds above {highest.last}, because it is the last key"
        yield Finding(last.line, Fault.INHERITED, message, f"end with {last.level}=-1")


def _not_compared(node: Branch) -> Iterator[Finding]:
    """Yield keys of a level whose numbers are not looked at."""
    taken = next((s for s in node.steps if s.last is None), node.steps[-1])
    for step in node.steps:
        why, mend = _WHY.get(step.level, _ABOVE_ID)
        if step is not taken:
            message = f"{shown(step.text)} is never reached: {why}, so {shown(taken.text)} holds"
            yield Finding(step.line, Fault.DEAD_RULE, message, mend)
        elif len(node.steps) == 1 and taken.last is not None:
            message = f"{shown(taken.text)} holds for all: {why}"
            yield Finding(taken.line, Fault.INHERITED, message, mend)


_WHY = {
    COMM_ID: ("the library never matches the number of comm_id", "write comm_id=-1"),
    MSG_SIZE: (
        "the library compares message sizes only below a comm_id",
        'put "comm_id=-1" above it',
    ),
}
_ABOVE_ID = (
    "the library compares numbers of processes only above comm_id",
    "put it above comm_id",
)


TUNING = "I_MPI_TUNING"
NAME = "intelmpi-json"


class TuningFile(PresetFile):
    """A tuning file as one release reads it."""

    format = NAME

    @cached_property
    def document(self) -> Document:
        return read(self.text, self.release)

    @property
    def dropped(self) -> str:  # type: ignore[override]
        return self.document.dropped

    @property
    def ends_program(self) -> str:  # type: ignore[override]
        return self.document.ends_program

    @cached_property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        found = (rule for tree in self.document.trees.values() for rule in tree.leaves(tree.root))
        return tuple(sorted(found, key=lambda rule: rule.line))

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        trees = self.document.trees
        return {collective: tree.entries(self.release) for collective, tree in trees.items()}

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs; I_MPI_ADJUST_<COLLECTIVE> goes before the file."""
        own = Configuration.default(LIBRARY, call.collective)
        given = {TUNING: self.source} if environment is None else environment
        in_effect = bool(given.get(TUNING)) and not self.dropped
        name = variable(call.collective)
        ends = self.ends_program if in_effect else ""
        if in_effect and not ends and name in given and not given[name].strip():
            ends = f"{name} is empty, which also crashes a program that sets {TUNING}"
        if ends:
            return Outcome(own, None, (ends,), own, ends_program=ends)
        value = presets.parse(given[name], call.collective) if name in given else None
        if value is not None and not value.rejected:
            said = self.said(call) if in_effect else own
            return presets.outcome(value, self.release, call, instead_of=said)
        if not given.get(TUNING):
            why = f"{TUNING} is not set, so the library does not read the file"
        elif self.dropped:
            why = f"the library ignores the file: {self.dropped}"
        elif (rule := self.rule_for(call)) is None:
            why = f"the file has no {call.collective}, so the library's own tuning applies"
        else:
            return self._decided(call, rule)
        return Outcome(own, None, (why,), own)

    def _decided(self, call: Call, rule: Rule) -> Outcome:
        why = (
            f"line {rule.line} ({shown(rule.text)}) holds for "
            f"{counted(call.comm_size, 'process', 'es')}, {call.ppn} per node, and "
            f"{counted(call.msize_bytes, 'byte')}"
        )
        return ran(self.release, call, rule, why)


OTHER_SIZES = (
    "for the collectives in this file, communicators that the table does not cover run the "
    "library's built-in logic (preset 0), without the tuning data that Intel ships"
)
_KEY = re.compile(r"""["'](?:coll=[A-Za-z_]+|(?:ppn|comm_size|comm_id|msg_size)=-?\d+)["']\s*:""")
_EMPTY = re.compile(r"\s*\{\s*\}\s*")


class TuningFormat(Format):
    name = NAME
    library = LIBRARY
    title = "Intel MPI's tuning file (I_MPI_TUNING)"
    knows_layout = True
    allows_partial_collective = False
    remarks = (OTHER_SIZES,)

    def recognises(self, text: str) -> bool:
        """Tell whether a key is one of a tuning file, or there is none at all."""
        return bool(_KEY.search(text) or _EMPTY.fullmatch(text))

    def parse(self, text: str, source: str, release: str) -> TuningFile:
        self.catalogue_of(release)
        return TuningFile(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, TuningFile)
        return tuple(sorted(set(findings(parsed.document))))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return `table` as a tuning file.

        A collective is written as a whole or not at all: the notes tell which is left to the
        library because a part of it is, or had to be.
        """
        chooser = PresetChooser(release, Promises(programs, one_node=table.shape.nodes == 1))
        found = {c: [*everywhere(own)] for c, own in chooser.chosen(table).items()}
        remarks = self.remarks if found else ()
        return Written(NAME, release, {"": rendered(found)}, (*chooser.notes, *remarks))

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return what another file of Intel MPI means, as a tuning file."""
        self.catalogue_of(release)
        found, notes = converted(parsed, release)
        return Written(NAME, release, {"": rendered(found)}, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        self.catalogue_of(release)
        return {TUNING: absolute_path(paths[""], "a configuration file")}


def rendered(found: Mapping[Collective, Sequence[Entry]]) -> str:
    """Return the text of a tuning file: every level, whatever it is about."""
    collectives = [
        f'  "coll={collective.capitalize()}": {{\n{_of_ppn(collective, entries)}\n  }}'
        for collective, entries in sorted(found.items())
    ]
    return "{\n" + ",\n".join(collectives) + "\n}\n" if collectives else "{}\n"


def _of_ppn(collective: Collective, entries: Sequence[Entry]) -> str:
    """Return the keys for processes on a node, with all below; entries for all are in `entries`."""

    def on(ppn: int) -> str:
        here = (each for each in entries if each.first_ppn <= ppn <= each.last_ppn)
        sizes = {each.last_size: _of_sizes(collective, each) for each in here}
        return _keys("comm_size", LARGEST_COMM_SIZE, sorted(sizes.items()))

    ppns = sorted({each.last_ppn for each in entries})
    return _keys("ppn", LARGEST_COMM_SIZE, merged((ppn, on(ppn)) for ppn in ppns))


def _of_sizes(collective: Collective, entry: Entry) -> str:
    chosen = presets_of(entry)
    return ",\n".join(
        f'{" " * 8}"msg_size={_end(last, LARGEST_SIZE)}": {{"{collective.upper()}={preset}": {{}}}}'
        for last, preset in chosen
    )


def _keys(level: str, largest: int, parts: Iterable[tuple[int, str]]) -> str:
    """Return the keys of a level, with those below."""
    blank = " " * (4 if level == PPN else 6)
    opened, closed = ('{"comm_id=-1": {', "}}") if level == COMM_SIZE else ("{", "}")
    return ",\n".join(
        f'{blank}"{level}={_end(last, largest)}": {opened}\n{below}\n{blank}{closed}'
        for last, below in parts
    )


def _end(last: int, largest: int) -> int:
    return -1 if last >= largest else last
