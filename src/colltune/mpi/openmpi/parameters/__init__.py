"""The format ``openmpi-parameters``: parameters that are in effect at once, in files of all kinds.

Read are ``mca-params.conf`` (``name = value``), files for ``mpirun --tune`` and
``mca_base_envar_file_prefix`` (``--mca name value``), and listings of an environment
(``OMPI_MCA_name=value``). What is written is one of the second kind, with forced single choices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

from colltune import process
from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError, ProgramError
from colltune.mpi.file_format import Format, Listed, Written, absolute_path, refuse_dropped, text_at
from colltune.mpi.in_effect import Rank
from colltune.mpi.in_effect import Setting as InEffect
from colltune.mpi.installation import LauncherProgram
from colltune.mpi.job_variables import is_surely_script, mentions
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.decide import decide
from colltune.mpi.openmpi.decide.tuned import configuration_of, forced_numbers
from colltune.mpi.openmpi.mca import OVERRIDE_FILE, PREFIX, SYSTEM_FILE
from colltune.mpi.openmpi.parameters import reading
from colltune.mpi.openmpi.parameters.reading import PARAMETER_FILES, Setting, read_parameters
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    Call,
    Entries,
    Entry,
    Finding,
    Outcome,
    Rule,
    Rules,
)
from colltune.text import printable

_LISTED, _TUNED = (f"{PREFIX}{name}" for name in PARAMETER_FILES)
_PATH = re.compile(r"^path:(prefix|sysconfdir):(.*)$", re.MULTILINE)
_ASKED = ("--path", "prefix", "--path", "sysconfdir", "--parsable")
_TIMEOUT_S = 20.0


@lru_cache
def system_folder(launcher: LauncherProgram) -> Path | None:
    """Return the folder of the files of an installation; None where it does not tell.

    A relocated one is asked by its mpirun for the place that it has now.
    """
    try:
        program = launcher.program("ompi_info", "")
        words: list[str | Path] = [
            program,
            "--path",
            "prefix",
            "--path",
            "sysconfdir",
            "--parsable",
        ]
        told = dict(_PATH.findall(process.run(words, timeout_s=_TIMEOUT_S).stdout))
    except ProgramError:
        return None
    if not told.get("sysconfdir"):
        return None
    folder, prefix = Path(told["sysconfdir"]), Path(told.get("prefix", "/"))
    if folder.is_relative_to(prefix):
        return launcher.mpirun.resolve().parent.parent / folder.relative_to(prefix)
    return folder


def in_effect(
    environment: Mapping[str, str], launcher: LauncherProgram | None
) -> dict[str, InEffect]:
    """Return the variables that files set for a program started with `environment`.

    Without a `launcher` the system's own are not known.
    """
    folder = None if launcher is None else system_folder(launcher)
    hands_on = launcher is None or not launcher.release.startswith("4.")
    found: dict[str, InEffect] = {}
    for path in reversed(_files(environment, folder, hands_on=hands_on)):
        found |= _read(path, Rank.FILE)
    if folder is not None:
        found |= _read(folder / OVERRIDE_FILE, Rank.OVERRIDE)
    return found


def _files(environment: Mapping[str, str], folder: Path | None, *, hands_on: bool) -> list[Path]:
    """Return the files that the environment goes before, the strongest first."""
    home = environment.get("HOME")
    own = [Path(home, ".openmpi", "mca-params.conf")] if home else []
    system = [folder / SYSTEM_FILE] if folder else []
    tuned = [*_named(environment.get(_TUNED, ""))]
    if _LISTED not in environment:
        return [*own, *tuned, *system] if hands_on else [*tuned, *own, *system]
    listed = [*_named(environment[_LISTED])]
    return [*own, *tuned, *listed] if hands_on else [*tuned, *listed]


def _named(value: str) -> Iterator[Path]:
    yield from (Path(name).absolute() for name in value.split(",") if name)


def _read(path: Path, rank: Rank) -> dict[str, InEffect]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise LibraryError(
            f"{path}: {error.strerror}. The file may have settings of yours."
        ) from error
    return {
        f"{PREFIX}{setting.name}": InEffect(setting.value, f"{path}:{setting.line}", rank)
        for setting in read_parameters(text).found
        if setting.name
    }


NAME = "openmpi-parameters"
_FIRST_BYTES = 65536
_OPTION = re.compile(
    r"(?m)^[ \t]*+(?:--?o?mca[ \t]+[A-Za-z]"
    r"|(?:[^#{\n]*[ \t])?--?g?mca[ \t]+[a-z]\w+[ \t]+\S)"
)
_OWN = re.compile(
    r"(?m)^[ \t]*(?:coll|mca|pml|btl|mtl|osc|io|opal|ompi|orte|mpi|rmaps|plm|oob|hwloc|pmix|prte"
    r"|topo|op)(?:_[a-z0-9_]+)?[ \t]*="
)


class ParameterFile(TunedRules):
    """A parameter file that is in effect; variables of the environment go before it."""

    format = NAME

    def __init__(self, text: str, source: str, release: str) -> None:
        super().__init__(source, release)
        self.read = reading.read(text)
        self.followed = reading.follow(self.read.found, source, release)
        self.environment = mca.environment(
            {setting.name: setting.value for setting in self.followed.settings if setting.name}
        )
        self.variables = mca.Variables(self.environment)
        self.forced = {rule.collective: rule for rule in self._forced()}
        named = [rule for parsed in (self.tuned, self.han_file) if parsed for rule in parsed.rules]
        self.rules = (*self.forced.values(), *named)

    @property
    def tuned(self) -> Rules | None:
        return self.followed.parsed.get("tuned")

    @property
    def han_file(self) -> Rules | None:
        return self.followed.parsed.get("han")

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        """What coll/tuned is told, as ranges: forced algorithms reach all communicators."""
        if not self.variables.flag(mca.USE_RULES, False):
            return {}
        named = self.tuned
        found = dict(named.entries) if isinstance(named, TunedRules) else {}
        for collective, rule in self.forced.items():
            if collective not in found or self.forced_first:
                entry = self.catalogue.collectives[collective]
                always = (rule._replace(numbers=forced_numbers(entry, self.variables)),)
                found[collective] = (Entry(collective, rule.line, 0, LARGEST_COMM_SIZE, always),)
        return found

    @property
    def forced_first(self) -> bool:
        """Whether the release asks for forced algorithms before the rules file."""
        return not self.catalogue.series.startswith("4.")

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`; `environment` goes before the file."""
        variables = self.environment | dict(environment or {})
        # a rules file that the environment replaces by another one is not known
        tuned = self.tuned if self._same(mca.RULES_FILE, variables) else None
        han = self.han_file if self._same(mca.HAN_RULES_FILE, variables) else None
        outcome = decide(
            self.release,
            call,
            variables,
            tuned,
            han,  # type: ignore[arg-type]
        )
        rule = self.forced.get(call.collective)
        if rule is None or rule.configuration is None or call.comm_size < 2:
            return outcome
        told = self._same(mca.forcing_name(call.collective), variables)
        in_effect = told and mca.Variables(variables).flag(mca.USE_RULES, False)
        if not in_effect or not (self.forced_first or outcome.chosen.is_default):
            return outcome
        return replace(outcome, rule=rule, chosen=rule.configuration)

    def _same(self, name: str, variables: Mapping[str, str]) -> bool:
        variable = f"{mca.PREFIX}{name}"
        return variables.get(variable) == self.environment.get(variable)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        named = [parsed for parsed in (self.tuned, self.han_file) if parsed]
        sizes = {size for parsed in named for size in parsed.comm_sizes(collective)}
        return tuple(sorted(sizes | ({2} if collective in self.forced else set())))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = {0}
        for parsed in (self.tuned, self.han_file):
            if parsed is not None:
                points.update(parsed.switch_points(collective, comm_size, nodes))
        return tuple(sorted(points))

    def setting(self, name: str) -> Setting | None:
        return next((s for s in reversed(self.read.found) if s.name == name), None)

    def _forced(self) -> list[Rule]:
        found = []
        for entry in self.catalogue.collectives.values():
            name = mca.forcing_name(entry.collective)
            numbers = forced_numbers(entry, self.variables)
            if numbers.algorithm:
                setting = self.setting(name)
                line = setting.line if setting is not None else 0
                chosen = configuration_of(entry, numbers)
                found.append(Rule(line, self.variables.shown(name), entry.collective, chosen))
        return sorted(found, key=lambda rule: rule.line)


