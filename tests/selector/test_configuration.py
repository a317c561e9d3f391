"""A job's configuration as texts."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset
from colltune.decisions import AS_MEASURED, ENOUGH_CORES, DecisionTable, Interval
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES
from colltune.mpi.formats import FORMATS, readers
from colltune.mpi.openmpi.parameters.reading import read_variables
from colltune.mpi.programs import (
    ANY_LEGAL,
    FOR_TWO,
    MOST_PROMISED,
    SAME_TYPES,
    Programs,
    Results,
)
from colltune.mpi.rules import Call
from colltune.mpi.running import Promises, Refusal
from colltune.selector.argmin import legal_runs, legal_selector
from colltune.selector.configuration import Target, render, rendered, selector_for, write_rendered
from tests.models.machines import measured
from tests.mpi.programs_measured import BITS, Measured
from tests.mpi.programs_measured import measured as outcomes

__all__ = ["outcomes"]

ALONE = Shape(1, 1)
FOR_OPENMPI = ("openmpi-classic", "openmpi-han", "openmpi-parameters", "openmpi-json")


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle for Open MPI."""
    return fit(measured(), "knn")


@pytest.mark.parametrize("name", FOR_OPENMPI)
def test_a_job_of_one_process_gets_an_empty_configuration(bundle: Bundle, name: str) -> None:
    """A single process talks to nobody: nothing is decided, and the file is whole all the same."""
    target = Target.named(name, readers(FORMATS[name])[-1])
    found = render(selector_for(bundle, target), ALONE, target)
    assert found.table.rules == {}
    assert found.table.by_layout == {}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_say_that_nothing_is_decided(name: str) -> None:
    """A table without rules is written by all formats, and read back as it is meant."""
    form = FORMATS[name]
    release = readers(form)[-1]
    found = rendered(Target.named(name, release), DecisionTable(form.library, ALONE, {}))
    parsed = form.parse(found.written.text, "written", release)
    assert not parsed.dropped
    assert "all collectives are left to the library" in found.written.notes[-1]
    assert ("as a whole or not at all" in found.written.notes[-1]) != form.allows_partial_collective
    named = [rule.configuration for rule in parsed.rules]
    assert all(one is not None and one.is_default for one in named)


def test_what_was_measured_on_shared_cores_is_for_jobs_that_share_them() -> None:
    """A job with a core for each process keeps the default, and is told why."""
    own = measured()
    told = replace(own.context, cores_shared="4 processes on 2 cores per node")
    found = fit(PerformanceDataset(told, own.frame), "knn")
    target, shape = Target.named("openmpi", "4.1.4"), Shape(4, 4)
    for cores, decides in ((ENOUGH_CORES, False), (4, False), (2, True), (AS_MEASURED, True)):
        selector = selector_for(found, target, cores=cores)
        made = render(selector, shape, target)
        assert any(made.table.rules.values()) == decides, cores
        text = made.written.text + made.parameter_text({})
        assert ("Measured on shared cores, 4 processes on 2 cores per node" in text) == decides
        assert any("measured on shared cores" in note for note in made.written.notes) != decides
        for selection in selector.select_many([Instance(c, shape, 64) for c in found.collectives]):
            assert decides or selection.configuration.is_default
            assert ("measured on shared cores" in selection.reason) != decides


@pytest.mark.parametrize("programs", [ANY_LEGAL, SAME_TYPES, MOST_PROMISED])
def test_a_configuration_says_which_programs_it_is_for(
    bundle: Bundle, tmp_path: Path, programs: Programs
) -> None:
    """Where the main file cannot, the file of parameters beside it does, and sets the same."""
    for name, release in (("openmpi", "4.1.4"), ("openmpi-json", "6.0.0")):
        target = Target.named(name, release, programs=programs)
        found = render(selector_for(bundle, target), Shape(4, 4), target)
        written = write_rendered(found, tmp_path / name)
        assert written.parameter_path is not None
        text = written.parameter_path.read_text()
        assert f"for {programs.phrase}." in text
        assert read_variables(text, "text")[0] == written.environment


def test_a_path_with_a_blank_is_written_all_the_same(bundle: Bundle, tmp_path: Path) -> None:
    """Variables name it as it is; a file of parameters cannot, and is not left behind."""
    target, shape = Target.named("openmpi", "4.1.4"), Shape(4, 4)
    found = render(selector_for(bundle, target), shape, target)
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "rules.params").write_text("an older one")
    written = write_rendered(found, folder / "rules")
    assert str(folder / "rules") in written.environment.values()
    assert written.parameter_path is None
    assert {file.name for file in folder.iterdir()} == {"rules"}
    assert str(folder / "rules") in shlex.split(written.start_line)
    assert f"={folder}/rules" in shlex.split(written.job_line)[2]
    plain = write_rendered(found, tmp_path / "rules")
    assert plain.parameter_path == tmp_path / "rules.params"


