"""What a file for coll/han says, and how its choices are spelled as configurations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.file_format import Rule
from colltune.mpi.openmpi.decide.components import HAN, TUNED, han_serves, serves
from colltune.mpi.openmpi.decide.han_calls import COMPONENTS, HanLevel
from colltune.mpi.openmpi.releases import LIBRARY

DEFAULT = "default"
RAISED_PRIORITY = 35
"""What coll/han has from 5.0 on, above coll/tuned's 30."""


@dataclass(frozen=True)
class SizeRule:
    """The component for messages from ``first_bytes`` on; ``algorithm`` is coll/han's, or empty."""

    rule: Rule
    first_bytes: int
    component: str
    algorithm: str


@dataclass(frozen=True)
class CommunicatorRules:
    """The rules for communicators of ``first_size`` processes and more."""

    line: int
    first_size: int
    rules: tuple[SizeRule, ...]


@dataclass(frozen=True)
class LevelRules:
    """The rules for one level of one collective, in the order of the file.

    ``section`` counts the collectives of the file: one that stands twice has two.
    """

    section: int
    collective: Collective
    level: HanLevel
    line: int
    communicators: tuple[CommunicatorRules, ...]

    def matching(self, comm_size: int, msize_bytes: int) -> SizeRule | None:
        """Return the last rule, in the last entry, that is not for larger ones."""
        entry = next((c for c in reversed(self.communicators) if c.first_size <= comm_size), None)
        if entry is None:
            return None
        return next((r for r in reversed(entry.rules) if r.first_bytes <= msize_bytes), None)


def rules_of(
    levels: tuple[LevelRules, ...], collective: Collective, level: HanLevel
) -> LevelRules | None:
    """Return the rules of a level: the last ones of the last section of a collective."""
    own = [rules for rules in levels if rules.collective is collective]
    last = own[-1].section if own else -1
    return next((r for r in reversed(own) if r.section == last and r.level is level), None)


def names_algorithms(catalogue: Catalogue) -> bool:
    """Tell whether files may name levels, and coll/han's algorithms after ``@``."""
    return not catalogue.series.startswith("4.")


def default_component(catalogue: Catalogue, collective: Collective) -> str:
    """Return which component a file leaves a collective to: the library's own choice."""
    by_tuned = catalogue.han_priority is None and not crashes(catalogue, TUNED, collective)
    return TUNED if by_tuned else HAN


def crashes(catalogue: Catalogue, component: str, collective: Collective) -> bool:
    """Tell whether coll/han ends programs when it hands `collective` on to `component`.

    4.1 calls coll/han's own allreduce with the other component's data (``coll_han_dynamic.c``);
    seen on 4.1.8, with a file as with a variable.
    """
    handed_on = component != HAN and serves(component, collective)
    return catalogue.series == "4.1" and collective is Collective.ALLREDUCE and handed_on


def known_components(catalogue: Catalogue) -> tuple[str, ...]:
    return (*COMPONENTS, "xhc") if catalogue.series.startswith("6") else COMPONENTS


def algorithms(catalogue: Catalogue, collective: Collective) -> tuple[str, ...]:
    """Return coll/han's algorithms of a collective by their numbers."""
    return catalogue.collectives[collective].han


def configuration_of(
    catalogue: Catalogue, collective: Collective, component: str, algorithm: str
) -> Configuration:
    """Return how the choice of a component is spelled; the library's own one is the default."""
    if component == default_component(catalogue, collective) and algorithm in ("", DEFAULT):
        return Configuration.default(LIBRARY, collective)
    name = f"{component}_{algorithm}" if algorithm not in ("", DEFAULT) else component
    return Configuration(LIBRARY, collective, name)


def component_of(catalogue: Catalogue, configuration: Configuration) -> tuple[str, str]:
    """Return component and algorithm that a configuration stands for."""
    if configuration.is_default:
        return default_component(catalogue, configuration.collective), ""
    for component, algorithm in _choices(catalogue, configuration.collective):
        spelled = configuration_of(catalogue, configuration.collective, component, algorithm)
        if spelled == configuration:
            return component, algorithm
    raise KeyError(configuration.id)


def choices(catalogue: Catalogue, collective: Collective) -> tuple[Configuration, ...]:
    """Return what a file can choose for a collective: the library's own choice first."""
    default = Configuration.default(LIBRARY, collective)
    found = (configuration_of(catalogue, collective, *c) for c in _choices(catalogue, collective))
    return (default, *(c for c in found if not c.is_default))


def _choices(catalogue: Catalogue, collective: Collective) -> Iterator[tuple[str, str]]:
    if not han_serves(catalogue, collective):
        return
    for component in known_components(catalogue):
        if serves(component, collective) and not crashes(catalogue, component, collective):
            yield component, ""
    if names_algorithms(catalogue):
        for algorithm in algorithms(catalogue, collective)[1:]:
            yield HAN, algorithm
