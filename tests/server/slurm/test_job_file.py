"""What the service answers is trusted in nothing, by the hooks' awk and by Python alike."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path, PurePath

import pytest

from colltune import process
from colltune.domain import Shape
from colltune.mpi import library
from colltune.production.arms import Arm
from colltune.server.slurm.hooks import text_of
from colltune.server.slurm.job_file import (
    ANY_NUMBER,
    VARIABLES,
    AnswerError,
    JobDecisions,
    JobSection,
    parse,
    settable,
)
from colltune.server.slurm.job_file import text_of as text_of_job
from tests.refusals import refused
from tests.server.slurm import job_variables
from tests.server.slurm.fake_service import BUNDLE, RULES, Asked, good

FOLDER = "/shared/jobs/17/openmpi-4.1.4"
SHAPES = (Shape(4, 8), Shape(4, 4))
ASKED = Asked(f"/v1/job/openmpi/4.1.4?nodes=4&ppn=8&ppn=4&folder={FOLDER}")
GOOD = good(ASKED)
CONTROL = JobDecisions(
    BUNDLE,
    "openmpi",
    "4.1.4",
    library("openmpi").user_patterns,
    tuple(map(JobSection, SHAPES)),
    Arm.CONTROL,
)
CHANGES = {
    "another version": (b"colltune-job 1", b"colltune-job 3"),
    "version 2 without an arm": (b"colltune-job 1", b"colltune-job 2"),
    "an arm in version 1": (b"library ", b"arm tuned\nlibrary "),
    "an unknown arm": (b"colltune-job 1\n", b"colltune-job 2\narm own\n"),
    "an arm twice": (b"colltune-job 1\n", b"colltune-job 2\narm tuned\narm tuned\n"),
    "settings of the control group": (b"colltune-job 1\n", b"colltune-job 2\narm control\n"),
    "another library": (b"library openmpi", b"library mpich"),
    "no bundle": (b"bundle ab", b"#undle ab"),
    "a short bundle": (b"bundle ab", b"bundle "),
    "no end": (b"\nend\n", b"\n"),
    "more after the end": (b"\nend\n", b"\nend\nset A=b\n"),
    "a shape not asked for": (b"shape 4x4", b"shape 4x5"),
    "a shape twice": (b"shape 4x4", b"shape 4x8"),
    "a shape above": (b"shape 4x4", b"shape ../4x4"),
    "a file above": (b"file 4x4/rules", b"file 4x4/../../rules"),
    "a file elsewhere": (b"file 4x4/rules", b"file 4x8/rules2"),
    "an absolute file": (b"file 4x4/rules", b"file /etc/passwd"),
    "a hidden file": (b"file 4x4/rules", b"file 4x4/.rules"),
    "a file called exports": (b"file 4x4/rules", b"file 4x4/exports"),
    "too many lines": (b"file 4x4/rules 2", b"file 4x4/rules 999"),
    "negative lines": (b"file 4x4/rules 2", b"file 4x4/rules -2"),
    "very many lines": (b"file 4x4/rules 2", b"file 4x4/rules 99999999999999999999"),
    "a variable of the loader": (b"set OMPI_MCA_coll_tuned_use", b"set LD_PRELOAD"),
    "a component path": (b"set OMPI_MCA_coll_tuned_use", b"set OMPI_MCA_mca_component_path"),
    "a command": (b"rules=1", b"rules=$(id)"),
    "a backquote": (b"rules=1", b"rules=`id`"),
    "a blank": (b"rules=1", b"rules=1 2"),
    "a variable of no format": (
        b"set OMPI_MCA_coll_tuned_use_dynamic_rules",
        b"set OMPI_MCA_coll_x",
    ),
    "an algorithm": (
        b"set OMPI_MCA_coll_tuned_use_dynamic_rules=1",
        b"set OMPI_MCA_coll_tuned_bcast_algorithm=3",
    ),
    "another library's variable": (
        b"set OMPI_MCA_coll_tuned_use_dynamic_rules=1",
        b"set MPIR_CVAR_BCAST_INTRA_ALGORITHM=tree",
    ),
    "a file beside": (b"filename=" + FOLDER.encode() + b"/4x4/", b"filename="),
    "a file by no name": (b"filename=" + FOLDER.encode() + b"/4x4/rules", b"filename="),
    "a very long value": (b"rules=1", b"rules=" + b"1" * 4097),
    "a path elsewhere": (b"rules=1", b"rules=/etc/passwd"),
    "a relative path": (b"rules=1", b"rules=a/b"),
    "a path upwards": (b"4x4/rules\nend", b"4x4/../4x8/rules\nend"),
    "a value of no release": (b"rules=1", b"rules=7"),
    "a part of no release": (b"rules=1", b"rules=1;7"),
    "no value": (b"rules=1", b"rules="),
    "a setting twice": (b"rules=1", b"rules=1\nset OMPI_MCA_coll_tuned_use_dynamic_rules=0"),
    "a pattern with a command": (b"user OMPI_MCA_coll\n", b"user $(id)\n"),
    "no ASCII": (b"# rules", "# règles".encode()),
    "a zero byte": (b"# rules", b"# rules\0"),
    "Windows": (b"\n", b"\r\n"),
    "an unknown word": (b"\nend", b"\nexec id\nend"),
}
"""What in a good answer is replaced by what, and must then be refused."""


def by_awk(answer: bytes, folder: Path, library: str = "openmpi") -> process.ProcessResult:
    """Have the hooks' awk split an answer into `folder`."""
    (folder / "program").write_text(text_of("job_file.awk"))
    (folder / VARIABLES).write_text(text_of(VARIABLES))
    (folder / "answer").write_bytes(answer)
    out = folder / "out"
    for shape in SHAPES:
        (out / str(shape)).mkdir(parents=True)
    variables = {
        "library": library,
        "shapes": " ".join(map(str, SHAPES)),
        "folder": FOLDER,
        "out": out,
        "variables": folder / VARIABLES,
    }
    words = [w for name, value in variables.items() for w in ("-v", f"{name}={value}")]
    command: list[str | Path] = ["awk", *words, "-f", folder / "program", folder / "answer"]
    return process.run(command, timeout_s=30, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})


