"""What programs find in their environment that a job script starts; real shells are the oracle."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from colltune.mpi.job_files import read_script
from colltune.mpi.shell import Script

SCRIPTS = Path(__file__).with_name("job_scripts")
OURS = ("OMPI_MCA_", "MPIR_CVAR_", "I_MPI_")
_STUB = '#!/bin/sh\nenv -0 > "$FOUND.$$"\n'
_INSIDE = ("SINGULARITYENV_", "APPTAINERENV_")


def read(name: str) -> Script:
    return read_script((SCRIPTS / name).read_bytes().decode())


def seen_by_programs(shell: str, script: Path, folder: Path) -> list[dict[str, str]]:
    """Return the variables of ours that each program finds, or that are set at the script's end."""
    for launcher in ("mpirun", "mpiexec"):
        (folder / launcher).write_text(_STUB)
        (folder / launcher).chmod(0o755)
    text = script.read_bytes().replace(b"\r\n", b"\n")
    if b"mpi" not in text.replace(b"OMPI", b"").lower().replace(b"i_mpi", b""):
        text = b"set -a\n" * (b"export" not in text) + text
    (folder / "job").write_bytes(text + (b"" if b"./p" in text or b"./" in text else b"\nmpirun\n"))
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "FOUND": str(folder / "found"), "HOME": "/h"}
    subprocess.run(
        [shell, str(folder / "job")], env=environment, cwd=folder, timeout=30, check=True
    )
    found = []
    for each in sorted(folder.glob("found.*")):
        pairs = (word.partition("=") for word in each.read_text().split("\0") if word)
        inside = {_inside(name): value for name, _, value in pairs}
        found.append({n: v for n, v in inside.items() if n.startswith(OURS)})
    return found


def _inside(name: str) -> str:
    for prefix in _INSIDE:
        name = name.removeprefix(prefix)
    return name


def check(script: Script, programs: list[dict[str, str]]) -> None:
    """Insist that what is known is what programs find, and that what is not is noted."""
    known = {(each.name, each.value) for each in script.known if each.name.startswith(OURS)}
    unknown = {each.name for each in script.found if each.unknown}
    assert programs
    for found in programs:
        assert {pair for pair in found.items() if pair[0] not in unknown} <= known
    assert known <= {pair for found in programs for pair in found.items()}


@pytest.mark.parametrize("shell", ["bash", "dash", "tcsh"])
def test_what_a_shell_sets(shell: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The settings that are read are those that programs find; others are said not to be known."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} is installed")
    pattern = "*.csh" if shell == "tcsh" else "*.sh"
    for script in sorted(SCRIPTS.glob(pattern)):
        if shell == "dash" and script.read_bytes().startswith(b"#!/bin/bash"):
            continue
        with subtests.test(script=script.name):
            folder = tmp_path / script.name
            folder.mkdir()
            check(read(script.name), seen_by_programs(shell, script, folder))


def test_scripts_that_would_never_end_are_read() -> None:
    """Functions that call each other, and loops in loops, are walked through once."""
    calls = "f() { g; g; f; }\ng() { h; f; }\nh() { f; g; }\nf\nexport OMPI_MCA_a=1\n"
    assert [each.name for each in read_script(f"#!/bin/sh\n{calls}").known] == ["OMPI_MCA_a"]
    depth = 40
    loops = "for i in 1 2; do\n" * depth + "export OMPI_MCA_a=1\nmpirun ./p\n" + "done\n" * depth
    assert [each.value for each in read_script(loops).known] == ["1"]


def test_an_image_sets_what_its_last_stage_sets() -> None:
    """Both forms of ENV count, in one or several lines, and what RUN sets ends with it."""
    text = (
        "# syntax\nARG TAG=1\nFROM a:$TAG AS first\nENV I_MPI_lost=1\nFROM b\n"
        'ENV OMPI_MCA_a=1 \\\n    OMPI_MCA_b="2 3"\nenv OMPI_MCA_c ^x y\n'
        "RUN export OMPI_MCA_d=4 && make\nENV PATH=/p:$PATH\n"
    )
    script = read_script(text)
    assert {(each.name, each.value, each.line) for each in script.known} == {
        ("OMPI_MCA_a", "1", 6),
        ("OMPI_MCA_b", "2 3", 7),
        ("OMPI_MCA_c", "^x y", 8),
    }
    assert [each.name for each in script.found if each.unknown] == ["PATH"]


def test_what_is_no_text_of_a_shell_is_read_as_far_as_it_can_be() -> None:
    """Open quotes, brackets without partner, bytes that are no UTF-8: no error."""
    for text in (
        'export A="1\nif [ ((\n))) done fi\n',
        "export B=1\n\udcff\udcfe\n",
        ")\n(\n",
        "\0",
    ):
        read_script(f"#!/bin/bash\n{text}")
