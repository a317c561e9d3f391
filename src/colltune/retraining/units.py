"""What starts a retraining every night: the files in ``deploy/``."""

from __future__ import annotations

from importlib import resources

from colltune.errors import SiteError

UNITS: dict[str, str] = {
    "systemd": "colltune-retrain.service",
    "timer": "colltune-retrain.timer",
    "scrontab": "scrontab",
    "kubernetes": "cronjob.yaml",
    "site": "site.toml",
}


def unit(kind: str) -> str:
    """Return the text of the file for `kind`, a key of `UNITS`."""
    if kind not in UNITS:
        raise SiteError(f"no unit {kind!r}; there are {', '.join(UNITS)}")
    file = resources.files("colltune.retraining") / "deploy" / UNITS[kind]
    return file.read_text(encoding="utf-8")
