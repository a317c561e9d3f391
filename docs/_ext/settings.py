"""The keys of colltune's own files of settings, as the dataclasses that hold them describe each."""

from __future__ import annotations

from dataclasses import MISSING

from colltune.bench.campaign import Campaign
from colltune.files.settings import SettingKey, keys_of, tables_of
from colltune.retraining.site_file import Site
from docs._ext.markdown import code, heading, table, text

_FILES = {"campaign": Campaign, "site": Site}


def markdown(argument: str) -> str:
    """Return a section for each table of a file: ``campaign`` or ``site``."""
    settings = _FILES[argument]
    parts = []
    for name, says in tables_of(settings).items():
        rows = [_row(key) for key in keys_of(settings) if key.table == name]
        if rows:
            parts.append(heading(2, f"[{name}]") + (f"{text(says)}\n\n" if says else ""))
            parts.append(table(("key", "meaning", "allowed", "default"), rows))
    return "".join(parts)


def _row(key: SettingKey) -> tuple[str, str, str, str]:
    default = "needed" if key.default is MISSING else ""
    if key.default is not None and key.default is not MISSING and key.default not in ("", ()):
        default = code(key.shown)
    name = key.name if key.table != key.path else "the name of a collective"
    return code(name), text(key.setting.says), text(key.allowed), default
