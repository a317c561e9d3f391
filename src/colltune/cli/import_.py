"""`colltune data import`: measurements of other programs become a dataset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import output, warn
from colltune.cli.options import (
    Data,
    Json,
    Quiet,
    Where,
    parse_pairs,
    writable_file,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.domain import DEFAULT_ALGORITHM, Collective, Configuration, Instance
from colltune.errors import DataError, LibraryError
from colltune.files import whole
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.dataset.importers.importing import ImportedFiles


_FOR_R = "colltune.R"


def export(
    data: Data,
    out: Annotated[
        Path, typer.Option(help="CSV file to write, plain or .gz.", callback=writable_file)
    ],
    where: Where = None,
    with_r: Annotated[
        bool,
        typer.Option(
            "--with-r",
            help="Also copy colltune.R into the same folder: functions for R that read the file,"
            " fit mgcv's models to it and plot them.",
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write datasets as one tidy CSV: one row per launch, configuration and instance.

    Examples, the second one with functions for R:

    colltune data export tuned/dataset --out measurements.csv.gz

    colltune data export tuned/dataset --out measurements.csv.gz --with-r
    """
    from colltune.dataset import read, write_csv

    with progress("reading", quiet=quiet or json) as shown:
        dataset = read(data, parse_pairs(where or [], "--where"))
        shown.phase("writing")
        write_csv(dataset, out)
    facts: dict[str, object] = {"rows": len(dataset), "file": out}
    lines = [f"{counted(len(dataset), 'row')} of {dataset.context} -> {out}"]
    if with_r:
        facts["r_file"] = copy = out.with_name(_FOR_R)
        with whole(copy) as temporary:
            temporary.write_bytes((files("colltune.models") / "r" / _FOR_R).read_bytes())
        lines.append(f"functions for R -> {copy}")
    output(facts, lines, json=json)


