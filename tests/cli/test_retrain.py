"""`colltune site retrain`."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import errors
from colltune.registry import Registry
from colltune.registry.store import FolderStore
from colltune.retraining.lease import held
from tests.cli.conftest import Verb

SLOT = "openmpi-4.1.4"


@pytest.fixture
def config(measurements_csv: Path, tmp_path: Path) -> Path:
    """Return a site file with measurements of one library and an empty registry."""
    (tmp_path / "registry").mkdir()
    path = tmp_path / "site.toml"
    path.write_text(
        '[site]\nmachine = "hydra"\nregistry = "registry"\n'
        f'[data]\ndatasets = ["{measurements_csv}"]\n[fit]\nlearner = "knn"\n'
    )
    return path


def test_a_night_is_told_and_its_status_says_what_became_of_it(
    colltune: Verb, config: Path
) -> None:
    """Promoted, the status is 0 and the text says why; nothing new has a status of its own."""
    first = colltune("site", "retrain", "--config", config)
    assert first.status == 0
    assert f"{SLOT}: promoted: 60 held-out decisions on 12 shapes" in first.out
    second = colltune("site", "retrain", "--config", config, "--json")
    assert second.status == errors.NOTHING_NEW
    assert second.json["outcomes"] == ["nothing_new"]
    assert second.json["slots"][SLOT]["in_force"] == (
        Registry(config.parent / "registry").current()[SLOT].bundle_id
    )


def test_shadow_promotes_nothing(colltune: Verb, config: Path) -> None:
    """With --shadow the candidate is added and compared, and nothing is in force."""
    answer = colltune("site", "retrain", "--config", config, "--shadow", "--json")
    assert answer.status == 0
    registry = Registry(config.parent / "registry")
    assert not registry.current()
    assert registry.ids() == (answer.json["slots"][SLOT]["candidate"],)


def test_another_one_at_it_is_no_error_but_told(colltune: Verb, config: Path) -> None:
    """While one retrains, a second one leaves it alone, with a status of its own."""
    with held(FolderStore(config.parent / "registry")):
        answer = colltune("site", "retrain", "--config", config)
    assert answer.status == errors.BUSY
    assert ". Wait until it ends." in answer.err


def test_what_is_asked_for_must_make_sense(colltune: Verb) -> None:
    """Without a site file, or with one that is not there, usage is explained."""
    for words, code in (
        ((), "missing"),
        (("--config", "none.toml"), "unreadable path=none.toml"),
        (("--print-unit", "cron"), "unknown name=cron"),
    ):
        answer = colltune("site", "retrain", *words)
        assert (answer.status, answer.says(code)) == (2, True), words


def test_the_command_line_goes_before_the_site_file(colltune: Verb, config: Path) -> None:
    """A backend that does not exist, or a scheduler without Dask, is refused before anything."""
    answer = colltune("site", "retrain", "--config", config, "--backend", "spark")
    assert answer.says("unknown what=--backend name=spark")
    answer = colltune("site", "retrain", "--config", config, "--scheduler", "tcp://127.0.0.1:9")
    assert answer.says("works-only-with option=--scheduler")
    assert not (config.parent / "registry" / "retraining").exists()


def test_units_are_printed(colltune: Verb) -> None:
    """Each kind of unit is printed as it is shipped."""
    assert "[Service]" in colltune("site", "retrain", "--print-unit", "systemd").out
    assert "OnCalendar" in colltune("site", "retrain", "--print-unit", "timer").out
    assert "#SCRON" in colltune("site", "retrain", "--print-unit", "scrontab").out
    assert "kind: CronJob" in colltune("site", "retrain", "--print-unit", "kubernetes").out
    assert "[hooks.webhook]" in colltune("site", "retrain", "--print-unit", "site").out
