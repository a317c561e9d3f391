"""What is said to be in effect against what a real library shows, for each kind of file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colltune.mpi import LIBRARIES
from tests.integration.real import Real, RealMpi, RealMpich

pytestmark = pytest.mark.mpi
NAME = "coll_tuned_priority"
VARIABLE = f"OMPI_MCA_{NAME}"
ALGORITHM = "MPIR_CVAR_BCAST_INTRA_ALGORITHM"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return files that set the same parameter to other values, by what they are for."""
    (tmp_path / ".openmpi").mkdir()
    texts = {
        ".openmpi/mca-params.conf": f"# of the user\n{NAME} = 51\n{NAME}=52\n",
        "first": f"{NAME} = 53 # with a comment\n",
        "second": f"{NAME} = 54\nmca_base_param_files = /none\n",
        "tuned": f"--mca coll_tuned_init_max_requests 7 --mca {NAME} 55\n",
        "retuned": f"--mca {NAME} 56\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts} | {"HOME": str(tmp_path)}


LISTED, TUNED = "OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_base_envar_file_prefix"
# HOME, files that are listed, files of --tune, and the variable
CASES = [
    ("", "", "", ""),
    ("HOME", "", "", ""),
    ("HOME", "", "", "61"),
    ("HOME", "first,second", "", ""),
    ("", "first,second", "", ""),
    ("", "second", "tuned", ""),
    ("HOME", "", "tuned,retuned", ""),
    ("", "", "tuned", "61"),
]


@pytest.mark.parametrize(("home", "listed", "tuned", "value"), CASES)
def test_open_mpi_shows_what_is_in_effect(
    mpi: RealMpi, files: dict[str, str], home: str, listed: str, tuned: str, value: str
) -> None:
    """Value, file and line are the library's own, in a program that mpirun starts."""
    environment = {"HOME": files["HOME"] if home else "/nowhere"}
    for name, words in ((LISTED, listed), (TUNED, tuned)):
        if words:
            environment[name] = ",".join(files[word] for word in words.split(","))
    if value:
        environment[VARIABLE] = value
    shown = _shown(mpi, environment)
    found = LIBRARIES["openmpi"].in_effect(mpi.environment(environment), mpi.installation)
    setting = found.get(VARIABLE)
    assert LIBRARIES["openmpi"].same(VARIABLE, setting.value if setting else "30", shown[0])
    if setting is not None and shown[1].startswith("file"):
        path, _, line = shown[1].removeprefix("file (").removesuffix(")").rpartition(":")
        assert setting.source.rpartition(":")[0] == path
        # the library counts on from one file of --tune to the next
        assert setting.source.rpartition(":")[2] == line or tuned


def _shown(mpi: Real, environment: dict[str, str]) -> tuple[str, str]:
    """Return the value of the parameter and its source, as a program of the library shows it."""
    shown = environment | {"OMPI_MCA_mpi_show_mca_params": "all"}
    done = mpi.run(1, [mpi.compiled("where.c")], shown)
    found = re.search(rf"\b{NAME}=(\d+) \((.*)\)", f"{done.stdout}\n{done.stderr}")
    assert found is not None, done.explain()
    return found[1], found[2]


@pytest.mark.parametrize("text", ["true", "yes", "enabled", "2", "on", "True", "0", "", "no"])
def test_open_mpi_reads_switches_so(mpi: RealMpi, text: str) -> None:
    """A word is the same as 1 exactly where the library shows the switch as true."""
    name = "coll_tuned_use_dynamic_rules"
    shown = {f"OMPI_MCA_{name}": text, "OMPI_MCA_mpi_show_mca_params": "all"}
    done = mpi.run(1, [mpi.compiled("where.c")], shown)
    found = re.search(rf"\b{name}=(true|false) ", f"{done.stdout}\n{done.stderr}")
    same = LIBRARIES["openmpi"].same(f"OMPI_MCA_{name}", text, "1")
    # a word that it does not know leaves the default
    assert same == (found is not None and found[1] == "true")


@pytest.mark.parametrize("named", [False, True])
def test_hydra_reads_its_file(mpich: RealMpich, tmp_path: Path, named: bool) -> None:
    """An option in the user's file goes before his environment."""
    path = tmp_path / ("mine" if named else ".mpiexec.hydra.conf")
    path.write_text(f"-genv {ALGORITHM} binomial\n")
    environment = {"HOME": str(tmp_path), ALGORITHM: "auto"}
    if named:
        environment["HYDRA_CONFIG_FILE"] = str(path)
    done = mpich.run(1, ["printenv", ALGORITHM], environment)
    found = LIBRARIES["mpich"].in_effect(mpich.environment(environment))
    assert done.stdout.strip() == found[ALGORITHM].value == "binomial"
