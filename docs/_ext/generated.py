"""Blocks ``{generated}`` in pages: parts of the reference that are made from the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from docs._ext import (
    catalogues,
    command_line,
    complaints,
    configuration_formats,
    environment,
    exit_statuses,
    http_interface,
    json_output,
    legal_programs,
    lint_samples,
    registries,
    result_bits,
    service_metrics,
    settings,
    stored_formats,
)

GENERATORS: dict[str, Callable[[str], str]] = {
    "catalogues": catalogues.markdown,
    "verb": command_line.verb_markdown,
    "verbs": command_line.overview_markdown,
    "complaints": complaints.markdown,
    "configuration-formats": configuration_formats.markdown,
    "exit-statuses": exit_statuses.markdown,
    "http": http_interface.markdown,
    "json": json_output.markdown,
    "legal-modes": legal_programs.modes,
    "legal-outcomes": legal_programs.outcomes,
    "lint-sample": lint_samples.sample,
    "metrics": service_metrics.markdown,
    "output": lint_samples.output,
    "registry": registries.markdown,
    "result-bits": result_bits.markdown,
    "settings": settings.markdown,
    "server-settings": environment.markdown,
    "stored-formats": stored_formats.markdown,
}
"""Each returns Markdown; it is given the rest of the block's first line."""


_FENCED = re.compile(r"^```\{generated\} (?P<name>\S+)(?: (?P<argument>.+))?\n```$", re.MULTILINE)


def expanded(page: str) -> str:
    """Return a page with every block ``{generated} NAME ARGUMENT`` replaced by what it stands for.

    Raises
    ------
    LookupError
        If there is no generator of that name, or it knows no such argument.
    """
    return _FENCED.sub(lambda match: GENERATORS[match["name"]](match["argument"] or ""), page)


def _read(app: Sphinx, _document: str, source: list[str]) -> None:
    if _FENCED.search(source[0]):
        source[0] = expanded(source[0])
        # it depends on code that Sphinx does not know of
        app.env.note_reread()


def _write_schemas(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.name == "html":
        json_output.write_schemas(Path(app.outdir) / "reference" / "schemas")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect to Sphinx."""
    app.connect("source-read", _read)
    app.connect("build-finished", _write_schemas)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
