"""Decision tables of libcolltune: golden files, damage, lint, and what a job sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.formats import FORMATS
from colltune.mpi.libcolltune.table.text import checksum
from colltune.mpi.rules import Call, Fault, Rules, Severity
from tests.mpi.linting import lint
from tests.refusals import refused

GOLDEN = Path(__file__).parents[2] / "golden" / "interposed"
RELEASES = {"openmpi": "5.0.11", "mpich": "4.0.2", "intelmpi": "2021.15"}
GROUPS = Configuration.parse("colltune.bcast.hierarchical:groups=2,inner=binomial")
DEFAULT = "openmpi.bcast.default"
ACTIVE = {"LD_PRELOAD": "/x/libcolltune-1.so", "COLLTUNE_TABLE": "/site/table"}


def _intervals(*parts: tuple[int, str | Configuration]) -> tuple[Interval, ...]:
    lasts = [*(first - 1 for first, _ in parts[1:]), None]
    return tuple(
        Interval(first, last, Configuration.parse(c) if isinstance(c, str) else c)
        for (first, c), last in zip(parts, lasts, strict=True)
    )


TABLES = {
    "openmpi": DecisionTable(
        "openmpi",
        Shape(4, 2),
        {
            (Collective.BCAST, 8): _intervals(
                (0, "openmpi.bcast.default"),
                (1024, GROUPS),
                (65536, "openmpi.bcast.chain:fanout=4,segsize=65536"),
            ),
            (Collective.ALLREDUCE, 8): _intervals(
                (0, "openmpi.allreduce.recursive_doubling"),
                (64, "openmpi.allreduce.ring"),
                (65536, "colltune.allreduce.ring:leaders=2"),
            ),
            (Collective.BARRIER, 8): _intervals((0, "openmpi.barrier.default")),
        },
        {(Collective.BCAST, Shape(4, 2)): _intervals((0, GROUPS), (4096, "openmpi.bcast.default"))},
    ),
    "mpich": DecisionTable(
        "mpich",
        Shape(1, 4),
        {
            (Collective.BCAST, 4): _intervals(
                (0, "mpich.bcast.default"),
                (1024, GROUPS),
                (65536, "mpich.bcast.scatter_recursive_doubling_allgather"),
            )
        },
    ),
    "intelmpi": DecisionTable(
        "intelmpi",
        Shape(1, 4),
        {(Collective.BCAST, 4): _intervals((0, "intelmpi.bcast.preset2"), (1024, GROUPS))},
    ),
}


def _text(library: str) -> str:
    return FORMATS[f"{library}-table"].write(TABLES[library], RELEASES[library]).text


def _parsed(text: str, library: str = "openmpi", release: str = "") -> Rules:
    return FORMATS[f"{library}-table"].parse(text, "/t", release or RELEASES[library])


def _resealed(text: str) -> str:
    body = text[: text.rindex("end ")]
    return f"{body}end {checksum(body.encode()):016x}\n"


def test_a_table_is_written_as_the_golden_file_says(subtests: pytest.Subtests) -> None:
    """Text and notes are as they were when they were last looked at."""
    for library, table in TABLES.items():
        with subtests.test(library=library):
            written = FORMATS[f"{library}-table"].write(table, RELEASES[library])
            assert written.text == (GOLDEN / f"{library}.table").read_text()
            assert (
                "".join(f"{n}\n" for n in written.notes)
                == (GOLDEN / f"{library}.notes").read_text()
            )


def test_the_checksum_is_fnv_1a() -> None:
    """The published test values of the 64-bit hash come out."""
    assert checksum(b"") == 0xCBF29CE484222325
    assert checksum(b"foobar") == 0x85944171F73967E8


def test_a_layout_goes_before_the_size() -> None:
    """The same 8 processes are decided otherwise where exactly their layout is told."""
    parsed = _parsed(_text("openmpi"))
    for nodes, wanted in ((4, GROUPS), (2, Configuration.default("openmpi", Collective.BCAST))):
        chosen = parsed.decide(Call(Collective.BCAST, 8, 0, nodes)).chosen
        assert chosen.algorithm == wanted.algorithm


def test_a_damaged_table_is_dropped(subtests: pytest.Subtests) -> None:
    """Whatever was changed behind our back, the library decides alone."""
    for old, new, why in (
        ("1024 3", "1024 9", "the checksum is wrong"),
        ("end ", "", "the checksum"),
        ("\n", "\r\n", "the checksum"),
    ):
        with subtests.test(old=old, new=new):
            text = _text("openmpi").replace(old, new)
            assert text != _text("openmpi")
            parsed = _parsed(text)
            assert why in parsed.dropped
            assert [f.fault for f in lint(parsed)] == [Fault.FILE_DROPPED]
            assert parsed.decide(Call(Collective.BCAST, 8, 4096)).configuration.is_default


def test_a_line_that_no_table_has_drops_it_all(subtests: pytest.Subtests) -> None:
    """Half a table would be one that nobody measured."""
    for old, new, why in (
        ("shape 4x2\n", "", "library or the shape is missing"),
        ("shape 4x2", "shape 4x0", "not a layout"),
        ("rules bcast size 8\n", "rules bcast size 8\nrules bcast size 4\n", "has no rule"),
        ("rules bcast size 8\n", "rules ring size 8\n", "is not a collective"),
        ("rules bcast size 8\n", "rules allreduce size 8\n", "a second block"),
        ("1024 3\n", "0 3\n", "start at 0 bytes and ascend"),
        ("1024 3\n", "1024 1\n", "belongs to another collective"),
        ("1024 3\n", "1024 99\n", "configuration 99"),
        ("configuration 2", "configuration 3", "numbered from 1 on"),
        ("but *_verbose", "but a b", "not a pattern"),
        ("but *_verbose", "hello", "is not a line of a table"),
    ):
        with subtests.test(old=old, new=new):
            text = _resealed(_text("openmpi").replace(old, new, 1))
            parsed = _parsed(text)
            assert why in parsed.dropped
            assert "line " in parsed.dropped


def test_a_table_of_another_release_or_library_is_dropped() -> None:
    """Control variables and algorithms are those of exactly one release."""
    assert "for Open MPI 5.0.11" in _parsed(_text("openmpi"), release="5.0.6").dropped
    assert "for mpich" in _parsed(_text("mpich"), "openmpi").dropped
    with refused("format-version", LibraryError):
        _parsed(_text("openmpi").replace("colltune-table 1", "colltune-table 2"))
    with refused("begins-otherwise", LibraryError):
        _parsed("0\n")


def test_a_table_names_its_release() -> None:
    """Whoever opens it need not say for which release it is."""
    assert FORMATS["mpich-table"].release_in(_text("mpich")) == "4.0.2"
    assert FORMATS["mpich-table"].release_in("nothing") is None
    assert FORMATS["openmpi-classic"].release_in("0\n") is None


def test_the_lint_finds(subtests: pytest.Subtests) -> None:
    """What libcolltune would not run as it is meant is told, with where it stands."""
    for old, new, fault, severity in (
        ("colltune.bcast.hierarchical", "colltune.bcast.new", Fault.RULE_DROPPED, Severity.ERROR),
        ("openmpi.bcast.chain", "openmpi.bcast.new", Fault.RULE_DROPPED, Severity.ERROR),
        ("coll_tuned_allreduce_algorithm=3", "x=1", Fault.OTHER_RELEASE, Severity.WARNING),
        ("outer=same,segsize=32768", "outer=same x=1", Fault.NO_EFFECT, Severity.WARNING),
        ("shape 4x2", "shape 2x2", Fault.DEAD_RULE, Severity.WARNING),
    ):
        with subtests.test(old=old, new=new):
            text = _resealed(_text("openmpi").replace(old, new))
            found = {(f.fault, f.severity) for f in lint(_parsed(text)) if f.line}
            assert (fault, severity) in found
            assert not lint(_parsed(_text("openmpi")))


def test_an_algorithm_that_nobody_has_is_left_to_the_library() -> None:
    """A table that names one is a finding of the lint, and decides all the same."""
    for name in ("colltune.bcast.hierarchical", "openmpi.bcast.chain"):
        new = f"{name.rpartition('.')[0]}.new"
        parsed = _parsed(_resealed(_text("openmpi").replace(name, new)))
        outcomes = [parsed.decide(Call(Collective.BCAST, 8, size)) for size in (0, 1024, 1 << 20)]
        left = [o for o in outcomes if "has no bcast algorithm 'new'" in o.reasons[-1]]
        assert left
        assert all(o.configuration.is_default and o.chosen.algorithm == "new" for o in left)


def test_a_job_that_does_not_ask_the_table(subtests: pytest.Subtests) -> None:
    """Without the library, without the table, and against the user's own settings it is silent."""
    for environment, why in (
        ({"COLLTUNE_TABLE": "/site/table"}, "LD_PRELOAD does not name libcolltune"),
        ({"LD_PRELOAD": "/x/libcolltune.so"}, "COLLTUNE_TABLE is not set"),
        (ACTIVE | {"OMPI_MCA_coll_tuned_bcast_algorithm": "1"}, "is set"),
    ):
        with subtests.test(environment=environment, why=why):
            parsed, call = _parsed(_text("openmpi")), Call(Collective.BCAST, 8, 4096)
            assert parsed.decide(call, ACTIVE).rule is not None
            outcome = parsed.decide(call, environment)
            assert outcome.configuration.is_default
            assert why in outcome.reasons[0]


