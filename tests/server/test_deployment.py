"""The examples of how to deploy the service fit the service."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from colltune import process
from colltune.retraining.site_file import deploy_file as unit_text
from colltune.server.settings import PREFIX, ConnectionLimits, ServiceSettings
from colltune.site.folder import EXAMPLES, example
from tests.dockerfile import stages

ROOT = Path(__file__).parents[2]
SERVICE = stages(ROOT / "Dockerfile")["service"]
PORT = SERVICE.all("EXPOSE")[0].text
USER, GROUP = map(int, SERVICE.all("USER")[0].text.split(":"))
KUBERNETES = list(yaml.safe_load_all(example("kubernetes")))
COMPOSE = yaml.safe_load(example("compose"))["services"]["colltune"]


def unit() -> dict[str, list[str]]:
    """Return the settings of the systemd unit's service, each with all its values."""
    found: dict[str, list[str]] = {}
    section = example("systemd").partition("[Service]\n")[2].partition("\n[")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def kind(name: str) -> dict[str, Any]:
    """Return the only Kubernetes object of a kind."""
    (found,) = [one for one in KUBERNETES if one["kind"] == name]
    return dict(found)


def container() -> dict[str, Any]:
    """Return the container of the Deployment."""
    (found,) = kind("Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_examples_know_the_settings() -> None:
    """Variables that they name are ones that the service reads."""
    fields = (*ServiceSettings.model_fields, *ConnectionLimits.model_fields)
    known = {f"{PREFIX}{name.upper()}" for name in fields}
    named = {one for name in EXAMPLES for one in re.findall(rf"{PREFIX}[A-Z_]+", example(name))}
    assert named
    assert named <= known


def test_nginx_refuses_what_the_service_refuses() -> None:
    """A body that the service would take passes the proxy, and no larger one does."""
    largest = ServiceSettings.model_fields["max_body_bytes"].default
    assert f"client_max_body_size {largest >> 20}m;" in example("nginx")


@pytest.mark.parametrize("name", ["nginx", "apache"])
def test_a_proxy_does_not_pass_on_what_a_client_says_of_itself(name: str) -> None:
    """The client's address is set by the proxy, in place of what the client sent."""
    (line,) = [one for one in example(name).splitlines() if "X-Forwarded-For" in one]
    assert "$remote_addr" in line or "set X-Forwarded-For" in line
    assert "proxy_add_x_forwarded_for" not in example(name)
    assert f":{PORT}" in example(name)


def test_kubernetes_runs_the_image_as_it_is_made() -> None:
    """User, port, read-only root and probes are those that the image has."""
    pod = kind("Deployment")["spec"]["template"]["spec"]
    one = container()
    assert pod["securityContext"]["runAsUser"] == USER
    assert pod["securityContext"]["runAsGroup"] == GROUP
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert one["ports"] == [{"name": "http", "containerPort": int(PORT)}]
    assert one["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "http"}
    assert one["livenessProbe"]["httpGet"] == {"path": "/health/live", "port": "http"}
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {mount["mountPath"]: mount["name"] for mount in one["volumeMounts"]}
    assert mounts == {"/registry": "shared", "/demand": "shared", "/tmp": "tmp"}
    assert {volume["name"] for volume in pod["volumes"]} == set(mounts.values())
    assert one["resources"]["requests"]
    assert one["resources"]["limits"]


def test_kubernetes_names_fit_together() -> None:
    """Service, budget and Deployment select the same pods, and the claim exists."""
    labels = kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert kind("Service")["spec"]["selector"] == labels
    assert kind("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    (claim,) = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in kind("Deployment")["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert claim == kind("PersistentVolumeClaim")["metadata"]["name"]


def test_service_and_retraining_share_their_folders() -> None:
    """The examples of both name one claim and one place, and no request reaches a retraining."""
    nightly = yaml.safe_load(unit_text("kubernetes"))["spec"]["jobTemplate"]["spec"]["template"]
    claims = [v.get("persistentVolumeClaim") for v in nightly["spec"]["volumes"]]
    assert {"claimName": kind("PersistentVolumeClaim")["metadata"]["name"]} in claims
    selected = kind("Service")["spec"]["selector"].items()
    assert not selected <= nightly["metadata"]["labels"].items()
    assert nightly["spec"]["securityContext"]["runAsUser"] == USER
    all_keys = re.sub(r"^#(?! )", "", unit_text("site"), flags=re.MULTILINE)
    site = tomllib.loads(all_keys)
    environment = unit()["Environment"]
    assert f"COLLTUNE_SERVER_REGISTRY={site['site']['registry']}" in environment
    assert f"COLLTUNE_SERVER_DEMAND={site['backfill']['demand']}" in environment
    assert unit()["ReadWritePaths"] == [f"-{site['backfill']['demand']}"]


def test_compose_runs_the_image_as_it_is_made() -> None:
    """Read-only root, no rights, the image's port, the same image as on Kubernetes."""
    assert COMPOSE["read_only"] is True
    assert COMPOSE["cap_drop"] == ["ALL"]
    assert COMPOSE["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert COMPOSE["image"] == container()["image"]
    version = SERVICE.all("LABEL")[0].assignments["org.opencontainers.image.version"]
    assert COMPOSE["image"] == f"colltune-service:{version}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """systemd-analyze finds no fault in it, and little that it is exposed to."""
    file = tmp_path / "colltune.service"
    program = str(Path(sys.prefix, "bin", "colltune"))
    file.write_text(example("systemd").replace(program, "/bin/true"))
    verified = process.run(["systemd-analyze", "verify", file], timeout_s=30)
    assert (verified.stdout + verified.stderr).strip() == ""
    assert verified.ok
    security = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(file)]
    assert process.run(security, timeout_s=30).ok
