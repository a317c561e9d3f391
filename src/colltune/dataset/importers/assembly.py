"""From the rows of a file to a dataset: what the user told fills in what the file does not say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from colltune.dataset.frame import PerformanceDataset
from colltune.dataset.importers.protocol import (
    Imported,
    Reading,
    Request,
    Row,
    Source,
    whole,
)
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError

_REQUIRED = ("machine", "library", "library_version")
SETTINGS = (*_REQUIRED, "fabric", "nodes", "ppn", "configuration", "collective")
FILTERS = ("collective", "nprocs", "msize_bytes", "algorithm")


def assemble(reading: Reading, source: Source, request: Request) -> Imported:
    told = _Told.of(request, source)
    rows = _kept(reading.rows, request.where, source)
    remarks = Counter(reading.remarks)
    rows = [row for row in (_in_our_size(row, told, remarks) for row in rows) if row is not None]
    rows = [row for row in rows if _is_measured(row, remarks)]
    if not rows:
        why = f": {'; '.join(_counted(remarks))}" if remarks else ""
        raise DataError(f"{source.name}: no usable measurement of a collective in it{why}")
    _refuse_mixtures(rows, source)
    measurements = [_measurement(row, told, request, remarks) for row in rows]
    launches = _launch_names(measurements)
    named = [replace(m, launch=name) for m, name in zip(measurements, launches, strict=True)]
    return Imported(
        PerformanceDataset.of(told.context, named),
        frozenset(row.kind for row in rows),
        reading.facts,
        tuple(_counted(remarks)),
    )


@dataclass(frozen=True)
class _Told:
    """What the user told with --set, checked."""

    source: Source
    context: Context
    nodes: int | None
    ppn: int | None
    configuration: Configuration | None

    @classmethod
    def of(cls, request: Request, source: Source) -> _Told:
        settings = dict(request.settings)
        for name in settings:
            if name not in SETTINGS:
                raise DataError(f"--set {name}: unknown here; known: {', '.join(SETTINGS)}")
        configuration = None
        if settings.get("configuration"):
            parsed = Configuration.parse(settings["configuration"])
            configuration = request.algorithms.canonical(parsed)
            if settings.setdefault("library", parsed.library) != parsed.library:
                raise DataError(
                    f"--set library={settings['library']} contradicts --set configuration="
                    f"{settings['configuration']}, which is one of {parsed.library}"
                )
        missing = [name for name in _REQUIRED if not settings.get(name, "").strip()]
        if missing:
            raise DataError(
                f"{source.name}: does not tell its {', '.join(missing)}; give"
                f" {' '.join(f'--set {name}=VALUE' for name in missing)}"
            )
        machine, library, version = (settings[name].strip() for name in _REQUIRED)
        context = Context(machine, library, version, settings.get("fabric", ""))
        nodes, ppn = (_positive(settings, name) for name in ("nodes", "ppn"))
        return cls(source, context, nodes, ppn, configuration)

    def shape(self, nprocs: int | None, line: int) -> Shape:
        """Return the shape of a row, which the file tells as `nprocs` at most."""
        where = f"{self.source.name}, line {line}"
        if self.nodes and self.ppn:
            if nprocs not in (None, self.nodes * self.ppn):
                raise DataError(
                    f"{where}: measured on {nprocs} processes, but --set nodes={self.nodes} and"
                    f" ppn={self.ppn} make {self.nodes * self.ppn}; correct them, or keep what fits"
                    f" with --where nprocs={self.nodes * self.ppn}"
                )
            return Shape(self.nodes, self.ppn)
        known = self.nodes or self.ppn
        if nprocs is None or known is None:
            lacking = (
                "--set nodes=N and --set ppn=N" if nprocs is None else "--set nodes=N or ppn=N"
            )
            raise DataError(f"{where}: the file does not tell nodes and ppn; give {lacking}")
        if nprocs % known:
            name = "nodes" if self.nodes else "ppn"
            raise DataError(
                f"{where}: {nprocs} processes cannot be spread evenly with {name}={known}; keep"
                " what can with --where nprocs=N"
            )
        return Shape(known, nprocs // known) if self.nodes else Shape(nprocs // known, known)


def _positive(settings: Mapping[str, str], name: str) -> int | None:
    if name not in settings:
        return None
    number = whole(settings[name].strip())
    if not number:
        raise DataError(f"--set {name}={settings[name]}: not a whole number of at least 1")
    return number


def _kept(rows: Sequence[Row], where: Mapping[str, str], source: Source) -> list[Row]:
    kept = list(rows)
    for name, value in where.items():
        if name not in FILTERS:
            raise DataError(
                f"{source.name}: no column {name!r} to filter by; known: {', '.join(FILTERS)}"
            )
        kept = [row for row in kept if str(getattr(row, name)) == value]
        if rows and not kept:
            raise DataError(f"{source.name}: no row has {name} = {value!r}")
    return kept


def _in_our_size(row: Row, told: _Told, remarks: Counter[str]) -> Row | None:
    """Turn a whole buffer that was divided among the processes into our block."""
    if not row.split_bytes:
        return row
    nprocs = told.shape(row.nprocs, row.line).nprocs
    block = row.msize_bytes // row.split_bytes // nprocs * row.split_bytes
    if block:
        return replace(row, msize_bytes=block)
    remarks[f"{row.collective}: less than an element per process is left out"] += 1
    return None


def _is_measured(row: Row, remarks: Counter[str]) -> bool:
    if row.msize_bytes >= 1 << 63:
        raise DataError(f"line {row.line}: impossible message size {row.msize_bytes}")
    if row.msize_bytes == 0 and row.collective is not Collective.BARRIER:
        remarks["0 bytes: costs a call and no communication; left out"] += 1
        return False
    if row.status.is_timed and row.summary is not None:
        time_s = row.summary.time_s
        if not (math.isfinite(time_s) and time_s > 0):
            remarks["a time of 0, or none: nothing was measured that the file can show"] += 1
            return False
    return True


def _refuse_mixtures(rows: Iterable[Row], source: Source) -> None:
    kinds: dict[str, int] = {}
    conventions: dict[Collective, dict[str, int]] = {}
    for row in rows:
        kinds.setdefault(row.kind.value, row.line)
        conventions.setdefault(row.collective, {}).setdefault(row.convention, row.line)
    for what, found in (("times", kinds), *conventions.items()):
        if len(found) > 1:
            listed = "; ".join(f"{text or 'not told'} (line {n})" for text, n in found.items())
            raise DataError(
                f"{source.name}: mixes conventions, {what} are not comparable: {listed};"
                " split it into files that can be imported by themselves"
            )


def _measurement(row: Row, told: _Told, request: Request, remarks: Counter[str]) -> Measurement:
    shape = told.shape(row.nprocs, row.line)
    instance = Instance(row.collective, shape, row.msize_bytes)
    configuration = _configuration(row, told, request)
    launch = request.launch or told.source.launch
    why_not = (
        "" if configuration.is_default else request.algorithms.why_not(configuration, instance)
    )
    if why_not and row.status.is_timed:
        remarks[f"{configuration.id} is not_applicable, the library runs another: {why_not}"] += 1
        return Measurement(instance, configuration, launch, RunStatus.NOT_APPLICABLE)
    return Measurement(instance, configuration, launch, row.status, row.times_s, row.summary)


def _configuration(row: Row, told: _Told, request: Request) -> Configuration:
    library, chosen = told.context.library, told.configuration
    if row.algorithm:
        if chosen:
            raise DataError(
                f"{told.source.name}: names the algorithm of each time itself; leave out"
                " --set configuration"
            )
        return request.algorithms.configuration(library, row.collective, row.algorithm)
    if chosen is None:
        return Configuration.default(library, row.collective)
    if chosen.collective is not row.collective:
        raise DataError(
            f"{told.source.name}, line {row.line}: measures {row.collective}, which --set"
            f" configuration={chosen.id} does not speak of; import each collective by itself with"
            f" --where collective={chosen.collective}"
        )
    return chosen


def _launch_names(measurements: Sequence[Measurement]) -> list[str]:
    """Return the launches' names: a cell that comes again belongs to a further launch."""
    seen: Counter[tuple[Configuration, Instance]] = Counter()
    names = []
    for measurement in measurements:
        cell = (measurement.configuration, measurement.instance)
        seen[cell] += 1
        again = f"/{seen[cell]}" if seen[cell] > 1 else ""
        names.append(f"{measurement.launch}{again}")
    return names


def _counted(remarks: Counter[str]) -> Iterable[str]:
    return (f"{text} ({n} times)" if n > 1 else text for text, n in remarks.items())