def _positive(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise typer.BadParameter(f"{seconds:g} is no round trip: give seconds, such as 2.4e-6.")
    return seconds


def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files of one format, plain or packed (.gz, .bz2, .xz, .zst).", metavar="FILE…"
        ),
    ],
    out: Annotated[Path, typer.Option(help="Dataset folder to add to.", callback=writable_folder)],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="reprompi, osu (OMB-Py too), imb, mpibench, detail (detail.out of "
            "ompi-collectives-tuning) or csv; default: detected from the content.",
        ),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OURS=THEIRS",
            help="Read our column OURS from their column THEIRS (CSV).",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OURS=VALUE",
            help="Value that the file does not contain: machine, library, library_version, nodes, "
            "ppn, configuration, collective, memory, datatype, …; for a CSV any column.",
        ),
    ] = None,
    where: Where = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of a CSV's times: s, ms, us, ns. Default: that of its column's name, or s."
        ),
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option(help="Name of the launch or allocation; default: the file's name."),
    ] = None,
    round_trip: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Shortest round trip between two nodes, such as 2.4e-6: times over several nodes "
            "below half of it get the status too_fast. Default: that of the file, if it has one.",
            callback=_positive,
        ),
    ] = None,
    from_commands: Annotated[
        bool,
        typer.Option(
            "--from-commands",
            help="Take shapes and algorithms from the launchers' commands in the files.",
        ),
    ] = False,
    path: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Take settings from the files' paths: '{nodes}n/{algorithm}/*.out'. Names are "
            "those of --set, nprocs, algorithm and launch.",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Add measurements of ReproMPI, OSU, IMB, mpiBench, detail.out or a CSV to a dataset folder.

    A benchmark's output does not name the algorithm that ran. Name it with --set configuration=ID;
    otherwise it counts as the library's own decision. Sizes and times are converted to bytes and
    seconds. Measurements that are not comparable are refused, in a file and beside those of the
    dataset. --where keeps rows by collective, nprocs, msize_bytes, algorithm, memory, datatype,
    operation, cache, root, barrier or sync; for a CSV by any column.

    Columns of a CSV: machine, library, library_version, collective, algorithm, segsize_bytes,
    parameters, nodes, ppn, msize_bytes, launch, n_reps, time_s, … (times in seconds, the median in
    time_s).

    Example: colltune data import bcast.out --out data --set machine=hydra --set library=openmpi
    --set library_version=4.1.6 --set nodes=4 --set ppn=16

    Example: colltune data import old.csv --out data --map time_s=median_us --time-unit us --set
    machine=hydra --set library=openmpi --set library_version=4.1.4
    """
    from colltune.dataset.importers import ImportRequest
    from colltune.dataset.importers.importing import add_to, import_files

    settings = parse_pairs(set_ or [], "--set")
    release = re.sub(r"^[vV](?=\d)", "", settings.get("library_version", ""))
    algorithms = KnownAlgorithms(release)
    if release:
        settings["library_version"] = release
    if "library" in settings:
        settings["library"] = algorithms.library(settings["library"])
    request = ImportRequest(
        settings=settings,
        algorithms=algorithms,
        columns=parse_pairs(map_ or [], "--map"),
        where=parse_pairs(where or [], "--where"),
        time_unit=time_unit or "",
        launch=launch or "",
        round_trip_s=round_trip,
        from_commands=from_commands,
        path=path or "",
    )
    with progress("reading", quiet=quiet or json, interrupted="nothing was added") as shown:
        shown.phase("reading", "MiB")
        imported = import_files(sources, request, format_, shown.count)
        shown.phase("writing")
        file = add_to(out, imported)
    for remark in imported.remarks:
        warn(remark)
    _show(imported, file, json=json)


def _show(imported: ImportedFiles, file: Path, *, json: bool) -> None:
    dataset = imported.dataset
    counts = dataset.frame["status"].value_counts().to_dict()
    configurations = [c for name in dataset.collectives for c in dataset.configurations(name)]
    facts = {
        "rows": len(dataset),
        "context": dataset.context,
        "file": file,
        "format": imported.format,
        "time": imported.facts["imported_time"],
        "configurations": configurations,
        "statuses": counts,
        "remarks": imported.remarks,
    }
    lines = [f"{counted(len(dataset), 'row')} of {dataset.context} -> {file}"]
    if imported.format != "csv":
        lines.append(f"time: {facts['time']}")
        if all(c.is_default for c in configurations):
            own = "the library's own decision (change it with --set configuration=ID)"
            lines.append(f"algorithm: {own}")
        else:
            lines.append(f"algorithm: {', '.join(c.id for c in configurations)}")
        if set(counts) != {"ok"}:
            lines.append(f"status: {', '.join(f'{n} {status}' for status, n in counts.items())}")
    output(facts, lines, json=json)


_OFF = ("", "0", "false", "no", "off")


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", "_", word.strip().lower())


def read_measured(
    paths: Sequence[Path], where: Mapping[str, str] | None = None, *, any_name: bool = True
) -> PerformanceDataset:
    """Read datasets, and CSVs with an import's checks, those of algorithms unless `any_name`."""
    from colltune.dataset.importers.importing import read_as_imported

    known = KnownAlgorithms("", as_written=True, any_name=any_name)
    return read_as_imported(paths, where or {}, known, warn)


@dataclass(frozen=True)
class KnownAlgorithms:
    """Fulfils `colltune.dataset.importers.Algorithms` for a library's `release`.

    Of a library or release without a catalogue nothing is known: its configurations are taken as
    they are written, and algorithms that are only numbers are refused. With ``as_written``, so are
    names that it knows; only numbers become names. With ``any_name`` unknown names are, too.
    """

    release: str
    as_written: bool = False
    any_name: bool = False

    def at(self, release: str) -> KnownAlgorithms:
        """Return what is known of another release."""
        return replace(self, release=release)

    def library(self, word: str) -> str:
        """Return the name of the library that a file calls `word`; an unknown one as it is."""
        from colltune.mpi import LIBRARIES

        bare = _plain(word).replace("_", "")
        bare = {"ompi": "openmpi", "impi": "intelmpi"}.get(bare, bare.removesuffix("library"))
        return next((name for name in LIBRARIES if name == bare), word)

    def configuration(
        self,
        library: str,
        collective: Collective,
        word: str,
        parameters: tuple[tuple[str, int | str], ...] = (),
    ) -> Configuration:
        """Return the configuration that a file calls `word`, which may be a number.

        Names may be written with capitals, and with blanks or hyphens between their words.
        """
        from colltune.mpi import LIBRARIES

        known = self._covers(library, collective)
        number = re.fullmatch(r"(?:alg(?:o|orithm)?[ _]?)?(\d+)", word.strip().lower())
        if number is None:
            name = _plain(word) if known or _plain(word) == DEFAULT_ALGORITHM else word
            if known:
                entry = LIBRARIES[library].at(self.release).space.entry_of(collective)
                names = (algorithm.name for algorithm in entry.algorithms)
                bare = name.replace("_", "")
                other = word if self.any_name else name
                name = next((each for each in names if each.replace("_", "") == bare), other)
            written = Configuration(library, collective, name, parameters)
            if self.any_name:
                return written
            found = self.canonical(written)
            return written if self.as_written else found
        word = number[1]
        if not known:
            raise DataError(
                f"algorithm {word} of {collective}: there is no catalogue of {library}"
                f" {self.release} that names it. Name the measured library with --set library=… and"
                " --set library_version=…."
            )
        named = LIBRARIES[library].at(self.release).space.numbered(collective, int(word))
        return self.canonical(Configuration(library, collective, named.algorithm, parameters))

    def chosen(self, library: str, collective: Collective, script: str) -> Configuration | None:
        """Return what the variables of a job's script choose; None: nothing, or it is unknown."""
        from colltune.mpi import LIBRARIES
        from colltune.mpi.job_files import read_script

        if not self._covers(library, collective):
            return None
        found = {each.name: each.value for each in read_script(script).known}
        space = LIBRARIES[library].at(self.release).space
        by_name = {name.removeprefix("OMPI_MCA_"): value for name, value in found.items()}
        needed = (name for name in space.base_environment() if name.endswith("_dynamic_rules"))
        word = by_name.get(space.chosen_by(collective))
        if word is None or any(found.get(name, "0").lower() in _OFF for name in needed):
            return None
        try:
            chosen = self.configuration(library, collective, word)
            if chosen.is_default:
                return None
            variables = space.parameter_variables(collective, space.algorithm_of(chosen))
            told = {n: by_name[v] for n, v in variables.items() if by_name.get(v, "").isdecimal()}
            parameters = tuple((name, int(value)) for name, value in told.items())
            return self.configuration(library, collective, chosen.algorithm, parameters)
        except LibraryError:
            return None

    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of `configuration`, as the library's catalogue has it."""
        from colltune.mpi import LIBRARIES

        if not self._covers(configuration.library, configuration.collective):
            return configuration
        return LIBRARIES[configuration.library].at(self.release).canonical(configuration)

    def why_not(self, configuration: Configuration, instance: Instance) -> str:
        """Return why the library would have run something else; empty if it would not."""
        from colltune.mpi import LIBRARIES

        if configuration.is_default or not self._covers(
            configuration.library, configuration.collective
        ):
            return ""
        release = LIBRARIES[configuration.library].at(self.release)
        return release.runs(configuration, instance.shape.nprocs).why_not(instance.msize_bytes)

    def _covers(self, library: str, collective: Collective) -> bool:
        """Whether there is a catalogue of that collective in that release."""
        from colltune.mpi import LIBRARIES

        if library not in LIBRARIES:
            return False
        try:
            LIBRARIES[library].at(self.release).portfolio(collective)
        except LibraryError:
            return False
        return True
