"""The launchers' commands that a log holds: processes, nodes, and what they set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from colltune.dataset.importers.protocol import whole
from colltune.process import LAUNCHERS

_LAUNCHER = re.compile(
    rf"(?:^|[\s;&(/])(?P<name>{LAUNCHERS}|flux run)(?:[._][\w.]+)?\s+"
    r"(?=-|\w+=|\S*(?:osu_|IMB-|mpibenchmark|mpiBench))"
)
_ANY = re.compile(rf"\b(?:{LAUNCHERS}|flux)|MPI[ :)]|MPICH|MCA|CVAR|I_MPI")
_MOST_LINES = 100
_TITLE = re.compile(r"#\s*(?:OSU|OMB|Intel|PALLAS|Benchmarking)\b|START mpiBench|#@")
_TRACED = re.compile(r"\+{1,3} ")
_SETS = re.compile(r"(?:\+{1,3} |\$ )?(?:(?:export|setenv|unset)\s|[A-Z][A-Z0-9_]*=\S*\s*$)")
_RELEASE = re.compile(
    r"[#\s]*(?:(?:mpirun|mpiexec|orterun|prterun)\s+)?"
    r"(?:\(?(?P<openmpi>Open MPI)\)?|(?P<mpich>MPICH)(?: Version)?"
    r"|(?P<intelmpi>Intel\(R\) MPI Library)(?: for Linux\*? OS)?)"
    r"[:,]?\s+(?:[vV]|Version\s+)?(?P<release>\d{1,4}\.\d+(?:\.\d+)?)\b"
)
_OPTIONS = {
    "nprocs": "-np --np -n --n --ntasks -procs",
    "ppn": "-ppn -perhost -npernode --npernode --ntasks-per-node --tasks-per-node -tasks_per_node",
    "nodes": "--nodes -nnodes --nnodes",
}
_OF_SETS = {"sets": "-n --nrs", "tasks": "-a --tasks_per_rs", "a_host": "-r --rs_per_host"}
_OF_SETS |= {"nprocs": "-p --np"}
"""Of jsrun, which counts sets of resources."""


@dataclass(frozen=True)
class Command:
    """One launch: its line, counts where it tells them, and the script up to it.

    ``before`` is how many of those before it, in the file, printed a table, as far as is seen.
    """

    line: int
    text: str
    nprocs: int | None
    nodes: int | None
    ppn: int | None
    script: str
    before: int


@dataclass
class Commands:
    """Looks for commands in the lines of a log while others read them."""

    found: list[Command] = field(default_factory=list)
    releases: list[tuple[int, str, str]] = field(default_factory=list)
    _settings: list[str] = field(default_factory=list)
    _begun: list[str] = field(default_factory=list)
    _tables: int = 0

    def watched(self, lines: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if _TITLE.match(line):
                self._tables = len(self.found)
            if self._begun or _ANY.search(line):
                text = line.strip().removeprefix("> " if self._begun else "")
                self._begun.append(text.removesuffix("\\"))
                if not text.endswith("\\") or len(self._begun) > _MOST_LINES:
                    self._look(" ".join(self._begun), number)
                    self._begun.clear()
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
            own = [one for one in own if own[-1].before == one.before]
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
        return Command(number, text, *counts, script, self._tables)


def _counts(launcher: str, command: str) -> tuple[int | None, int | None, int | None]:
    """Return processes, nodes and processes a node, of which two tell the third."""
    found = _told(launcher, command)
    nprocs, nodes, ppn = found.get("nprocs"), found.get("nodes"), found.get("ppn")
    if sets := found.get("sets"):
        tasks = found.get("tasks") or 1
        nprocs, ppn = sets * tasks, tasks * (found.get("a_host") or 0) or None
    if nprocs is None and nodes and ppn:
        nprocs = nodes * ppn
    if nprocs and ppn and nprocs % ppn == 0:
        nodes = nodes or nprocs // ppn
    if nprocs and nodes and nprocs % nodes == 0:
        ppn = ppn or nprocs // nodes
    return nprocs, nodes, ppn


def _told(launcher: str, command: str) -> dict[str, int | None]:
    """Return the counts that options tell, the first of each."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: dict[str, int | None] = {}
    options = _OF_SETS if launcher == "jsrun" else _OPTIONS
    of = {option: name for name, listed in options.items() for option in listed.split()}
    of["-N"] = "nodes" if launcher in ("srun", "flux run") else "ppn"
    for word, following in zip(words[1:], [*words[2:], ""], strict=True):
        option, equals, value = word.partition("=")
        value = value if equals else following
        short = re.fullmatch(r"(-[A-Za-z])(\d+)", word)
        if option in of:
            found.setdefault(of[option], whole(value))
        elif option in ("-pernode", "--pernode"):
            found.setdefault("ppn", 1)
        elif short and short[1] in of:
            found.setdefault(of[short[1]], whole(short[2]))
        elif match := re.match(r"ppr:(\d+):node", value if option.endswith("map-by") else ""):
            found.setdefault("ppn", whole(match[1]))
    return found
