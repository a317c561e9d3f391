"""The launchers' commands that a log holds: processes, nodes, and what they set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from colltune.dataset.importers.protocol import whole

_LAUNCHER = re.compile(
    r"(?:^|[\s;&(/])(?P<name>mpirun|mpiexec|orterun|prterun|srun|aprun|flux run)"
    r"(?:[._][\w.]+)?\s+(?=-|\w+=)"
)
_ANY = re.compile(r"run\b|mpiexec|MPI[ :)]|MPICH|MCA|CVAR|I_MPI")
_TRACED = re.compile(r"\+{1,3} ")
_SETS = re.compile(r"(?:\+{1,3} |\$ )?(?:(?:export|setenv|unset)\s|[A-Z][A-Z0-9_]*=\S*\s*$)")
_RELEASE = re.compile(
    r"[#\s]*(?:(?:mpirun|mpiexec|orterun|prterun)\s+)?"
    r"(?:\(?(?P<openmpi>Open MPI)\)?|(?P<mpich>MPICH)(?: Version)?"
    r"|(?P<intelmpi>Intel\(R\) MPI Library)(?: for Linux\*? OS)?)"
    r"[:,]?\s+(?:[vV]|Version\s+)?(?P<release>\d{1,4}\.\d+(?:\.\d+)?)\b"
)
_OF_NPROCS = ("-np", "--np", "-n", "--n", "--ntasks")
_OF_PPN = ("-ppn", "-perhost", "-npernode", "--npernode", "--ntasks-per-node", "--tasks-per-node")
_OF_NODES = ("--nodes",)


@dataclass(frozen=True)
class Command:
    """One launch: its line, counts where it tells them, and the script up to it."""

    line: int
    text: str
    nprocs: int | None
    nodes: int | None
    ppn: int | None
    script: str


@dataclass
class Commands:
    """Looks for commands in the lines of a log while others read them."""

    found: list[Command] = field(default_factory=list)
    releases: list[tuple[int, str, str]] = field(default_factory=list)
    _settings: list[str] = field(default_factory=list)

    def watched(self, lines: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if _ANY.search(line):
                self._look(line.strip(), number)
            yield line

    def by_row(self, lines: Iterable[int]) -> dict[int, Command | None]:
        """Return the command that started what stands on each of `lines`, in order.

        Of several without a row between, the last one ran if a shell traced them; otherwise they
        may be a listing, which tells only what all of them have in common.
        """
        result: dict[int, Command | None] = {}
        current, begin = None, 0
        for line in sorted(lines):
            own = [one for one in self.found if begin < one.line < line]
            if own:
                same = len({(one.nprocs, one.nodes, one.ppn, one.script) for one in own}) == 1
                current = own[-1] if same or _TRACED.match(own[-1].text) else None
            result[line], begin = current, line
        return result

    def _look(self, text: str, number: int) -> None:
        if match := _RELEASE.match(text):
            library = match.lastgroup if match.lastgroup != "release" else ""
            library = library or next(n for n, v in match.groupdict().items() if v)
            self.releases.append((number, library, match["release"]))
        elif match := _LAUNCHER.search(text):
            self.found.append(self._command(match, text, number))
        elif _SETS.match(text):
            self._settings.append(_TRACED.sub("", text.removeprefix("$ ")))

    def _command(self, match: re.Match[str], text: str, number: int) -> Command:
        start = text[: match.start("name")].split()
        prefix = [word for word in start if re.fullmatch(r"[A-Za-z_]\w*=\S*", word)]
        command = " ".join([*prefix, text[match.start("name") :]])
        counts = _counts(match["name"], text[match.start("name") :])
        script = "\n".join(["#!/bin/sh", *self._settings, command, ""])
        return Command(number, text, *counts, script)


def _counts(launcher: str, command: str) -> tuple[int | None, int | None, int | None]:
    """Return processes, nodes and processes a node, of which two tell the third."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: dict[str, int | None] = {}
    of = dict.fromkeys(_OF_NPROCS, "nprocs") | dict.fromkeys(_OF_PPN, "ppn")
    of |= dict.fromkeys(_OF_NODES, "nodes")
    of["-N"] = "nodes" if launcher in ("srun", "flux run") else "ppn"
    for word, following in zip(words[1:], [*words[2:], ""], strict=True):
        option, equals, value = word.partition("=")
        value = value if equals else following
        name = of.get(option)
        short = re.fullmatch(r"(-[nN])(\d+)", word)
        if name and name not in found:
            found[name] = whole(value)
        elif option in ("-pernode", "--pernode"):
            found.setdefault("ppn", 1)
        elif short:
            found.setdefault(of[short[1]], whole(short[2]))
        elif match := re.match(r"ppr:(\d+):node", value if option.endswith("map-by") else ""):
            found.setdefault("ppn", whole(match[1]))
    nprocs, nodes, ppn = found.get("nprocs"), found.get("nodes"), found.get("ppn")
    if nprocs is None and nodes and ppn:
        nprocs = nodes * ppn
    if nprocs and ppn and nprocs % ppn == 0:
        nodes = nodes or nprocs // ppn
    if nprocs and nodes and nprocs % nodes == 0:
        ppn = ppn or nprocs // nodes
    return nprocs, nodes, ppn
