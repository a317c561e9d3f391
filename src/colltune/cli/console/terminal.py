"""What the terminal can do, and what its user wants it to do.

NO_COLOR (no-color.org) wins over FORCE_COLOR (force-color.org) and CLICOLOR_FORCE
(bixense.com/clicolors), these over what the stream is.
"""

from __future__ import annotations

import os
from typing import TextIO

_NO_TERMINAL = ("", "dumb", "unknown")
_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


def can_redraw(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal on which lines can be replaced by others."""
    return stream.isatty() and os.environ.get("TERM", "") not in _NO_TERMINAL


def takes_colours(stream: TextIO) -> bool:
    """Tell whether text on `stream` is to be coloured."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = [os.environ[name] for name in _FORCING if os.environ.get(name)]
    if forced:
        return any(value != "0" for value in forced)
    return os.environ.get("CLICOLOR") != "0" and can_redraw(stream)


def takes_unicode(stream: TextIO) -> bool:
    """Tell whether `stream` takes characters beyond ASCII."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding.startswith("utf")


def in_background(stream: TextIO) -> bool:
    """Tell whether the shell has given `stream`'s terminal to another job meanwhile."""
    try:
        return os.tcgetpgrp(stream.fileno()) != os.getpgrp()
    except (OSError, ValueError):
        return False
