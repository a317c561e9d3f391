"""Site files: what `colltune site retrain` does every night; TOML whose every key is checked.

Paths are relative to the file's folder. Keys
---------------------------------------------
``[site] machine``
    Name of the machine; measurements of others are left out. ``registry``: folder or URL of its
    bundles. ``fabric``: the network, where measurements of several lie together.
``[cluster]``
    What `colltune site init` writes the other files of a site from. ``user``: who measures,
    retrains and serves. ``mpi``: the MPIs of jobs, ``"openmpi/4.1.6=/opt/openmpi/bin/mpirun"``, or
    ``"openmpi/4.1.6"`` where modules bring it. ``default_mpi``: that of jobs that load no module,
    ``"openmpi/4.1.6"``; default: such jobs keep MPI's own decisions. ``partitions``: whose nodes
    are measured, and whose jobs are tuned; default: Slurm's default one is measured, all are tuned.
    ``nodes``, ``ppn``, ``collectives``, ``budget`` (wall time) of the campaigns, in ``tasks`` jobs
    (default 1), started by ``launcher`` (default: the MPI's mpirun). ``service``: its URL,
    ``http://host:8765``; default: none, users load the module. ``nightly``: ``systemd``,
    ``scrontab`` or ``none`` (default). ``backend``: what measures, ``native`` (default) or
    ``reprompi``. ``jobs``: folder for what jobs are told, default ``jobs``.
``[data] datasets``
    Folders or files of measurements, or URLs of folders. ``min_new``: measurements that must have
    come in before anything is fitted; default 1.
``[fit] learner``, ``objective``
    As for `colltune fit`; default ``auto`` and ``trimmed-mean``.
``[compute] backend``
    ``joblib`` (default; this host) or ``dask``. ``jobs``: processor cores; default: all.
    ``scheduler``: of Dask, ``tcp://host:port``.
``[compute.slurm]``
    A Dask cluster in a Slurm job: ``jobs`` of ``cores``, ``memory``, ``walltime``; ``queue``,
    ``account``, ``interface``, ``directives`` (further options of sbatch).
``[evaluate] held_out``
    What is left out and decided, a part at a time: ``nodes`` (default; node counts), ``ppn``,
    ``shapes`` or ``msizes``, in ``folds`` parts (default 4). ``caution``: as for `colltune select`.
``[promote] shadow``
    true: candidates are compared, never promoted. ``regret_worse_by`` (default 0.02: 2 %),
    ``share_worse_by`` (of the possible log gain, default 0.05), ``harm_worse_by`` (default 0.02):
    by how much a candidate may be worse than what is in force; ``harm_at_most`` (default 0.1):
    share of decisions more than 5 % slower than the library's default.
``[drift] ratio``
    Smaller changes of runtimes are no alarm; default 1.15. ``launch_noise``: standard deviation of
    log times between launches, believed as much as three blocks of them; default 0.1.
    ``false_alarms``: share of checks that may alarm by chance; default 0.005.
``[backfill] demand``
    Folder in which the service notes what jobs asked for. ``campaigns``: folder that the next
    campaign is written to, one file per library; ``budget``: its wall time, default ``"4h"``;
    ``launch_s``: what a launch costs besides its measurements, default 10. ``confirm``: wall time
    of every run for measuring the decisions that jobs asked for most, against the default
    (`colltune confirm`), where it runs with the nodes for that; by default none. ``measurements``:
    folder that these join; ``mpi``: whose mpirun, default the one that is found.
``[production] record``
    true: jobs are compared with a control group that keeps the library's default, and
    `colltune serve --site` judges bundles by what jobs report at their end. ``control``: share
    of jobs in the control group, default 0.05. ``steps``: shares of jobs that a new bundle gets
    one after the other, default ``[0.05, 0.25, 1.0]``; ``jobs_per_step``: jobs of it before the
    next step, default 200. ``harm``: how much slower than the control group is harm, default
    1.02 (2 %). ``alpha``: chance that a good decision is ever withdrawn, default 0.01.
    ``users``: ``hash`` (default), so that no user has more than ``user_share`` (default 0.2) of
    the weight that lets a trial go on; with ``none`` none goes on by itself. ``programs``:
    ``hash`` (default) of a program's path, or ``names``. ``rate``: one call in so many is
    timed, default 20. ``store``: database of what jobs reported, a file (SQLite, default
    ``production/production.db``) or ``postgresql+psycopg://user@host/database``, whose password
    stands in the file that ``PGPASSFILE`` names. ``archive``: folder of earlier days, default
    ``production``; ``months``: how long they are kept, default 12.
``[hooks] on``
    Outcomes that are told: ``promoted``, ``trial``, ``kept``, ``shadow``, ``drift``, ``failed``,
    ``nothing_new``; default all but the last. ``command``: a program with its arguments, which
    gets the outcome as JSON on its standard input. ``timeout_s``: default 10.
``[hooks.webhook] url``
    Gets a POST of JSON. ``secret_file``: its first line is sent as the header ``header`` (default
    ``X-Colltune-Secret``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from colltune.bench import durations
from colltune.bench.launchers import LAUNCHERS
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective, parse_objective
from colltune.domain import Collective, parse_collective
from colltune.errors import BundleError, SiteError
from colltune.files.reading import text_of
from colltune.files.toml_schema import (
    Key,
    Tables,
    TomlFile,
    choice,
    flag,
    instance_of,
    list_of,
    string,
    strings,
)
from colltune.models.bundle import Bundle
from colltune.models.cells import HELD_OUT
from colltune.models.learners import learner_entry
from colltune.models.workers import BACKENDS, Slurm, Workers
from colltune.mpi import library
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.production.arms import Production

DEPLOY_FILES: dict[str, str] = {
    "systemd": "colltune-retrain.service",
    "timer": "colltune-retrain.timer",
    "scrontab": "scrontab",
    "kubernetes": "cronjob.yaml",
    "site": "site.toml",
}
"""What starts a retraining every night, in ``deploy/``, and an example of a site file."""


def deploy_file(kind: str) -> str:
    """Return the text of the file for `kind`, a key of `DEPLOY_FILES`."""
    if kind not in DEPLOY_FILES:
        raise SiteError(f"no unit {kind!r}", f"there are {', '.join(DEPLOY_FILES)}")
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
            raise SiteError(
                f"{text!r} is not like openmpi/4.1.6 or openmpi/4.1.6=/opt/openmpi/bin/mpirun"
            )
        library(match[1]).at(match[2])
        return cls(match[1], match[2], match[3] or "")

    @property
    def name(self) -> str:
        return f"{self.library}/{self.release}"


@dataclass(frozen=True)
class Cluster:
    """What the other files of a site's folder are written from."""

    user: str
    mpi: tuple[SiteMpi, ...]
    nodes: tuple[int, ...]
    ppn: tuple[int, ...]
    collectives: tuple[Collective, ...]
    partitions: tuple[str, ...] = ()
    budget_s: float = 4 * 3600.0
    tasks: int = 1
    launcher: str | None = None
    default_mpi: str = ""
    service: str = ""
    nightly: str = "none"
    backend: str = "native"
    jobs: Path = Path("jobs")