def by_python(answer: bytes) -> dict[str, str]:
    """Return the files that Python makes of an answer, by their paths."""
    part = parse(answer, "openmpi", "4.1.4", SHAPES, PurePath(FOLDER))
    found = {
        "bundle": f"{part.bundle_id}\n",
        "deciding": " ".join(part.patterns.deciding or ("*",)) + "\n",
        "harmless": " ".join(part.patterns.harmless) + "\n",
    }
    found |= {"arm": f"{part.arm}\n"} if part.arm else {}
    for section in part.sections:
        found |= {f"{section.shape}/{name}": text for name, text in section.files.items()}
        settings = "".join(f"{name}={value}\n" for name, value in section.variables.items())
        found[f"{section.shape}/exports"] = settings
    return found


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        GOOD.removesuffix(b"\n"),
        GOOD.replace(b"harmless *_verbose\n", b"").replace(b"user ", b"harmless "),
        b"colltune-job 1\nlibrary openmpi 4.1.6\nbundle " + BUNDLE.encode() + b"\nend\n",
        GOOD.replace(RULES.encode(), b"\ta  b \n\n")
        .replace(b"rules 2\n", b"rules.d-1 2\n", 1)[: -len("end\n")]
        .replace(b"8/rules\n", b"8/rules.d-1\n")
        + b"end\n",
        GOOD.replace(b"job 1\n", b"job 2\n").replace(b"library ", b"arm candidate\nlibrary "),
        text_of_job(CONTROL).encode(),
    ],
    ids=[
        "as ever",
        "without the last line end",
        "no patterns",
        "nothing to tell",
        "odd text",
        "of an arm",
        "of the control group",
    ],
)
def test_a_good_answer_is_split_into_its_parts(answer: bytes, tmp_path: Path) -> None:
    """Both make the same files of it."""
    outcome = by_awk(answer, tmp_path)
    assert outcome.ok, outcome.explain()
    out = tmp_path / "out"
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {str(p.relative_to(out)): p.read_text() for p in files} == by_python(answer)


