"""From a file to a dataset: what the user told fills in what the file does not say.

Among it are the launchers' commands that a log holds: processes, nodes, and what they set.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from colltune.dataset.frame import PerformanceDataset
from colltune.dataset.importers.protocol import (
    Imported,
    ImportedRow,
    Importer,
    ImportRequest,
    ParsedOutput,
    Place,
    SourceFile,
    filled,
    whole,
)
from colltune.dataset.method import CONDITIONS, Condition
from colltune.dataset.noise.measured import possible
from colltune.domain import (
    LARGEST_NUMBER,
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError, say, unknown
from colltune.process import LAUNCHERS
from colltune.text import counted

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


_REQUIRED = ("machine", "library", "library_version")
_SHAPE = ("nodes", "ppn", "slots", "configuration", "collective")
SETTINGS = (*_REQUIRED, "fabric", *_SHAPE, *CONDITIONS)
_KNOWN = (*SETTINGS, "algorithm")
FILTERS = ("collective", "nprocs", "msize_bytes", "algorithm", *CONDITIONS)


def reads_lines(
    title: str, signs: str, parse: Callable[[Iterable[str], str], ParsedOutput]
) -> Importer:
    """Return the importer of a format whose `parse` takes lines and the file's name."""

    def load(source: SourceFile, request: ImportRequest) -> Imported:
        commands = Commands()
        reading = parse(commands.watched(source.lines()), source.name)
        return assemble(reading, source, request, commands)

    return Importer(title, re.compile(signs), load)


def assemble(
    reading: ParsedOutput,
    source: SourceFile,
    request: ImportRequest,
    commands: Commands | None = None,
) -> Imported:
    told = _SetOptions(source, request, commands)
    remarks = Counter(reading.remarks)
    told.look_at(reading.rows)
    kept = (
        _in_our_size(row, told, remarks)
        for row in _kept(tuple(map(told.counted, reading.rows)), request, source)
    )
    rows = [row for row in kept if row is not None and _is_measured(row, remarks)]
    if not rows:
        why = f": {'; '.join(_counted(remarks))}" if remarks else ""
        raise say("no-usable-measurements", file=source.name, why=why)
    rows = _of_the_shape(rows, told, remarks)
    conditions = _conditions(rows, told)
    launches: Counter[tuple[Configuration, Instance]] = Counter()
    measurements = []
    for row in rows:
        found = _measurement(row, told, remarks)
        cell = (found.configuration, found.instance)
        launches[cell] += 1
        # a cell that comes again belongs to a further launch
        again = f"/{launches[cell]}" if launches[cell] > 1 else ""
        measurements.append(replace(found, launch=f"{found.launch}{again}"))
    remarks.update(_repeated(launches))
    facts = dict(reading.facts)
    if request.round_trip_s is not None:
        facts["round_trip_s"] = f"{request.round_trip_s:.3g}"
    if round_trip_s := facts.get("round_trip_s"):
        measurements = list(_possible(measurements, float(round_trip_s), remarks))
    return Imported(
        PerformanceDataset.of(told.context, measurements),
        frozenset(row.kind for row in rows),
        facts,
        tuple(_counted(remarks)),
        conditions,
    )


def _repeated(launches: Counter[tuple[Configuration, Instance]]) -> Iterator[str]:
    """Tell what several tables of a collective are taken for."""
    tables: dict[tuple[Configuration, Shape], int] = {}
    for (configuration, instance), n in launches.items():
        key = (configuration, instance.shape)
        tables[key] = max(n, tables.get(key, 0))
    for (configuration, shape), n in tables.items():
        if n > 1:
            yield (
                f"{counted(n, 'table')} of {configuration.collective}, taken as "
                f"{counted(n, 'launch', 'es')} of {configuration.short} on {shape}"
            )


def _possible(
    measurements: Iterable[Measurement], round_trip_s: float, remarks: Counter[str]
) -> tuple[Measurement, ...]:
    checked = possible(measurements, round_trip_s)
    below = sum(m.status is RunStatus.TOO_FAST for m in checked)
    if below:
        remarks[f"below half of the round trip of {round_trip_s:.3g} s: left without time"] = below
    return checked


