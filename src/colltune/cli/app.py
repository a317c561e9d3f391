"""The verbs of the command line; each is a module that is imported when its verb is called."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from colltune import __version__
from colltune.errors import EXIT_STATUSES

VERBS: dict[str, str] = {
    "tune": "colltune.cli.tune:tune",
    "plan": "colltune.cli.plan:plan",
    "measure": "colltune.cli.measure:measure",
    "submit": "colltune.cli.submit:submit",
    "import": "colltune.cli.import_:import_",
    "export": "colltune.cli.export:export",
    "noise": "colltune.cli.noise:noise",
    "fit": "colltune.cli.fit:fit",
    "evaluate": "colltune.cli.evaluate:evaluate",
    "report": "colltune.cli.report:report",
    "select": "colltune.cli.select:select",
    "what-if": "colltune.cli.what_if:what_if",
    "catalog": "colltune.cli.catalog:catalog",
    "lint": "colltune.cli.lint:lint",
    "explain": "colltune.cli.explain:explain",
    "convert": "colltune.cli.convert:convert",
    "verify": "colltune.cli.verify:verify",
    "bundles": "colltune.cli.bundles:bundles",