def test_python_reads_what_it_wrote() -> None:
    """All of it comes back, the arm and empty sections included."""
    written = text_of_job(CONTROL).encode()
    assert parse(written, "openmpi", "4.1.4", SHAPES, PurePath(FOLDER)) == CONTROL


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_not_expected_is_refused(what: str, tmp_path: Path) -> None:
    """Both refuse it, and nothing of it is written."""
    before, after = CHANGES[what]
    assert before in GOOD
    answer = GOOD.replace(before, after)
    outcome = by_awk(answer, tmp_path)
    assert outcome.returncode == 1
    assert outcome.stdout.strip()
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    with refused("wrong-answer", AnswerError):
        by_python(answer)


@pytest.mark.parametrize("length", [0, 1, 20, 200, len(GOOD) - 5])
def test_a_part_of_an_answer_is_refused(length: int, tmp_path: Path) -> None:
    """However much of it came."""
    assert by_awk(GOOD[:length], tmp_path).returncode == 1
    with pytest.raises(AnswerError):
        by_python(GOOD[:length])


def test_an_endless_answer_is_refused(tmp_path: Path) -> None:
    """More than 4 MB are not taken, in however few lines."""
    answer = GOOD.replace(b"# rules", b"#" * 4_000_000)
    assert by_awk(answer, tmp_path).returncode == 1
    with refused("wrong-answer", AnswerError, why="more than 4 MB"):
        by_python(answer)


def test_the_list_of_variables_is_what_formats_and_catalogues_need() -> None:
    """A job may be told what some file of its library needs, and nothing else."""
    assert text_of(VARIABLES) == job_variables.listed()
    assert "MPIR_CVAR_DEBUG_HOLD" not in settable("mpich")
    assert not settable("elsewhere")


@pytest.mark.parametrize(
    ("name", "setting", "is_good"),
    [
        ("mpich", "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=ring", True),
        ("mpich", "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=recexch_doubling", False),
        ("mpich", "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=rin", False),
        ("mpich", "MPIR_CVAR_ALLREDUCE_RECEXCH_KVAL=3", True),
        ("mpich", "MPIR_CVAR_ALLREDUCE_RECEXCH_KVAL=-3", False),
        ("mpich", "MPIR_CVAR_ALLREDUCE_RECEXCH_KVAL=4294967298", False),
        ("intelmpi", "I_MPI_ADJUST_BCAST=4:0-1023;6:1024-65535@2-8;2", True),
        ("intelmpi", "I_MPI_ADJUST_BCAST=4:0-1023;99", False),
        ("intelmpi", "I_MPI_ADJUST_ALLREDUCE=15", False),
        ("intelmpi", "I_MPI_ADJUST_BCAST=", False),
    ],
)
def test_only_values_that_some_release_is_told_are_taken(
    name: str, setting: str, is_good: bool, tmp_path: Path
) -> None:
    """By both; algorithms that break programs in every release are not among them."""
    lines = f"bundle {BUNDLE}\nlibrary {name} 1.0\nshape 4x8\nset {setting}\nend\n"
    answer = f"colltune-job 1\n{lines}".encode()
    assert by_awk(answer, tmp_path, name).ok is is_good
    with nullcontext() if is_good else refused("wrong-answer", AnswerError):
        parse(answer, name, "1.0", SHAPES, PurePath(FOLDER))


def test_settings_fill_no_jobs_environment() -> None:
    """What a launcher cannot hand on would keep every program of the job from starting."""
    words = {name: known.values[0] for name, known in settable("mpich").items() if known.values}
    lines = [
        f"set {name}={';'.join([word] * (4000 // (len(word) + 1)))}"
        for name, word in words.items()
        if word != ANY_NUMBER
    ]
    head = f"colltune-job 1\nbundle {BUNDLE}\nlibrary mpich 4.3.2\nshape 4x8\n"
    answer = f"{head}{chr(10).join(lines)}\nend\n".encode()
    with refused("wrong-answer", AnswerError):
        parse(answer, "mpich", "4.3.2", SHAPES, PurePath(FOLDER))
