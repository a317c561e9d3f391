"""What may be asked of an MPI library: who it is, and what one of its releases can do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import ClassVar

from colltune.domain import Collective, Configuration, Portfolio
from colltune.errors import LibraryError, say
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.configuration_space import (
    CatalogueSpace,
    ConfigurationSpace,
)
from colltune.mpi.in_effect import ProgramStarter, Setting, Settings, of_environment, same_files
from colltune.mpi.programs import MOST_PROMISED, Harms, Results
from colltune.mpi.running import (
    EVERYWHERE,
    Place,
    Promises,
    Refusal,
    RunningRange,
    with_same_bits,
)
from colltune.mpi.toolchain import Toolchain

SEGSIZES_BYTES = (0, 1024, 4096, 16384, 65536, 131072)
"""Segment sizes of Hunold et al., CLUSTER 2020, sec. IV, and 0 for none."""
FANOUTS = (2, 4, 8)
"""Numbers of chains offered for the chain algorithms."""
NOTHING = Promises()
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.a-z-]\S*)?")


class Release:
    """One release of an MPI library, bound once: what can be chosen in it, where and how it runs.

    Every method that takes a `configuration` raises `LibraryError` for an unknown one. In all
    methods `nprocs` are the processes of the communicator, `msize_bytes` is what the caller passes,
    `element_bytes` the size of the datatype. What is asked of a configuration is answered by the
    space that owns it.

    Parameters
    ----------
    mpi
        The library.
    space
        The algorithms of the release's catalogue.
    others
        Configurations of other kinds that the release has besides.
    one_rule
        The collectives for which only one rule for all message sizes is safe; by default those of
        the catalogue.
    """

    def __init__(
        self,
        mpi: MpiLibrary,
        space: CatalogueSpace,
        others: Sequence[ConfigurationSpace] = (),
        one_rule: frozenset[Collective] | None = None,
    ) -> None:
        self.mpi, self.name = mpi, space.release
        self.catalogue, self.space = space.catalogue, space
        self.others = tuple(others)
        self.one_rule = self.catalogue.one_rule if one_rule is None else one_rule

    def portfolio(
        self,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """Return all configurations that can be chosen, the library's own decision first.

        `segsizes_bytes` and `fanouts` are the values of these parameters to be offered. What breaks
        legal programs whatever is promised of them is left out.
        """
        spaces = (self.space, *self.others)
        found = (space.offered(collective, segsizes_bytes, fanouts) for space in spaces)
        every = tuple(
            c for c in chain.from_iterable(found) if not self.harms(c).sentence(MOST_PROMISED)
        )
        return Portfolio(self.space.library, self.name, collective, every)

    def job_wide_configurations(
        self, collective: Collective, segsizes_bytes: Sequence[int] = SEGSIZES_BYTES
    ) -> tuple[Configuration, ...]:
        """Return what can be measured beside the portfolio, but chosen for a job as a whole alone.

        No file can tell such configurations for some message sizes or communicators.
        `segsizes_bytes` are the values of this parameter to be offered.
        """
        found = (space.job_wide(collective, segsizes_bytes) for space in self.others)
        return tuple(chain.from_iterable(found))

    def space_of(self, configuration: Configuration) -> ConfigurationSpace:
        """Return the space that answers for a configuration; the catalogue's refuses others."""
        return next((space for space in self.others if space.owns(configuration)), self.space)

    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of `configuration`: the library's name, honoured parameters."""
        return self.space_of(configuration).canonical(configuration)

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the configuration with the smallest parameters that runs in the same way."""
        return self.space_of(configuration).effective(configuration, nprocs, msize_bytes)

    def runs(
        self, configuration: Configuration, place: Place = None, promises: Promises = NOTHING
    ) -> RunningRange:
        """Return from which message size on `configuration` may run at `place`, or why it may not.

        It must be known, be named by the file and right for the programs of `promises`, suit how
        the processes lie, run as itself, and give the results that are promised. Whatever decides,
        writes or measures asks this.
        """
        return self.runs_at(configuration, (place,), promises)[0]

    def runs_at(
        self, configuration: Configuration, places: Sequence[Place], promises: Promises
    ) -> list[RunningRange]:
        """Return the same as `runs` for each of `places`, in one go."""
        space, form, programs = self.space_of(configuration), promises.form, promises.programs
        try:
            spelled = space.canonical(configuration)
        except LibraryError as error:
            return [RunningRange(None, str(error), Refusal.UNKNOWN)] * len(places)
        if form is not None and (why := form.limit(self.name, spelled)):
            return [RunningRange(None, why, Refusal.NOT_EXPRESSED)] * len(places)
        if programs is not None and (why := space.harm(spelled, programs)):
            return [RunningRange(None, why, Refusal.HARMS_PROGRAMS)] * len(places)
        element_bytes = promises.element_bytes

        def at(place: Place) -> RunningRange:
            if place is None:
                return EVERYWHERE
            if isinstance(place, int):
                return space.running_range(spelled, place, element_bytes)
            if why := space.limit_on(spelled, place):
                return RunningRange(None, why, Refusal.WRONG_SHAPE)
            return space.running_range(spelled, place.nprocs, element_bytes)

        def of(place: Place) -> RunningRange:
            return with_same_bits(at(place), spelled, place, promises, self.mpi, self.name)

        return list(map(of if promises.same_bits else at, places))

    def harms(self, configuration: Configuration) -> Harms:
        """Return what `configuration` does to legal programs, as far as that is known."""
        return self.space_of(configuration).harms(configuration)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        """Return the control variables (MPI_T) by which a running program uses `configuration`.

        One library reads them while a communicator is made, another one at every call: they are to
        be written before either, and taken back afterwards, since they bear on the calls that a
        library makes by itself, too. A value that is a string names an item of the variable's
        enumeration. Those of the default restore the library's own decision. Of use only where
        `settable_at_runtime` holds.
        """
        return self.space_of(configuration).force(configuration)

    def settable_at_runtime(self, configuration: Configuration) -> bool:
        """Tell whether `force` works; if not, only `forced_environment` does."""
        return self.space_of(configuration).settable_at_runtime(configuration)

    def launch_environment(self, configuration: Configuration) -> dict[str, str] | None:
        """Return what a launch needs beside `base_environment` for `force` to work inside it.

        It is empty where `settable_at_runtime` holds; None tells that `force` never works.
        """
        return self.space_of(configuration).launch_environment(configuration)

    def base_environment(self) -> dict[str, str]:
        """Return the environment of a launch in which `force` works."""
        return self.space.base_environment()

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        """Return the environment of a launch in which `configuration` runs wherever it can.

        `runs` tells where it cannot. That of the default changes nothing in the library's own
        decision. Other collectives are left to the library.
        """
        return self.space_of(configuration).forced_environment(configuration)

    def expected_symbols(self, configuration: Configuration) -> frozenset[str]:
        """Return the functions that can run `configuration`; empty for the default."""
        return self.space_of(configuration).expected_symbols(configuration)


@dataclass(frozen=True)
class UserOverrides:
    """Environment variables to set, without those that the user has set.

    ``reason`` is empty, or tells why `environment` was withheld as a whole.
    """

    environment: Mapping[str, str]
    reason: str = ""


@dataclass(frozen=True)
class UserPatterns:
    """By which variables users decide themselves which algorithms run.

    ``deciding`` and ``harmless`` are patterns of variables' names as the shell's ``case`` reads
    them, made of letters, digits, ``_``, ``*`` and ``?``. A variable decides if it matches one of
    `deciding` and none of `harmless`.
    """

    deciding: tuple[str, ...]
    harmless: tuple[str, ...] = ()

    def decides(self, variable: str) -> bool:
        """Tell whether a variable bears on which algorithms run."""
        deciding, harmless = self._expressions
        return deciding.match(variable) is not None and harmless.match(variable) is None

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        # an expression that never matches stands for no pattern
        deciding, harmless = (
            re.compile("|".join(map(translate, patterns)) or "(?!)")
            for patterns in (self.deciding, self.harmless)
        )
        return deciding, harmless


class MpiLibrary:
    """One MPI library: who it is, its files, and what users tell it themselves.

    ``name`` is the first word of its configurations' ids, ``title`` what people call it,
    ``toolchain`` how an installation is recognised and what it needs. ``releases`` are those
    between which the meaning of a configuration file changes, oldest first, at least one per
    catalogue; everything is tested for each of them. ``formats`` are those of its configuration
    files: where the class of each lies (``module:class``), which is imported when a file is at
    hand. ``catalogues`` is the folder with one ``<name>-<series>.toml`` for each series. ``space``
    answers for the algorithms of a catalogue. By ``user_patterns`` users decide themselves which
    algorithms run. ``prints_settings`` are variables under which a program prints at its start what
    the library was told, ``prints_choices`` those under which it tells what it took; releases that
    do not know them ignore them. ``has_system_files`` tells whether it reads files of settings
    beside its programs, ``traced`` whether `colltune.mpi.trace` sees its algorithms;
    ``component_prefix`` stands before the names of its components, where it has such; the
    variables ``takes_reductions`` take reductions away from another component, which may round
    otherwise; ``decides_by_machine`` whether its own decision depends on more than communicator and
    call, so that what was measured elsewhere does not tell which bits it gives. ``same_numbers`` of
    a release are those of the first one that its catalogue describes.
    """

    name: str
    title: str
    toolchain: Toolchain
    releases: tuple[str, ...]
    formats: Mapping[str, str]
    user_patterns: UserPatterns
    catalogues: Path = catalogue.FOLDER
    prints_settings: Mapping[str, str] = {}
    has_system_files: bool = False
    prints_choices: Mapping[str, str] = {}
    traced: bool = False
    component_prefix: str = ""
    takes_reductions: frozenset[str] = frozenset()
    decides_by_machine: bool = False
    same_numbers: int = 2
    space: ClassVar[type[CatalogueSpace]]

    @property
    def current(self) -> str:
        """For which release a file is most likely meant: by default the newest."""
        return self.releases[-1]

    @property
    def preferred(self) -> tuple[str, ...]:
        """In which formats a configuration is written, the first that a release reads: any."""
        return tuple(self.formats)

    @property
    def series(self) -> tuple[str, ...]:
        """All release series that have a catalogue, the oldest first."""
        return catalogue.all_series(self.name, self.catalogues)

    # clients of a service may name any release of a series
    @lru_cache(maxsize=128)  # noqa: B019 (a library lives as long as the program)
    def at(self, release: str) -> Release:
        """Return what `release` (``"5.0.11"``) can do; `LibraryError` if it is not supported."""
        return self.bound(release)

    def bound(self, release: str) -> Release:
        """Return what `release` can do, anew; a library with configurations of more kinds adds."""
        found = self.catalogue_of(release)
        return Release(self, self.space(self.name, self.title, release, found))

    def catalogue_of(self, release: str) -> Catalogue:
        """Return the catalogue that describes `release`, the newest that is not newer.

        `LibraryError` is raised where there is none.
        """
        every = [catalogue.load(self.name, series, self.catalogues) for series in self.series]
        match = _RELEASE.fullmatch(release.strip())
        wanted = _numbers(match[1]) if match else ()
        same = self.same_numbers
        for found in reversed(every):
            first = _numbers(found.first_release)
            if wanted[:same] == first[:same] and (*wanted, 0, 0) >= first:
                return found
        known: dict[str, str] = {}
        for found in every:
            numbers = ".".join(found.first_release.split(".")[:same])
            whole = found.first_release in (numbers, f"{numbers}.0")
            said = f"{numbers}.x" if whole else f"{found.first_release} and later {numbers}.x"
            known.setdefault(numbers, said)
        supported = ", ".join(known.values())
        raise say("release-not-supported", title=self.title, release=release, supported=supported)

    def parameter_file(self, environment: Mapping[str, str]) -> str:
        """Return the text of a file that puts `environment` into effect; see `start_line`."""
        lines = (f"export {name}={shlex.quote(value)}" for name, value in environment.items())
        return "".join(f"{line}\n" for line in lines)

    def start_line(self, parameter_path: Path) -> str:
        """Return what a user types to start a job with a parameter file.

        `parameter_path` is that of the file.
        """
        return f". {shlex.quote(str(parameter_path))} && mpiexec …"

    def command(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words of a launcher's command line that set `environment` for all ranks."""
        return ("mpiexec", *(word for pair in environment.items() for word in ("-genv", *pair)))

    def same_variable(self, name: str) -> str:
        """Return the one spelling of a variable `name` that the library takes in several."""
        return name

    def same(self, name: str, one: str, other: str) -> bool:
        """Tell whether `one` and `other`, values of the variable `name`, mean the same."""
        return one == other or (other.startswith("/") and same_files(one, other))

    def in_effect(
        self, environment: Mapping[str, str], launcher: ProgramStarter | None = None
    ) -> dict[str, Setting]:
        """Return the settings of a program that is started with `environment`, those of files too.

        Files of the system are known where its `launcher` is.
        """
        return of_environment(environment)

    def setting_in_file(self, value: str, source: str) -> Setting | None:
        """Return the setting `value` that a program shows, if its `source` is a file."""
        return None

    def for_results(self, activation: Mapping[str, str], results: Results) -> dict[str, str]:
        """Return `activation` of a file, as far as the promise of `results` allows it."""
        kept = self.takes_reductions if results is Results.SAME_BITS else ()
        return {name: value for name, value in activation.items() if name not in kept}

    def user_overrides(self, environment: Mapping[str, str], user: Settings) -> UserOverrides:
        """Return what of `environment` may be set beside the settings of the `user` (`in_effect`).

        If a setting of the user decides which algorithms run, nothing is set at all: half of our
        settings with half of his would be a third configuration that nobody measured.
        """
        ours = {self.same_variable(name): value for name, value in environment.items()}
        for name, setting in sorted(user.items()):
            if not self.user_patterns.decides(name):
                continue
            wanted = ours.get(self.same_variable(name))
            if wanted is None or not self.same(name, setting.value, wanted):
                why = f"{name}={setting.value} is already set{setting.origin}"
                return UserOverrides({}, f"{why}, so nothing else was changed")
        users = {self.same_variable(name) for name in user}
        left = {n: v for n, v in environment.items() if self.same_variable(n) not in users}
        return UserOverrides(left)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
