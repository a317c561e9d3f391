"""Open MPI's parameter files: what they put into effect, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.parameters.reading import Kind, read
from colltune.mpi.rules import Call, Fault, Severity
from tests.mpi.linting import lint
from tests.mpi.tables import intervals, table
from tests.refusals import refused

C = Collective
PARAMETERS = FORMATS["openmpi-parameters"]
RULES = "1\n7\n1\n0 1\n0 3 0 0\n"
ON = "coll_tuned_use_dynamic_rules = 1\n"


def runs(text: str, release: str, call: Call, source: str = "/x/p.conf") -> str:
    """Return the algorithm that runs for a call."""
    return PARAMETERS.parse(text, source, release).decide(call).configuration.algorithm


def faults(text: str, release: str = "5.0.11") -> set[tuple[int, Fault]]:
    """Return what is found in a file."""
    found = lint(PARAMETERS.parse(text, "/x/p.conf", release))
    return {(finding.line, finding.fault) for finding in found}


def test_settings_of_all_kinds_are_read() -> None:
    """Assignments and options; comments and others are left, and so are the lines of a shell."""
    text = (
        "# comment\n"
        "  coll_tuned_priority =  30 \n"
        "--mca a 1 -mca b 'two words' -x OMPI_MCA_c=3 -x HOME\n"
        "export OMPI_MCA_d=4\n"
        "// x = 1\n/* y = 1\n z = 1 */\n"
        "nonsense\n"
        "--mca f 6 7\n"
    )
    settings = read(text)
    assert [(s.name, s.value, s.line, s.kind) for s in settings.found if s.name] == [
        ("coll_tuned_priority", "30", 2, Kind.ASSIGNED),
        ("a", "1", 3, Kind.OPTION),
        ("b", "two words", 3, Kind.SINGLE_DASH),
        ("c", "3", 3, Kind.EXPORTED),
        ("f", "6", 9, Kind.OPTION),
    ]
    assert settings.found[-1].rest == "7"
    assert [line for line, _ in settings.others] == [4, 8]


def test_a_job_script_sets_variables() -> None:
    """They are read as a shell does, and are put into effect one by one."""
    script = (
        "#!/bin/bash\n#SBATCH -N 2\nmodule load openmpi\n"
        f"export OMPI_MCA_{ON.replace(' ', '').strip()}  # the rules\n"
        "mpirun -np 8 --mca coll_tuned_bcast_algorithm 6 ./prog\n"
    )
    parsed = PARAMETERS.parse(script, "/x/job.sh", "5.0.11")
    assert parsed.decide(Call(C.BCAST, 4, 1000)).configuration.algorithm == "binomial"
    assert {f.fault for f in lint(parsed)} == {Fault.REMARK, Fault.NOT_EVERYWHERE}


def test_a_list_for_a_shell_is_put_into_effect_as_variables(tmp_path: Path) -> None:
    """No parameter names it, since the library's reader of parameters would set nothing."""
    path = tmp_path / "job.sh"
    path.write_text("export OMPI_MCA_coll=^han\n")
    assert PARAMETERS.activation("5.0.11", {"": str(path)}) == {"OMPI_MCA_coll": "^han"}
    path.write_text("coll = ^han\n")
    assert [*PARAMETERS.activation("5.0.11", {"": str(path)})] == [
        "OMPI_MCA_mca_base_envar_file_prefix"
    ]


def test_a_quoted_value_goes_on_to_the_last_quote_that_an_option_follows() -> None:
    """Three values of a line in equal quotes are two to the library; others end where they seem."""

    def values(line: str) -> list[str]:
        return [setting.value for setting in read(line).found]

    assert values('--mca a "1" --mca b "2" --mca c "3"') == ['1" --mca b "2', "3"]
    assert values('--mca a "1" --mca b 2 --mca c "3" --mca d 4') == ['1" --mca b 2 --mca c "3', "4"]
    assert values('--mca a "1" --mca b "2"') == ["1", "2"]
    assert values('--mca a "1" --mca b \'2\' --mca c "3"') == ["1", "2", "3"]


def test_a_forced_algorithm_needs_its_switch() -> None:
    """Without use_dynamic_rules it has no effect, and the lint says so."""
    forced = "coll_tuned_bcast_algorithm = 6\n"
    call = Call(C.BCAST, 4, 1000)
    assert runs(forced, "5.0.11", call) == "default"
    assert faults(forced) >= {(1, Fault.NOT_ACTIVATED)}
    outcome = PARAMETERS.parse(forced + ON, "f", "5.0.11").decide(call)
    assert outcome.configuration.id == "openmpi.bcast.binomial:segsize=0"
    assert outcome.rule is not None
    assert (outcome.rule.line, outcome.chosen) == (1, outcome.configuration)


