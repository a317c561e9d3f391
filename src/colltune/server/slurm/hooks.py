"""Writes the hooks for Slurm into a folder, and tells what else a site does to use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from colltune.errors import OutputError
from colltune.files import whole
from colltune.files.ownership import danger

SITE = "site.sh"
SCRIPTS = ("prolog.sh", "task_prolog.sh", "epilog.sh")
DATA = ("job_file.awk",)
MODULE = "colltune.lua"
_PLACE = "@BIN@"


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
    texts = {name: text_of(name) for name in (*SCRIPTS, *DATA)}
    texts[MODULE] = text_of(MODULE).replace(_PLACE, str(programs))
    kept: tuple[str, ...] = ()
    if (where / SITE).exists():
        kept = (SITE,)
    else:
        lines = ((line, line.partition("=")[0]) for line in text_of(SITE).splitlines())
        filled = [f'{k}="{settings[k]}"' if k in settings else line for line, k in lines]
        texts[SITE] = "\n".join(filled) + "\n"
    for name, text in texts.items():
        with whole(where / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
            temporary.chmod(0o755 if name in SCRIPTS else 0o644)
    return Installed(where, tuple(texts), kept)


def _safe(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from error
    if why := danger(folder):
        raise OutputError(
            f"{why}, and Slurm runs the hooks in {folder} as root; take that away with chown and"
            " chmod go-w, or name another folder with --out"
        )
    return folder


def text_of(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
