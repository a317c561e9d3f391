"""Site files: what `colltune site retrain` does every night; TOML whose every key is checked.

Paths are relative to the file's folder. Keys
---------------------------------------------
``[site] machine``
    Name of the machine; measurements of others are left out. ``registry``: folder or URL of its
    bundles. ``fabric``: the network, where measurements of several lie together.
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
    log times between launches, believed as much as six launches tell; default 0.1.
    ``false_alarms``: share of checks that may alarm by chance; default 0.005.
``[backfill] demand``
    Folder in which the service notes what jobs asked for. ``campaigns``: folder that the next
    campaign is written to, one file per library; ``budget``: its wall time, default ``"4h"``;
    ``launch_s``: what a launch costs besides its measurements, default 10. ``confirm``: wall time
    of every run for measuring the decisions that jobs asked for most, against the default
    (`colltune confirm`), where it runs with the nodes for that; by default none. ``measurements``:
    folder that these join; ``mpi``: whose mpirun, default the one that is found.
``[hooks] on``
    Outcomes that are told: ``promoted``, ``kept``, ``shadow``, ``drift``, ``failed``,
    ``nothing_new``; default all but the last. ``command``: a program with its arguments, which
    gets the outcome as JSON on its standard input. ``timeout_s``: default 10.
``[hooks.webhook] url``
    Gets a POST of JSON. ``secret_file``: its first line is sent as the header ``header`` (default
    ``X-Colltune-Secret``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from colltune.bench import durations
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective, parse_objective
from colltune.errors import SiteError
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
from colltune.models.learners import learner_entry
from colltune.models.workers import BACKENDS, Slurm, Workers
from colltune.retraining.contest import HELD_OUT

_Section = TypeVar("_Section")


class Outcome(StrEnum):
    """What became of the slot of a library, or of a run.

    ``shadow``: compared only; ``kept``: the bundle in force stays, since the new one was not shown
    to be as good; ``failed``: there is no new one.
    """

    PROMOTED = "promoted"
    SHADOW = "shadow"
    NOTHING_NEW = "nothing_new"
    KEPT = "kept"
    DRIFT = "drift"
    FAILED = "failed"


@dataclass(frozen=True)
class Thresholds:
    """By how much a candidate may be worse than what is in force."""

    shadow: bool = False
    regret_worse_by: float = 0.02
    share_worse_by: float = 0.05
    harm_worse_by: float = 0.02
    harm_at_most: float = 0.1


@dataclass(frozen=True)
class Examination:
    """How candidates are evaluated."""

    held_out: str = "nodes"
    folds: int = 4
    caution: float = 1.0


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


@dataclass(frozen=True)
class Webhook:
    """Where to post to; the secret stays in its file."""

    url: str
    secret_file: Path | None = None
    header: str = "X-Colltune-Secret"


_TOLD = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.NOTHING_NEW)


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
    min_new: int = 1
    learner: str = "auto"
    objective: Objective = DEFAULT_OBJECTIVE
    workers: Workers = field(default_factory=Workers)
    examination: Examination = field(default_factory=Examination)
    thresholds: Thresholds = field(default_factory=Thresholds)
    drift: DriftLimits = field(default_factory=DriftLimits)
    backfill: Backfill | None = None
    hooks: Hooks = field(default_factory=Hooks)

    def settings(self) -> dict[str, Any]:
        """Return what decides over a candidate, JSON-able: with others it may be decided anew."""
        parts = (self.examination, self.thresholds)
        named = {name: value for part in parts for name, value in vars(part).items()}
        return named | {
            "learner": self.learner,
            "objective": self.objective.value,
            "min_new": self.min_new,
        }


def _number(name: str, least: float, most: float, *, whole: bool = False) -> Key:
    def fits(value: object) -> bool:
        kinds = (int,) if whole else (int, float)
        return type(value) in kinds and least <= value <= most  # type: ignore[operator]

    kind = "a whole number" if whole else "a number"
    return Key(name, f"{kind} from {least:g} to {most:g}", fits)


def _duration(name: str) -> Key:
    wanted = 'seconds, or a wall time such as "4h"'
    return Key(name, wanted, instance_of(int, float, str), durations.seconds)


def _learner(name: str) -> str:
    learner_entry(name)
    return name


def _words(value: object) -> bool:
    return list_of(str)(value) and bool(value) and all(value)  # type: ignore[arg-type]


def _outcomes(value: object) -> bool:
    return list_of(str)(value) and set(value) <= set(Outcome)  # type: ignore[call-overload]


KEYS: Tables = {
    "site": {
        "machine": string("machine"),
        "registry": string("registry"),
        "fabric": string("fabric"),
    },
    "data": {
        "datasets": Key(
            "datasets",
            "a list of at least one folder, file or URL",
            lambda value: list_of(str)(value) and bool(value),
        ),
        "min_new": _number("min_new", 1, 1e12, whole=True),
    },
    "fit": {
        "learner": Key("learner", "a string", instance_of(str), _learner),
        "objective": Key("objective", "a string", instance_of(str), parse_objective),
    },
    "compute": {
        "backend": choice("backend", BACKENDS),
        "jobs": _number("compute.jobs", 1, 1e6, whole=True),
        "scheduler": string("scheduler"),
    },
    "compute.slurm": {
        "jobs": _number("slurm.jobs", 1, 1e5, whole=True),
        "cores": _number("slurm.cores", 1, 1e5, whole=True),
        "memory": string("slurm.memory"),
        "walltime": string("slurm.walltime"),
        "queue": string("slurm.queue"),
        "account": string("slurm.account"),
        "interface": string("slurm.interface"),
        "directives": strings("slurm.directives"),
    },
    "evaluate": {
        "held_out": choice("held_out", HELD_OUT),
        "folds": _number("folds", 2, 100, whole=True),
        "caution": _number("caution", 0, 100),
    },
    "promote": {
        "shadow": flag("shadow"),
        "regret_worse_by": _number("regret_worse_by", 0, 10),
        "share_worse_by": _number("share_worse_by", 0, 10),
        "harm_worse_by": _number("harm_worse_by", 0, 1),
        "harm_at_most": _number("harm_at_most", 0, 1),
    },
    "drift": {
        "ratio": _number("drift.ratio", 1, 100),
        "launch_noise": _number("drift.launch_noise", 0.001, 10),
        "false_alarms": _number("drift.false_alarms", 1e-12, 0.5),
    },
    "backfill": {
        "demand": string("backfill.demand"),
        "campaigns": string("backfill.campaigns"),
        "budget": _duration("backfill.budget_s"),
        "launch_s": _number("backfill.launch_s", 0, 1e6),
        "confirm": _duration("backfill.confirm_s"),
        "measurements": string("backfill.measurements"),
        "mpi": string("backfill.mpi"),
    },
    "hooks": {
        "on": Key("told", f"a list of {', '.join(Outcome)}", _outcomes),
        "command": Key("command", "a program and its arguments, a list of strings", _words),
        "timeout_s": _number("timeout_s", 0.1, 600),
    },
    "hooks.webhook": {
        "url": string("webhook.url"),
        "secret_file": string("webhook.secret_file"),
        "header": string("webhook.header"),
    },
}
_NEEDED = ("site.machine", "site.registry", "data.datasets")
_NEEDED_IN = {
    "compute.slurm": ("cores", "memory"),
    "backfill": ("demand", "campaigns"),
    "hooks.webhook": ("url",),
}


def load(path: Path) -> Site:
    """Read a site file."""
    text = text_of(path, SiteError, "name a site file")
    return parse(text, str(path), path.absolute().parent)


def parse(text: str, source: str, folder: Path) -> Site:
    """Return the site in TOML `text`; `source` names it in errors, paths are below `folder`."""
    file = TomlFile(text, source, SiteError)
    present = _tables(file.parsed())
    if "hooks.email" in present:
        raise file.fail(
            "hooks.email",
            "colltune sends no mail itself any more; remove the table, and name a program that does"
            ' with hooks.command, such as ["/usr/local/bin/mail-json", "root@localhost"]',
        )
    needed = [f"{t}.{key}" for t, keys in _NEEDED_IN.items() if t in present for key in keys]
    values = file.values(KEYS, (*_NEEDED, *needed))
    paths = ("backfill.demand", "backfill.campaigns", "backfill.measurements")
    for key in (*paths, "webhook.secret_file"):
        if key in values:
            values[key] = folder / values[key]
    if "backfill.confirm_s" in values and "backfill.measurements" not in values:
        raise file.fail("backfill.confirm", "needs backfill.measurements, a folder of datasets")
    for name in ("registry", "machine"):
        if not values[name].strip():
            raise file.fail(f"site.{name}", "is empty; name it")
    values["registry"] = located(values["registry"], folder)
    values["datasets"] = tuple(located(text, folder) for text in values["datasets"])
    _check_hooks(file, values)
    return Site(
        workers=_workers(file, values),
        examination=_section(Examination, values),
        thresholds=_section(Thresholds, values),
        drift=_section(DriftLimits, values, "drift."),
        backfill=_section(Backfill, values, "backfill.") if "backfill" in present else None,
        hooks=Hooks(
            **_of(Hooks, values),
            webhook=_section(Webhook, values, "webhook.") if "hooks.webhook" in present else None,
        ),
        **_of(Site, values),
    )


def located(text: str, folder: Path) -> str:
    """Return a URL as it is, a path below `folder` unless it is absolute."""
    return text if "://" in text else str(folder / Path(text).expanduser())


def _check_hooks(file: TomlFile, values: Mapping[str, Any]) -> None:
    url = values.get("webhook.url", "http://")
    if not url.startswith(("http://", "https://")):
        raise file.fail("hooks.webhook.url", f"{url!r} is no URL of http:// or https://")
    header = values.get("webhook.header", "X")
    if not header.replace("-", "").isalnum() or not header.isascii():
        raise file.fail("hooks.webhook.header", f"{header!r} is no name of a header")


def _workers(file: TomlFile, values: Mapping[str, Any]) -> Workers:
    slurm = None
    if any(name.startswith("slurm.") for name in values):
        slurm = _section(Slurm, values, "slurm.")
    backend, scheduler = values.get("backend", "joblib"), values.get("scheduler")
    if backend != "dask" and (slurm or scheduler):
        raise file.fail("compute.backend", 'a scheduler or Slurm needs backend = "dask"')
    if slurm and scheduler:
        raise file.fail("compute.scheduler", "excludes [compute.slurm]; keep one")
    return Workers(backend, values.get("compute.jobs"), scheduler, slurm)


def _section(kind: type[_Section], values: Mapping[str, Any], prefix: str = "") -> _Section:
    return kind(**_of(kind, values, prefix))


def _of(kind: type, values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    names = (f"{prefix}{one.name}" for one in fields(kind))
    return {name.removeprefix(prefix): values[name] for name in names if name in values}


def _tables(parsed: Mapping[str, Any], above: str = "") -> set[str]:
    found = set()
    for name, value in parsed.items():
        if isinstance(value, dict):
            found |= {f"{above}{name}", *_tables(value, f"{above}{name}.")}
    return found
