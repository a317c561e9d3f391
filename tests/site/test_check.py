"""`colltune site check`: each thing that can be wrong with a site is found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Verb
from tests.site.conftest import Init

SERVICE = ("--service", "http://127.0.0.1:9")
Slurm = Callable[..., None]
Check = Callable[..., Answer]


@pytest.fixture
def made(init: Init, site: Path, slurm: Slurm) -> Path:
    """Return a site's folder as `install` leaves it."""
    init(*SERVICE)
    for name in ("registry", "jobs", "measurements"):
        (site / name).mkdir()
        (site / name).chmod(0o755)
    return site


def found(answer: Answer) -> dict[str, tuple[str, str, str]]:
    """Return status, finding and mend by check."""
    told = answer.json
    assert answer.status == told["exit_status"]
    return {n: (c["status"], c["finding"], c["mend"]) for n, c in told["checks"].items()}


def test_a_site_before_its_first_measurement(made: Path, colltune: Verb) -> None:
    """What is in order is ok; that nothing is in force is a note whose mend is to measure."""
    seen = found(colltune("site", "check", made, "--no-job", "--json"))
    for name in ("site", "files", "slurm", "campaigns", "registry", "hooks"):
        assert seen[name][0] == "ok", seen[name]
    assert seen["bundles"][0] == "note"
    assert seen["bundles"][2] == f"sh {made}/measure"
    # nobody listens on that port
    assert seen["service"][0] == "problem"


def replaced(site: Path, old: str, new: str) -> None:
    text = (site / "site.toml").read_text()
    assert old in text
    (site / "site.toml").write_text(text.replace(old, new))


BROKEN: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "site file": ("site", "key cluster.nodes", lambda s: replaced(s, "[2, 4]", '"two"')),
    "no site file": ("site", "is not there", lambda s: (s / "site.toml").unlink()),
    "other answers": ("files", "campaigns/", lambda s: replaced(s, "[2, 4]", "[2]")),
    "a file is gone": ("files", "measure", lambda s: (s / "measure").unlink()),
    "partition": ("slurm", "no partition night", lambda s: replaced(s, '"batch"', '"night"')),
    "nodes": ("slurm", "99 nodes", lambda s: replaced(s, "[2, 4]", "[2, 99]")),
    "cores": ("slurm", "64 processes", lambda s: replaced(s, "[1, 2]", "[64]")),
    "no registry": ("registry", "is not there", lambda s: (s / "registry").rmdir()),
    "no jobs": ("hooks", "is not there", lambda s: (s / "jobs").rmdir()),
    "jobs of all": ("hooks", "writable by others", lambda s: (s / "jobs").chmod(0o777)),
    "hook": ("hooks", "prolog.sh", lambda s: (s / "slurm/prolog.sh").chmod(0o700)),
    "closed": ("hooks", "cannot enter", lambda s: s.chmod(0o700)),
    "open hook": ("hooks", "rank.sh is writable", lambda s: (s / "slurm/rank.sh").chmod(0o775)),
    "open settings": ("hooks", "site.sh is writable", lambda s: (s / "slurm/site.sh").chmod(0o666)),
    "open folder": ("hooks", "slurm is writable", lambda s: (s / "slurm").chmod(0o775)),
    "moved hooks": ("hooks", "elsewhere is writable", lambda s: moved(s / "slurm")),
    "open install": ("files", "install is writable", lambda s: (s / "install").chmod(0o775)),
    "open campaigns": ("files", "campaigns is writable", lambda s: (s / "campaigns").chmod(0o777)),
    "open secret": ("hooks", "others can read", lambda s: (s / "slurm/secret").touch(0o644)),
    "no campaign": ("campaigns", "no campaign", lambda s: next(s.glob("camp*/*")).unlink()),
    "budget": ("campaigns", "too short", lambda s: shortened(next((s / "campaigns").iterdir()))),
}


def moved(folder: Path) -> None:
    """Move a folder into one that others can write, with a link to it from where it was."""
    elsewhere = folder.parent.parent / "elsewhere"
    elsewhere.mkdir()
    folder.rename(elsewhere / "slurm")
    folder.symlink_to(elsewhere / "slurm")
    elsewhere.chmod(0o777)


def shortened(campaign: Path) -> None:
    campaign.write_text(campaign.read_text().replace("1800s", "5s"))


