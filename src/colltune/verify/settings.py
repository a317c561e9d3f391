"""The settings of a job that concern collectives, where each comes from, and whom to blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colltune.mpi.file_format import Call, Outcome, ParsedFile
from colltune.mpi.job_variables import concerns_collectives, parameter_of, variable_of


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
        return f"{name}={self.user[name]} ({self.origins.get(name, 'of unknown origin')})"


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
        elif parameter_of(name) in words or any(name in word for word in words):
            origins[name] = "the launcher's options"
        else:
            origins[name] = "the launcher, or a parameter file that it reads"
    for parameter, (value, source) in shown.items():
        name = variable_of(parameter)
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
