"""Imports files as one dataset: which format they have, whether they fit together, what is new."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from colltune import provenance
from colltune.dataset.frame import PerformanceDataset, join
from colltune.dataset.importers import IMPORTERS
from colltune.dataset.importers.assembly import SETTINGS
from colltune.dataset.importers.protocol import (
    Algorithms,
    Imported,
    ImportRequest,
    Place,
    SourceFile,
    TimeKind,
    whole,
)
from colltune.dataset.importers.table import is_known
from colltune.dataset.method import MEASURED_UNDER, Condition, conditions_of, in_provenance
from colltune.dataset.parquet import append_dataset, read, read_parquet, read_provenance
from colltune.dataset.tidy_csv import TITLES, separator_of, without_common_prefixes
from colltune.domain import Collective, RunStatus
from colltune.errors import DataError, say, unknown
from colltune.files import locked

Progress = Callable[[int, int, str], None]
"""Is told the mebibytes that are read of all files, of how many, and the current file."""
_CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".csv.zst")
_FEWEST_SIZES, _FAR = 3, 2.0
"""Launches that lie further apart, in the middle of so many common sizes, differ in something."""
_DIGESTS, _KINDS = "imported_sha256", "imported_time"


@dataclass(frozen=True)
class ImportedFiles:
    """All files of one call as one dataset."""

    dataset: PerformanceDataset
    format: str
    facts: Mapping[str, str]
    remarks: tuple[str, ...]
    kinds: frozenset[TimeKind]
    digests: Mapping[str, str]
    conditions: Mapping[Condition, Place]


def import_files(
    paths: Sequence[Path],
    request: ImportRequest,
    format_: str | None,
    progress: Progress = lambda _done, _total, _next: None,
) -> ImportedFiles:
    """Read files of one format, a name in ``IMPORTERS`` or None to tell it from the content."""
    names = Counter(path.name for path in paths)
    sources = [SourceFile(path, with_folder=names[path.name] > 1) for path in paths]
    requests = {source.path: _with_path(request, source) for source in sources}
    format_ = _format_of_all(sources, format_)
    digests = _digests(sources)
    imported = [
        IMPORTERS[format_].load(source, requests[source.path])
        for source in _telling(sources, progress)
    ]
    together = join([one.dataset for one in imported])
    # a table that names its launches is believed
    named = {source.name for source in sources} if format_ == "csv" else None
    _refuse_far_apart(together, named)
    found = list(zip(sources, imported, strict=True))
    conditions = _conditions(imported)
    return ImportedFiles(
        together,
        format_,
        _facts(sources, format_, digests, imported)
        | {MEASURED_UNDER: in_provenance({key: value for key, (value, _) in conditions.items()})},
        tuple(f"{source.name}: {remark}" for source, one in found for remark in one.remarks),
        _kinds(found),
        digests,
        conditions,
    )


def add_to(folder: Path, imported: ImportedFiles) -> Path:
    """Add what was imported to the dataset `folder`; return its new file there."""
    with locked(folder / ".import.lock"):
        if any(folder.glob("*.parquet")):
            if imported.format != "csv":
                _refuse_known(imported, folder)
            there = read_parquet(folder)
            join([there, imported.dataset])
            _refuse_incomparable(imported, folder)
            _refuse_far_from(there, imported.dataset)
        facts = provenance.collect(imported.facts)
        return append_dataset(folder, imported.dataset, facts)


def format_of(source: SourceFile, told: str | None = None) -> str:
    """Return the name in ``IMPORTERS`` of the format of `source`."""
    if source.path.is_dir() and told != "csv":
        raise source.unreadable(IsADirectoryError())
    # lines cannot be looked at twice in a pipe
    if told == "csv" or (source.path.exists() and not source.path.is_file()):
        return told or "csv"
    named_csv = source.path.name.endswith(_CSV_ENDINGS)
    try:
        marks, first = _marks(source)
    except DataError:
        if named_csv and not told:
            return "csv"
        raise
    if len(marks) > 1:
        listed = " and ".join(f"{IMPORTERS[n].title} (line {at})" for n, at in marks.items())
        raise say("mixed-formats", file=source.name, listed=listed)
    if told and marks and told not in marks:
        name, at = next(iter(marks.items()))
        raise say("other-format", file=source.name, line=at, told=told, name=name)
    if marks or told:
        return told or next(iter(marks))
    if named_csv or _is_table(first):
        return "csv"
    titles = ", ".join(f"{name} ({importer.title})" for name, importer in IMPORTERS.items())
    raise say("unknown-format", file=source.name, titles=titles)


def _is_table(first: Sequence[str]) -> bool:
    """Tell whether two lines are a table's: of as many columns, one with a name that is known."""
    bare = without_common_prefixes(first)
    rows = list(csv.reader(bare, delimiter=separator_of("".join(bare[:1])), skipinitialspace=True))
    columns = {len(row) for row in rows}
    return len(rows) == 2 and len(columns) == 1 < min(columns) and any(map(is_known, rows[0]))