def test_rules_files_are_followed(subtests: pytest.Subtests, tmp_path: Path) -> None:
    """They are looked for beside the file; each release has its order of file and force."""
    for release, algorithm in (
        ("4.1.8", "pipeline"),
        ("5.0.11", "binomial"),
        ("6.0.0", "binomial"),
    ):
        with subtests.test(release=release, algorithm=algorithm):
            (tmp_path / "rules").write_text(RULES)
            text = (
                f"{ON}coll_tuned_dynamic_rules_filename = rules\ncoll_tuned_bcast_algorithm = 6\n"
            )
            source = str(tmp_path / "p.conf")
            assert runs(text, release, Call(C.BCAST, 4, 9), source) == algorithm
            assert (
                runs(text.replace("= 6", "= 0"), release, Call(C.BCAST, 4, 9), source) == "pipeline"
            )
            found = {f.fault for f in lint(PARAMETERS.parse(text, source, release))}
            assert found >= {Fault.OVERRIDDEN, Fault.NOT_ACTIVATED}


def test_what_is_wrong_with_a_rules_file_is_told_where_it_is_named(tmp_path: Path) -> None:
    """A missing file, and the findings of one that is there, stand at the parameter's line."""
    text = f"{ON}coll_tuned_dynamic_rules_filename = {tmp_path}/rules\n"
    source = str(tmp_path / "p.conf")
    missing = lint(PARAMETERS.parse(text, source, "5.0.11"))
    assert [(f.line, f.fault) for f in missing] == [(2, Fault.FILE_DROPPED)]
    (tmp_path / "rules").write_text("1\n7\n1\n0 1\n8 3 0 0\n")
    found = PARAMETERS.parse(text, source, "5.0.11")
    assert [(f.line, f.fault) for f in lint(found)] == [(2, Fault.FILE_DROPPED)]
    assert "rules:5: the first message size is 8" in lint(found)[0].message
    assert found.decide(Call(C.BCAST, 4, 9)).configuration.is_default


def test_files_that_name_each_other_are_one_finding(tmp_path: Path) -> None:
    """A cycle of parameter files is told once, and does not hang."""
    (tmp_path / "a").write_text(f"--mca mca_base_envar_file_prefix {tmp_path}/b\n")
    (tmp_path / "b").write_text(f"--mca mca_base_param_files {tmp_path}/a,{tmp_path}/c\n{ON}")
    (tmp_path / "c").write_text("coll_tuned_bcast_algorithm = 6\n")
    source = str(tmp_path / "a")
    parsed = PARAMETERS.parse((tmp_path / "a").read_text(), source, "5.0.11")
    found = [f for f in lint(parsed) if f.fault is Fault.MALFORMED]
    assert [(f.line, f.fault) for f in found] == [(1, Fault.MALFORMED)]
    assert "names itself" in found[0].message
    assert parsed.decide(Call(C.BCAST, 4, 9)).configuration.algorithm == "binomial"


def test_the_environment_goes_before_the_file() -> None:
    """A variable of the user overrides the parameter of the file."""
    parsed = PARAMETERS.parse(f"{ON}coll_tuned_bcast_algorithm = 6\n", "f", "5.0.11")
    call = Call(C.BCAST, 4, 9)
    own = {"OMPI_MCA_coll_tuned_bcast_algorithm": "1"}
    assert parsed.decide(call, own).configuration.algorithm == "basic_linear"
    off = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "0"}
    assert parsed.decide(call, off).configuration.is_default


def test_another_component_that_decides_is_told() -> None:
    """As the decision itself says it: coll/ucc and coll/hcoll everywhere, coll/han across nodes."""
    forced = f"{ON}coll_tuned_allreduce_algorithm = 3\n"
    for more, fault in (
        ("coll_ucc_enable = 1\ncoll_ucc_priority = 100\n", Fault.OUTRANKED),
        ("coll_hcoll_enable = 1\ncoll_hcoll_priority = 95\n", Fault.OUTRANKED),
        ("coll_han_priority = 40\n", Fault.NOT_EVERYWHERE),
        ("coll_tuned_priority = 5\n", Fault.OUTRANKED),
        ("coll_han_priority = 0\n", None),
    ):
        found = lint(PARAMETERS.parse(forced + more, "/x/p.conf", "4.1.8"))
        told = {f.fault for f in found if f.line == 2} & {Fault.OUTRANKED, Fault.NOT_EVERYWHERE}
        assert told == ({fault} if fault else set()), more


