"""Writes the hooks for Slurm into a folder, and tells what else a site does to use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from colltune.errors import say
from colltune.files import make_folder, write_text, writing
from colltune.files.ownership import danger
from colltune.text import filled

SITE = "site.sh"
SCRIPTS = ("prolog.sh", "task_prolog.sh", "rank.sh", "epilog.sh")
DATA = ("job_file.awk", "variables.txt")
READ = (SITE, *DATA)
"""What the scripts read of their folder."""
HEADER = "summaries.header"
"""The file with the epilog's token, which its user alone can read."""
SALT = "secret"
"""Likewise the file that users' hashes are made with."""
MODULE = "colltune.lua"


@dataclass(frozen=True)
class Installed:
    """The hooks' folder, the files that were written, and those of the site that were kept."""

    folder: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]

    def slurm_conf(self) -> str:
        return (
            f"PrologSlurmctld={self.folder}/prolog.sh\n"
            f"EpilogSlurmctld={self.folder}/epilog.sh\n"
            f"TaskProlog={self.folder}/task_prolog.sh\n"
        )


def install(folder: Path, programs: Path, settings: Mapping[str, str]) -> Installed:
    """Write the hooks into `folder`; a site file that is there stays as it is."""
    where = _safe(folder.absolute())
    texts = hook_texts(settings)
    kept: tuple[str, ...] = (SITE,) if (where / SITE).exists() else ()
    for name in kept:
        del texts[name]
    url = settings.get("COLLTUNE_SITE_URL", "")
    if "COLLTUNE_SITE_SOCKET" in settings:
        url = f"unix:{settings['COLLTUNE_SITE_SOCKET']}"
    texts[MODULE] = module_text(MODULE, programs, "COLLTUNE_URL", url)
    for name, text in texts.items():
        write_text(where / name, text, 0o755 if name in SCRIPTS else 0o644)
    return Installed(where, tuple(texts), kept)


def hook_texts(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the hooks' files by name; `settings` are those of the site file."""
    quoted = {name: f'"{value}"' for name, value in settings.items()}
    return {name: text_of(name) for name in (*SCRIPTS, *DATA)} | {
        SITE: filled(text_of(SITE), quoted)
    }


def module_text(name: str, programs: Path, variable: str, value: str) -> str:
    """Return a module file: `programs` on PATH, and where `colltune env` asks."""
    text = text_of(name).replace("@BIN@", str(programs))
    return text.replace("@VARIABLE@", variable).replace("@VALUE@", value)


def _safe(folder: Path) -> Path:
    with writing(folder):
        make_folder(folder, 0o755, exactly=True)
    if why := danger(folder):
        raise say("libraries-could-be-changed", why=why, folder=folder)
    return folder


def text_of(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