@dataclass(frozen=True)
class Examination:
    """How candidates are evaluated."""

    held_out: str = "nodes"
    folds: int = 4
    caution: float = 1.0


@dataclass(frozen=True)
class Thresholds:
    """By how much a candidate may be worse than what is in force."""

    shadow: bool = False
    regret_worse_by: float = 0.02
    share_worse_by: float = 0.05
    harm_worse_by: float = 0.02
    harm_at_most: float = 0.1


@dataclass(frozen=True)
class DriftLimits:
    """What counts as a change of the machine."""

    ratio: float = 1.15
    launch_noise: float = 0.1
    false_alarms: float = 0.005


@dataclass(frozen=True)
class Backfill:
    """What the next campaign is planned from and where it goes, and what is confirmed."""

    demand: Path
    campaigns: Path
    budget_s: float = 4 * 3600.0
    launch_s: float = 10.0
    confirm_s: float = 0.0
    measurements: Path | None = None
    mpi: str | None = None
    programs: Programs = FOR_EVERYBODY


@dataclass(frozen=True)
class Webhook:
    """Where to post to; the secret stays in its file."""

    url: str
    secret_file: Path | None = None
    header: str = "X-Colltune-Secret"


_TOLD = tuple(outcome.value for outcome in RunOutcome if outcome is not RunOutcome.NOTHING_NEW)