def _marks(source: SourceFile) -> tuple[dict[str, int], list[str]]:
    """Return where each format's first unmistakable line stands, and the first two lines."""
    marks: dict[str, int] = {}
    first: list[str] = []
    for number, line in enumerate(source.lines(), start=1):
        if len(first) < 2 and line.strip():
            first.append(line.strip())
        if line.startswith(TITLES):
            for name, importer in IMPORTERS.items():
                if name not in marks and importer.recognises(line):
                    marks[name] = number
    return marks, first


def _format_of_all(sources: Sequence[SourceFile], told: str | None) -> str:
    if told is not None and told not in IMPORTERS:
        raise unknown("--format", told, IMPORTERS, DataError)
    formats = {source.name: format_of(source, told) for source in sources}
    if len(set(formats.values())) > 1:
        listed = ", ".join(f"{name} ({format_})" for name, format_ in formats.items())
        raise say("formats-differ", listed=listed)
    return next(iter(formats.values()))


def _digests(sources: Sequence[SourceFile]) -> dict[str, str]:
    """Return the SHA-256 of each file, all different; of pipes there is none."""
    names: dict[str, str] = {}
    for source in sources:
        if source.path.is_file():
            first = names.setdefault(source.sha256(), source.name)
            if first != source.name:
                raise say("same-content", file=source.name, first=first)
    return {name: digest for digest, name in names.items()}


def _telling(sources: Sequence[SourceFile], progress: Progress) -> Iterator[SourceFile]:
    """Yield `sources` such that `progress` is told what is read of them."""
    sizes = [s.path.stat().st_size if s.path.is_file() else 0 for s in sources]
    total_mib = sum(sizes) >> 20

    def tell(name: str, before: int, at: int) -> None:
        progress((before + at) >> 20, total_mib, name)

    for number, source in enumerate(sources):
        tell_of_this = partial(tell, source.name, sum(sizes[:number]))
        tell_of_this(0)
        yield replace(source, progress=tell_of_this)


def _kinds(found: Sequence[tuple[SourceFile, Imported]]) -> frozenset[TimeKind]:
    kinds: dict[TimeKind, str] = {}
    for source, one in found:
        for kind in one.kinds:
            kinds.setdefault(kind, source.name)
    if len(kinds) > 1:
        listed = "; ".join(f"{kind} in {name}" for kind, name in kinds.items())
        raise say("kinds-differ", listed=listed)
    return frozenset(kinds)


def _refuse_known(imported: ImportedFiles, into: Path) -> None:
    """Refuse a file that gave the same cells before, under whatever launch or configuration."""
    for stored in sorted(into.glob("*.parquet")):
        facts = read_provenance(stored)
        known = set(facts.get(_DIGESTS, "").split())
        again = [name for name, digest in imported.digests.items() if digest in known]
        if again and _instances(read_parquet(stored)) & _instances(imported.dataset):
            when = facts.get("time_utc", "an unknown day")
            raise say("already-imported", file=again[0], when=when, stored=stored)


def _instances(dataset: PerformanceDataset) -> set[tuple[str, int, int]]:
    frame = dataset.frame
    nprocs = (frame["nodes"] * frame["ppn"]).tolist()
    return set(zip(frame["collective"], nprocs, frame["msize_bytes"].tolist(), strict=True))


def _with_path(request: ImportRequest, source: SourceFile) -> ImportRequest:
    """Return the request for one file, with the settings that its path tells."""
    if not request.path:
        return request
    known = (*SETTINGS, "nprocs", "algorithm", "launch")
    pattern = ""
    for part in re.split(r"(\{[^{}]*\}|\*)", request.path):
        name = part[1:-1]
        if part == "*":
            pattern += "[^/]*"
        elif not part.startswith("{"):
            pattern += re.escape(part)
        elif name not in known:
            raise unknown("part of --path", part, known, DataError)
        else:
            pattern += f"(?P={name})" if f"(?P<{name}>" in pattern else f"(?P<{name}>[^/]+?)"
    match = re.fullmatch(f"(?:.*/)?{pattern}", source.path.absolute().as_posix())
    if match is None:
        raise say("path-not-like", file=source.name, path=request.path)
    found = match.groupdict()
    for name in found:
        if name in request.settings:
            raise say("exclusive", one=f"{{{name}}} of --path", other=f"--set {name}")
    launch = found.pop("launch", request.launch)
    settings = {**request.settings, **found}
    if "nprocs" in settings:
        settings = _with_shape(settings, source)
    return replace(request, settings=settings, launch=launch)