def test_what_the_base_environment_sets_is_no_users_decision() -> None:
    """The variables that steering itself needs do not switch the table off."""
    known = FORMATS["openmpi-table"]
    environment = known.activation("5.0.11", {"": "/t", "library": "/x/libcolltune.so"})
    assert environment["LD_PRELOAD"] == "/x/libcolltune.so"
    assert "OMPI_MCA_coll_tuned_use_dynamic_rules" in environment
    assert _parsed(_text("openmpi")).decide(Call(Collective.BCAST, 8, 4096), environment).rule


def test_a_forced_configuration_goes_before_the_table() -> None:
    """COLLTUNE_FORCE decides for the collectives that it names, and the table for the others."""
    parsed = _parsed(_text("openmpi"))
    forced = ACTIVE | {"COLLTUNE_FORCE": "colltune.bcast.hierarchical:groups=4"}
    outcome = parsed.decide(Call(Collective.BCAST, 8, 0), forced)
    assert outcome.configuration.id == "colltune.bcast.hierarchical:groups=4"
    assert parsed.decide(Call(Collective.ALLREDUCE, 8, 0), forced).rule is not None


def test_alltoallv_has_one_choice_for_all_sizes() -> None:
    """Processes know messages of different sizes, so that a threshold would divide them."""
    mixed = _intervals((0, "colltune.alltoallv.adaptive"), (1024, "openmpi.alltoallv.default"))
    table = DecisionTable("openmpi", Shape(1, 4), {(Collective.ALLTOALLV, 4): mixed})
    written = FORMATS["openmpi-table"].write(table, "5.0.11")
    assert "alltoallv" not in written.text
    assert "different sizes" in written.notes[0]