def test_what_the_lint_finds(subtests: pytest.Subtests) -> None:
    """Each fault, with its line and weight, and nothing else."""
    for text, release, expected in (
        ("--mca coll_tuned_priority 30\n", "5.0.11", set()),
        ("-mca coll_tuned_priority 30\n", "4.1.8", set()),
        ("-mca coll_tuned_priority 30\n", "5.0.11", {(1, Fault.ENDS_PROGRAM)}),
        ("--mca coll_tuned_priority 30 40\n", "5.0.11", {(1, Fault.MALFORMED)}),
        ("coll_tuned_prioriti = 30\n", "5.0.11", {(1, Fault.UNKNOWN)}),
        ("coll_han_prioriti = 30\n", "5.0.11", {(1, Fault.UNKNOWN)}),
        ("coll = tuned\n", "5.0.11", {(1, Fault.ENDS_PROGRAM)}),
        ("coll = tuned, basic, libnbc\n", "4.1.8", {(1, Fault.ENDS_PROGRAM)}),
        ("coll_libnbc_priority = -1\n", "4.1.8", {(1, Fault.ENDS_PROGRAM)}),
        ("coll = tuned,basic,libnbc,self,inter\n", "5.0.11", set()),
        ("coll = ^self\n", "5.0.11", {(1, Fault.ENDS_PROGRAM)}),
        ("coll_basic_priority = 80\n", "5.0.11", {(1, Fault.ENDS_PROGRAM)}),
        (
            f"{ON}coll_tuned_bcast_algorithm = 3\ncoll_tuned_bcast_algorithm_segmentsize = 1\n",
            "4.1.8",
            {(2, Fault.WRONG_UNIT)},
        ),
        ("coll_tuned_priority = 3 # low\n", "5.0.11", {(1, Fault.MALFORMED)}),
        ("coll_tuned_priority = 3\ncoll_tuned_priority = 4\n", "5.0.11", {(2, Fault.OVERRIDDEN)}),
        ("coll_tuned_use_dynamic_rules = on\n", "5.0.11", {(1, Fault.MALFORMED)}),
        (ON, "5.0.11", {(1, Fault.REMARK)}),
        (
            f"{ON}coll_tuned_alltoall_algorithm = 9\n",
            "5.0.11",
            {(2, Fault.RULE_DROPPED), (1, Fault.REMARK)},
        ),
        (f"{ON}coll_tuned_alltoall_algorithm = 5\n", "5.0.11", {(2, Fault.ENDS_PROGRAM)}),
        (f"{ON}coll_tuned_allgatherv_algorithm = sparbit\n", "5.0.11", {(2, Fault.WRONG_RESULT)}),
        (
            f"{ON}coll_tuned_bcast_algorithm = 1\ncoll_tuned_bcast_algorithm_segmentsize = 9\n",
            "4.1.8",
            {(3, Fault.NO_EFFECT)},
        ),
        ("coll_tuned_bcast_algorithm_segmentsize = 9\n", "4.1.8", {(1, Fault.NO_EFFECT)}),
        (f"{ON}coll_tuned_bcast_algorithm = 1\n", "5.0.11", {(2, Fault.NOT_EVERYWHERE)}),
        (
            f"{ON}coll_tuned_allgather_algorithm = 2\n"
            "coll_tuned_allgather_algorithm_tree_fanout = 1\ncoll_han_priority = 0\n",
            "6.0.0",
            {(2, Fault.HANGS)},
        ),
        (
            "coll_han_dynamic_rules_filename = /nowhere/han\n",
            "5.0.11",
            {(1, Fault.FILE_DROPPED), (1, Fault.NOT_ACTIVATED)},
        ),
    ):
        with subtests.test(text=text, release=release):
            assert faults(text, release) == expected


def test_one_choice_per_collective_is_written() -> None:
    """Those for the whole job; across nodes coll/han is told to hand on exactly these calls."""
    rules = {
        (C.BCAST, 8): intervals((0, "bcast.chain:fanout=2,segsize=1024")),
        (C.ALLTOALL, 8): intervals((0, "alltoall.linear_sync:requests=4")),
        (C.ALLGATHER, 8): intervals((0, "allgather.ring"), (64, "allgather.bruck")),
        (C.REDUCE, 8): intervals((0, "reduce.binomial:segsize=0")),
        (C.GATHER, 4): intervals((0, "gather.binomial")),
    }
    written = PARAMETERS.write(table(Shape(2, 4), rules), "5.0.11")
    assert written.text.splitlines()[1:] == [
        "--mca coll_tuned_use_dynamic_rules 1",
        "--mca coll_hcoll_enable 0",
        "--mca coll_tuned_alltoall_algorithm 4",
        "--mca coll_tuned_alltoall_algorithm_max_requests 4",
        "--mca coll_tuned_bcast_algorithm 2",
        "--mca coll_tuned_bcast_algorithm_chain_fanout 2",
        "--mca coll_tuned_bcast_algorithm_segmentsize 1024",
        "--mca coll_han_bcast_dynamic_global_communicator_module 3",
    ]
    assert [note.partition(":")[0].partition(",")[0] for note in written.notes] == [
        "reduce on 8 processes",
        "allgather on 8 processes",
        "gather on 4 processes",
    ]
    parsed = PARAMETERS.parse(written.text, "f", "5.0.11")
    assert lint(parsed) == ()
    outcome = parsed.decide(Call(C.BCAST, 8, 1 << 20, nodes=2))
    assert (outcome.component, outcome.configuration.id) == (
        "tuned",
        "openmpi.bcast.chain:fanout=2,segsize=1024",
    )
    assert parsed.decide(Call(C.REDUCE, 8, 8, nodes=2)).component == "han"