def _with_shape(settings: Mapping[str, str], source: SourceFile) -> dict[str, str]:
    """Return settings in which nodes and ppn stand for the number of processes."""
    told = {name: value for name, value in settings.items() if name != "nprocs"}
    nprocs = whole(settings["nprocs"])
    counts = [whole(told.get(name, "")) for name in ("nodes", "ppn")]
    known = next(filter(None, counts), None)
    if (
        not nprocs
        or not known
        or nprocs % known
        or math.prod(n or nprocs // known for n in counts) != nprocs
    ):
        raise say("path-uneven", file=source.name, nprocs=settings["nprocs"])
    other = "ppn" if counts[0] else "nodes"
    return told | {other: str(nprocs // known)}


def _refuse_far_apart(dataset: PerformanceDataset, launches: Collection[str] | None) -> None:
    """Refuse `launches` (None: all) of one thing whose times lie factors apart."""
    timed = dataset.timed()
    if launches is not None:
        timed = timed[timed["launch"].isin(launches)]
    group = ["collective", "algorithm", "parameters", "nodes", "ppn"]
    for key, rows in timed.groupby(group, sort=False):
        if rows["launch"].nunique() < 2:
            continue
        times = rows.pivot_table(index="msize_bytes", columns="launch", values="time_s")
        logs = times.apply(np.log)
        common = logs[logs.notna().sum(axis=1) > 1]
        apart = common.sub(common.median(axis=1), axis=0)
        middle = apart.loc[:, apart.notna().sum() >= _FEWEST_SIZES].median()
        spread = float(np.ptp(middle.to_numpy(float))) if len(middle) > 1 else 0.0
        if spread > math.log(_FAR):
            of, factor = f"{key[0]} ({key[1]} on {key[3]}x{key[4]})", math.exp(spread)
            fast, slow = middle.idxmin(), middle.idxmax()
            raise say("tables-apart", tables=of, fast=fast, slow=slow, factor=factor)


def _refuse_far_from(there: PerformanceDataset, new: PerformanceDataset) -> None:
    """Refuse times that lie factors away from those of a dataset, in the middle of launches."""
    parts = (("the dataset", there.cells()), ("this import", new.cells()))
    both = [frame.assign(launch=name, status=RunStatus.OK) for name, frame in parts]
    _refuse_far_apart(replace(there, frame=pd.concat(both)), None)


def read_as_imported(
    paths: Iterable[Path],
    where: Mapping[str, str],
    algorithms: Algorithms,
    tell: Callable[[str], None],
) -> PerformanceDataset:
    """Read and join datasets, CSVs with an import's checks; `tell` is told its remarks."""
    found = []
    for path in paths:
        if path.name.endswith(_CSV_ENDINGS) and path.exists():
            imported = import_files([path], ImportRequest({}, algorithms, where=where), "csv")
            for remark in imported.remarks:
                tell(remark)
            found.append(imported.dataset)
        else:
            found.append(read([path], where))
    return join(found)


def _conditions(imported: Iterable[Imported]) -> dict[Condition, Place]:
    """Return how all files were measured, which has to be one way."""
    together: dict[Condition, Place] = {}
    for one in imported:
        _refuse_others(one.conditions, together)
        together = dict(one.conditions) | together
    return together


def _refuse_others(new: Mapping[Condition, Place], known: Mapping[Condition, Place]) -> None:
    for (collective, name), (value, place) in new.items():
        other, where = known.get((collective, name), (value, place))
        if other != value:
            raise say(
                "methods-differ", place=place, name=name, value=value, other=other, where=where
            )


def _refuse_incomparable(imported: ImportedFiles, into: Path) -> None:
    """Refuse times beside others with which they do not compare: the smaller kind always wins."""
    stored: set[TimeKind] = set()
    kinds = imported.kinds
    for file in sorted(into.glob("*.parquet")):
        facts = read_provenance(file)
        texts = facts.get(_KINDS, TimeKind.MEDIAN_OF_MAXIMA.value).split("; ")
        stored |= {TimeKind(text) for text in texts if text in list(TimeKind)}
        where = f"{file} ({facts['imported_from']})" if "imported_from" in facts else str(file)
        there = {key: (value, where) for key, value in _known_conditions(facts).items()}
        _refuse_others(imported.conditions, there)
    stored -= {TimeKind.UNTOLD}
    kinds -= {TimeKind.UNTOLD}
    if not all(kind.compares_with(other) for kind in kinds for other in stored):
        new, old = ", ".join(sorted(kinds)), ", ".join(sorted(stored))
        raise say("not-comparable-with-dataset", into=into, kinds=new, stored=old)


def _known_conditions(facts: Mapping[str, str]) -> dict[Condition, str]:
    """Return how a file of a dataset was measured; what colltune measures lies in host memory."""
    if "imported_from" in facts or not facts.get("backend"):
        return conditions_of(facts)
    return {(collective.value, "memory"): "host" for collective in Collective}


def _facts(
    sources: Sequence[SourceFile],
    format_: str,
    digests: Mapping[str, str],
    imported: Sequence[Imported],
) -> dict[str, str]:
    facts: dict[str, dict[str, None]] = {}
    for one in imported:
        for key, value in one.facts.items():
            facts.setdefault(f"imported.{key}", {})[value] = None
        facts.setdefault(_KINDS, {}).update(dict.fromkeys(sorted(one.kinds)))
    return {
        "imported_from": ", ".join(source.path.name for source in sources),
        "imported_format": format_,
        _DIGESTS: " ".join(digests.values()),
    } | {key: "; ".join(values) for key, values in facts.items()}
