"""The command line as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import __version__
from colltune.errors import EXIT_STATUSES, ColltuneError
from tests.cli.conftest import Verb

VERBS = (
    *("tune", "measure", "submit", "import", "export", "fit", "evaluate", "select", "catalog"),
    *("lint", "explain", "convert", "what-if"),
)


def test_version(colltune: Verb) -> None:
    """--version prints the version."""
    assert colltune("--version").out == f"colltune {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example_and_the_statuses(colltune: Verb, verb: str) -> None:
    """Each verb's help shows an example and explains the exit statuses."""
    text = colltune(verb, "--help").out
    assert "Example" in text
    assert "Exit status" in text
    assert f"colltune {verb} " in text


def test_every_error_has_a_documented_status() -> None:
    """Each kind of error has an exit status of its own, and all are documented."""
    kinds = ColltuneError.__subclasses__()
    statuses = [kind.exit_status for kind in kinds]
    assert len(set(statuses)) == len(kinds)
    assert set(statuses) <= set(EXIT_STATUSES)


def test_measuring_needs_an_mpi(
    colltune: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an MPI, measure and tune end with status 5 and say how to get one."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for verb in ("measure", "tune"):
        answer = colltune(verb, "--out", tmp_path / "o")
        assert answer.status == 5
        assert "--mpi" in answer.err
    named = colltune("measure", "--out", tmp_path / "o", "--mpi", "/no/such/mpirun")
    assert named.status == 5
    assert "/no/such/mpirun" in named.err


def test_replaying_a_record(colltune: Verb, measurements_csv: Path, tmp_path: Path) -> None:
    """A recorded dataset is measured again through the replay backend."""
    campaign = tmp_path / "c.toml"
    campaign.write_text(
        '[space]\ncollectives = ["bcast"]\nnodes = [2, 4]\nppn = [2]\nmsizes_bytes = [8, 64]\n'
        "[budget]\ntotal_s = 100\n"
    )
    words = ("measure", campaign, "--out", tmp_path / "d", "--replay", measurements_csv, "--json")
    answer = colltune(*words, "--seed", 1)
    assert answer.status == 0
    assert answer.json["launches"] == 3
    assert answer.json["unmeasured_cells"] == 0
    campaign.write_text(campaign.read_text().replace("ppn", "pnp"))
    wrong = colltune(*words)
    assert wrong.status == 4
    assert "line 4, key space.pnp: unknown key (did you mean ppn?)" in wrong.err


def test_unknown_backend_is_a_campaign_error(colltune: Verb, tmp_path: Path) -> None:
    """A backend that does not exist is named with those that do."""
    answer = colltune("measure", "--out", tmp_path, "--backend", "imb")
    assert answer.status == 4
    assert "native, replay" in answer.err
