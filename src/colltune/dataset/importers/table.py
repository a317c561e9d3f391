"""Reads any CSV: its columns by their usual names, algorithms as the library's release has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from colltune.dataset.frame import CELL_COLUMNS, PerformanceDataset, refuse_duplicates
from colltune.dataset.importers.protocol import (
    Imported,
    Importer,
    ImportRequest,
    Place,
    SourceFile,
    TimeKind,
    filled,
    whole,
)
from colltune.dataset.method import CONDITIONS, Condition
from colltune.dataset.noise.measured import possible
from colltune.dataset.tidy_csv import TIME_UNITS, from_table, text_table
from colltune.domain import Configuration, parse_collective
from colltune.errors import ColltuneError, DataError, say, unknown
from colltune.text import counted

_NAMES: Mapping[str, str] = {
    "machine": "machine cluster system",
    "library": "library mpi mpilibrary",
    "library_version": "libraryversion mpiversion version",
    "collective": "collective coll collectivename",
    "algorithm": "algorithm alg algo algorithmname algorithmid",
    "nodes": "nodes nnodes numnodes nodecount numberofnodes",
    "ppn": "ppn processespernode procspernode taskspernode rankspernode",
    "nprocs": "nprocs processes procs processors np numprocs ranks nranks commsize "
    "numberofprocesses",
    "msize_bytes": "messagesize msgsize msize size bytes sizebytes messagesizebytes msgbytes",
    "time_s": "time latency avglatency averagelatency mediantime median runtime avgtime meantime",
}
"""Ours, and how others call it, without blanks, units and capitals."""
_UNIT = re.compile(
    r"(?:[(\[]\s*|[_ ])(?P<unit>us|usecs?|µs|μs|microseconds?|ms|msecs?|milliseconds?|ns|nsecs?"
    r"|nanoseconds?|s|secs?|seconds?)\s*[)\]]?$",
    re.IGNORECASE,
)
_SMALL_BYTES, _LONG_S, _SHORT_S = 65_536, 0.1, 1e-9


_KNOWN = {word for names in _NAMES.values() for word in names.split()} | {"msizebytes", "times"}


def is_known(column: str) -> bool:
    """Tell whether a table's `column` is named as one of ours, or as usual."""
    return _bare(column) in _KNOWN


def load(source: SourceFile, request: ImportRequest) -> Imported:
    """Read any CSV, its columns mapped to ours; a told configuration is that of all rows."""
    return _TidyTable(source, request).imported()


CSV = Importer("CSV", None, load)


