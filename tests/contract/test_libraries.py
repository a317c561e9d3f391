"""What every MPI library in the registry must fulfil."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from colltune.bench.launchers import LAUNCHERS
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES, Release, library
from colltune.mpi.catalogue import all_series
from colltune.mpi.file_format import Format
from colltune.mpi.formats import FORMATS, format_for
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED
from colltune.mpi.rules import Call
from colltune.mpi.running import Promises
from colltune.mpi.toolchain import release_in

Rules = dict[tuple[Collective, int], tuple[Interval, ...]]


def cases(name: str, step: int = 1) -> Iterator[tuple[Release, Collective]]:
    """Yield every release of a library, or every `step`-th, with every collective."""
    mpi = library(name)
    for release in mpi.releases[::step]:
        for collective in Collective:
            yield mpi.at(release), collective


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_knows_its_name(name: str) -> None:
    """The key of the registry is the library's own name."""
    assert library(name).name == name


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_catalogue_has_a_release(name: str) -> None:
    """Whatever is checked for all releases is checked for each series of the library."""
    mpi = library(name)
    series = set(all_series(name, mpi.catalogues))
    assert series
    assert {mpi.catalogue_of(release).series for release in mpi.releases} == series
    assert {mpi.catalogue_of(release).library for release in mpi.releases} == {name}
    assert mpi.current in mpi.releases


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_library_can_be_written(name: str) -> None:
    """What can be measured can be written, in a format of the library's own."""
    mpi = library(name)
    assert mpi.preferred
    found = {format_for(name, release).name for release in mpi.releases}
    assert {FORMATS[one].library for one in (*mpi.preferred, *found)} == {name}


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_library_can_be_found(name: str) -> None:
    """It is told from the other libraries by its programs and modules, and can be started."""
    toolchain = library(name).toolchain
    assert LAUNCHERS[toolchain.launcher].starts(toolchain)
    others = [mpi.toolchain for other, mpi in LIBRARIES.items() if other != name]
    for told in ("easybuild", "root_variable", "suffix"):
        assert getattr(toolchain, told) not in {getattr(other, told) for other in others}
    for says in (toolchain.launcher_says, toolchain.compiler_says, toolchain.program_says):
        assert release_in("nompi 1.2.3", says) is None
    assert not toolchain.modules.match("nompi/1.2.3")


def test_an_unknown_library_is_refused() -> None:
    """The message names those that are known."""
    with pytest.raises(LibraryError, match=r"MPI library 'nompi'.* Known libraries: openmpi"):
        library("nompi")


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_unknown_release_is_refused(name: str) -> None:
    """No release is guessed."""
    with pytest.raises(LibraryError, match="supported"):
        library(name).at("0.0.1").portfolio(Collective.BCAST)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_portfolio_is_canonical_and_distinct(name: str) -> None:
    """The default comes first, every configuration is spelled canonically and once."""
    for release, collective in cases(name):
        case = (release.name, collective)
        portfolio = release.portfolio(collective)
        configurations = portfolio.configurations
        default = Configuration.default(name, collective)
        assert configurations[0] == portfolio.default == default, case
        assert len(set(configurations)) == len(configurations), case
        known = release.catalogue.collectives.get(collective)
        to_choose = known is not None and not all(algorithm.wrong for algorithm in known.algorithms)
        assert (len(configurations) > 1) is to_choose, case
        assert tuple(map(release.canonical, configurations)) == configurations, case
        assert tuple(Configuration.parse(c.id) for c in configurations) == configurations, case


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_default_is_always_there(name: str) -> None:
    """The library's own decision is feasible and safe anywhere, and can be restored."""
    for release, collective in cases(name):
        case, default = (release.name, collective), Configuration.default(name, collective)
        for nprocs in (1, 2, 3, 8, 1000):
            assert not release.runs(default, nprocs).why_not(0), case
            assert not release.runs(default, nprocs, Promises(ANY_LEGAL)).refusal, case
        others = release.portfolio(collective).configurations[1:]
        if release.settable_at_runtime(default):
            restored = set(release.force(default).items())
            assert all(set(release.force(c).items()) != restored for c in others), case


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_configuration_has_its_own_environment(name: str) -> None:
    """No two configurations are forced by the same variables, for a launch or within one."""
    for release, collective in cases(name):
        case = (release.name, collective)
        configurations = release.portfolio(collective).configurations
        forced = [release.forced_environment(c) for c in configurations]
        assert len({tuple(sorted(e.items())) for e in forced}) == len(configurations), case
        base, chooser = release.base_environment(), release.space.chosen_by(collective)
        for environment in forced[1:]:
            assert base.items() <= environment.items(), case
            assert any(variable.endswith(chooser) for variable in environment), case
        settable = [c for c in configurations if release.settable_at_runtime(c)]
        at_runtime = {tuple(sorted(release.force(c).items())) for c in settable}
        assert len(at_runtime) == len(settable), case


@pytest.mark.parametrize("name", LIBRARIES)
def test_effective_is_stable_and_feasible(name: str) -> None:
    """Reducing a configuration twice changes nothing, nor whether it runs."""
    for release, collective in cases(name):
        for c in release.portfolio(collective).configurations:
            for nprocs, msize in ((2, 0), (4, 1024), (7, 100_000)):
                case = (release.name, c.id, nprocs, msize)
                once = release.effective(c, nprocs, msize)
                assert release.effective(once, nprocs, msize) == once, case
                runs = not release.runs(c, nprocs).why_not(msize)
                assert bool(release.runs(once, nprocs).why_not(msize)) is not runs, case


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_safe_configuration_survives_writing(name: str) -> None:
    """Written, read and decided again, a configuration is the same where it runs as itself."""
    # it is slow, and the formats are tried with every release that reads them
    for release, collective in cases(name, step=2):
        form = format_for(name, release.name)
        for c in release.portfolio(collective).configurations:
            for nprocs in (2, 8):
                survives(release, form, c, nprocs)


def survives(release: Release, form: Format, c: Configuration, nprocs: int) -> None:
    """Write, read and decide one configuration for a communicator."""
    case = (release.name, c.id, nprocs)
    always: Rules = {(c.collective, nprocs): (Interval(0, None, c),)}
    table = DecisionTable(release.mpi.name, Shape(1, nprocs), always)
    written = form.write(table, release.name, programs=MOST_PROMISED)
    parsed = form.parse(written.text, "written", release.name)
    chosen = parsed.decide(Call(c.collective, nprocs, 2**24, element_bytes=8)).chosen
    fits = not release.runs(c, nprocs, Promises(element_bytes=8)).why_not(2**24)
    runs = fits and not release.runs(c, nprocs, Promises(MOST_PROMISED)).refusal
    default = Configuration.default(release.mpi.name, c.collective)
    # what is safe under a condition can stand in a file that asks for the condition
    possible = {release.canonical(c) if fits else default} | (set() if runs else {default})
    assert chosen in possible, case
    assert bool(written.notes) or runs or not chosen.is_default, case