def test_the_activation_leaves_other_parameter_files_in_effect() -> None:
    """The file is one more of those that mpirun and srun read."""
    environment = PARAMETERS.activation("5.0.11", {"": "/shared/p"})
    assert environment == {"OMPI_MCA_mca_base_envar_file_prefix": "/shared/p"}
    with refused("path-not-absolute", LibraryError):
        PARAMETERS.activation("5.0.11", {"": "p"})


def test_rules_for_everything_become_forced_ones() -> None:
    """A classic file with one rule for all calls can be forced; others cannot, and are noted."""
    classic = FORMATS["openmpi-classic"]
    always = PARAMETERS.convert(classic.parse(RULES, "r", "5.0.11"), "5.0.11")
    assert "--mca coll_tuned_bcast_algorithm 3\n" in always.text
    assert always.notes == ()
    some = classic.parse(RULES.replace("0 1\n0 3 0 0", "0 2\n0 3 0 0\n8 5 0 0"), "r", "5.0.11")
    partly = PARAMETERS.convert(some, "5.0.11")
    assert "bcast" not in partly.text
    assert partly.notes[0].startswith("line 4: bcast is left to the library")


def test_forced_choices_become_rules() -> None:
    """What is forced reaches all communicators and sizes."""
    parsed = PARAMETERS.parse(f"{ON}coll_tuned_alltoall_algorithm = 2\n", "f", "4.1.8")
    classic = FORMATS["openmpi-classic"].convert(parsed, "5.0.11")
    again = FORMATS["openmpi-classic"].parse(classic.text, "r", "5.0.11")
    for size in (2, 3, 100):
        assert again.decide(Call(C.ALLTOALL, size, 9)).chosen.algorithm == "pairwise"


def test_text_without_any_setting_is_refused() -> None:
    """It cannot be taken for a parameter file."""
    with refused("sets-no-parameter", LibraryError, line=2, told="hello"):
        PARAMETERS.parse("# x\nhello\n", "f", "5.0.11")


def test_the_rules_of_han_are_followed_too(tmp_path: Path) -> None:
    """Both files of a written table, named by a parameter file, decide across nodes as it says."""
    rules = {(C.BCAST, 8): intervals((0, "bcast.default"), (64, "bcast.pipeline:segsize=0"))}
    written = FORMATS["openmpi-classic"].write(table(Shape(2, 4), rules), "5.0.11")
    for end, text in written.texts.items():
        (tmp_path / f"rules{end}").write_text(text)
    paths = {end: str(tmp_path / f"rules{end}") for end in written.texts}
    environment = FORMATS["openmpi-classic"].activation("5.0.11", paths, Shape(2, 4))
    listing = "".join(f"export {name}={value}\n" for name, value in environment.items())
    parsed = PARAMETERS.parse(listing, str(tmp_path / "env"), "5.0.11")
    assert [f for f in lint(parsed) if f.severity is not Severity.NOTE] == []
    small, large = (parsed.decide(Call(C.BCAST, 8, m, nodes=2)) for m in (63, 64))
    assert (small.component, large.component) == ("han", "tuned")
    assert large.configuration.algorithm == "pipeline"
    assert parsed.switch_points(C.BCAST, 8) == (0, 64)


def test_line_ends_of_windows_belong_to_values(subtests: pytest.Subtests) -> None:
    """The library prints a help text for both values, and decides by itself."""
    for release in ("4.1.8", "5.0.11"):
        with subtests.test(release=release):
            text = "coll_tuned_use_dynamic_rules = 1\r\n\r\ncoll_tuned_bcast_algorithm = 5\r\n"
            found = {(line, fault) for line, fault in faults(text, release)}
            assert {(1, Fault.MALFORMED), (3, Fault.RULE_DROPPED)} <= found
            assert {line for line, _ in found} <= {0, 1, 3}
