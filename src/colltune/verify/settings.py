"""The settings of a job that concern collectives, where each comes from, and whom to blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from colltune.mpi import MpiLibrary
from colltune.mpi.file_format import Call, Outcome, ParsedFile
from colltune.mpi.in_effect import Rank, Setting, Settings, beside
from colltune.mpi.job_variables import concerns_collectives
from colltune.mpi.shell import parameter_of, variable_of


@dataclass(frozen=True)
class JobSettings:
    """What the job's processes see: the user's settings, and what puts the file into effect.

    A setting of the user that means the same as ours is spelled like ours.
    """

    user: Settings
    activation: Mapping[str, str]

    @classmethod
    def of(cls, mpi: MpiLibrary, user: Settings, activation: Mapping[str, str]) -> JobSettings:
        def spelled(name: str, setting: Setting) -> Setting:
            ours = activation.get(name, setting.value)
            alike = mpi.same(name, setting.value, ours)
            return replace(setting, value=ours) if alike else setting

        return cls({name: spelled(name, each) for name, each in user.items()}, activation)

    @property
    def environment(self) -> dict[str, str]:
        return beside(self.user, self.activation)

    def against(self) -> tuple[str, ...]:
        """Return those of the user's variables that may speak against the file."""
        environment = self.environment
        return tuple(
            name
            for name, setting in sorted(self.user.items())
            if environment[name] == setting.value
            and self.activation.get(name) != setting.value
            and concerns_collectives(name)
        )

    def text(self, name: str) -> str:
        return f"{name}={self.user[name].value} ({self.user[name].source})"


def gathered(
    mpi: MpiLibrary,
    seen: Mapping[str, str],
    shown: Mapping[str, tuple[str, str]],
    user: Mapping[str, str],
    words: Sequence[str],
) -> dict[str, Setting]:
    """Return the settings of a job without the file.

    `seen` is the environment of its processes, `shown` what the library says of its parameters,
    with their source; `user` is the environment of the launcher with the options `words`.
    """
    files, found = mpi.in_effect(user), dict[str, Setting]()
    for name, value in seen.items():
        of_file = files.get(name, Setting(""))
        if user.get(name) == value:
            found[name] = Setting(value)
        elif parameter_of(name) in words or any(name in word for word in words):
            found[name] = Setting(value, "the launcher's options", Rank.LAUNCHER)
        elif mpi.same(name, of_file.value, value):
            found[name] = of_file  # of the user's, which the launcher hands on
        else:
            found[name] = Setting(value, "the launcher", Rank.LAUNCHER)
    for parameter, (value, source) in shown.items():
        name = variable_of(parameter)
        file = mpi.setting_in_file(value, source)
        if file is not None and (name not in found or file.rank > found[name].rank):
            found[name] = file
    return found


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
                parsed.decide(call, activation | {name: settings.user[name].value}), planned
            )
        ]
    return " and ".join(map(settings.text, alone))


def _without(environment: Mapping[str, str], name: str, settings: JobSettings) -> dict[str, str]:
    rest = {other: value for other, value in environment.items() if other != name}
    if name in settings.activation:
        rest[name] = settings.activation[name]
    return rest