@dataclass
class _TidyTable:
    source: SourceFile
    request: ImportRequest
    remarks: Counter[str] = field(default_factory=Counter)

    def imported(self) -> Imported:
        told = dict(self.request.settings)
        chosen = told.pop("configuration", "")
        if self.request.launch:
            told["launch"] = self.request.launch
        configuration = Configuration.parse(chosen) if chosen else None
        if configuration:
            told |= {"algorithm": configuration.stored_algorithm}
            told |= {"parameters": configuration.parameter_text}
        table, unit = self._named(text_table(self.source.path), told)
        table = self._kept(table.assign(**told))
        table = self._with_shape(table)
        table = self._with_library(table)
        conditions = self._conditions(table)
        dataset = from_table(table, self.source.path, time_unit=unit or "s")
        if configuration:
            self._check_fit(dataset, configuration)
        frame = self._canonical(dataset)
        self._check_times(frame, asked=not unit)
        dataset = PerformanceDataset(dataset.context, self._with_launches(frame))
        facts = {}
        if round_trip_s := self.request.round_trip_s:
            checked = possible(dataset.measurements(), round_trip_s)
            below = sum(m.status.value == "too_fast" for m in checked)
            if below:
                self.remarks[
                    f"below half of the round trip of {round_trip_s:.3g} s: left without time"
                ] = below
            dataset = PerformanceDataset.of(dataset.context, checked)
            facts["round_trip_s"] = f"{round_trip_s:.3g}"
        remarks = tuple(f"{t} ({n} times)" if n > 1 else t for t, n in self.remarks.items())
        return Imported(dataset, frozenset({TimeKind.UNTOLD}), facts, remarks, conditions)

    def wrong(self, why: ColltuneError) -> ColltuneError:
        return why.of(self.source.name, file=self.source.name)

    def _named(self, table: pd.DataFrame, told: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
        """Return the table with our names of columns, and the unit of its times, if told."""
        mapping = dict(self.request.columns)
        for ours, theirs in mapping.items():
            if theirs not in table:
                raise self.wrong(say("no-column-mapped", theirs=theirs, ours=ours))
        known = {*map(str, table.columns), *mapping, *told}
        taken = []
        for ours, names in _NAMES.items():
            free = [str(c) for c in table.columns if c not in mapping.values()]
            found = [c for c in free if _bare(c) in (ours.replace("_", ""), *names.split())]
            if ours not in known and len(found) == 1:
                mapping[ours] = found[0]
                taken.append(f"{found[0]!r} for {ours}")
        if taken:
            self.remarks[f"columns are taken by their names: {', '.join(taken)}"] += 1
        unit = self._unit(table, mapping)
        return table.rename(columns={theirs: ours for ours, theirs in mapping.items()}), unit

    def _unit(self, table: pd.DataFrame, mapping: Mapping[str, str]) -> str:
        """Return the unit that was told, or that the names of the columns tell; empty if none."""
        told = self.request.time_unit
        if told and told not in TIME_UNITS:
            raise self.wrong(unknown("time unit", told, TIME_UNITS, DataError))
        units: dict[str, str] = {}
        for ours in ("time_s", "time_mean_s", "time_min_s", "time_p90_s", "time_max_s"):
            theirs = mapping.get(ours, ours)
            match = _UNIT.search(theirs) if theirs in table else None
            if match and not (told and theirs == ours):
                units.setdefault(_short(match["unit"]), theirs)
        if told:
            units.setdefault(told, "--time-unit")
        if len(units) > 1:
            listed = "; ".join(f"{unit} in {name}" for unit, name in units.items())
            raise self.wrong(say("time-units-contradict", listed=listed))
        return next(iter(units), "")

    def _kept(self, table: pd.DataFrame) -> pd.DataFrame:
        for column, value in self.request.where.items():
            if column not in table:
                raise self.wrong(say("no-column-to-filter", column=column))
            table = table[table[column].isin([value, *value.split(",")])]
            if table.empty:
                raise self.wrong(say("no-row-has", column=column, value=value))
        return table

    def _with_shape(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the table with nodes and ppn, of which the number of processes tells one."""
        lacking = [name for name in ("nodes", "ppn") if name not in table]
        if "nprocs" in table and "slots" in table:
            return self._filled(table)
        if "nprocs" not in table or len(lacking) == 2:
            return table
        numbers = {
            name: pd.to_numeric(table[name].str.strip(), errors="coerce")
            for name in ("nprocs", "nodes", "ppn")
            if name in table
        }
        known = numbers.get("nodes", numbers.get("ppn"))
        assert known is not None
        product = numbers["nodes"] * numbers["ppn"] if not lacking else None
        nprocs = numbers["nprocs"]
        uneven = (
            nprocs != product if product is not None else ~((nprocs % known == 0) & (known > 0))
        )
        if uneven.any():
            at = table.index[uneven][0]
            row = ", ".join(f"{name} {table.loc[at, name]}" for name in numbers)
            rest = ",".join(dict.fromkeys(table["nprocs"][~uneven]))
            mend = f"keep the others with --where nprocs={rest}" if rest else "no row is even"
            line, those = int(at) + 2, f"{counted(int(uneven.sum()), 'row')} of {len(table)}"
            raise self.wrong(say("uneven-rows", those=those, line=line, row=row, mend=mend))
        if lacking:
            table = table.assign(**{lacking[0]: (nprocs // known).astype(int).astype(str)})
        return table

    def _filled(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows whose processes fill nodes of so many slots evenly."""
        pairs = zip(table["nprocs"].str.strip(), table["slots"].str.strip(), strict=True)
        counts = ((whole(nprocs), whole(slots)) for nprocs, slots in pairs)
        shapes = [filled(n, slots) if n and slots else None for n, slots in counts]
        even = [shape is not None for shape in shapes]
        if not any(even):
            slots = table["slots"].iloc[0]
            raise self.wrong(say("no-even-row", rows=len(table), slots=slots))
        if not all(even):
            what = f"processes that do not fill nodes of {table['slots'].iloc[0]} slots evenly"
            self.remarks[f"{what}: left out"] += len(table) - sum(even)
        known = [shape for shape in shapes if shape]
        return table[even].assign(
            nodes=[str(shape.nodes) for shape in known], ppn=[str(shape.ppn) for shape in known]
        )

    def _with_library(self, table: pd.DataFrame) -> pd.DataFrame:
        changes = {}
        if "library" in table:
            known = self.request.algorithms.library
            names = {word: known(word) for word in table["library"].unique()}
            changes["library"] = table["library"].map(names)
        if "library_version" in table:
            changes["library_version"] = table["library_version"].str.replace(
                r"^\s*[vV](?=\d)", "", regex=True
            )
        return table.assign(**changes)

    def _conditions(self, table: pd.DataFrame) -> dict[Condition, Place]:
        """Return how each collective was measured, where columns or the user tell it."""
        known: dict[Condition, Place] = {}
        for name in CONDITIONS:
            if name not in table or "collective" not in table:
                continue
            for text, values in table.groupby("collective", sort=False)[name]:
                if values.nunique() > 1:
                    raise self.wrong(
                        say(
                            "not-comparable",
                            collective=text,
                            values=", ".join(values.unique()),
                            name=name,
                            one=values.iloc[0],
                        )
                    )
                if value := str(values.iloc[0]).strip():
                    place = f"{self.source.name}, line {int(values.index[0]) + 2}"
                    known[parse_collective(str(text)).value, name] = (value, place)
        return known

    def _check_fit(self, dataset: PerformanceDataset, chosen: Configuration) -> None:
        if (chosen.library, chosen.collective) != (dataset.context.library, *dataset.collectives):
            raise self.wrong(say("configuration-does-not-fit", configuration=chosen.id))

    def _canonical(self, dataset: PerformanceDataset) -> pd.DataFrame:
        """Return the rows with the algorithms as the catalogue of the release calls them."""
        library, release = dataset.context.library, dataset.context.library_version
        algorithms = self.request.algorithms.at(release)
        frame = dataset.frame
        found: dict[tuple[str, str, str], Configuration] = {}
        columns = ["collective", "algorithm", "parameters"]
        for key in frame[columns].drop_duplicates().itertuples(index=False):
            collective, word, parameters = map(str, key)
            written = Configuration.stored(library, parse_collective(collective), word, parameters)
            if written.library == library:
                written = algorithms.configuration(
                    library, written.collective, word, written.parameters
                )
            found[collective, word, parameters] = written
        keys = list(zip(*(frame[name] for name in columns), strict=True))
        return frame.assign(
            algorithm=[found[key].stored_algorithm for key in keys],
            parameters=[found[key].parameter_text for key in keys],
        )

    def _check_times(self, frame: pd.DataFrame, *, asked: bool) -> None:
        """Ask about times that small messages do not take, in case their unit is another one."""
        small = frame[frame["time_s"].notna() & (frame["msize_bytes"] <= _SMALL_BYTES)]
        if small.empty:
            return
        middle = small.sort_values("time_s").iloc[len(small) // 2]
        text = f"{middle['time_s']:.3g} s for {middle['msize_bytes']} bytes"
        if middle["time_s"] < _SHORT_S:
            raise self.wrong(say("times-too-short", text=text))
        if asked and middle["time_s"] > _LONG_S:
            raise self.wrong(say("times-very-long", text=text))

    def _with_launches(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with further launches for cells that come again."""
        frame = frame.assign(
            launch=frame["launch"].where(frame["launch"] != "", self.source.launch)
        )
        cell = [*CELL_COLUMNS, "launch"]
        again = frame.groupby(cell, sort=False).cumcount() + 1
        if (again == 1).all():
            return frame
        if len(frame) > 1 and frame.duplicated([*cell, "time_s"]).sum() == (again > 1).sum():
            # times as well: the same rows twice
            refuse_duplicates(frame, self.source.name)
        n = int(again.max())
        self.remarks[f"rows of the same cell are taken as up to {counted(n, 'launch', 'es')}"] += 1
        names = [f"{a}/{n}" if n > 1 else a for a, n in zip(frame["launch"], again, strict=True)]
        return frame.assign(launch=names)


def _bare(name: str) -> str:
    """Return a column's name without unit, capitals and what stands between words."""
    return re.sub(r"[^a-z0-9]", "", _UNIT.sub("", name).lower())


def _short(unit: str) -> str:
    word = unit.lower().replace("µ", "u").replace("μ", "u")
    kinds = {"mic": "us", "us": "us", "mil": "ms", "ms": "ms", "nan": "ns", "ns": "ns"}
    return next((short for begin, short in kinds.items() if word.startswith(begin)), "s")
