"""Rules for coll/tuned and coll/han in one job: the former act across nodes as the latter say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import formats
from colltune.mpi.file_format import Call, Outcome, ParsedFile, Rule
from colltune.mpi.openmpi.decide import HanRules, TunedRules, decide
from colltune.mpi.openmpi.mca import HAN_RULES_FILE, PREFIX

_HAN = "openmpi-han"


@dataclass(frozen=True)
class WithHanRules:
    """A file for coll/tuned with one for coll/han, put into effect by `activation`."""

    format: str
    release: str
    source: str
    dropped: str
    rules: tuple[Rule, ...]
    tuned: ParsedFile
    han: ParsedFile
    activation: Mapping[str, str]

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        variables = self.activation if environment is None else environment
        tuned, han = cast(TunedRules, self.tuned), cast(HanRules, self.han)
        return decide(self.release, call, variables, tuned, han)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        return self.tuned.comm_sizes(collective)

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        ours = self.tuned.switch_points(collective, comm_size, nodes)
        return tuple(sorted({*ours, *self.han.switch_points(collective, comm_size, nodes)}))


def with_han_rules(
    parsed: ParsedFile, environment: Mapping[str, str], activation: Mapping[str, str]
) -> ParsedFile:
    """Return `parsed` together with the rules for coll/han that `environment` names."""
    named = environment.get(f"{PREFIX}{HAN_RULES_FILE}")
    if named is None:
        return parsed
    try:
        text = formats.read_text(Path(named))
        han = formats.FORMATS[_HAN].parse(text, named, parsed.release)
    except LibraryError:
        return parsed
    if han.dropped:
        return parsed
    facts = parsed.format, parsed.release, parsed.source, parsed.dropped, parsed.rules
    return WithHanRules(*facts, parsed, han, activation)
