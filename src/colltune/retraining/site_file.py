"""Site files: what `colltune site retrain` does every night.

Each key stands with what it means at the field that it sets. The reference and the remarks of a new
``site.toml`` are made from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from colltune.bench import durations
from colltune.bench.launchers import LAUNCHERS
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective, parse_objective
from colltune.domain import Collective, parse_collective
from colltune.errors import SiteError, say, unknown
from colltune.files.reading import text_of
from colltune.files.settings import Key, SettingTable, TomlFile, written
from colltune.models.bundle import Bundle
from colltune.models.cells import HELD_OUT
from colltune.models.learners import learner_entry
from colltune.models.workers import DASK, Workers
from colltune.mpi import library
from colltune.mpi.programs import FOR_EVERYBODY, Programs, Results, parse_results
from colltune.production.arms import Production

DEPLOY_FILES: dict[str, str] = {
    "systemd": "colltune-retrain.service",
    "timer": "colltune-retrain.timer",
    "scrontab": "scrontab",
    "kubernetes": "cronjob.yaml",
    "site": "",
}
"""What starts a retraining every night, in ``deploy/``; ``site`` is made, a file with every key."""
_HEAD = """\
# A site: what `colltune site retrain --config site.toml` does every night.
# Paths are relative to this file. Keys that are commented out show their defaults or an example."""


def deploy_file(kind: str) -> str:
    """Return the text of the file for `kind`, a key of `DEPLOY_FILES`."""
    if kind not in DEPLOY_FILES:
        raise unknown("unit", kind, DEPLOY_FILES, SiteError)
    if kind == "site":
        return written(Site, {}, _HEAD)
    file = resources.files("colltune.retraining") / "deploy" / DEPLOY_FILES[kind]
    return file.read_text(encoding="utf-8")


class RunOutcome(StrEnum):
    """What became of the slot of a library, or of a run.

    ``shadow``: compared only; ``kept``: the bundle in force stays, since the new one was not shown
    to be as good; ``trial``: production decides whether the new one comes into force; ``failed``:
    there is no new one.
    """

    PROMOTED = "promoted"
    TRIAL = "trial"
    SHADOW = "shadow"
    NOTHING_NEW = "nothing_new"
    KEPT = "kept"
    DRIFT = "drift"
    FAILED = "failed"


class SiteMpi(NamedTuple):
    """An MPI of a site; ``mpirun`` is empty where a module brings it."""

    library: str
    release: str
    mpirun: str

    @classmethod
    def parse(cls, text: str) -> SiteMpi:
        """Return the MPI written ``openmpi/4.1.6=/opt/openmpi/bin/mpirun``."""
        match = re.fullmatch(r"([a-z0-9]+)/([0-9][A-Za-z0-9.]*)(?:=(/[^=\n]*))?", text)
        if match is None:
            raise say("not-an-mpi", value=text)
        library(match[1]).at(match[2])
        return cls(match[1], match[2], match[3] or "")

    @property
    def name(self) -> str:
        return f"{self.library}/{self.release}"


def _learner(name: str) -> str:
    learner_entry(name)
    return name


_DURATION = 'seconds, or a wall time such as "4h"'
_TIME = (int, float, str)


