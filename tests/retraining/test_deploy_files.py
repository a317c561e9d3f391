"""What starts a retraining every night: files that their programs accept."""

from __future__ import annotations

import configparser
import re
import shutil
from pathlib import Path

import pytest

from colltune import errors
from colltune.errors import SiteError
from colltune.process import run
from colltune.retraining.site_file import DEPLOY_FILES, deploy_file
from tests.refusals import refused

_HARMLESS = (errors.NOTHING_NEW, errors.BUSY)


def _sections(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def test_the_service_is_hardened_and_knows_the_statuses() -> None:
    """The unit writes to one place only, gains no rights, and takes nothing new for success."""
    service = _sections(deploy_file("systemd"))["Service"]
    assert service["ProtectSystem"] == "strict"
    assert service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ReadWritePaths"] == "/shared/colltune"
    assert service["SuccessExitStatus"].split() == [str(status) for status in _HARMLESS]
    assert service["Type"] == "oneshot"
    assert "colltune site retrain --config " in service["ExecStart"]
    timer = _sections(deploy_file("timer"))["Timer"]
    assert timer["OnCalendar"] == "*-*-* 02:30:00"


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing wrong, with a program that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for kind in ("systemd", "timer"):
        text = deploy_file(kind).replace("/opt/colltune/bin/colltune", "/bin/true")
        text = re.sub(r"(?m)^(User|Group)=colltune$", r"\1=root", text)
        (tmp_path / DEPLOY_FILES[kind]).write_text(text)
    units = [tmp_path / DEPLOY_FILES[kind] for kind in ("systemd", "timer")]
    outcome = run(["systemd-analyze", "verify", "--man=no", *units], timeout_s=30.0)
    ours = [line for line in outcome.stderr.splitlines() if "colltune-retrain" in line]
    assert not ours


def test_kubernetes_never_runs_two() -> None:
    """The CronJob forbids two at once, runs as a user without rights and mounts what it names."""
    yaml = pytest.importorskip("yaml")
    (job,) = yaml.safe_load_all(deploy_file("kubernetes"))
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["restartPolicy"] == "Never"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}


@pytest.mark.parametrize("status", [0, 1, *_HARMLESS, errors.KEPT, errors.DRIFT])
@pytest.mark.parametrize("kind", ["scrontab", "kubernetes"])
def test_shells_turn_the_harmless_statuses_into_success(
    kind: str, status: int, tmp_path: Path
) -> None:
    """What the lines make of colltune's status: 0 for nothing new and busy, else the status."""
    fake = tmp_path / "colltune"
    fake.write_text(f"#!/bin/sh\nexit {status}\n")
    fake.chmod(0o755)
    if kind == "scrontab":
        line = deploy_file(kind).strip().splitlines()[-1]
        assert line.startswith("30 2 * * * /opt/colltune/bin/colltune site retrain ")
        script = line.removeprefix("30 2 * * * ").replace("/opt/colltune/bin/colltune", str(fake))
    else:
        yaml = pytest.importorskip("yaml")
        found = yaml.safe_load(deploy_file(kind))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert found["containers"][0]["command"] == ["/bin/sh", "-c"]
        script = found["containers"][0]["args"][0].replace(
            "colltune site retrain", f"{fake} retrain"
        )
    outcome = run(["/bin/sh", "-c", script], timeout_s=10.0)
    assert outcome.returncode == (0 if status in _HARMLESS else status), outcome.explain()


def test_an_unknown_unit_is_told_what_there_is() -> None:
    """A kind that does not exist is answered with those that do."""
    with refused("unknown", SiteError, name="cron", known=", ".join(DEPLOY_FILES)):
        deploy_file("cron")
