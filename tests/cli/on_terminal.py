"""Programs on a terminal of their own, and what its user sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

_TOKENS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b(.)|([\r\n\b])|([^\x1b\r\n\b]+)")
_PATIENCE_S = 120.0


class Screen:
    """What a terminal shows, of what is written to it, with no more lines than needed."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0
        self.raw = ""

    @property
    def text(self) -> str:
        """What is seen."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")

    @property
    def colours(self) -> list[str]:
        """The colours and styles that were asked for."""
        return re.findall(r"\x1b\[[0-9;]*m", self.raw)

    def write(self, text: str) -> None:
        """Show `text`; only the escape sequences that are needed are known."""
        self.raw += text
        for code, command, other, control, words in _TOKENS.findall(text):
            assert not other, f"unknown escape sequence {other!r}"
            if words:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = (
                    line[: self.column] + words + line[self.column + len(words) :]
                )
                self.column += len(words)
            elif control:
                self._control(control)
            else:
                self._command(code, command)

    def _control(self, control: str) -> None:
        if control == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        elif control == "\r":
            self.column = 0
        else:
            self.column = max(0, self.column - 1)

    def _command(self, code: str, command: str) -> None:
        if command == "A":
            self.row = max(0, self.row - int(code or 1))
        elif command == "K":
            self.lines[self.row] = "" if code == "2" else self.lines[self.row][: self.column]
        else:
            assert command == "m", f"unknown command {code}{command}"


class Session:
    """A program with a terminal as its standard input and error; output goes there or to a file."""

    def __init__(
        self,
        words: Sequence[object],
        variables: Mapping[str, str],
        *,
        columns: int = 90,
        out: Path | None = None,
    ) -> None:
        self.screen = Screen()
        command = [str(word) for word in words]
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            try:
                # whoever runs the tests in the background has it ignored
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                if out is not None:
                    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT, 0o600), 1)
                fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                os.execve(command[0], command, dict(variables))
            finally:
                os._exit(127)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._terminal)

    def wait_for(self, seen: Callable[[Screen], object]) -> None:
        """Read until `seen` is true of the screen; it must be before the program ends."""
        while not seen(self.screen):
            assert self._read(), f"it ended before: {self.screen.raw!r}"

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self._terminal, text.encode())

    def end(self) -> int:
        """Read until the program ends, and return its status."""
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        begun = time.monotonic()
        ready, _, _ = select.select([self._terminal], [], [], _PATIENCE_S)
        assert ready, f"nothing for {time.monotonic() - begun:.0f} s after {self.screen.raw!r}"
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:
            return False
        self.screen.write(data.decode())
        return bool(data)
