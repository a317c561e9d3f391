"""The settings of a job that concern collectives, where each comes from, and whom to blame.

Also the files among them that change what the one under test decides: Open MPI's rules for
coll/tuned act across nodes only where rules for coll/han hand calls on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import formats
from colltune.mpi.file_format import Call, Outcome, ParsedFile, Rule
from colltune.mpi.openmpi.decide import HanRules, TunedRules, decide
from colltune.mpi.openmpi.mca import HAN_RULES_FILE

_OPENMPI = "OMPI_MCA_"
_CONCERNED = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_", "MV2_", "MVP_", "I_MPI_ADJUST", "I_MPI_TUNING")
_HAN = "openmpi-han"
_TUNED = ("openmpi-classic", "openmpi-json")


@dataclass(frozen=True)
class JobSettings:
    """What the job's processes see."""

    user: Mapping[str, str]
    activation: Mapping[str, str]
    origins: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.activation) | dict(self.user)

    def against(self) -> tuple[str, ...]:
        """Return those of the user's variables that may speak against the file."""
        return tuple(
            name
            for name, value in sorted(self.user.items())
            if self.activation.get(name) != value and concerns_collectives(name)
        )

    def text(self, name: str) -> str:
        """Return a variable with its value and origin, for people."""
        return f"{name}={self.user[name]} ({self.origins.get(name, 'of unknown origin')})"


def concerns_collectives(name: str) -> bool:
    """Tell whether a variable may bear on which algorithm runs, and not just on the launcher."""
    return "coll" in name.lower() or name.startswith(_CONCERNED)


def gathered(
    seen: Mapping[str, str],
    shown: Mapping[str, tuple[str, str]],
    user: Mapping[str, str],
    words: Sequence[str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of a job without the file, and where each comes from."""
    settings, origins = dict(seen), {}
    for name, value in seen.items():
        if user.get(name) == value:
            origins[name] = "the environment"
        elif name.removeprefix(_OPENMPI) in words or any(name in word for word in words):
            origins[name] = "the launcher's options"
        else:
            origins[name] = "the launcher, or a parameter file that it reads"
    for parameter, (value, source) in shown.items():
        name = f"{_OPENMPI}{parameter}"
        if source.startswith("file") and name not in settings:
            settings[name], origins[name] = value, f"parameter {source}"
    return settings, origins


def same_decision(a: Outcome, b: Outcome) -> bool:
    """Tell whether two outcomes run the same, and for the same rule."""
    return (a.configuration, a.component, a.rule) == (b.configuration, b.component, b.rule)


def culprits(parsed: ParsedFile, call: Call, settings: JobSettings) -> str:
    """Return which of the user's settings keep the file from deciding `call`; empty if none does.

    One that alone makes the difference is named; otherwise all that would do so by themselves.
    """
    planned = parsed.decide(call, settings.activation)
    environment, against = settings.environment, settings.against()
    alone = [
        name
        for name in against
        if same_decision(parsed.decide(call, _without(environment, name, settings)), planned)
    ]
    if not alone:
        activation = dict(settings.activation)
        alone = [
            name
            for name in against
            if not same_decision(
                parsed.decide(call, activation | {name: settings.user[name]}), planned
            )
        ]
    return " and ".join(map(settings.text, alone))


def _without(environment: Mapping[str, str], name: str, settings: JobSettings) -> dict[str, str]:
    rest = {other: value for other, value in environment.items() if other != name}
    if name in settings.activation:
        rest[name] = settings.activation[name]
    return rest


@dataclass(frozen=True)
class _WithHanRules:
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


def with_others(
    parsed: ParsedFile, environment: Mapping[str, str], activation: Mapping[str, str]
) -> ParsedFile:
    """Return `parsed` together with the rules for coll/han that `environment` names."""
    named = environment.get(f"{_OPENMPI}{HAN_RULES_FILE}")
    if named is None or parsed.format not in _TUNED:
        return parsed
    try:
        text = formats.read_text(Path(named))
        han = formats.FORMATS[_HAN].parse(text, named, parsed.release)
    except LibraryError:
        return parsed
    if han.dropped:
        return parsed
    facts = parsed.format, parsed.release, parsed.source, parsed.dropped, parsed.rules
    return _WithHanRules(*facts, parsed, han, activation)
