"""What colltune itself stores: each file's format, its version and its history."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from importlib.resources import files

from colltune.dataset.parquet import SCHEMA
from docs._ext.markdown import code, fenced, heading, table, text

_UNDERLINED = re.compile(r"^(\S.*)\n-{3,}\n", re.MULTILINE)


@dataclass(frozen=True)
class Stored:
    """A format that colltune writes or reads.

    ``version`` names the constant, ``module:NAME``, where the format has a number of its own.
    """

    title: str
    file: str
    made_by: str
    module: str
    version: str = ""

    @property
    def number(self) -> str:
        """The current version."""
        module, _, name = self.version.partition(":")
        return str(getattr(importlib.import_module(module), name)) if module else ""


STORED = (
    Stored(
        "Dataset",
        "<dataset>/*.parquet",
        "measure, import",
        "colltune.dataset.parquet",
        "colltune.dataset.parquet:SCHEMA_VERSION",
    ),
    Stored("Tidy CSV", "*.csv, *.csv.gz", "export", "colltune.dataset.tidy_csv"),
    Stored(
        "Profile of an application",
        "$COLLTUNE_PROFILE/*.profile",
        "libcolltune",
        "colltune.dataset.profile",
        "colltune.dataset.profile:FORMAT_VERSION",
    ),
    Stored(
        "Configuration of an application",
        "<folder>/manifest.json",
        "pack",
        "colltune.selector.packing",
        "colltune.selector.packing:FORMAT_VERSION",
    ),
    Stored(
        "Journal of a campaign",
        "<dataset>/campaigns/<run>.jsonl",
        "measure",
        "colltune.bench.journal",
        "colltune.bench.journal:_VERSION",
    ),
    Stored(
        "Task times of HAN",
        "tasks.jsonl",
        "han measure",
        "colltune.han.tasks_file",
        "colltune.han.tasks_file:VERSION",
    ),
    Stored(
        "Plan and raw output of the program that times tasks",
        "tasks.jsonl.launch/",
        "han measure",
        "colltune.han.measuring",
    ),
    Stored(
        "Plan and raw output of the native benchmark",
        "<dataset>/raw/<launch>/",
        "measure",
        "colltune.bench.backends.raw",
    ),
    Stored(
        "Bundle",
        "<bundle>/manifest.json, <bundle>/<collective>.arrays",
        "fit",
        "colltune.models.bundle",
        "colltune.models.bundle:FORMAT_VERSION",
    ),
    Stored("Registry", "<registry>/", "bundles", "colltune.registry"),
    Stored(
        "Events of a registry",
        "<registry>/history/<number>.json",
        "bundles promote, bundles rollback, retrain",
        "colltune.registry.events",
        "colltune.registry.events:FORMAT_VERSION",
    ),
    Stored(
        "Reports of a registry",
        "<registry>/reports/<kind>/<number>.json",
        "retrain, verify",
        "colltune.registry.registry",
        "colltune.registry.registry:REPORT_VERSION",
    ),
    Stored(
        "Report on retraining",
        "<registry>/reports/retraining/<number>.json",
        "retrain",
        "colltune.retraining.record",
        "colltune.retraining.record:FORMAT_VERSION",
    ),
    Stored(
        "Results of an evaluation",
        "results.json",
        "evaluate --out",
        "colltune.evaluation.evaluation",
        "colltune.evaluation.evaluation:FORMAT_VERSION",
    ),
    Stored(
        "Demand",
        "<demand>/demand-<host>-<pid>-<token>.jsonl",
        "serve --demand",
        "colltune.selector.demand",
        "colltune.selector.demand:FORMAT_VERSION",
    ),
    Stored(
        "Requests by day",
        "<demand>/jobs-<day>-<host>-<pid>-<token>.json",
        "serve --demand",
        "colltune.server.job_counts",
        "colltune.server.job_counts:FORMAT_VERSION",
    ),
    Stored(
        "Job file",
        "GET /v1/job/…",
        "serve",
        "colltune.server.slurm.job_file",
        "colltune.server.slurm.job_file:VERSION",
    ),
    Stored(
        "Store of production",
        "[production] store",
        "serve --site",
        "colltune.production.database",
        "colltune.production.database:SCHEMA_VERSION",
    ),
    Stored(
        "Days of production",
        "[production] archive/*.parquet",
        "serve --site",
        "colltune.production.archive",
        "colltune.production.archive:FORMAT_VERSION",
    ),
    Stored(
        "What the judgement remembers",
        "[production] store, table state",
        "serve --site",
        "colltune.production.cases",
        "colltune.production.cases:FORMAT_VERSION",
    ),
    Stored(
        "Judgement of production",
        "[production] store, table state",
        "serve --site",
        "colltune.production.judgement",
        "colltune.production.judgement:FORMAT_VERSION",
    ),
    Stored("Tokens", "tokens", "token", "colltune.server.auth.token_file"),
)
_COLUMNS = {
    "collective": "`bcast`, `allreduce`, …",
    "algorithm": "its name in the catalogue; `default` is the library's own decision",
    "parameters": "`segsize=65536,fanout=4`, sorted by name; empty if it has none",
    "nodes": "nodes of the communicator",
    "ppn": "processes per node",
    "msize_bytes": "message size as the caller passes it",
    "launch": "which launch measured it",
    "status": "`ok`, `timeout`, `crash`, …; times are NaN unless it is timed",
    "n_reps": "repetitions",
    "time_s": "median of the repetitions",
    "time_mean_s": "their mean",
    "time_min_s": "their minimum",
    "time_p90_s": "their 90 % quantile",
    "time_max_s": "their maximum",
    "time_rank_mean_s": "of OSU, IMB and their like: mean over ranks of each rank's mean",
    "time_rank_min_s": "of the same, the smallest one",
    "times_s": "all repetitions in order, each the maximum over ranks; empty where unknown",
}


def markdown(_argument: str) -> str:
    """Return a table of all formats, and each with what its module says."""
    rows = (
        (
            f"[{each.title}](#{_anchor(each.title)})",
            code(each.file),
            code(each.made_by),
            each.number,
        )
        for each in STORED
    )
    overview = table(("format", "file", "written by", "version"), rows)
    return overview + "".join(map(_section, STORED))


def _section(stored: Stored) -> str:
    version = f"Version {stored.number}. " if stored.number else ""
    parts = [heading(2, stored.title), f"{version}File: {code(stored.file)}.\n\n"]
    parts.append(f"```{{eval-rst}}\n{_documentation(stored.module)}\n```\n\n")
    if stored.module == "colltune.bench.backends.raw":
        parts.append(fenced(_benchmark()))
    if stored.module == "colltune.dataset.parquet":
        columns = ((code(c.name), code(str(c.type)), text(_COLUMNS[c.name])) for c in SCHEMA)
        parts.append(table(("column", "type", "meaning"), columns))
    return "".join(parts)


def _documentation(module: str) -> str:
    """Return a module's text with bold lines for headings."""
    found = inspect.getdoc(importlib.import_module(module)) or ""
    return _UNDERLINED.sub(r"**\1**\n\n", found)


def _benchmark() -> str:
    """Return what the benchmark's program says of both, at the top of its source."""
    source = files("colltune.bench.native").joinpath("collbench.c").read_text(encoding="utf-8")
    comment = source.partition("/*")[2].partition("*/")[0]
    return "\n".join(line.removeprefix(" *").removeprefix(" ") for line in comment.splitlines())


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
