"""Builds the trees of an I_MPI_TUNING file, and tells what is wrong with its form.

Intel MPI reads more than JSON: comments, single quotes, trailing commas, and whatever follows after
the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from json import dumps

from colltune.domain import Collective
from colltune.mpi import located_json
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.intelmpi import tuning_tree
from colltune.mpi.intelmpi.grid import shown
from colltune.mpi.intelmpi.tuning_tree import Branch, Preset, Step, Tree
from colltune.mpi.located_json import JsonSyntaxError, Member, Node

DEEPEST = 32
"""Levels that are surely read; a file with 46 was seen to be dropped."""
_BYTE_ORDER_MARK = "\ufeff"
_PIECE = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*(?:"|\Z))
    |(?P<quoted>'(?:[^'\\]|\\.)*(?:'|\Z))
    |(?P<comment>/\*.*?(?:\*/|\Z)|//[^\n]*)
    |(?P<open>[{\[])
    |(?P<close>[}\]])""",
    re.VERBOSE | re.DOTALL,
)


def _json(text: str) -> Node:
    """Return the value that `text` holds, with the lines of `text`."""
    if text.startswith(_BYTE_ORDER_MARK):
        raise JsonSyntaxError(1, "a byte order mark before the first character")
    return located_json.parse(standard(text), trailing_commas=True)


def standard(text: str) -> str:
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
        if depth > DEEPEST:
            line = text.count("\n", 0, at) + 1
            raise JsonSyntaxError(line, f"nested more than {DEEPEST} levels deep")
        if match.lastgroup == "close" and depth <= 0:
            return "".join(pieces)
    return "".join([*pieces, text[at:]])


_COLLECTIVES = {c.upper(): c for c in Collective}
_OTHERS = ("ALLTOALLW", "GATHERV", "SCATTERV")
_ALL = (*_COLLECTIVES, *_OTHERS)
_NOT_READ = frozenset((*_OTHERS, *(f"I{name}" for name in _ALL)))
_CRASHES = "the library crashes at the start of the program, or runs its built-in logic"


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

    def complain(self, line: int, fault: Fault, what: str, mend: str) -> None:
        """Note what does not harm the rest."""
        self.findings.append(Finding(line, fault, what, mend))

    def doom(self, line: int, what: str, mend: str) -> None:
        """Note what was seen to end programs."""
        self.complain(line, Fault.ENDS_PROGRAM, f"{what}: {_CRASHES}", mend)
        self.ends_program = self.ends_program or f"line {line}: {what}: {_CRASHES}"

    def drop(self, line: int, why: str, mend: str) -> None:
        """Note why the library ignores everything."""
        self.dropped = why
        message = f"{why}; the library ignores the file without a word"
        self.complain(line, Fault.FILE_DROPPED, message, mend)


def read(text: str) -> Document:
    """Return what the library makes of the text of a file."""
    document = Document()
    if not text.strip():
        document.drop(0, "the file is empty", "write at least one coll=<collective>")
        return document
    try:
        top = _json(text)
    except JsonSyntaxError as error:
        document.drop(error.line, f"this is no JSON: {error}", "correct the JSON")
        return document
    if not top.is_object:
        if top.value is None or top.value == ():
            document.drop(top.line, "this is no object", 'write { "coll=Bcast": … }')
        else:
            document.doom(top.line, "this is no object", 'write { "coll=Bcast": … }')
        return document
    _repeated(document, top)
    for at, member in enumerate(tuning_tree.last_values(top)):
        _collective(document, member, is_first=at == 0)
    _evenness(document)
    return document


def _collective(document: Document, member: Member, *, is_first: bool) -> None:
    level, equals, name = member.key.partition("=")
    if level != "coll" or not equals:
        what = f"{shown(member.key)} where coll=<collective> should stand"
        document.doom(member.line, what, "remove it")
        return
    node = _object(document, member, is_first=is_first)
    found = _COLLECTIVES.get(name.upper())
    if found is None:
        _other_collective(document, member.line, name)
        return
    if found in document.trees:
        what = f"{shown(member.key)} stands twice in different spelling"
        document.complain(member.line, Fault.MALFORMED, what, "write it once")
    tree = Tree(found, member.line)
    document.trees[found] = tree
    if node is not None:
        tree.root = _below(document, found, node)


