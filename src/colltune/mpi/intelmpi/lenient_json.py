"""The JSON that Intel MPI reads, which is more than JSON: as the standard has it, line by line.

It takes comments, single quotes, trailing commas, and whatever follows after the end.
"""

from __future__ import annotations

import re
from json import dumps

from colltune.mpi import located_json
from colltune.mpi.located_json import JsonSyntaxError, Node

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


def parse(text: str) -> Node:
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