@dataclass(frozen=True)
class Hooks:
    """Who is told of which outcomes."""

    told: tuple[str, ...] = _TOLD
    timeout_s: float = 10.0
    command: tuple[str, ...] | None = None
    webhook: Webhook | None = None


@dataclass(frozen=True)
class Site:
    """A site file; the module tells the meaning of each key."""

    machine: str
    registry: str
    datasets: tuple[str, ...]
    fabric: str | None = None
    programs: Programs = FOR_EVERYBODY
    cluster: Cluster | None = None
    min_new: int = 1
    learner: str = "auto"
    objective: Objective = DEFAULT_OBJECTIVE
    workers: Workers = field(default_factory=Workers)
    examination: Examination = field(default_factory=Examination)
    thresholds: Thresholds = field(default_factory=Thresholds)
    drift: DriftLimits = field(default_factory=DriftLimits)
    backfill: Backfill | None = None
    production: Production = field(default_factory=Production)
    hooks: Hooks = field(default_factory=Hooks)

    def insist_own(self, bundle: Bundle) -> None:
        """Raise BundleError if `bundle`, which is in force, is for another machine."""
        if bundle.context.machine != self.machine:
            raise BundleError(
                f"{self.registry}: the bundle {bundle.id[:12]} in force is for {bundle.context}, "
                f"but the site is {self.machine}",
                "Use one registry per machine.",
            )

    def settings(self) -> dict[str, Any]:
        """Return what decides over a candidate, JSON-able: with others it may be decided anew."""
        parts = (self.examination, self.thresholds)
        named = {name: value for part in parts for name, value in vars(part).items()}
        return named | {
            "learner": self.learner,
            "objective": self.objective.value,
            "min_new": self.min_new,
        }


def _number(least: float, most: float, *, whole: bool = False) -> Key:
    def fits(value: object) -> bool:
        kinds = (int,) if whole else (int, float)
        return type(value) in kinds and least <= value <= most  # type: ignore[operator]

    kind = "a whole number" if whole else "a number"
    return Key("", f"{kind} from {least:g} to {most:g}", fits)


def _learner(name: str) -> str:
    learner_entry(name)
    return name


def _matching(what: str, pattern: str) -> Key:
    """Return a key for a word in which no shell, nor Slurm, sees anything else."""
    return Key("", what, lambda v: isinstance(v, str) and bool(re.fullmatch(pattern, v)))


def _words(value: object) -> bool:
    return list_of(str)(value) and bool(value) and all(value)  # type: ignore[arg-type]


def _partitions(value: object) -> bool:
    return list_of(str)(value) and not re.search(r"[^A-Za-z0-9_.', -]", str(value)[1:-1])


def _several(such_as: str, convert: Callable[[str], object]) -> Key:
    return Key("", f'a list such as ["{such_as}"]', _words, lambda each: tuple(map(convert, each)))


def _outcomes(value: object) -> bool:
    return list_of(str)(value) and set(value) <= set(RunOutcome)  # type: ignore[call-overload]


def _rising(value: object) -> bool:
    """Tell whether these are shares of jobs, each larger than the one before, up to all."""
    if not list_of(int, float)(value):
        return False
    shares = [0.0, *value]  # type: ignore[misc]
    return shares[-1] == 1 and all(a < b for a, b in pairwise(shares))


