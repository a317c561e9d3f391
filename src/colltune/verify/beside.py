"""Files beside the one under test that the library reads, too, and that change what it decides.

Open MPI's rules for coll/tuned act across nodes only where rules for coll/han hand calls on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import formats
from colltune.mpi.file_format import Call, Finding, Outcome, ParsedFile, Rule
from colltune.mpi.openmpi import setup
from colltune.mpi.openmpi.matches import HanRules, TunedRules

_PREFIX = "OMPI_MCA_"
_HAN = "openmpi-han"
_TUNED = ("openmpi-classic", "openmpi-json")


class BesideHanRules:
    """A file for coll/tuned together with one for coll/han; see `file_format.ParsedFile`.

    `activation` are the variables that put both into effect.
    """

    def __init__(self, tuned: ParsedFile, han: ParsedFile, activation: Mapping[str, str]) -> None:
        self._tuned, self._han, self._activation = tuned, han, activation

    @property
    def format(self) -> str:
        return self._tuned.format

    @property
    def release(self) -> str:
        return self._tuned.release

    @property
    def source(self) -> str:
        return self._tuned.source

    @property
    def dropped(self) -> str:
        return self._tuned.dropped

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._tuned.rules

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self._tuned.findings

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call` with both files."""
        variables = self._activation if environment is None else environment
        tuned, han = cast(TunedRules, self._tuned), cast(HanRules, self._han)
        return setup.decide(self.release, call, variables, tuned, han)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        return self._tuned.comm_sizes(collective)

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        ours = self._tuned.switch_points(collective, comm_size, nodes)
        return tuple(sorted({*ours, *self._han.switch_points(collective, comm_size, nodes)}))


def with_others(
    parsed: ParsedFile, environment: Mapping[str, str], activation: Mapping[str, str]
) -> ParsedFile:
    """Return `parsed` together with the rules for coll/han that `environment` names.

    A file of those that cannot be read, or that the library drops, changes nothing.
    """
    named = environment.get(f"{_PREFIX}{setup.HAN_RULES_FILE}")
    if named is None or parsed.format not in _TUNED:
        return parsed
    try:
        text = formats.read_text(Path(named))
        han = formats.FORMATS[_HAN].parse(text, named, parsed.release)
    except LibraryError:
        return parsed
    return parsed if han.dropped else BesideHanRules(parsed, han, activation)