@dataclass(frozen=True)
class Cluster:
    """What the other files of a site's folder are written from."""

    user: Annotated[
        str,
        Key(
            "Who measures, retrains and serves.",
            pattern=r"[A-Za-z_][A-Za-z0-9_.-]*",
            wanted="the name of a user",
            example="colltune",
        ),
    ]
    mpi: Annotated[
        tuple[SiteMpi, ...],
        Key(
            "The MPIs of jobs. One without `=` is brought by modules.",
            read=SiteMpi.parse,
            wanted='a list such as ["openmpi/4.1.6"]',
            empty=False,
            example=["openmpi/4.1.6=/opt/openmpi-4.1.6/bin/mpirun"],
        ),
    ]
    nodes: Annotated[
        tuple[int, ...],
        Key(
            "Node counts to measure, as jobs use them.",
            1,
            empty=False,
            example=[2, 3, 4, 6, 8, 12, 16],
        ),
    ]
    ppn: Annotated[
        tuple[int, ...], Key("Processes per node to measure.", 1, empty=False, example=[1, 16, 32])
    ]
    collectives: Annotated[
        tuple[Collective, ...],
        Key(
            "Collectives to measure.",
            read=parse_collective,
            wanted='a list such as ["bcast"]',
            empty=False,
            example=["bcast", "allreduce", "alltoall"],
        ),
    ]
    partitions: Annotated[
        tuple[str, ...],
        Key(
            "Partitions whose nodes, all alike, are measured, and whose jobs are tuned. Without"
            " any, Slurm's default one is measured, and all jobs are tuned.",
            pattern=r"[A-Za-z0-9_. -]*",
            wanted="a list of names of partitions",
        ),
    ] = ()
    budget_s: Annotated[
        float,
        Key(
            "Wall time of each campaign.",
            key="budget",
            read=durations.seconds,
            takes=_TIME,
            wanted=_DURATION,
            example="4h",
        ),
    ] = 4 * 3600.0
    tasks: Annotated[int, Key("Batch jobs that share a campaign.", 1, 100_000)] = 1
    launcher: Annotated[
        str | None,
        Key("What starts programs; by default the MPI's own.", names=LAUNCHERS, example="srun"),
    ] = None
    default_mpi: Annotated[
        str,
        Key(
            "The MPI of jobs that load no module. Where it is empty such jobs keep the library's"
            " own decisions."
        ),
    ] = ""
    service: Annotated[
        str,
        Key(
            "URL of the service. Where it is empty there is none, and users load the module.",
            pattern=r"(http://[A-Za-z0-9_.-]+:\d{1,5})?",
            wanted="http://HOST:PORT, or empty",
        ),
    ] = ""
    nightly: Annotated[
        Literal["systemd", "scrontab", "none"], Key("What starts retraining every night.")
    ] = "none"
    backend: Annotated[Literal["native", "reprompi"], Key("What measures.")] = "native"
    jobs: Annotated[
        Path,
        Key(
            "Folder for what jobs are told, on a file system of all nodes.",
            pattern=r"[A-Za-z0-9_./-]+",
            wanted="a path of letters, digits and _./-",
        ),
    ] = Path("jobs")


@dataclass(frozen=True)
class Examination:
    """How candidates are evaluated."""

    held_out: Annotated[
        str, Key("What is left out and decided, a part at a time.", names=tuple(HELD_OUT))
    ] = "nodes"
    folds: Annotated[int, Key("In how many parts.", 2, 100)] = 4
    caution: Annotated[float, Key("As for `colltune select`.", 0, 100)] = 1.0


@dataclass(frozen=True)
class Thresholds:
    """By how much a candidate may be worse than what is in force."""

    shadow: Annotated[bool, Key("With true, candidates are compared and never promoted.")] = False
    regret_worse_by: Annotated[
        float, Key("By how much its regret may be worse than that of what is in force.", 0, 10)
    ] = 0.02
    share_worse_by: Annotated[
        float, Key("By how much its share of the possible log gain may be less.", 0, 10)
    ] = 0.05
    harm_worse_by: Annotated[
        float,
        Key("By how much more of its decisions may be slower than the library's default.", 0, 1),
    ] = 0.02
    harm_at_most: Annotated[
        float, Key("Share of decisions that may be 5 % slower than the library's default.", 0, 1)
    ] = 0.1


@dataclass(frozen=True)
class DriftLimits:
    """What counts as a change of the machine."""

    ratio: Annotated[float, Key("Smaller changes of runtimes are no alarm.", 1, 100)] = 1.15
    launch_noise: Annotated[
        float,
        Key(
            "Standard deviation of log times between launches, believed as much as three blocks of"
            " them.",
            0.001,
            10,
        ),
    ] = 0.1
    false_alarms: Annotated[float, Key("Share of checks that may alarm by chance.", 1e-12, 0.5)] = (
        0.005
    )