_TEXT = string("")
_COUNT = _number(1, 1e5, whole=True)
_COUNTS = Key(
    "",
    "a list of whole numbers from 1",
    lambda value: list_of(int)(value) and min(value, default=0) > 0,  # type: ignore[call-overload]
)
_DURATION = Key(
    "", 'seconds, or a wall time such as "4h"', instance_of(int, float, str), durations.seconds
)
_CHECKS: Tables = {
    "site": {
        "machine": _TEXT,
        "registry": _TEXT,
        "fabric": _TEXT,
        "programs": replace(_TEXT, convert=Programs.parse),
    },
    "cluster": {
        "user": _matching("the name of a user", r"[A-Za-z_][A-Za-z0-9_.-]*"),
        "mpi": _several("openmpi/4.1.6", SiteMpi.parse),
        "default_mpi": _TEXT,
        "partitions": Key("", "a list of names of partitions", _partitions),
        "nodes": _COUNTS,
        "ppn": _COUNTS,
        "collectives": _several("bcast", parse_collective),
        "budget": _DURATION,
        "tasks": _COUNT,
        "launcher": choice("", LAUNCHERS),
        "service": _matching("http://HOST:PORT, or empty", r"(http://[A-Za-z0-9_.-]+:\d{1,5})?"),
        "nightly": choice("", ("systemd", "scrontab", "none")),
        "backend": choice("", ("native", "reprompi")),
        "jobs": _matching("a path of letters, digits and _./-", r"[A-Za-z0-9_./-]+"),
    },
    "data": {
        "datasets": Key(
            "",
            "a list of at least one folder, file or URL",
            lambda value: list_of(str)(value) and bool(value),
        ),
        "min_new": _number(1, 1e12, whole=True),
    },
    "fit": {
        "learner": replace(_TEXT, convert=_learner),
        "objective": replace(_TEXT, convert=parse_objective),
    },
    "compute": {
        "backend": choice("", BACKENDS),
        "jobs": _number(1, 1e6, whole=True),
        "scheduler": _TEXT,
    },
    "compute.slurm": {
        "jobs": _COUNT,
        "cores": _COUNT,
        **dict.fromkeys(("memory", "walltime", "queue", "account", "interface"), _TEXT),
        "directives": strings(""),
    },
    "evaluate": {
        "held_out": choice("", HELD_OUT),
        "folds": _number(2, 100, whole=True),
        "caution": _number(0, 100),
    },
    "promote": {
        "shadow": flag(""),
        "regret_worse_by": _number(0, 10),
        "share_worse_by": _number(0, 10),
        "harm_worse_by": _number(0, 1),
        "harm_at_most": _number(0, 1),
    },
    "drift": {
        "ratio": _number(1, 100),
        "launch_noise": _number(0.001, 10),
        "false_alarms": _number(1e-12, 0.5),
    },
    "backfill": {
        "demand": _TEXT,
        "campaigns": _TEXT,
        "budget": _DURATION,
        "launch_s": _number(0, 1e6),
        "confirm": _DURATION,
        "measurements": _TEXT,
        "mpi": _TEXT,
    },
    "production": {
        "record": flag(""),
        "control": _number(0.001, 0.5),
        "steps": Key("", "a list of rising shares that ends in 1.0", _rising, tuple),
        "jobs_per_step": _COUNT,
        "harm": _number(1, 10),
        "alpha": _number(1e-9, 0.5),
        "users": choice("", ("none", "hash")),
        "programs": choice("", ("hash", "names")),
        "rate": _number(1, 1e6, whole=True),
        "store": _TEXT,
        "archive": _TEXT,
        "months": _number(1, 1200, whole=True),
        "user_share": _number(0.001, 1),
    },
    "hooks": {
        "on": Key("", f"a list of {', '.join(RunOutcome)}", _outcomes),
        "command": Key("", "a program and its arguments, a list of strings", _words),
        "timeout_s": _number(0.1, 600),
    },
    "hooks.webhook": {"url": _TEXT, "secret_file": _TEXT, "header": _TEXT},
}
KEYS: Tables = {
    table: {name: replace(key, field=f"{table}.{name}") for name, key in keys.items()}
    for table, keys in _CHECKS.items()
}
_FIELDS = {"on": "told", "budget": "budget_s", "confirm": "confirm_s"}
"""Keys that set a field of another name."""
_NEEDED = {
    "site": ("machine", "registry"),
    "cluster": ("user", "mpi", "nodes", "ppn", "collectives"),
    "data": ("datasets",),
    "compute.slurm": ("cores", "memory"),
    "backfill": ("demand", "campaigns"),
    "hooks.webhook": ("url",),
}
_PATHS = (
    "cluster.jobs",
    "backfill.demand",
    "backfill.campaigns",
    "backfill.measurements",
    "production.archive",
    "hooks.webhook.secret_file",
)


def load(path: Path) -> Site:
    """Read a site file."""
    text = text_of(path, SiteError, "name a site file")
    return parse(text, str(path), path.absolute().parent)