class OpenMpiParameters(Format):
    name = NAME
    library = LIBRARY
    title = "Open MPI's parameters (mca-params.conf, --tune, environment)"
    single_algorithm = True
    lists_variables = True

    def recognises(self, text: str) -> bool:
        begin = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if _OPTION.search(begin) is not None or mentions(text, "OMPI_MCA_"):
            return True
        return _OWN.search(begin) is not None and not is_surely_script(begin)

    def parse(self, text: str, source: str, release: str) -> Rules:
        catalogue_of(release)
        settings = reading.read(text)
        if settings.script is not None and not settings.script.sets and settings.script.others:
            line = settings.script.others[0]
            told = printable(text.split("\n")[line - 1].strip()[:60])
            raise LibraryError(
                f"{source}:{line}: {told!r} sets no parameter, and no other line does. Write "
                "coll_tuned_priority = 30 or --mca coll_tuned_priority 30."
            )
        if settings.others and not settings.found:
            line, other = settings.others[0]
            raise LibraryError(
                f"{source}:{line}: {other[:60]!r} sets no parameter, and no other line does. "
                "Write coll_tuned_priority = 30 or --mca coll_tuned_priority 30."
            )
        return ParameterFile(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.parameters.lint import lint

        assert isinstance(parsed, ParameterFile)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        from colltune.mpi.openmpi.parameters import writing

        return writing.write(table, release, self, programs=programs)

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        """Return the parameters but those that switch rules on, which no file of rules needs."""
        assert isinstance(parsed, ParameterFile)
        switches = (mca.USE_RULES, mca.RULES_FILE)
        by_name = {mca.forcing_name(collective): collective for collective in Collective}
        found = []
        for each in parsed.read.found:
            stem = f"{each.name.partition('_algorithm')[0]}_algorithm"
            if each.name not in switches:
                found.append(Listed(each.line, each.text, by_name.get(stem)))
        unknown = parsed.read.script.found if parsed.read.script else []
        found += [
            Listed(each.line, f"{each.name} (which depends on {each.unknown})")
            for each in unknown
            if each.unknown and each.name.startswith(mca.PREFIX)
        ]
        return tuple(found)

    def convert(self, parsed: Rules, release: str) -> Written:
        from colltune.mpi.openmpi.parameters import writing

        catalogue_of(release)
        refuse_dropped(parsed)
        return writing.convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; the users' and the system's parameter files stay in effect.

        The variables of a script have to be set by themselves.
        """
        catalogue_of(release)
        path = absolute_path(paths[""], "a parameter file")
        if (text := text_at(path)) is not None and (read := reading.read(text)).script is not None:
            return mca.environment({setting.name: setting.value for setting in read.found})
        return mca.environment({"mca_base_envar_file_prefix": path})