@dataclass(frozen=True)
class Backfill:
    """What the next campaign is planned from and where it goes, and what is confirmed."""

    demand: Annotated[
        Path,
        Key(
            "Folder in which the service notes what jobs asked for.",
            example="/shared/colltune/demand",
        ),
    ]
    campaigns: Annotated[
        Path,
        Key(
            "Folder that the next campaign is written to, one file for each library.",
            example="/shared/colltune/campaigns",
        ),
    ]
    budget_s: Annotated[
        float,
        Key(
            "Wall time of the next campaign.",
            key="budget",
            read=durations.seconds,
            takes=_TIME,
            wanted=_DURATION,
            example="4h",
        ),
    ] = 4 * 3600.0
    launch_s: Annotated[
        float, Key("Seconds that a launch takes besides its measurements.", 0, 1e6)
    ] = 10.0
    confirm_s: Annotated[
        float,
        Key(
            "Wall time of every run for measuring the decisions that jobs asked for most, against"
            " the default (`colltune confirm`), where it runs with the nodes for that. By default"
            " none.",
            key="confirm",
            read=durations.seconds,
            takes=_TIME,
            wanted=_DURATION,
            example="30m",
        ),
    ] = 0.0
    measurements: Annotated[
        Path | None,
        Key("Folder that what is confirmed joins.", example="/shared/colltune/measurements"),
    ] = None
    mpi: Annotated[
        str | None,
        Key("Whose mpirun confirms; by default the one that is found.", example="/opt/openmpi"),
    ] = None


@dataclass(frozen=True)
class Webhook:
    """Where to post to; the secret stays in its file."""

    url: Annotated[
        str,
        Key(
            "Gets a POST of JSON.",
            pattern=r"(?s)https?://.*",
            wanted="a URL of http:// or https://",
            example="https://chat.example.org/hooks/colltune",
        ),
    ]
    secret_file: Annotated[
        Path | None,
        Key("Its first line is sent in the header.", example="/etc/colltune/webhook-secret"),
    ] = None
    header: Annotated[
        str, Key("Name of that header.", pattern="[A-Za-z0-9-]+", wanted="a header's name")
    ] = "X-Colltune-Secret"


_TOLD = tuple(outcome.value for outcome in RunOutcome if outcome is not RunOutcome.NOTHING_NEW)


@dataclass(frozen=True)
class Hooks:
    """Who is told of which outcomes."""

    told: Annotated[
        tuple[str, ...],
        Key("Outcomes that are told.", key="on", names=tuple(each.value for each in RunOutcome)),
    ] = _TOLD
    timeout_s: Annotated[float, Key("Seconds that a hook may take.", 0.1, 600)] = 10.0
    command: Annotated[
        tuple[str, ...] | None,
        Key(
            "A program with its arguments, which gets the outcome as JSON on its standard input.",
            pattern="(?s).+",
            wanted="a program and its arguments, a list of strings",
            empty=False,
            example=["/usr/local/bin/tell-admins"],
        ),
    ] = None
    webhook: Annotated[Webhook | None, SettingTable("Who gets the outcome by HTTP.")] = None


_SOMETHING = r"(?s).*\S.*"