@pytest.mark.parametrize(("check", "said", "break_it"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_found(
    check: str, said: str, break_it: Callable[[Path], object], made: Path, colltune: Verb
) -> None:
    """The check whose thing is broken says so, with a mend; the status is 1."""
    break_it(made)
    answer = colltune("site", "check", made, "--no-job", "--json")
    seen = found(answer)
    assert answer.status == 1
    assert seen[check][0] == "problem", seen[check]
    assert said in seen[check][1]
    assert seen[check][2] or str(made) in seen[check][1]


def test_hooks_that_slurm_does_not_have_are_found(made: Path, slurm: Slurm, colltune: Verb) -> None:
    """Slurm's own configuration counts, not the folder."""
    slurm(scontrol='echo "TaskProlog = /other"; echo "SlurmUser = root(0)"')
    seen = found(colltune("site", "check", made, "--no-job", "--json"))["hooks"]
    assert seen[0] == "problem"
    assert seen[1].startswith("slurm.conf has PrologSlurmctld=nothing")


def test_without_slurm_the_rest_is_looked_at(made: Path, slurm: Slurm, colltune: Verb) -> None:
    """A controller that is down is told once; what needs it is not looked at."""
    slurm(sinfo="echo down >&2; exit 1", scontrol="exit 1")
    seen = found(colltune("site", "check", made, "--json"))
    assert seen["slurm"][0] == "problem"
    assert seen["hooks"][:2] == seen["job"][:2] == ("note", "not looked at: see slurm")
    assert seen["registry"][0] == "ok"


TOLD = {
    "told": ("OMPI_MCA_coll_tuned_use_dynamic_rules=1", "", "ok", "got OMPI_MCA_coll_tuned"),
    "silent": ("", "", "problem", "no hook spoke"),
    "default": ("colltune: MPI's own decisions are kept for 1x2", "", "ok", "are kept"),
    "not yet": ("colltune: nothing is prepared for this job", "", "note", "nothing is prepared"),
    "unseen": ("missing: /shared/x cannot be read", "", "problem", "on a node"),
    "busy": ("", "Immediate execution impossible", "note", "Immediate"),
    "refused": ("", "Invalid account", "problem", "Invalid account"),
}


@pytest.mark.parametrize(("out", "err", "status", "said"), TOLD.values(), ids=TOLD)
def test_what_a_job_is_told_is_judged(
    out: str, err: str, status: str, said: str, made: Path, slurm: Slurm, colltune: Verb
) -> None:
    """A job that got its variables is ok; one that no hook spoke to, or could not start, is not."""
    failed = f"echo '{err}' >&2; exit 1" if err else ""
    slurm(srun=f'echo "{out}"\n{failed}')
    seen = found(colltune("site", "check", made, "--json"))["job"]
    assert (seen[0], said in seen[1]) == (status, True), seen


def test_the_job_is_that_of_a_user(
    made: Path, slurm: Slurm, colltune: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is small, short, does not wait for long, and inherits no job and no switch of ours."""
    monkeypatch.setenv("COLLTUNE", "off")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    slurm(srun='echo "cannot: $* $COLLTUNE$SLURM_JOB_ID" >&2; exit 1')
    seen = found(colltune("site", "check", made, "--wait", 9, "--json"))["job"]
    options = "--nodes=2 --ntasks-per-node=2 --time=2 --immediate=9"
    assert options in seen[1]
    assert "--partition=batch" in seen[1]
    assert "off" not in seen[1].split("sh -c")[0]


def test_a_bundle_in_force_is_written_and_linted(
    made: Path, bundle_path: Path, colltune: Verb
) -> None:
    """The id of what is in force is told, with the ranges of the smallest measured shape."""
    registry = ("--registry", made / "registry")
    colltune("site", "bundles", "add", bundle_path, *registry)
    bundle = colltune("site", "bundles", "list", *registry, "--json").json["bundles"][0]["id"]
    colltune("site", "bundles", "promote", bundle, *registry)
    seen = found(colltune("site", "check", made, "--no-job", "--json"))
    assert seen["bundles"][0] == "ok"
    assert bundle[:12] in seen["bundles"][1]
    assert seen["bundles"][1].endswith("2x2")
    assert not list((made / "registry").glob(".check*"))


def test_a_bundle_of_another_machine_is_told_as_retraining_tells_it(
    made: Path, bundle_path: Path, colltune: Verb
) -> None:
    """It fails the check: nothing can be learned beside it."""
    registry = ("--registry", made / "registry")
    site_file = made / "site.toml"
    site_file.write_text(site_file.read_text().replace('"hydra"', '"jupiter"'))
    colltune("site", "bundles", "add", bundle_path, *registry)
    bundle = colltune("site", "bundles", "list", *registry, "--json").json["bundles"][0]["id"]
    colltune("site", "bundles", "promote", bundle, *registry)
    seen = found(colltune("site", "check", made, "--no-job", "--json"))["bundles"]
    assert seen[0] == "problem"
    assert "Use one registry per machine" in " ".join(seen[1:])


def test_people_see_a_line_for_each_finding_and_its_mend(made: Path, colltune: Verb) -> None:
    """The last line counts."""
    answer = colltune("site", "check", made, "--no-job")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["ok", "site", *["hydra:", "openmpi/4.1.4;", "2", "node", "counts"]]
    assert "-> sh " in answer.out
    assert lines[-1] == "1 problem, 3 notes, 8 ok"
