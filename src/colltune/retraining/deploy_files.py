"""What starts a retraining every night: the files in ``deploy/``."""

from __future__ import annotations

from importlib import resources

from colltune.errors import SiteError

DEPLOY_FILES: dict[str, str] = {
    "systemd": "colltune-retrain.service",
    "timer": "colltune-retrain.timer",
    "scrontab": "scrontab",
    "kubernetes": "cronjob.yaml",
    "site": "site.toml",
}


def deploy_file(kind: str) -> str:
    """Return the text of the file for `kind`, a key of `DEPLOY_FILES`."""
    if kind not in DEPLOY_FILES:
        raise SiteError(f"no unit {kind!r}; there are {', '.join(DEPLOY_FILES)}")
    file = resources.files("colltune.retraining") / "deploy" / DEPLOY_FILES[kind]
    return file.read_text(encoding="utf-8")
