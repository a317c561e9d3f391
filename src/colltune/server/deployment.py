"""Examples of how a service is kept running and watched, and of what stands before several."""

from __future__ import annotations

import sys
from pathlib import Path

from colltune.errors import ColltuneError

EXAMPLES: dict[str, str] = {
    "alerts": "alerts.yml",
    "apache": "apache.conf",
    "compose": "compose.yaml",
    "grafana": "grafana.json",
    "kubernetes": "kubernetes.yaml",
    "nginx": "nginx.conf",
    "prometheus": "prometheus.yml",
    "systemd": "colltune.service",
}
"""Names of files in ``deploy/``."""
_PROGRAM = "/opt/colltune/bin/colltune"


def example(name: str) -> str:
    """Return the text of an example, in which the program is this installation's."""
    if name not in EXAMPLES:
        raise ColltuneError(f"no example {name!r}", f"there are {', '.join(EXAMPLES)}")
    text = (Path(__file__).parent / "deploy" / EXAMPLES[name]).read_text(encoding="utf-8")
    return text.replace(_PROGRAM, str(Path(sys.prefix, "bin", "colltune")))
