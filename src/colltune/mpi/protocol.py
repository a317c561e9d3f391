"""What the other rooms may ask of an MPI library, and the things it answers with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

from colltune.domain import Collective, Configuration, Portfolio, Shape
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.offer import Offer
from colltune.mpi.vendors import Vendor

SEGSIZES_BYTES = (0, 1024, 4096, 16384, 65536, 131072)
"""Segment sizes of Hunold et al., CLUSTER 2020, sec. IV, and 0 for none."""
FANOUTS = (2, 4, 8)
"""Numbers of chains offered for the chain algorithms."""


@dataclass(frozen=True)
class Honoured:
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
        """Tell whether a variable bears on which algorithms run.

        `variable` is its name.
        """
        deciding, harmless = self._expressions
        return deciding.match(variable) is not None and harmless.match(variable) is None

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return _any_of(self.deciding), _any_of(self.harmless)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    # an expression that never matches stands for no pattern
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


class MpiLibrary(Protocol):
    """One MPI library, all its supported releases: everything that colltune knows of it.

    ``name`` is the first word of its configurations' ids, ``title`` what people call it, ``vendor``
    how an installation is recognised and what it needs. ``releases`` are those between which the
    meaning of a configuration file changes, oldest first, at least one per catalogue; everything is
    tested for each of them. ``formats`` are those of its configuration files: where the class of
    each lies (``module:class``), which is imported when a file is at hand.

    Every method that takes a `release` (``"5.0.11"``) raises `LibraryError` for one that is not
    supported; every method that takes a `configuration` raises it for an unknown one.

    In all methods `nprocs` are the processes of the communicator, `msize_bytes` is what the caller
    passes, `element_bytes` the size of the datatype.
    """

    name: str
    title: str
    vendor: Vendor
    releases: tuple[str, ...]
    formats: ClassVar[Mapping[str, str]]

    @property
    def current(self) -> str:
        """For which release a file is most likely meant: the newest of `releases`."""
        return self.releases[-1]

    @property
    def preferred(self) -> tuple[str, ...]:
        """In which formats a configuration is written, the first that a release reads: any."""
        return tuple(self.formats)

    @property
    def offer(self) -> Offer:
        """What its catalogues offer."""
        ...

    @property
    def catalogues(self) -> Path:
        """In which folder its catalogues lie, one ``<name>-<series>.toml`` for each series."""
        return catalogue.FOLDER

    def catalogue_of(self, release: str) -> Catalogue:
        """Return the catalogue of a release's series."""
        ...

    def chosen_by(self, collective: Collective) -> str:
        """Return the variable of the library by which the algorithm of a collective is chosen."""
        ...

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int] = SEGSIZES_BYTES,
        fanouts: Sequence[int] = FANOUTS,
    ) -> Portfolio:
        """Return all configurations that can be chosen, the library's own decision first.

        `segsizes_bytes` and `fanouts` are the values of these parameters to be offered.
        """
        ...

    def further(
        self, release: str, collective: Collective, segsizes_bytes: Sequence[int] = SEGSIZES_BYTES
    ) -> tuple[Configuration, ...]:
        """Return what can be measured beside the portfolio, but chosen for a job as a whole alone.

        No file can tell such configurations for some message sizes or communicators.
        `segsizes_bytes` are the values of this parameter to be offered.
        """
        return ()

    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """Return the one spelling of `configuration`: the library's name, honoured parameters."""
        ...

    def effective(
        self, release: str, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the configuration with the smallest parameters that runs in the same way."""
        ...

    def why_not(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> str:
        """Return why `configuration` would not run as itself there; empty if it would."""
        ...

    def why_not_on(self, release: str, configuration: Configuration, shape: Shape) -> str:
        """Return why it would not run as itself on `shape`; empty if nothing speaks against it.

        Beside `why_not`, which is told the number of processes alone.
        """
        return ""

    def feasible(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> bool:
        """Tell whether `configuration` would run as itself there: `why_not` has nothing to say."""
        return not self.why_not(
            release, configuration, nprocs, msize_bytes, element_bytes=element_bytes
        )

    def running_from(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int = 1
    ) -> int | None:
        """Return the smallest message in bytes with which it runs as itself; None if with none."""
        ...

    def safe(
        self,
        release: str,
        configuration: Configuration,
        *,
        builtin_operations_only: bool,
        nprocs: int | None = None,
    ) -> bool:
        """Tell whether `configuration` is right for every legal program.

        `builtin_operations_only` says that the program reduces with no operations of its own;
        without `nprocs` it must be right on any communicator.
        """
        ...

    def force(self, release: str, configuration: Configuration) -> dict[str, int | str]:
        """Return the control variables (MPI_T) by which a running program uses `configuration`.

        One library reads them while a communicator is made, another one at every call: they are to
        be written before either, and taken back afterwards, since they bear on the calls that a
        library makes by itself, too. A value that is a string names an item of the variable's
        enumeration. Those of the default restore the library's own decision. Of use only where
        `settable_at_runtime` holds.
        """
        ...

    def settable_at_runtime(self, release: str, configuration: Configuration) -> bool:
        """Tell whether `force` works; if not, only `forced_environment` does."""
        ...

    def launch_environment(
        self, release: str, configuration: Configuration
    ) -> dict[str, str] | None:
        """Return what a launch needs beside `base_environment` for `force` to work inside it.

        It is empty where `settable_at_runtime` holds; None tells that `force` never works.
        """
        return {} if self.settable_at_runtime(release, configuration) else None

    def base_environment(self, release: str) -> dict[str, str]:
        """Return the environment of a launch in which `force` works."""
        ...

    def forced_environment(self, release: str, configuration: Configuration) -> dict[str, str]:
        """Return the environment of a launch in which `configuration` runs wherever it can.

        `why_not` tells where it cannot. That of the default changes nothing in the library's own
        decision. Other collectives are left to the library.
        """
        ...

    def expected_symbols(self, release: str, configuration: Configuration) -> frozenset[str]:
        """Return the functions that can run `configuration`; empty for the default."""
        ...

    def one_rule(self, release: str) -> frozenset[Collective]:
        """Return the collectives for which only one rule for all message sizes is safe."""
        ...

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """Return the algorithm that the library calls by `number`, 0 for its own decision.

        Raises
        ------
        LibraryError
            If the release has none of that number.
        """
        ...

    def parameter_file(self, environment: Mapping[str, str]) -> str:
        """Return the text of a file that puts `environment` into effect; see `start_line`."""
        lines = (f"export {name}={shlex.quote(value)}" for name, value in environment.items())
        return "".join(f"{line}\n" for line in lines)

    def start_line(self, parameter_path: Path) -> str:
        """Return what a user types to start a job with a parameter file.

        `parameter_path` is that of the file.
        """
        return f". {shlex.quote(str(parameter_path))} && mpiexec …"

    def honour_user(
        self, environment: Mapping[str, str], os_environ: Mapping[str, str]
    ) -> Honoured:
        """Return what may be set beside the user's own environment.

        `environment` is what would be set, `os_environ` the user's.
        """
        ...

    def user_patterns(self) -> UserPatterns:
        """Return the variables for which `honour_user` withholds everything.

        A variable that is set to the value that we would set is no reason to.
        """
        ...
