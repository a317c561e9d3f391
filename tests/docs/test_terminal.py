"""Pictures of a terminal show what a person sees there."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

from docs._ext import terminal

SVG = "{http://www.w3.org/2000/svg}"


def text_of(picture: str) -> list[str]:
    """Return the lines of a picture, from above."""
    rows: dict[float, str] = {}
    for piece in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        y = float(piece.attrib["y"])
        rows[y] = rows.get(y, "") + (piece.text or "").replace("\xa0", " ")
    return [rows[y].rstrip() for y in sorted(rows)]


def test_a_command_sees_a_terminal_of_the_size_that_is_asked_for() -> None:
    """All three ways to ask say so, both outputs arrive in order, and the status is its own."""
    asks = (
        "import os, shutil, sys\n"
        "print(sys.stdout.isatty(), sys.stderr.isatty(), open('/dev/tty').isatty())\n"
        "print(shutil.get_terminal_size().columns, os.get_terminal_size(2).columns)\n"
        "print('last', file=sys.stderr)\n"
        "sys.exit(3)"
    )
    status, written = terminal.run([sys.executable, "-c", asks], columns=57)
    assert status == 3
    assert written.splitlines() == ["True True True", "57 57", "last"]


def test_a_command_that_hangs_is_ended() -> None:
    """What it wrote before its time was up is kept."""
    status, written = terminal.run(["sh", "-c", "echo begun; sleep 600; true"], timeout_s=2)
    assert status < 0
    assert written == "begun\r\n"


def test_what_is_drawn_over_is_not_seen() -> None:
    """Progress that was redrawn or taken away leaves nothing behind; colours stay."""
    written = (
        "a\r\n10 %\r20 %\rdone\r\nx\r\ny\r\n\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[31mred\x1b[0m\r\n"
    )
    assert terminal.screen(written) == "a\ndone\n\x1b[31mred\x1b[0m"


def test_a_picture_holds_the_lines_as_a_terminal_breaks_them() -> None:
    """Lines go on where the width ends, colours are kept, and nothing is loaded from elsewhere."""
    picture = terminal.svg("one\n\x1b[31mabcdefghij\x1b[0mklm <&>\nlast", columns=10)
    assert text_of(picture) == ["one", "abcdefghij", "klm <&>", "last", ""]
    assert "#ff7b72" in picture
    assert re.findall(r"https?://(?!www\.w3\.org)|@import|@font-face", picture) == []
