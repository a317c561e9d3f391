"""What every MPI library in the registry must fulfil."""

from __future__ import annotations

import pytest

from colltune.bench.launchers import LAUNCHERS
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES, library
from colltune.mpi.catalogue import all_series
from colltune.mpi.file_format import Call
from colltune.mpi.formats import FORMATS, format_for

Rules = dict[tuple[Collective, int], tuple[Interval, ...]]
CASES = [
    (name, release, collective)
    for name, mpi in LIBRARIES.items()
    for release in mpi.releases
    for collective in Collective
]
# it is slow, and the formats are tried with every release that reads them
WRITTEN = [case for case in CASES if case[1] in library(case[0]).releases[::2]]


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
    for ask in (toolchain.launcher_release, toolchain.compiler_release, toolchain.program_release):
        assert ask("nompi 1.2.3") is None
    assert not toolchain.modules.match("nompi/1.2.3")


def test_an_unknown_library_is_refused() -> None:
    """The message names those that are known."""
    with pytest.raises(LibraryError, match=r"MPI library 'nompi'.*; known: openmpi"):
        library("nompi")


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_unknown_release_is_refused(name: str) -> None:
    """No release is guessed."""
    with pytest.raises(LibraryError, match="supported"):
        library(name).at("0.0.1").portfolio(Collective.BCAST)


@pytest.mark.parametrize(("name", "release", "collective"), CASES)
def test_a_portfolio_is_canonical_and_distinct(
    name: str, release: str, collective: Collective
) -> None:
    """The default comes first, every configuration is spelled canonically and once."""
    mpi = library(name)
    portfolio = mpi.at(release).portfolio(collective)
    configurations = portfolio.configurations
    assert configurations[0] == portfolio.default == Configuration.default(name, collective)
    assert len(set(configurations)) == len(configurations)
    known = mpi.catalogue_of(release).collectives.get(collective)
    to_choose = known is not None and not all(algorithm.wrong for algorithm in known.algorithms)
    assert (len(configurations) > 1) is to_choose
    assert tuple(mpi.at(release).canonical(c) for c in configurations) == configurations
    assert tuple(Configuration.parse(c.id) for c in configurations) == configurations


@pytest.mark.parametrize(("name", "release", "collective"), CASES)
def test_the_default_is_always_there(name: str, release: str, collective: Collective) -> None:
    """The library's own decision is feasible and safe anywhere, and can be restored."""
    mpi, default = library(name), Configuration.default(name, collective)
    for nprocs in (1, 2, 3, 8, 1000):
        assert mpi.at(release).feasible(default, nprocs, 0)
        assert mpi.at(release).safe(default, builtin_operations_only=False, nprocs=nprocs)
    others = mpi.at(release).portfolio(collective).configurations[1:]
    if mpi.at(release).settable_at_runtime(default):
        restored = set(mpi.at(release).force(default).items())
        assert all(set(mpi.at(release).force(c).items()) != restored for c in others)


@pytest.mark.parametrize(("name", "release", "collective"), CASES)
def test_every_configuration_has_its_own_environment(
    name: str, release: str, collective: Collective
) -> None:
    """No two configurations are forced by the same variables, for a launch or within one."""
    mpi = library(name)
    configurations = mpi.at(release).portfolio(collective).configurations
    forced = [mpi.at(release).forced_environment(c) for c in configurations]
    assert len({tuple(sorted(e.items())) for e in forced}) == len(configurations)
    assert all(
        mpi.at(release).base_environment().items() <= environment.items()
        for environment in forced[1:]
    )
    chooser = mpi.at(release).space.chosen_by(collective)
    for environment in forced[1:]:
        assert any(variable.endswith(chooser) for variable in environment)
    settable = [c for c in configurations if mpi.at(release).settable_at_runtime(c)]
    at_runtime = {tuple(sorted(mpi.at(release).force(c).items())) for c in settable}
    assert len(at_runtime) == len(settable)


@pytest.mark.parametrize(("name", "release", "collective"), CASES)
def test_effective_is_stable_and_feasible(name: str, release: str, collective: Collective) -> None:
    """Reducing a configuration twice changes nothing, nor whether it runs."""
    mpi = library(name)
    for c in mpi.at(release).portfolio(collective).configurations:
        for nprocs, msize in ((2, 0), (4, 1024), (7, 100_000)):
            once = mpi.at(release).effective(c, nprocs, msize)
            assert mpi.at(release).effective(once, nprocs, msize) == once
            assert mpi.at(release).feasible(once, nprocs, msize) == mpi.at(release).feasible(
                c, nprocs, msize
            )


@pytest.mark.parametrize(("name", "release", "collective"), WRITTEN)
def test_every_safe_configuration_survives_writing(
    name: str, release: str, collective: Collective
) -> None:
    """Written, read and decided again, a configuration is the same where it runs as itself."""
    mpi, form = library(name), format_for(name, release)
    for c in mpi.at(release).portfolio(collective).configurations:
        for nprocs in (2, 8):
            always: Rules = {(collective, nprocs): (Interval(0, None, c),)}
            table = DecisionTable(name, Shape(1, nprocs), always)
            written = form.write(table, release, builtin_operations_only=True)
            parsed = form.parse(written.text, "written", release)
            chosen = parsed.decide(Call(collective, nprocs, 2**24, element_bytes=8)).chosen
            fits = mpi.at(release).feasible(c, nprocs, 2**24, element_bytes=8)
            runs = fits and mpi.at(release).safe(c, builtin_operations_only=True, nprocs=nprocs)
            default = Configuration.default(name, collective)
            # what is safe under a condition can stand in a file that asks for the condition
            possible = {mpi.at(release).canonical(c) if fits else default} | (
                set() if runs else {default}
            )
            assert chosen in possible
            assert bool(written.notes) or runs or not chosen.is_default
