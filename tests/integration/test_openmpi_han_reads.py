"""Open MPI reads, forgets or dies of the same files for coll/han as are said to be."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.han.rules import HanFile
from tests.integration.real import RealMpi

pytestmark = pytest.mark.mpi
_FORGOTTEN = "could not fully read dynamic rules file"
_READ = "init_dynamic_rules read "
_WORDS = (
    "0",
    "1",
    "2",
    "global_communicator",
    "bcast",
    "7",
    "tuned",
    "han",
    "@simple",
    "@9",
    "#x\n",
)


def random_han_file(rng: Random) -> str:
    """Return a sound file, or one with a word put in, left out or exchanged."""
    level = rng.choice(["2", "global_communicator", "inter_node", "0"])
    rules = rng.choice(["0 tuned", "0 han", "0 han @simple", "0 han @1 64 tuned", "1 basic 9 han"])
    count = str(sum(word.isdigit() for word in rules.replace("@1", "").split()))
    words = [*(["1", "bcast", "1"]), level, *(["1", "1"]), count, *rules.split()]
    if rng.random() < 0.6:
        at = rng.randrange(len(words))
        words[at : at + rng.randint(0, 1)] = rng.sample(_WORDS, rng.randint(0, 1))
    return rng.choice([" ", "\n", "\r\n"]).join(words)


@pytest.mark.parametrize("seed", range(10))
def test_random_files_are_read_as_is_said(mpi: RealMpi, tmp_path: Path, seed: int) -> None:
    """The library reads as many rules as are told, or forgets the file as is told."""
    text = random_han_file(Random(seed))
    compare_han_file(mpi, tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "1\nbcast\n1\n2\n1\n0 1\n0 han\n",
        "1\nbcast\n1\n2\n1\n1 1\n2 han\n",
        "1\nbcast\n1\n2\n1\n1 2\n0 tuned @x\n8 han\n",
        "1\n7\n1\n2\n1\n1 1\n0 tuned [1 2]\n",
        "2\nbcast\n1\n2\n1\n1 1\n0 tuned @x\nreduce\n1\n2\n1\n1 1\n0 tuned\n",
        "1\nbcast\n1\n2\n010\n" + "\n".join(f"{n} 1 0 tuned" for n in range(1, 9)),
    ],
)
def test_odd_files_are_read_as_is_said(mpi: RealMpi, tmp_path: Path, text: str) -> None:
    """Communicator size 0, words that are skipped, octal counts."""
    compare_han_file(mpi, tmp_path, text)


def test_an_algorithm_where_there_is_none(mpi: RealMpi, tmp_path: Path) -> None:
    """Releases that know algorithms by name crash when a collective has none."""
    compare_han_file(mpi, tmp_path, "1\nscan\n1\n2\n1\n1 1\n0 han @simple\n")


def compare_han_file(mpi: RealMpi, folder: Path, text: str) -> None:
    """Check that the library makes of a file what is said."""
    path = folder / "han.rules"
    path.write_text(text, encoding="utf-8", newline="")
    known = FORMATS["openmpi-han"]
    parsed = known.parse(text, str(path), mpi.release)
    assert isinstance(parsed, HanFile)
    environment = known.activation(mpi.release, {"": str(path)})
    loud = {"OMPI_MCA_coll_han_verbose": "5", "OMPI_MCA_coll_base_verbose": "5"}
    outcome = mpi.call(1, ["barrier:0"], environment | loud)
    told = outcome.stdout + outcome.stderr
    if parsed.ends_program:
        assert not outcome.ok
    elif parsed.dropped:
        assert _FORGOTTEN in told, outcome.explain()
    else:
        assert f"{_READ}{len(parsed.rules)} rules" in told, outcome.explain()