def parse(text: str, source: str, folder: Path) -> Site:
    """Return the site in TOML `text`; `source` names it in errors, paths are below `folder`."""
    file = TomlFile(text, source, SiteError)
    present = {"site", "data", *_tables(file.parsed())}
    if "hooks.email" in present:
        raise file.fail(
            "hooks.email",
            "colltune no longer sends mail itself. Remove the table, and name a program that "
            'sends mail in hooks.command, such as ["/usr/local/bin/mail-json", '
            '"root@localhost"].',
        )
    needed = [f"{t}.{key}" for t, keys in _NEEDED.items() if t in present for key in keys]
    values = file.values(KEYS, needed)
    _check(file, values)
    if "cluster" in present:
        values.setdefault("cluster.jobs", "jobs")
    places = {"production.store": "production/production.db", "production.archive": "production"}
    values = places | values
    values["production.store"] = located(values["production.store"], folder)
    values |= {key: folder / values[key] for key in _PATHS if key in values}
    values["site.registry"] = located(values["site.registry"], folder)
    values["data.datasets"] = tuple(located(place, folder) for place in values["data.datasets"])

    def of(table: str) -> dict[str, Any]:
        names = {name: f"{table}.{name}" for name in KEYS[table]}
        return {_FIELDS.get(n, n): values[key] for n, key in names.items() if key in values}

    slurm = of("compute.slurm")
    programs = values.get("site.programs", FOR_EVERYBODY)
    webhook = Webhook(**of("hooks.webhook")) if "hooks.webhook" in present else None
    return Site(
        **of("site"),
        cluster=Cluster(**of("cluster")) if "cluster" in present else None,
        **of("data"),
        **of("fit"),
        workers=Workers(**of("compute"), slurm=Slurm(**slurm) if slurm else None),
        examination=Examination(**of("evaluate")),
        thresholds=Thresholds(**of("promote")),
        drift=DriftLimits(**of("drift")),
        backfill=Backfill(**of("backfill"), programs=programs) if "backfill" in present else None,
        production=Production(**of("production"), promise=str(programs)),
        hooks=Hooks(**of("hooks"), webhook=webhook),
    )


def located(text: str, folder: Path) -> str:
    """Return a URL as it is, a path below `folder` unless it is absolute."""
    return text if "://" in text else str(folder / Path(text).expanduser())


def _check(file: TomlFile, values: Mapping[str, Any]) -> None:
    """Check what keys mean together."""
    if "backfill.confirm" in values and "backfill.measurements" not in values:
        raise file.fail("backfill.confirm", "needs backfill.measurements, a folder of datasets")
    default_mpi = values.get("cluster.default_mpi")
    if default_mpi and default_mpi not in (names := [mpi.name for mpi in values["cluster.mpi"]]):
        raise file.fail("cluster.default_mpi", f"{default_mpi!r} is not one of {', '.join(names)}")
    for key in ("site.registry", "site.machine"):
        if not values[key].strip():
            raise file.fail(key, "is empty. Name it.")
    url = values.get("hooks.webhook.url", "http://")
    if not url.startswith(("http://", "https://")):
        raise file.fail("hooks.webhook.url", f"{url!r} is not a URL of http:// or https://")
    header = values.get("hooks.webhook.header", "X")
    if not header.replace("-", "").isalnum() or not header.isascii():
        raise file.fail("hooks.webhook.header", f"{header!r} is not a header's name")
    if re.match(r"[^/]*://[^/@]*:.*@", values.get("production.store", "")):
        raise file.fail(
            "production.store",
            "contains a password. Leave it out, and write it to the file that PGPASSFILE names.",
        )
    slurm = any(key.startswith("compute.slurm.") for key in values)
    scheduler = values.get("compute.scheduler")
    if values.get("compute.backend") != "dask" and (slurm or scheduler):
        raise file.fail("compute.backend", 'a scheduler or Slurm needs backend = "dask"')
    if slurm and scheduler:
        raise file.fail("compute.scheduler", "excludes [compute.slurm]. Keep one.")


def _tables(parsed: Mapping[str, Any], above: str = "") -> set[str]:
    found = set()
    for name, value in parsed.items():
        if isinstance(value, dict):
            found |= {f"{above}{name}", *_tables(value, f"{above}{name}.")}
    return found
