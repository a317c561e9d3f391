"""Reads an I_MPI_TUNING file as Intel MPI does, and tells what is wrong with it.

Intel MPI reads more than JSON: comments, single quotes, trailing commas, and whatever follows after
the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from json import dumps

from colltune.domain import Collective
from colltune.mpi import located_json
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.intelmpi.library import BUILT_IN_LOGIC
from colltune.mpi.intelmpi.presets import (
    COMM_ID,
    LEVELS,
    MSG_SIZE,
    Branch,
    Preset,
    Step,
    Tree,
    leading_number,
    preset_findings,
    shown,
)
from colltune.mpi.located_json import JsonSyntaxError, Member, Node

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


@dataclass
class Document:
    """What a file holds.

    ``dropped`` says why the library ignores it as a whole, ``ends_program`` on which line is what
    was seen to end programs at their start.
    """

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


def read(text: str) -> Document:
    """Return what the library makes of the text of a file."""
    document = Document()
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


def _below(document: Document, collective: Collective, node: Node) -> Branch | Preset:
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


def _leaf(document: Document, collective: Collective, members: list[Member]) -> Preset:
    first = members[0]
    for other in members[1:]:
        what = f"{shown(other.key)} comes after {shown(first.key)}, which counts"
        document.find(other.line, Fault.DEAD_RULE, what, "remove one of them")
    name, equals, value = first.key.partition("=")
    if equals and name.upper() == collective.upper():
        digits = re.match("[0-9]+", value)
        number = leading_number(digits[0]) if digits else 0
        return Preset(first.line, first.key, max(number or 0, 0))
    wanted = f"{collective.upper()}=<preset>"
    if name.upper() in _COLLECTIVES:
        what = f"{shown(first.key)} belongs to another collective than {collective}"
        document.doom(first.line, what, f"write {wanted}")
    else:
        what = f"{shown(first.key)} is neither a level nor a preset, so the built-in logic runs"
        document.find(first.line, Fault.UNKNOWN, what, f"write {wanted}, or a level")
    return Preset(first.line, first.key, None)


def _check_levels(document: Document) -> None:
    """Note the first leaf that has other levels above it than the first leaf of the file."""
    seen: tuple[str, ...] | None = None

    def visit(node: Branch | Preset | None, levels: tuple[str, ...]) -> None:
        nonlocal seen
        if isinstance(node, Preset):
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


def findings(document: Document, release: str) -> Iterator[Finding]:
    """Yield what is wrong with a file; that the built-in logic runs once for a collective."""
    yield from document.findings
    for tree in document.trees.values():
        told = False
        for found in _visit(tree.collective, tree.root, release, below_id=False):
            is_built_in = BUILT_IN_LOGIC in found.message
            if not (is_built_in and told):
                yield found
            told = told or is_built_in


def _visit(
    collective: Collective, node: Branch | Preset | None, release: str, *, below_id: bool
) -> Iterator[Finding]:
    if isinstance(node, Preset):
        if node.number is not None:
            yield from preset_findings(node, collective, release)
            if node.text.partition("=")[2] != str(node.number):
                message = f"{shown(node.text)}: the library reads preset {node.number}"
                yield Finding(node.line, Fault.MALFORMED, message, "write the number alone")
    elif isinstance(node, Branch):
        compared = node.is_compared(below_id=below_id)
        yield from _compared(node) if compared else _not_compared(node)
        for step in node.steps:
            below = below_id or step.level == COMM_ID
            yield from _visit(collective, step.below, release, below_id=below)


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