def _beside_the_library() -> PerformanceDataset:
    """Return times of a machine on which an algorithm of libcolltune is fastest of three."""
    times_s = {
        "openmpi.bcast.default": 100e-6,
        "openmpi.bcast.binomial:segsize=0": 50e-6,
        "colltune.bcast.hierarchical:groups=0,inner=binomial,outer=same,segsize=32768": 20e-6,
        "colltune.bcast.hierarchical:groups=2,inner=chain,outer=same,segsize=32768": 30e-6,
    }
    return PerformanceDataset.of(
        Context("hydra", "openmpi", "5.0.11"),
        [
            Measurement(
                Instance(Collective.BCAST, Shape(nodes, 2), msize),
                Configuration.parse(text),
                f"{launch}",
                times_s=(time_s,) * 5,
            )
            for text, time_s in times_s.items()
            for nodes in (2, 4)
            for msize in (64, 4096, 65536)
            for launch in range(2)
        ],
    )


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("openmpi-classic", "binomial"),
        ("openmpi-han", None),
        ("openmpi-parameters", None),
        ("openmpi-table", "colltune.hierarchical"),
    ],
)
def test_what_a_file_can_name_decides_what_is_chosen(name: str, chosen: str | None) -> None:
    """Where libcolltune is not asked its algorithms are no candidates, and the next best is taken.

    None of them is chosen first and left to the default afterwards.
    """
    bundle = fit(_beside_the_library(), "knn")
    target = Target.named(name, "5.0.11")
    found = render(selector_for(bundle, target), Shape(4, 2), target)
    every = [i.configuration for rule in found.table.rules.values() for i in rule]
    algorithms = {c.stored_algorithm for c in every if not c.is_default}
    assert algorithms == ({chosen} if chosen else algorithms & {"binomial"})
    assert not [note for note in found.written.notes if "colltune." in note]


def test_nothing_is_preloaded_for_nothing() -> None:
    """A table that leaves all to the library is not put into effect."""
    target = Target.named("openmpi-table", "5.0.11")
    empty = rendered(target, DecisionTable("openmpi", Shape(4, 2), {}))
    assert empty.environment("/t") == {}
    bundle = fit(_beside_the_library(), "knn")
    full = render(selector_for(bundle, target), Shape(4, 2), target)
    assert full.environment("/t")["LD_PRELOAD"] == "libcolltune.so"
    assert full.environment("/t", "/lib.so")["LD_PRELOAD"] == "/lib.so"


