"""Which legal programs a configuration breaks, by what was measured and by the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError, LibraryError
from colltune.mpi import LIBRARIES, library
from colltune.mpi.catalogue import Limit
from colltune.mpi.formats import FORMATS
from colltune.mpi.programs import (
    ANY_LEGAL,
    MODES,
    MOST_PROMISED,
    SAME_TYPES,
    ProgramOutcome,
    Programs,
    Results,
    nearest,
    parse,
)
from colltune.mpi.programs import measured as all_measured
from colltune.mpi.rules import Fault, Severity
from colltune.mpi.running import Promises, Refusal
from tests.mpi.programs_measured import BITS, MPICH, OPENMPI, Measured, measured, stored
from tests.refusals import refused

__all__ = ["measured"]
Rules = dict[tuple[Collective, int], tuple[Interval, ...]]
BUILT_IN = Programs(builtin_operations=True)
CUT = Configuration.parse("openmpi.bcast.chain:fanout=4,segsize=1024")
WHOLE = Configuration.parse("openmpi.bcast.chain:fanout=4,segsize=0")


def test_a_promise_is_one_text_both_ways() -> None:
    """What is written reads back; words that are no promise are refused."""
    for results in Results:
        for programs in (ANY_LEGAL, SAME_TYPES, BUILT_IN, MOST_PROMISED):
            told = replace(programs, results=results)
            assert Programs.parse(str(told)) == told
    both = replace(MOST_PROMISED, results=Results.RANKS_AGREE)
    assert Programs.parse("builtin-operations, same-types") == both
    for text in ("", "all", "any-legal,same-types", "same types"):
        with refused("not-programs", DataError):
            Programs.parse(text)
    with refused("not-results", DataError):
        Programs.parse("same-types,results=exact")


def test_an_option_goes_before_the_variable_before_the_default() -> None:
    """Whoever says most nearly is heard, and named where it is no promise."""
    job = {"COLLTUNE_PROGRAMS": "same-types"}
    assert Programs.named("any-legal", None, job, SAME_TYPES) == ANY_LEGAL
    assert Programs.named(None, None, job, BUILT_IN) == SAME_TYPES
    assert Programs.named(None, None, {}, MOST_PROMISED) == MOST_PROMISED
    with refused("not-programs", DataError):
        Programs.named(None, None, {"COLLTUNE_PROGRAMS": "mine"}, ANY_LEGAL)
    with refused("not-programs", DataError):
        Programs.named("mine", None, job, ANY_LEGAL)


def test_results_are_promised_by_themselves() -> None:
    """What somebody says of programs leaves alone what somebody else promises of results."""
    site = Programs(results=Results.SAME_BITS)
    assert Programs.named("same-types", None, {}, site) == Programs(True, False, Results.SAME_BITS)
    assert Programs.named(None, "any", {}, site) == Programs(results=Results.ANY)
    job = {"COLLTUNE_RESULTS": "ranks-agree"}
    assert Programs.named(None, None, job, site) == ANY_LEGAL
    assert Programs.named(None, "any", job, site).results is Results.ANY
    with refused("not-results", DataError):
        Programs.named(None, None, {"COLLTUNE_RESULTS": "exact"}, site)


def test_ranks_that_disagree_are_for_whom_any_results_will_do(measured: Measured) -> None:
    """So is an allreduce of which nobody knows, and no other reduction."""
    measured(BITS)
    bound = library("openmpi").at("5.0.11")
    for name, refusal in (
        ("allreduce.recursive_doubling", None),
        ("allreduce.rabenseifner", Refusal.HARMS_PROGRAMS),
        ("allreduce.nonoverlapping", Refusal.HARMS_PROGRAMS),
        ("allreduce.segmented_ring:segsize=1024", None),
        ("allreduce.segmented_ring:segsize=4096", Refusal.HARMS_PROGRAMS),
        ("reduce.linear", None),
    ):
        one = Configuration.parse(f"openmpi.{name}")
        careful = replace(MOST_PROMISED, results=Results.RANKS_AGREE)
        assert bound.runs(one, promises=Promises(careful)).refusal is refusal, name
        assert bound.runs(one, promises=Promises(MOST_PROMISED)).refusal is None, name


def test_the_nearest_release_tells_of_one_that_was_not_measured() -> None:
    """Itself, else of its series, else the older and the newer one."""
    known = ("4.1.4", "4.1.8", "5.0.11")
    for release, told in (
        ("4.1.8", ("4.1.8",)),
        ("4.1.5", ("4.1.4",)),
        ("4.1.9", ("4.1.8",)),
        ("5.0.7rc2", ("5.0.11",)),
        ("4.0.2", ("4.1.4",)),
        ("4.2.0", ("4.1.8", "5.0.11")),
        ("6.0.0", ("5.0.11",)),
        ("main", known),
    ):
        assert nearest(release, known) == told, release
    assert nearest("1.0", ()) == ()


def test_what_was_measured_wrong_is_unsafe_unless_a_promise_leaves_it_out(
    measured: Measured,
) -> None:
    """Segments that break mixed types are for programs of the same types; the reason says why."""
    measured(OPENMPI)
    bound = library("openmpi").at("5.0.11")
    assert not bound.runs(WHOLE, promises=Promises(ANY_LEGAL)).refusal
    assert bound.runs(CUT, promises=Promises(ANY_LEGAL)).refusal
    assert bound.runs(CUT, promises=Promises(BUILT_IN)).refusal
    assert not bound.runs(CUT, promises=Promises(SAME_TYPES)).refusal
    why = bound.runs(CUT, promises=Promises(ANY_LEGAL)).reason
    assert MODES["mixed_types"].program in why
    assert "5.0.11" in why
    tree = Configuration.parse("openmpi.bcast.split_binary_tree:segsize=0")
    assert bound.runs(tree, promises=Promises(MOST_PROMISED)).refusal


def test_harm_counts_also_where_the_default_is_not_always_right(measured: Measured) -> None:
    """Algorithms are measured only in calls that the default does right, so their rows count."""
    measured(OPENMPI.replace("chain = {}", "default = { mixed_types = 'hangs' }\nchain = {}"))
    assert library("openmpi").at("5.0.11").runs(CUT, promises=Promises(ANY_LEGAL)).refusal


def test_what_was_never_measured_needs_programs_of_the_same_types(measured: Measured) -> None:
    """Nobody knows what it does to others; without any measurement the catalogue tells alone."""
    knomial = Configuration.parse("openmpi.bcast.knomial:segsize=0")
    bound = library("openmpi").at("5.0.11")
    assert not bound.runs(knomial, promises=Promises(ANY_LEGAL)).refusal
    measured(OPENMPI.replace("5.0.11", "5.0.9"))
    bound = library("openmpi").at("5.0.11")
    assert bound.runs(knomial, promises=Promises(ANY_LEGAL)).refusal
    assert not bound.runs(knomial, promises=Promises(SAME_TYPES)).refusal


def test_a_neighbour_is_named_where_it_tells(measured: Measured) -> None:
    """The reason says of a release without data of its own which one was measured."""
    measured(OPENMPI)
    bound = library("openmpi").at("6.0.0")
    assert "5.0.11" in bound.runs(CUT, promises=Promises(ANY_LEGAL)).reason
    assert not bound.runs(CUT, promises=Promises(SAME_TYPES)).refusal


def test_neighbours_on_both_sides_tell_what_either_does(measured: Measured) -> None:
    """Between two measured releases all findings count."""
    measured(OPENMPI)
    older = OPENMPI.replace("5.0.11", "3.1.6")
    measured(older.replace("binomial = {}", "binomial = {layouts = 'wrong'}"))
    binomial = Configuration.parse("openmpi.bcast.binomial:segsize=0")
    bound = library("openmpi").at("4.1.4")
    assert bound.runs(binomial, promises=Promises(MOST_PROMISED)).refusal
    assert bound.runs(CUT, promises=Promises(ANY_LEGAL)).refusal


def test_portfolios_leave_out_what_no_promise_allows(measured: Measured) -> None:
    """It is not even measured; what a promise allows is."""
    measured(OPENMPI)
    found = library("openmpi").at("5.0.11").portfolio(Collective.BCAST).configurations
    names = {c.algorithm for c in found}
    assert "split_binary_tree" not in names
    assert {"chain", "binomial", "default"} <= names


@pytest.mark.parametrize(
    ("name", "release", "wrong", "right", "text"),
    [
        ("openmpi-classic", "5.0.11", CUT, WHOLE, OPENMPI),
        ("openmpi-parameters", "5.0.11", CUT, WHOLE, OPENMPI),
        ("openmpi-table", "5.0.11", CUT, WHOLE, OPENMPI),
        ("openmpi-json", "6.0.0", CUT, WHOLE, OPENMPI),
    ],
)
def test_files_are_for_the_programs_that_they_are_written_for(
    measured: Measured,
    name: str,
    release: str,
    wrong: Configuration,
    right: Configuration,
    text: str,
) -> None:
    """A choice that breaks some of them is left to the library, with a note of why."""
    measured(text)
    form, job = FORMATS[name], Shape(1, 4)
    for chosen, programs, is_there in (
        (wrong, ANY_LEGAL, False),
        (wrong, SAME_TYPES, True),
        (right, ANY_LEGAL, True),
    ):
        rules: Rules = {(Collective.BCAST, 4): (Interval(0, None, chosen),)}
        written = form.write(DecisionTable("openmpi", job, rules), release, programs=programs)
        found = {r.configuration for r in form.parse(written.text, "rules", release).rules}
        chosen_there = {c for c in found if c is not None and not c.is_default}
        assert chosen_there == ({chosen} if is_there else set()), programs
        noted = any(MODES["mixed_types"].program in note for note in written.notes)
        assert noted != is_there


@pytest.mark.parametrize("name", ["mpich-json", "mpich-cvars", "mpich-table"])
def test_mpichs_files_never_name_what_breaks_programs_in_every_promise(
    measured: Measured, name: str
) -> None:
    """Data of another layout are legal in all of them."""
    measured(MPICH)
    form, job = FORMATS[name], Shape(1, 4)
    for algorithm, is_there in (("recexch_doubling", False), ("brucks", True)):
        chosen = (
            library("mpich")
            .at("5.0.2")
            .canonical(Configuration.parse(f"mpich.allgather.{algorithm}"))
        )
        rules: Rules = {(Collective.ALLGATHER, 4): (Interval(0, None, chosen),)}
        written = form.write(DecisionTable("mpich", job, rules), "5.0.2", programs=MOST_PROMISED)
        parsed = form.parse(written.text, "file", "5.0.2")
        assert (chosen in {rule.configuration for rule in parsed.rules}) == is_there
        assert any("5.0.2" in note for note in written.notes) != is_there


def test_lint_tells_what_breaks_programs_always_from_what_breaks_some(measured: Measured) -> None:
    """An error where every promise has such programs, a warning where one leaves them out."""
    measured(OPENMPI)
    classic = FORMATS["openmpi-classic"]
    for row, severity in (
        ("0 2 4 1024", Severity.WARNING),
        ("0 2 4 0", None),
        ("0 4 0 1024", Severity.ERROR),
    ):
        parsed = classic.parse(f"1\n7\n1\n4 1\n{row}\n", "rules", "5.0.11")
        found = [f for f in classic.lint(parsed) if f.fault in (Fault.SOME_PROGRAMS, Fault.HANGS)]
        assert [f.severity for f in found if f.line == 5][:1] == ([severity] if severity else []), (
            row
        )
    measured(MPICH)
    for name, text in (("mpich-cvars", "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=recexch_doubling\n"),):
        parsed = FORMATS[name].parse(text, "file", "5.0.2")
        assert Fault.WRONG_RESULT in {f.fault for f in FORMATS[name].lint(parsed)}


def test_no_conversion_carries_over_what_breaks_programs_in_every_promise(
    measured: Measured,
) -> None:
    """A rule that somebody wrote himself is kept as far as any promise allows it."""
    measured(MPICH)
    variables = FORMATS["mpich-cvars"]
    for word, is_kept in (("recexch_doubling", False), ("brucks", True)):
        text = f"MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM={word}\n"
        parsed = variables.parse(text, "file", "4.3.2")
        for name in ("mpich-cvars", "mpich-json"):
            written = FORMATS[name].convert(parsed, "5.0.2")
            assert (f"_{word}" in written.text or f"={word}" in written.text) == is_kept, name


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("mpich-cvars", "mpich.bcast.binomial"),
        ("intelmpi-adjust", "intelmpi.bcast.preset1"),
        ("openmpi-parameters", "openmpi.bcast.basic_linear"),
    ],
)
def test_files_with_comments_say_which_programs_they_are_for(name: str, chosen: str) -> None:
    """Whoever opens the file sees it; it is read as without."""
    form, one = FORMATS[name], Configuration.parse(chosen)
    release = LIBRARIES[form.library].current
    rules: Rules = {(Collective.BCAST, 4): (Interval(0, None, one),)}
    table = DecisionTable(form.library, Shape(1, 4), rules)
    written = form.write(table, release, programs=SAME_TYPES)
    head = [line for line in written.text.splitlines() if line.startswith("#")]
    assert any(f"Written by colltune for {SAME_TYPES.phrase}." in line for line in head)
    parsed = form.parse(written.text, "rules", release)
    assert [rule.configuration for rule in parsed.rules] == [one]
    assert not [f for f in form.lint(parsed) if f.severity is Severity.ERROR]


def test_damaged_files_of_outcomes_are_refused() -> None:
    """An unknown mode, outcome or collective is no outcome."""
    for old, new in (("wrong", "bad"), ("mixed_types", "mixed"), ("[bcast", "[bkast")):
        with refused("not-measured-outcomes", LibraryError, file="text"):
            parse(stored(OPENMPI.replace(old, new)), "text")


def test_catalogue_and_measurements_do_not_contradict_each_other() -> None:
    """Exactly what the catalogue limits to operations that commute gives wrong results with others.

    What the library's own decision breaks, too, proves nothing. Of Intel MPI's presets nobody
    documents such limits: there the measurement stands alone.
    """
    for mpi in LIBRARIES.values():
        for told in all_measured(mpi.name):
            space = mpi.at(told.release).space
            for collective, kinds in told.outcomes.items():
                default = kinds.get("default", {}).get("non_commutative", ProgramOutcome.RIGHT)
                if default is not ProgramOutcome.RIGHT:
                    continue
                for kind, seen_in in kinds.items():
                    algorithm = space.entry_of(collective).named(kind.partition(" ")[0])
                    if algorithm is None or "non_commutative" not in told.modes[collective]:
                        continue
                    if kind.startswith("preset"):
                        continue
                    seen = seen_in.get("non_commutative", ProgramOutcome.RIGHT)
                    is_limited = Limit.COMMUTATIVE in algorithm.limits & space.breaks
                    where = mpi.name, told.release, collective, kind, seen
                    if seen is ProgramOutcome.RIGHT:
                        assert not is_limited, where
                    if seen is ProgramOutcome.WRONG:
                        assert is_limited, where
