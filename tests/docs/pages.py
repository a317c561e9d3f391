"""Commands shown in Markdown pages, read from their `console` blocks and run in order.

A command stands behind the prompt `$ ` (`# ` for root, in a block that begins so); lines behind
`> `, or after a backslash, continue it; all other lines are what it prints, where `…` stands for
anything, and for any lines where it stands alone. It ends with status 0, unless the page shows the
status by `echo $?` next. An HTML comment in front of a block changes how a test runs it:

    <!-- test: --budget 90 runs as --budget 20 -->
    <!-- test: needs mpirun, cc -->
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune import process

_DIRECTIVE = re.compile(r"<!-- test: (?P<text>.*?) -->")
_REPLACED = re.compile(r"^(?P<old>.+?) runs as (?P<new>.+)$")
_ROOT = "# "
_STATUS = "echo $?"


@dataclass(frozen=True)
class Command:
    """A command of a page: where it stands, what is run, what the page shows of its output."""

    page: Path
    line: int
    text: str
    shown: tuple[str, ...]
    prompt: str = "$ "
    replaced: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    status_shown: bool = False

    @property
    def run_as(self) -> str:
        """What a test runs: the text, with the replacements that the page's source names."""
        text = self.text
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text


@dataclass(frozen=True)
class Result:
    """How a command ended; the status is None where it did not end, or was not reached."""

    status: int | None
    output: str


@dataclass(frozen=True)
class _Block:
    """A fenced block of a page: the number of its first line, and its lines."""

    first: int
    lines: tuple[str, ...]
    directives: tuple[str, ...]


def commands_of(page: Path) -> list[Command]:
    """Return the commands of all `console` blocks of `page`, in order."""
    found: list[Command] = []
    for block in _console_blocks(page.read_text(encoding="utf-8").splitlines()):
        found += _commands(page, block)
    return found


def _console_blocks(lines: Sequence[str]) -> list[_Block]:
    blocks: list[_Block] = []
    directives: list[str] = []
    opened: int | None = None
    for number, line in enumerate(lines, 1):
        if opened is not None:
            if line.strip() == "```":
                if lines[opened - 1].strip() == "```console":
                    blocks.append(
                        _Block(opened + 1, tuple(lines[opened : number - 1]), tuple(directives))
                    )
                opened, directives = None, []
        elif line.lstrip().startswith("```"):
            opened = number
        elif match := _DIRECTIVE.fullmatch(line.strip()):
            directives.append(match["text"])
    return blocks


def _commands(page: Path, block: _Block) -> list[Command]:
    needs = tuple(
        word.strip()
        for text in block.directives
        if text.startswith("needs ")
        for word in text.removeprefix("needs ").split(",")
    )
    replaced = tuple((m["old"], m["new"]) for t in block.directives if (m := _REPLACED.match(t)))
    whole = "\n".join(block.lines)
    for old, _ in replaced:
        if old not in whole:
            raise ValueError(f"{page}:{block.first}: the block has no {old!r} to be replaced")
    parts = _split(page, block)
    commands = []
    for position, (number, prompt, text, shown) in enumerate(parts):
        asked = position + 1 < len(parts) and parts[position + 1][2] == _STATUS
        commands.append(Command(page, number, text, shown, prompt, replaced, needs, asked))
    return commands


def _split(page: Path, block: _Block) -> list[tuple[int, str, str, tuple[str, ...]]]:
    """Return line, prompt, text and output of each command."""
    parts: list[tuple[int, str, list[str], list[str]]] = []
    prompts = ("$ ", _ROOT) if block.lines[:1] and block.lines[0].startswith(_ROOT) else ("$ ",)
    for number, line in enumerate(block.lines, block.first):
        if line.startswith(prompts):
            parts.append((number, line[:2], [line[2:]], []))
        elif not parts:
            raise ValueError(f"{page}:{number}: output before any command")
        elif not parts[-1][3] and line.startswith("> "):
            parts[-1][2].append(line[2:])
        elif not parts[-1][3] and parts[-1][2][-1].endswith("\\"):
            parts[-1][2].append(line)
        else:
            parts[-1][3].append(line)
    return [(n, prompt, "\n".join(text), tuple(shown)) for n, prompt, text, shown in parts]


def environment(home: Path) -> dict[str, str]:
    """Return a reader's environment: this Python's programs first, no settings for any MPI."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("OMPI_", "PRTE_", "COLLTUNE"))}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # as on a terminal: what is said on both outputs comes in order
    return {**kept, **root, "HOME": str(home), "PATH": programs, "PYTHONUNBUFFERED": "1"}


def missing(command: Command) -> str | None:
    """Return the first program that a command needs and this machine has not."""
    path = environment(Path())["PATH"]
    return next((name for name in command.needs if shutil.which(name, path=path) is None), None)


def run(
    commands: Sequence[Command], folder: Path, env: Mapping[str, str], timeout_s: float
) -> list[Result]:
    """Run `commands` in `folder` by one shell, which keeps variables and the current folder."""
    logs = folder / ".commands"
    logs.mkdir()
    script = "".join(_step(command, logs / str(i)) for i, command in enumerate(commands))
    process.run(["bash", "-c", script], timeout_s=timeout_s, cwd=folder, env=env)
    return [_result(logs / str(i)) for i in range(len(commands))]


def _step(command: Command, log: Path) -> str:
    """Return the script that runs one command, with its output and status put beside it."""
    place = shlex.quote(str(log))
    return f"{{ {command.run_as}\n}} >{place}.out 2>&1; s=$?; echo $s >{place}.status; (exit $s)\n"


def _result(log: Path) -> Result:
    output, status = log.with_suffix(".out"), log.with_suffix(".status")
    text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    return Result(int(status.read_text()) if status.exists() else None, text)


def complaint(command: Command, result: Result) -> str | None:
    """Return what is wrong with `result` beside what the page shows; None if they agree."""
    where = f"{command.page.name}:{command.line}: $ {command.run_as}\n"
    if result.status is None:
        return f"{where}did not end, or was not reached; it printed:\n{result.output}"
    if result.status != 0 and not command.status_shown:
        return f"{where}ended with status {result.status}; it printed:\n{result.output}"
    if not matches(command.shown, result.output):
        shown = "\n".join(command.shown)
        return f"{where}the page shows:\n{shown}\n--- it printed:\n{result.output}"
    return None


def matches(shown: Sequence[str], output: str) -> bool:
    """Return whether `output` is what is shown, but for `…` and blanks at the ends of lines."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    wanted = "\n".join(line.rstrip() for line in shown).rstrip()
    pattern = ""
    for line in wanted.splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            # what is left out at the end may be nothing, and then no blank stands before it
            parts = re.sub(" …$", "…", line).split("…")
            pattern += ".*?".join(re.escape(part) for part in parts) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None