class _SetOptions:
    """What the user told with --set, checked."""

    def __init__(
        self, source: SourceFile, request: ImportRequest, commands: Commands | None = None
    ) -> None:
        self.source, self.request = source, request
        self.commands = commands or Commands()
        self.by_row: dict[int, Command | None] = {}
        self._chosen: dict[tuple[int, Collective], Configuration | None] = {}
        settings = dict(request.settings)
        for name in settings:
            if name not in _KNOWN:
                raise unknown("key of --set", name, SETTINGS, DataError)
        self.configuration: Configuration | None = None
        if settings.get("configuration"):
            parsed = Configuration.parse(settings["configuration"])
            self.configuration = request.algorithms.canonical(parsed)
            if settings.setdefault("library", parsed.library) != parsed.library:
                wanted = settings["library"]
                raise say("settings-contradict", library=wanted, configuration=parsed.id)
        missing = [name for name in _REQUIRED if not settings.get(name, "").strip()]
        if missing:
            lacking = " ".join(f"--set {name}=VALUE" for name in missing)
            raise say("context-not-said", file=source.name, lacking=lacking)
        machine, library, version = (settings[name].strip() for name in _REQUIRED)
        self.context = Context(machine, library, version, settings.get("fabric", ""))
        names = ("nodes", "ppn", "slots")
        counts = {name: whole(settings.get(name, "1").strip()) for name in names}
        for name, count in counts.items():
            if not count:
                what, most, value = f"--set {name}", LARGEST_NUMBER, settings[name]
                raise say("not-whole", what=what, value=value, least=1, most=most)
        told = (n if name in settings else None for name, n in counts.items())
        self.nodes, self.ppn, self.slots = told
        if self.slots and (self.nodes or self.ppn):
            raise say("exclusive", one="--set slots", other="nodes with ppn")

    def look_at(self, rows: Iterable[ImportedRow]) -> None:
        """Take what the file's commands tell, and refuse a release that contradicts the told."""
        self.by_row = self.commands.by_row(row.line for row in rows)
        for line, library, release in self.commands.releases:
            told = (self.context.library, self.context.library_version)
            versions = sorted((release, told[1]), key=len)
            same = f"{versions[1]}.".startswith(f"{versions[0]}.")
            if library != told[0] or not same:
                place, found = f"{self.source.name}, line {line}", f"{library} {release}"
                raise say("contradicts-set", place=place, found=found, told=" ".join(told))

    def counted(self, row: ImportedRow) -> ImportedRow:
        """Return a row with the number of processes that its command starts, if it tells none."""
        command = self.by_row.get(row.line)
        if row.nprocs is not None or command is None or command.nprocs is None:
            return row
        return replace(row, nprocs=command.nprocs)

    def shape_of(self, row: ImportedRow) -> Shape:
        """Return the shape of a row: as told, which its command must not contradict."""
        command = self.by_row.get(row.line)
        if command is None or command.nprocs is None or row.nprocs != command.nprocs:
            return self.shape(row.nprocs, row.line)
        if self.request.from_commands and command.nodes and command.ppn:
            found = Shape(command.nodes, command.ppn)
        else:
            found = None
        given = {"nodes": self.nodes, "ppn": self.ppn}
        counts = {"nodes": command.nodes, "ppn": command.ppn}
        wrong = [n for n in given if given[n] and counts[n] and given[n] != counts[n]]
        if self.nodes and self.ppn and self.nodes * self.ppn != command.nprocs:
            wrong = wrong or ["nprocs"]
        if wrong:
            on_nodes = f" on {counted(command.nodes, 'node')}" if command.nodes else ""
            place = f"{self.source.name}, line {row.line}"
            started = f"{counted(command.nprocs, 'process', 'es')}{on_nodes}"
            told = f"by the command on line {command.line} (of {self.tables}) {started}"
            raise say("contradicts-set", place=place, found=told, told=self.layout)
        return found or self.shape(row.nprocs, row.line)

    def chosen(self, row: ImportedRow) -> Configuration | None:
        """Return the configuration that the row's command chooses, None for the default."""
        command = self.by_row.get(row.line)
        if command is None:
            return None
        key = (command.line, row.collective)
        if key not in self._chosen:
            self._chosen[key] = self.request.algorithms.chosen(
                self.context.library, row.collective, command.script
            )
        found, told = self._chosen[key], self.configuration
        if found and (told or not self.request.from_commands):
            if told is None or told.algorithm != found.algorithm:
                says = f"--set configuration={told.id}" if told else "it counts as the default"
                place = f"{self.source.name}, line {row.line}, command on line {command.line}"
                raise say("command-chooses", place=place, configuration=found.id, says=says)
            return None
        return found

    @property
    def tables(self) -> str:
        lines = {command.line for command in self.by_row.values() if command}
        return counted(len(lines), "table")

    @property
    def layout(self) -> str:
        counts = {"nodes": self.nodes, "ppn": self.ppn, "slots": self.slots}
        return " and ".join(f"{name}={n}" for name, n in counts.items() if n)

    def fits(self, nprocs: int | None) -> bool:
        """Whether so many processes fill the nodes that were told."""
        if nprocs is None or not (self.nodes or self.ppn or self.slots):
            return True
        if self.slots:
            return filled(nprocs, self.slots) is not None
        if self.nodes and self.ppn:
            return nprocs == self.nodes * self.ppn
        return nprocs % (self.nodes or self.ppn or 1) == 0

    def shape(self, nprocs: int | None, line: int) -> Shape:
        """Return the shape of a row, which the file tells as `nprocs` at most."""
        where = f"{self.source.name}, line {line}"
        if self.nodes and self.ppn:
            if nprocs not in (None, self.nodes * self.ppn):
                found = counted(nprocs, "process", "es")
                raise say("contradicts-set", place=where, found=found, told=self.layout)
            return Shape(self.nodes, self.ppn)
        if nprocs and self.slots and (shape := filled(nprocs, self.slots)):
            return shape
        known = self.nodes or self.ppn or self.slots
        if nprocs is None or known is None:
            lacking = (
                "--set nodes=N and --set ppn=N" if nprocs is None else "--set nodes=N or ppn=N"
            )
            raise say("layout-not-said", where=where, lacking=lacking)
        if nprocs % known:
            found = counted(nprocs, "process", "es")
            raise say("uneven-layout", where=where, nprocs=found, layout=self.layout)
        return Shape(known, nprocs // known) if self.nodes else Shape(nprocs // known, known)


def _kept(
    rows: tuple[ImportedRow, ...], request: ImportRequest, source: SourceFile
) -> list[ImportedRow]:
    kept = list(rows)
    for name, value in request.where.items():
        if name not in FILTERS:
            raise unknown("column to filter by", name, FILTERS, DataError).of(source.name)
        wanted = set(value.split(","))
        kept = [row for row in kept if _text(row, name) in wanted]
        if rows and not kept:
            raise say("no-row-has", column=name, value=value).of(source.name)
    return kept


def _text(row: ImportedRow, name: str) -> str:
    return row.conditions.get(name, "") if name in CONDITIONS else str(getattr(row, name))


def _in_our_size(row: ImportedRow, told: _SetOptions, remarks: Counter[str]) -> ImportedRow | None:
    """Turn a whole buffer that was divided among the processes into our block."""
    if not row.split_bytes:
        return row
    nprocs = told.shape_of(row).nprocs
    block = row.msize_bytes // row.split_bytes // nprocs * row.split_bytes
    if block:
        return replace(row, msize_bytes=block)
    remarks[f"{row.collective}: sizes of less than one element per process are left out"] += 1
    return None


def _is_measured(row: ImportedRow, remarks: Counter[str]) -> bool:
    if row.msize_bytes >= 1 << 63:
        raise say("impossible-size", value=row.msize_bytes).of(f"line {row.line}")
    if row.msize_bytes == 0 and row.collective is not Collective.BARRIER:
        remarks["0 bytes: left out, because nothing is communicated"] += 1
        return False
    if row.status.is_timed and row.summary is not None and not 0 < row.summary.time_s < math.inf:
        remarks["a time of 0, or none: the file shows no measured time"] += 1
        return False
    return True


def _of_the_shape(
    rows: list[ImportedRow], told: _SetOptions, remarks: Counter[str]
) -> list[ImportedRow]:
    """Return the rows of as many processes as told, where some are: benchmarks try fewer, too."""

    def fits(row: ImportedRow) -> bool:
        command = told.by_row.get(row.line)
        if command is None or command.nprocs is None:
            return told.fits(row.nprocs)
        own = command.nprocs == row.nprocs
        return own if told.request.from_commands else own or told.fits(row.nprocs)

    fitting = [row for row in rows if fits(row)]
    others = Counter(row.nprocs for row in rows if not fits(row))
    if not fitting:
        return rows
    what = told.layout or "the command"
    for nprocs, n in sorted(others.items(), key=str):
        remarks[f"on {nprocs} processes, which do not fit {what}: left out"] += n
    return fitting


def _conditions(rows: Iterable[ImportedRow], told: _SetOptions) -> dict[Condition, Place]:
    """Return what is known of how each collective was measured, which has to be one way."""
    source, found = told.source, dict[tuple[Collective, str], dict[str, int]]()
    kinds: dict[str, int] = {}
    for row in rows:
        kinds.setdefault(row.kind.value, row.line)
        for name in CONDITIONS:
            value = row.conditions.get(name, "")
            found.setdefault((row.collective, name), {}).setdefault(value, row.line)
    if len(kinds) > 1:
        raise say("kinds-of-times", file=source.name, kinds=_listed(kinds))
    known = {}
    for (collective, name), values in found.items():
        if len(values) > 1:
            one = next(filter(None, values))
            raise say(
                "not-comparable", collective=collective, values=_listed(values), name=name, one=one
            ).of(source.name)
        value, line = next(iter(values.items()))
        wanted = told.request.settings.get(name, value)
        if value and wanted != value:
            place, measured = f"{source.name}, line {line}", f"{collective} with {name} {value}"
            raise say("contradicts-set", place=place, found=measured, told=f"{name}={wanted}")
        if wanted:
            place = f"{source.name}, line {line}" if value else f"--set {name}"
            known[collective.value, name] = (wanted, place)
    return known


def _listed(found: Mapping[str, int]) -> str:
    return "; ".join(f"{text or 'unknown'} (line {n})" for text, n in found.items())


def _measurement(row: ImportedRow, told: _SetOptions, remarks: Counter[str]) -> Measurement:
    instance = Instance(row.collective, told.shape_of(row), row.msize_bytes)
    configuration = _configuration(row, told)
    launch = told.request.launch or told.source.launch
    if row.status.is_timed and not configuration.is_default:
        why_not = told.request.algorithms.why_not(configuration, instance)
        if why_not:
            what = f"{configuration.id} is not_applicable: the library runs another algorithm"
            remarks[f"{what}: {why_not}"] += 1
            return Measurement(instance, configuration, launch, RunStatus.NOT_APPLICABLE)
    return Measurement(instance, configuration, launch, row.status, row.times_s, row.summary)


def _configuration(row: ImportedRow, told: _SetOptions) -> Configuration:
    library = told.context.library
    chosen = (None if row.algorithm else told.chosen(row)) or told.configuration
    if row.algorithm:
        if chosen or told.request.settings.get("algorithm"):
            raise say("algorithm-is-named", file=told.source.name)
        return told.request.algorithms.configuration(library, row.collective, row.algorithm)
    if word := told.request.settings.get("algorithm", ""):
        named = told.request.algorithms.configuration(library, row.collective, word)
        if chosen and chosen.algorithm != named.algorithm:
            error = say("another-algorithm-ran", configuration=chosen.id, named=named.id)
            raise error.of(f"{told.source.name}, line {row.line}")
        return named
    if chosen is None:
        return Configuration.default(library, row.collective)
    if chosen.collective is not row.collective:
        error = say("configuration-does-not-fit", configuration=chosen.id)
        raise error.of(f"{told.source.name}, line {row.line}")
    return chosen


def _counted(remarks: Counter[str]) -> Iterator[str]:
    return (f"{text} ({n} times)" if n > 1 else text for text, n in remarks.items())