def test_leaders_are_not_chosen_where_there_are_none() -> None:
    """What runs as another one would on a layout is not written for it."""
    leaders = "colltune.allgather.hierarchical:chunk=0,exchange=ring,leaders={},overlap=yes"
    data = PerformanceDataset.of(
        Context("hydra", "openmpi", "5.0.11"),
        [
            Measurement(
                Instance(Collective.ALLGATHER, Shape(4, ppn), 4096),
                Configuration.parse(text),
                "l",
                times_s=(time_s,) * 5,
            )
            for text, time_s in {
                "openmpi.allgather.default": 100e-6,
                leaders.format(1): 50e-6,
                leaders.format(4): 20e-6,
            }.items()
            for ppn in (2, 4)
        ],
    )
    target = Target.named("openmpi-table", "5.0.11")
    table = render(selector_for(fit(data, "knn"), target), Shape(4, 4), target).table
    for nprocs, wanted in ((16, 4), (8, 1)):
        layout = Collective.ALLGATHER, Shape(4, nprocs // 4)
        found = table.by_layout.get(layout) or table.rules[Collective.ALLGATHER, nprocs]
        chosen = {i.configuration.numbers["leaders"] for i in found if i.configuration.parameters}
        assert chosen == {wanted}


_REDUCTIONS = {
    "openmpi.allreduce.default": 100e-6,
    "openmpi.allreduce.recursive_doubling": 50e-6,
    "openmpi.allreduce.ring": 20e-6,
    "openmpi.allgather.default": 100e-6,
    "openmpi.allgather.ring": 20e-6,
}


def _reductions() -> PerformanceDataset:
    """Return times of a machine on which the fastest allreduce rounds otherwise."""
    return PerformanceDataset.of(
        Context("hydra", "openmpi", "5.0.11"),
        [
            Measurement(
                Instance(configuration.collective, Shape(nodes, ppn), msize),
                configuration,
                f"{launch}",
                times_s=(time_s,) * 5,
            )
            for configuration, time_s in (
                (Configuration.parse(text), time_s) for text, time_s in _REDUCTIONS.items()
            )
            for nodes, ppn in ((1, 4), (1, 8), (2, 4))
            for msize in (64, 1024, 65536)
            for launch in range(2)
        ],
    )


def test_same_bits_cost_reductions_their_gain_alone(outcomes: Measured) -> None:
    """Data moves as fast as before; an allreduce runs what is known to give the same bits."""
    outcomes(BITS)
    bundle = fit(_reductions(), "knn")
    programs = Programs(same_types=True, builtin_operations=True, results=Results.SAME_BITS)
    for job, allreduce in ((Shape(1, 4), {"recursive_doubling"}), (Shape(2, 4), set())):
        target = Target.named("openmpi-classic", "5.0.11", programs=programs)
        found = render(selector_for(bundle, target), job, target)
        chosen = {
            collective: {
                interval.configuration.algorithm
                for interval in found.table.rules[collective, job.nprocs]
                if not interval.configuration.is_default
            }
            for collective in bundle.collectives
        }
        assert chosen == {Collective.ALLREDUCE: allreduce, Collective.ALLGATHER: {"ring"}}, job
    alone = legal_selector(bundle, programs)
    for size, name in ((1024, "recursive_doubling"), (1 << 21, "default")):
        decided = alone.select(Instance(Collective.ALLREDUCE, Shape(1, 4), size))
        assert decided.configuration.algorithm == name


@pytest.mark.parametrize("results", Results)
def test_who_reduces_by_default_stays_where_bits_are_promised(
    results: Results, outcomes: Measured
) -> None:
    """A file switches another component off, which may own the reductions."""
    outcomes(BITS)
    programs = Programs(results=results)
    target = Target.named("openmpi-classic", "5.0.11", programs=programs)
    found = render(selector_for(fit(_reductions(), "knn"), target), Shape(1, 4), target)
    switched_off = "OMPI_MCA_coll_hcoll_enable" in found.environment("/rules")
    assert switched_off is (results is not Results.SAME_BITS)


def test_an_algorithm_for_two_processes_is_for_no_more(bundle: Bundle) -> None:
    """What was measured of it on two does not make it safe on more."""
    two = Configuration.parse("openmpi.allgather.two_proc")
    for release in ("4.1.4", "5.0.11"):
        context = replace(bundle.context, library_version=release)
        shapes = [Shape(1, 4), Shape(2, 1)]
        four, alone = legal_runs(context, two, shapes, SAME_TYPES)
        assert (four.refusal, alone.first_bytes) == (Refusal.HARMS_PROGRAMS, 0)


def test_all_algorithms_for_two_processes_have_one_name() -> None:
    """By it they are known where no catalogue is read."""
    for mpi in LIBRARIES.values():
        for release in mpi.releases:
            bound = mpi.at(release)
            for collective in mpi.catalogue_of(release).collectives:
                for one in bound.portfolio(collective).configurations:
                    anywhere, on_four = (
                        bound.runs(one, n, Promises(MOST_PROMISED)).refusal for n in (None, 4)
                    )
                    ends = on_four is Refusal.HARMS_PROGRAMS and anywhere is None
                    assert not ends or one.algorithm == FOR_TWO, one


def test_what_breaks_programs_is_served_no_more_from_an_old_bundle(bundle: Bundle) -> None:
    """It is not chosen, neither for a file nor alone, and a note of the file says so."""
    chosen, notes = {}, {}
    job = Shape(8, 4)
    for programs in (ANY_LEGAL, SAME_TYPES):
        target = Target.named("openmpi-classic", "5.0.11", programs=programs)
        found = render(selector_for(bundle, target), job, target)
        rules = found.table.rules[Collective.BCAST, job.nprocs]
        alone = legal_selector(bundle, programs).select(Instance(Collective.BCAST, job, 1 << 22))
        chosen[programs] = {i.configuration.algorithm for i in rules} | {
            alone.configuration.algorithm
        }
        notes[programs] = [note for note in found.written.notes if programs.which in note]
    assert "scatter_allgather" in chosen[SAME_TYPES]
    assert "scatter_allgather" not in chosen[ANY_LEGAL]
    assert notes[SAME_TYPES] == []
    assert len(notes[ANY_LEGAL]) == 1


@pytest.mark.parametrize(
    ("name", "release", "what"),
    [
        ("openmpi-classic", "5.0.6", "openmpi.alltoall.linear_sync:requests=8"),
        ("openmpi-classic", "5.0.11", "openmpi.bcast.han_intra:up=libnbc,low=tuned,segsize=65536"),
        ("openmpi-han", "5.0.11", "openmpi.bcast.chain:fanout=2,segsize=0"),
        ("openmpi-table", "5.0.11", "openmpi.bcast.han_intra:up=adapt,low=tuned,segsize=65536"),
        ("intelmpi-table", "2021.18.1", "intelmpi.bcast.preset2"),
        ("mpich-json", "5.0.2", "mpich.barrier.recexch:fanout=16"),
    ],
)
def test_selector_and_writer_agree_on_what_a_file_cannot_name(
    name: str, release: str, what: str
) -> None:
    """It is not chosen for the file, so that its table never has what the writer leaves out."""
    job, target = Shape(4, 4), Target.named(name, release, programs=MOST_PROMISED)
    chosen = Configuration.parse(what)
    assert target.bound.runs(chosen, job, target.promises).refusal is Refusal.NOT_EXPRESSED
    always: dict[tuple[Collective, int], tuple[Interval, ...]] = {
        (chosen.collective, job.nprocs): (Interval(0, None, chosen),)
    }
    written = rendered(target, DecisionTable(target.form.library, job, always)).written
    decided = target.form.parse(written.text, "written", release).decide(
        Call(chosen.collective, job.nprocs, 1024, nodes=4)
    )
    assert decided.chosen.is_default
    assert written.notes
