"""`colltune app profile`, and weights by a profile in other verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset.profile import parse_profile
from colltune.production.summary import parse_summary
from tests.cli.conftest import Verb
from tests.cli.verb_examples import CAMPAIGN
from tests.dataset.profiles import RECORDED, profile_text, row

ROWS = (
    row("bcast", "8x4", 512, 1000, 1e-3, msize=600),
    row("bcast", "8x1", 8, 10, 1e-3),
    row("allreduce", "8x4", 8, 500, 1e-3),
)


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """Return a folder with one profile."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "one.profile").write_bytes(profile_text(ROWS))
    return folder


def test_the_table_shows_where_time_goes(colltune: Verb, profiles: Path) -> None:
    """Lines come with the longest first, and with shares of collectives and of the run."""
    answer = colltune("app", "profile", profiles, "--top", 2)
    lines = answer.out.splitlines()
    assert lines[0] == "solver: 1 run on 8x4, openmpi 4.1.4"
    assert "(15.0%) in collectives" in lines[1]
    assert lines[5].split() == [
        *("bcast", "32", "(8x4)", "600", "B", "1000", "1", "s", "66.6%", "10.0%", "1", "ms"),
        *("952", "us", "952", "us"),
    ]
    assert lines[-1].startswith("and 1 more line, 0.2% of the time")


def test_json_holds_all_lines(colltune: Verb, profiles: Path) -> None:
    """Machines get every kind of calls, and null for what is not known."""
    found = colltune("app", "profile", profiles, "--json", "--top", 1).json
    assert found["outlook"] is None
    found = found["profile"]
    assert [u["kind"]["collective"] for u in found["uses"]] == ["bcast", "allreduce", "bcast"]
    assert found["jobs"][0]["shape"] == "8x4"
    assert found["process_s"] == 320.0
    assert [u["median_s"] for u in found["uses"]] == [pytest.approx(1e-3, rel=0.05)] * 3


def test_a_bundle_tells_what_it_would_change(
    colltune: Verb, profiles: Path, bundle_path: Path
) -> None:
    """Choice, saving and what is unknown stand in the table and in JSON."""
    answer = colltune("app", "profile", profiles, "--bundle", bundle_path)
    assert "binomial" in answer.out
    assert "unknown: the bundle has no models of it" in answer.out
    assert "in total the bundle would save" in answer.out
    assert "unknown for 33.3% of the time in collectives" in answer.out
    found = colltune("app", "profile", profiles, "--bundle", bundle_path, "--json").json
    saving = found["outlook"]["saving"]
    assert saving["least_s"] <= saving["expected_s"]
    assert found["outlook"]["rows"][1]["saving"] is None


def test_several_folders_and_real_files(colltune: Verb) -> None:
    """Recorded files of different libraries are refused together and read by themselves."""
    answer = colltune("app", "profile", RECORDED)
    assert answer.status == 3
    assert "cannot be added up: mpich 4.0.2, openmpi 5.0.11" in answer.err
    answer = colltune("app", "profile", RECORDED / "known-mpich.profile")
    assert answer.status == 0
    assert "2 (1x2)" in answer.out
    assert "median" not in answer.out


def test_a_plan_by_profile_measures_what_is_used(
    colltune: Verb, profiles: Path, tmp_path: Path
) -> None:
    """`plan --profile`, or the campaign's own key, plans the application's sizes and shapes."""
    text = CAMPAIGN.replace("nodes = [2, 4]", "nodes = [4, 8]").replace("ppn = [2]", "ppn = [4]")
    release = '[library]\nname = "openmpi"\nrelease = "4.1.4"\n'
    campaign = tmp_path / "campaign.toml"
    campaign.write_text(text + release)
    by_option = colltune("plan", campaign, "--profile", profiles, "--json").json
    campaign.write_text(
        text.replace("[space]\n", f'[space]\nprofile = "{profiles}"\n', 1) + release
    )
    by_key = colltune("plan", campaign, "--json").json
    assert by_option == by_key
    assert by_key["plan"]["profile_covered"] == pytest.approx(0.667, abs=0.001)
    assert (by_key["plan"]["shapes"], by_key["plan"]["largest_shape"]) == (2, "8x4")
    assert "67% of the application's time" in colltune("plan", campaign).out


def test_what_is_sent_is_shown(colltune: Verb, profiles: Path) -> None:
    """The text is the epilog's, but for what only Slurm knows; names are pointed out."""
    answer = colltune("app", "profile", "--what-is-sent", profiles)
    sent = answer.out.replace("job -", "job 17").replace("nodes 0", "nodes 8").encode()
    (run,) = parse_summary(sent).runs
    assert (run.job, list(run.uses)) == parse_profile(profile_text(ROWS), "it")
    assert "It has no arguments, no environment and no data" in answer.err
    assert "these profiles are a user's own" in answer.err
    (profiles / "one.profile").write_bytes(
        profile_text(ROWS, host="-", program="#0123456789abcdef")
    )
    assert "a user's own" not in colltune("app", "profile", "--what-is-sent", profiles).err


def test_what_is_no_profile_is_not_sent(colltune: Verb, profiles: Path) -> None:
    """A damaged file is refused with its name."""
    (profiles / "two.profile").write_bytes(profile_text(ROWS)[:-30])
    answer = colltune("app", "profile", "--what-is-sent", profiles)
    assert (answer.status, answer.out) == (3, "")
    assert "two.profile, line 17: the checksum is wrong" in answer.err