@dataclass(frozen=True)
class Site:
    """A site file."""

    machine: Annotated[
        str,
        Key(
            "Name of the machine, as in the campaigns that measure; measurements of others are"
            " left out.",
            key="site.machine",
            pattern=_SOMETHING,
            wanted="a name",
            example="hydra",
        ),
    ]
    registry: Annotated[
        str,
        Key(
            "Folder or URL of its bundles.",
            key="site.registry",
            pattern=_SOMETHING,
            wanted="a folder or a URL",
            located=True,
            example="/shared/colltune/registry",
        ),
    ]
    datasets: Annotated[
        tuple[str, ...],
        Key(
            "Folders or files of measurements, or URLs of folders.",
            key="data.datasets",
            wanted="a list of at least one folder, file or URL",
            empty=False,
            located=True,
            example=["/shared/colltune/measurements"],
        ),
    ]
    fabric: Annotated[
        str | None,
        Key(
            "The network, where measurements of several lie together.",
            key="site.fabric",
            example="omnipath",
        ),
    ] = None
    programs: Annotated[
        Programs,
        Key(
            "What all programs here keep: `any-legal`, `same-types`, `builtin-operations`, or the"
            " last two with a comma.",
            key="site.programs",
            read=Programs.parse,
        ),
    ] = FOR_EVERYBODY
    results: Annotated[
        Results | None,
        Key(
            "What is promised of the numbers that reductions give: `any`, `ranks-agree` (all ranks"
            " get the same) or `same-bits` (those of the library's own decision). By default"
            " `same-bits` where jobs are recorded, so that a job's arm never changes what it"
            " computes, else `ranks-agree`.",
            key="site.results",
            read=parse_results,
            example="same-bits",
        ),
    ] = None
    min_new: Annotated[
        int,
        Key(
            "Measurements that must have come in before anything is fitted.",
            1,
            10**12,
            key="data.min_new",
        ),
    ] = 1
    learner: Annotated[str, Key("As for `colltune fit`.", key="fit.learner", read=_learner)] = (
        "auto"
    )
    objective: Annotated[
        Objective, Key("As for `colltune fit`.", key="fit.objective", read=parse_objective)
    ] = DEFAULT_OBJECTIVE
    cluster: Annotated[
        Cluster | None, SettingTable("What `colltune site init` writes all other files from.")
    ] = None
    workers: Annotated[Workers, SettingTable("Where bundles are fitted.", "compute")] = field(
        default_factory=Workers
    )
    examination: Annotated[
        Examination, SettingTable("How candidates are evaluated.", "evaluate")
    ] = field(default_factory=Examination)
    thresholds: Annotated[
        Thresholds,
        SettingTable("By how much a candidate may be worse than what is in force.", "promote"),
    ] = field(default_factory=Thresholds)
    drift: Annotated[DriftLimits, SettingTable("What counts as a change of the machine.")] = field(
        default_factory=DriftLimits
    )
    backfill: Annotated[
        Backfill | None, SettingTable("What is measured next, and what is confirmed every night.")
    ] = None
    production: Annotated[Production, SettingTable("What jobs report at their end.")] = field(
        default_factory=Production
    )
    hooks: Annotated[Hooks, SettingTable("Who is told what became of a night.")] = field(
        default_factory=Hooks
    )

    def insist_own(self, bundle: Bundle) -> None:
        """Raise BundleError if `bundle`, which is in force, is for another machine."""
        if bundle.context.machine != self.machine:
            of, here = bundle.context, self.machine
            raise say("bundle-of-another-machine", bundle=bundle.id[:12], context=of, machine=here)

    def settings(self) -> dict[str, Any]:
        """Return what decides over a candidate, JSON-able: with others it may be decided anew."""
        parts = (self.examination, self.thresholds)
        named = {name: value for part in parts for name, value in vars(part).items()}
        return named | {
            "learner": self.learner,
            "objective": self.objective.value,
            "min_new": self.min_new,
        }


def load(path: Path) -> Site:
    """Read a site file."""
    text = text_of(path, SiteError, "name a site file")
    return parse(text, str(path), path.absolute().parent)


def parse(text: str, source: str, folder: Path) -> Site:
    """Return the site in TOML `text`; `source` names it in errors, paths are below `folder`."""
    file = TomlFile(text, source, SiteError)
    if "email" in dict(file.parsed().get("hooks", {})):
        raise file.fail("hooks.email", say("no-mail"))
    site = file.read(Site, folder)
    _check(file, site)
    return replace(site, programs=replace(site.programs, results=_results(site)))


def _results(site: Site) -> Results:
    if site.results is not None:
        return site.results
    said = site.programs.results
    usual = said is FOR_EVERYBODY.results
    return Results.SAME_BITS if usual and site.production.record else said


def _check(file: TomlFile, site: Site) -> None:
    """Check what keys mean together."""
    if site.backfill and site.backfill.confirm_s and site.backfill.measurements is None:
        raise file.fail("backfill.confirm", say("confirm-needs-measurements"))
    if site.cluster and site.cluster.default_mpi:
        names, default = [mpi.name for mpi in site.cluster.mpi], site.cluster.default_mpi
        if default not in names:
            raise file.fail(
                "cluster.default_mpi", say("not-one-of", value=default, known=", ".join(names))
            )
    if re.match(r"[^/]*://[^/@]*:.*@", site.production.store):
        raise file.fail("production.store", say("has-password"))
    workers = site.workers
    if workers.backend != DASK and (workers.slurm or workers.scheduler):
        raise file.fail("compute.backend", say("needs-dask"))
    if workers.slurm and workers.scheduler:
        raise file.fail(
            "compute.scheduler", say("exclusive", SiteError, one="it", other="[compute.slurm]")
        )