def _other_collective(document: Document, line: int, name: str) -> None:
    if name.upper() in _NOT_READ:
        what = f"{shown(name)}: the library takes this part, of which nothing is known here"
        document.findings.append(Finding(line, Fault.REMARK, what, "none needed"))
        return
    what = f"no collective {shown(name)}; the library ignores this part without a word"
    mend = "write it as MPI does, without MPI_: coll=Bcast, coll=Reduce_scatter"
    document.complain(line, Fault.UNKNOWN, what, mend)


def _object(document: Document, member: Member, *, is_first: bool) -> Node | None:
    """Return the object that a key of a level holds; None if it holds none, or an empty one."""
    node = member.node
    if not node.is_object:
        document.doom(member.line, f"{shown(member.key)} holds no object", "write { … }")
        return None
    if node.members:
        return node
    if is_first:
        document.doom(
            member.line,
            f"{shown(member.key)} holds an empty object before all others",
            "remove it, or name a preset",
        )
        return None
    document.complain(
        member.line,
        Fault.NO_EFFECT,
        f"{shown(member.key)} holds an empty object: the built-in logic runs, not what the library"
        " would run without the file",
        "name a preset",
    )
    return None


def _below(document: Document, collective: Collective, node: Node) -> Branch | Preset:
    """Return what an object that is not empty holds."""
    _repeated(document, node)
    members = tuning_tree.last_values(node)
    levels = {tuning_tree.level_of(member.key) for member in members}
    if levels == {None}:
        return _leaf(document, collective, members)
    if len(levels) > 1:
        document.doom(node.line, "keys of different levels stand side by side", "write one level")
    steps = tuple(
        _step(document, collective, member, level, is_first=at == 0)
        for at, member in enumerate(members)
        if (level := tuning_tree.level_of(member.key)) is not None
    )
    return Branch(steps)


def _step(
    document: Document, collective: Collective, member: Member, level: str, *, is_first: bool
) -> Step:
    node = _object(document, member, is_first=is_first)
    below = None if node is None else _below(document, collective, node)
    return Step(member.line, member.key, level, tuning_tree.end_of(member.key), below)


def _leaf(document: Document, collective: Collective, members: list[Member]) -> Preset:
    first = members[0]
    for other in members[1:]:
        what = f"{shown(other.key)} stands after {shown(first.key)}, which is taken"
        document.findings.append(Finding(other.line, Fault.DEAD_RULE, what, "remove one of them"))
    number = tuning_tree.preset_in(first.key, collective)
    if number is None:
        wanted = f"{collective.upper()}=<preset>"
        if first.key.partition("=")[0].upper() in _COLLECTIVES:
            what = f"{shown(first.key)} is of another collective than {collective}"
            document.doom(first.line, what, f"write {wanted}")
        else:
            what = f"{shown(first.key)} is neither a level nor a preset: the built-in logic runs"
            document.complain(first.line, Fault.UNKNOWN, what, f"write {wanted}, or a level")
    return Preset(first.line, first.key, number)


def _repeated(document: Document, node: Node) -> None:
    first: dict[str, int] = {}
    for member in node.members:
        if member.key in first:
            document.findings.append(
                Finding(
                    first[member.key],
                    Fault.DEAD_RULE,
                    f"{shown(member.key)} stands again on line {member.line}, which is taken in"
                    " the place of this one",
                    "remove one of them",
                )
            )
        first[member.key] = member.line


def _evenness(document: Document) -> None:
    """Note leaves that have other levels above them than the first leaf of the file."""
    seen: tuple[str, ...] | None = None

    def visit(node: Branch | Preset | None, levels: tuple[str, ...]) -> None:
        nonlocal seen
        if isinstance(node, Preset):
            seen = levels if seen is None else seen
            if levels != seen and not document.ends_program:
                what = (
                    f"{shown(node.text)} stands below {', '.join(levels) or 'no level'}, the first"
                    f" preset of the file below {', '.join(seen) or 'no level'}"
                )
                document.doom(node.line, what, "write the same levels everywhere")
        elif isinstance(node, Branch):
            for step in node.steps:
                visit(step.below, (*levels, step.level))

    for tree in document.trees.values():
        visit(tree.root, ())
