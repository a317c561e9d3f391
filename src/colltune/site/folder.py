"""A site's folder: every file in it follows from ``site.toml``, the one file that people edit.

What was written is noted in a stamp, with hashes: a file that somebody edited is never overwritten.
The stamp is JSON; its format 1 holds ``colltune`` (the release that wrote) and ``files`` (for each
name the hashes of all texts that were written, or are being written, there).

Beside it are examples of how a service is kept running and watched.
"""

from __future__ import annotations

import difflib
import getpass
import hashlib
import json
import os
import pwd
import re
import shlex
import shutil
import socket
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from colltune import __version__, process
from colltune.bench.campaign import Campaign
from colltune.bench.slurm import configuration
from colltune.errors import ColltuneError, ProgramError, SiteError, say, unknown
from colltune.files import locked, write_text
from colltune.files.reading import json_of
from colltune.files.settings import toml, written
from colltune.mpi.installation import find_launcher
from colltune.mpi.programs import FOR_EVERYBODY
from colltune.production.payback import Payback, load_of, payback, recorded
from colltune.retraining.site_file import Cluster, Site, SiteMpi, deploy_file, load, parse
from colltune.selector.demand import counted_hours, read_demand
from colltune.server.slurm import hooks
from colltune.site.recording import HEADER, LIBRARIES, TOKENS, make, records
from colltune.text import filled, printable

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
        raise unknown("example", name, EXAMPLES, ColltuneError)
    folder = Path(__file__).parents[1] / "server" / "deploy"
    text = (folder / EXAMPLES[name]).read_text(encoding="utf-8")
    return text.replace(_PROGRAM, str(Path(sys.prefix, "bin", "colltune")))


SITE = "site.toml"
STAMP = ".colltune.json"
FORMAT = 1
_PLAIN = re.compile(r"/[A-Za-z0-9_./+-]+")
_RUN = ("install", "measure", *(f"slurm/{name}" for name in hooks.SCRIPTS))
_NODES = (2, 3, 4, 6, 8, 12, 16)
_TIMEOUT_S = 20.0
_HEAD = "# Written by `colltune site init` from site.toml: edit that, and run it again.\n"


def guessed() -> dict[str, Any]:
    """Return what this host tells of its site, by keys of the site file."""
    slurm: Mapping[str, str] = {}
    with suppress(ProgramError):
        slurm = configuration()
    names, most_nodes, cores = _partition()
    user = getpass.getuser()
    found: dict[str, Any] = {
        "site.machine": slurm.get("ClusterName", socket.gethostname()),
        "site.registry": "registry",
        "cluster.user": os.environ.get("SUDO_USER", user) if user == "root" else user,
        "cluster.partitions": names,
        "cluster.nodes": [n for n in _NODES if n <= most_nodes] or [1],
        "cluster.ppn": sorted({1, max(1, cores // 2), cores}),
        "cluster.collectives": ["bcast", "allreduce", "alltoall"],
        "cluster.budget": "4h",
        "cluster.service": f"http://{_controller(slurm)}:8765" if shutil.which("scontrol") else "",
        "cluster.nightly": _nightly(slurm),
        "data.datasets": ["measurements"],
        "data.min_new": 100,
        "backfill.demand": "demand",
        "backfill.campaigns": "next-campaigns",
    }
    with suppress(KeyError):
        found["cluster.user"] = pwd.getpwnam("colltune").pw_name
    with suppress(ProgramError):
        found["cluster.mpi"] = [named_mpi(None)]
    return found


def _partition() -> tuple[list[str], int, int]:
    """Return Slurm's default partition, or the first one, with its nodes and cores per node."""
    rows: list[tuple[str, int, int]] = []
    with suppress(ProgramError, ValueError):
        sinfo = process.find("sinfo", "")
        asked = process.run([sinfo, "--noheader", "--format=%P %D %c"], timeout_s=_TIMEOUT_S)
        told = [line.split() for line in asked.stdout.splitlines() if asked.ok]
        rows = [(name, int(nodes), int(cores.rstrip("+"))) for name, nodes, cores in told]
    if not rows:
        return [], 1, os.cpu_count() or 1
    chosen = next((row for row in rows if row[0].endswith("*")), rows[0])[0]
    same = [row for row in rows if row[0] == chosen]
    return [chosen.rstrip("*")], sum(row[1] for row in same), min(row[2] for row in same)


def _controller(slurm: Mapping[str, str]) -> str:
    return slurm.get("SlurmctldHost", "").partition("(")[0] or socket.gethostname()


def _nightly(slurm: Mapping[str, str]) -> str:
    if Path("/run/systemd/system").is_dir():
        return "systemd"
    return "scrontab" if "enable" in slurm.get("ScronParameters", "") else "none"


def named_mpi(text: str | None) -> str:
    """Return an MPI as the site file names it; `text` names it so, or its mpirun or folder."""
    if text is not None:
        with suppress(SiteError):
            SiteMpi.parse(text)
            return text
    found = find_launcher(text)
    return f"{found.library}/{found.release}={found.mpirun}"


def site_text(answers: Mapping[str, Any], folder: Path) -> str:
    """Return a site file with `answers`, by key, in their places; it is checked."""
    text = written(
        Site,
        answers,
        "# The site: the one file to edit. Then run `colltune site init` again on its folder.",
    )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise say("answer-not-utf8") from None
    files_of(parse(text, f"{folder / SITE} (not written)", folder), folder)
    return text


def files_of(site: Site, folder: Path) -> dict[str, str]:
    """Return the text of every file that follows from the site file, by its name in `folder`."""
    cluster = _cluster(site, folder)
    local = _local(site, folder)
    for path in (str(folder), str(program()), *local):
        if not _PLAIN.fullmatch(path):
            raise say("misread-characters", value=printable(path), allowed="_./+-")
    settings = {
        "user": cluster.user,
        "jobs": str(cluster.jobs),
        "folders": f"'{' '.join(local)}'",
        "nightly": cluster.nightly,
        "program": str(program()),
        "data": shlex.quote(site.datasets[0]),
        "tasks": str(cluster.tasks),
        "partition": ",".join(cluster.partitions),
    }
    url = ("COLLTUNE_URL", cluster.service)
    asks = url if cluster.service else ("COLLTUNE_REGISTRY", site.registry)
    found = {
        "README": _readme(site, folder),
        "install": filled(_script("install.sh"), settings),
        "measure": filled(_script("measure.sh"), settings),
        "modulefiles/colltune.lua": hooks.module_text(hooks.MODULE, program().parent, *asks),
        "modulefiles/colltune": hooks.module_text("colltune.tcl", program().parent, *asks),
        **{
            f"campaigns/{mpi.library}-{mpi.release}.toml": _campaign(site, cluster, mpi)
            for mpi in cluster.mpi
        },
    }
    if cluster.service:
        where = hooks.Installed(folder / "slurm", (), ())
        found |= {f"slurm/{n}": text for n, text in _hooks(site, cluster, folder).items()}
        found["slurm/slurm.conf"] = where.slurm_conf()
        found["systemd/colltune.service"] = _service(site, cluster, folder)
    return found | _nightly_files(cluster, folder, local)


def program() -> Path:
    """Return the colltune that runs, which the folder's files name."""
    return Path(sys.prefix, "bin", "colltune")


def _cluster(site: Site, folder: Path) -> Cluster:
    if site.cluster is None:
        raise say("cluster-missing", path=folder / SITE)
    return site.cluster


def _script(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _local(site: Site, folder: Path) -> list[str]:
    """Return the folders that the user of the site writes, but for those of an object store."""
    found = [site.registry, *site.datasets, str(folder / "log")]
    if site.backfill is not None:
        found += [str(site.backfill.demand), str(site.backfill.campaigns)]
    if records(site):
        found += _of_production(site)
    return [place for place in found if "://" not in place]


def _of_production(site: Site) -> list[str]:
    """Return the folders of what jobs report."""
    store, archive = site.production.store, str(site.production.archive)
    return [archive] if "://" in store else list(dict.fromkeys((str(Path(store).parent), archive)))


_SIZES = [4, 64, 512, 2048, 8192, 32768, 131072, 524288, 1048576]


def _campaign(site: Site, cluster: Cluster, mpi: SiteMpi) -> str:
    """Return the campaign of an MPI of the site."""
    values = {
        "space.collectives": cluster.collectives,
        "space.msizes_bytes": _SIZES,
        "space.nodes": cluster.nodes,
        "space.ppn": cluster.ppn,
        # what a site promises of results may change, and what was measured stays
        "space.programs": replace(site.programs, results=FOR_EVERYBODY.results),
        "machine.name": site.machine,
        "machine.fabric": site.fabric,
        "library.name": mpi.library,
        "library.release": mpi.release,
        "library.mpi": mpi.mpirun or None,
        "launcher.name": cluster.launcher,
        "budget.total": f"{cluster.budget_s:g}s",
    }
    if cluster.backend == "reprompi":
        values |= {"measure.backend": "reprompi", "measure.synchronisation": ["window", "barrier"]}
    given = {key: value for key, value in values.items() if value is not None}
    return written(Campaign, given, f"{_HEAD}# `sh measure` measures this.")


def _hooks(site: Site, cluster: Cluster, folder: Path) -> dict[str, str]:
    settings = {
        "COLLTUNE_SITE_URL": cluster.service,
        "COLLTUNE_SITE_FOLDER": str(cluster.jobs),
        "COLLTUNE_SITE_LIBRARIES": " ".join(mpi.name for mpi in cluster.mpi),
        "COLLTUNE_SITE_DEFAULT": cluster.default_mpi,
        "COLLTUNE_SITE_PARTITIONS": " ".join(cluster.partitions),
    }
    if records(site):
        settings |= {
            "COLLTUNE_SITE_RECORD": "all",
            "COLLTUNE_SITE_RATE": str(site.production.rate),
            "COLLTUNE_SITE_LIB": str(folder / LIBRARIES),
            "COLLTUNE_SITE_PROGRAMS": site.production.programs,
            "COLLTUNE_SITE_USERS": site.production.users,
        }
    return hooks.hook_texts(settings)


def _service(site: Site, cluster: Cluster, folder: Path) -> str:
    host, _, port = cluster.service.removeprefix("http://").rpartition(":")
    listen = host if host in ("127.0.0.1", "localhost") else "0.0.0.0"  # noqa: S104
    names = f" --allowed-hosts {host}" if "." in host.strip("0123456789.") else ""
    settings = {
        "ExecStart": f"{program()} serve --host {listen} --port {port} --workers 2{names}",
        "RequiresMountsFor": str(folder),
        "Environment=COLLTUNE_SERVER_REGISTRY": site.registry,
        "Environment=COLLTUNE_SERVER_PROGRAMS": str(site.programs),
        "User": cluster.user,
        "DynamicUser": "no",
        "ProtectHome": "read-only",
        "ReadOnlyPaths": f"-{folder}",
    }
    written: list[str] = []
    if site.backfill is not None:
        settings["Environment=COLLTUNE_SERVER_DEMAND"] = str(site.backfill.demand)
        written = [str(site.backfill.demand)]
    if records(site):
        settings["ExecStart"] += f" --site {folder / SITE}"
        # in a line of its own, so that the file of further settings may name other tokens
        settings["Environment=COLLTUNE_SERVER_REGISTRY"] += (
            f"\nEnvironment=COLLTUNE_SERVER_TOKENS={folder / TOKENS}"
        )
        # it withdraws what production refutes
        written += [*_of_production(site), *([] if "://" in site.registry else [site.registry])]
    if written:
        settings["ReadWritePaths"] = " ".join(f"-{path}" for path in dict.fromkeys(written))
    return _unit(example("systemd"), settings)


def _nightly_files(cluster: Cluster, folder: Path, local: Sequence[str]) -> dict[str, str]:
    command = f"{program()} site retrain --config {folder / SITE}"
    if cluster.nightly == "systemd":
        settings = {
            "ExecStart": command,
            "User": cluster.user,
            "Group": "",
            "RequiresMountsFor": str(folder),
            "ReadWritePaths": " ".join(local),
        }
        return {
            "systemd/colltune-retrain.service": _unit(deploy_file("systemd"), settings),
            "systemd/colltune-retrain.timer": _unit(deploy_file("timer"), {}),
        }
    if cluster.nightly == "scrontab":
        example_command = (
            "/opt/colltune/bin/colltune site retrain --config /shared/colltune/site.toml"
        )
        text = filled(deploy_file("scrontab"), {"#SCRON --output": f"{folder}/log/retrain-%j.log"})
        lines = text.replace(example_command, command).splitlines(keepends=True)
        kept = [line for line in lines if line.startswith("#SCRON") or "colltune" in line]
        return {"scrontab": f"# colltune: begin\n{''.join(kept)}# colltune: end\n"}
    return {}


def _unit(text: str, settings: Mapping[str, str]) -> str:
    """Return a unit without the remarks for who copies it by hand."""
    _, _, rest = text.partition("[Unit]\n")
    lines = filled(rest, settings).splitlines(keepends=True)
    return _HEAD + "[Unit]\n" + "".join(line for line in lines if not line.startswith("# adapt"))


class FilePlace(NamedTuple):
    """What goes where."""

    file: str
    """name of the file"""
    goes_to: str
    """where it takes effect"""
    read_by: str
    """who reads it there"""
    root: bool
    """whether root puts it there"""


def places(site: Site, folder: Path) -> tuple[FilePlace, ...]:
    """Return what of a site's folder goes where."""
    cluster = _cluster(site, folder)
    user, units, jobs = cluster.user, "/etc/systemd/system", cluster.jobs
    jobs_name = str(jobs.relative_to(folder) if jobs.is_relative_to(folder) else jobs)
    rows = [
        ("site.toml", "here: the one file to edit", f"you; retraining, as {user}", False, ""),
        ("install", "here: run it now, and after changes", "root", True, ""),
        ("measure", "here: run it to measure", user, False, ""),
        ("campaigns/", "here", f"measure, as {user}", False, ""),
        ("slurm/*.sh", "here", "slurmctld; slurmd before each task", False, "service"),
        ("slurm/slurm.conf", "its lines: slurm.conf", "slurmctld, slurmd", True, "service"),
        ("systemd/colltune.service", units, f"systemd, as {user}", True, "service"),
        (jobs_name, "made by install", "the prolog writes, tasks read", True, "service"),
        ("systemd/colltune-retrain.*", units, f"systemd, as {user}", True, "systemd"),
        ("scrontab", f"the scrontab of {user}", f"slurmctld, as {user}", True, "scrontab"),
        (f"{HEADER}, secret", "here", "the epilog, as SlurmUser alone", True, "records"),
        ("tokens", "here", f"the service, as {user}", True, "records"),
        ("lib/*/libcolltune.so", "here", "all ranks of recorded jobs", True, "records"),
        ("modulefiles/", "here: module use", "users who load it", False, ""),
    ]
    has = {"", cluster.nightly, "service" if cluster.service else ""}
    has |= {"records"} if records(site) else set()
    return tuple(FilePlace(*row[:4]) for row in rows if row[4] in has)


def payback_of(
    site: Site, folder: Path, node_hours: float | None, share: tuple[float, float] | None
) -> Payback:
    """Return when measuring the site's MPIs pays; it costs their whole budgets, on most nodes.

    `node_hours` of jobs in a month and the `share` of their time in collectives are None where
    nobody told them; what jobs asked the service for counts, too.
    """
    cluster = _cluster(site, folder)
    demand = site.backfill.demand if site.backfill is not None else None
    demand = demand if demand is not None and demand.is_dir() else None
    releases = [(mpi.library, mpi.release) for mpi in cluster.mpi]
    load = load_of(
        node_hours=node_hours,
        share=share,
        demand=read_demand(demand) if demand else (),
        demand_hours=counted_hours(demand) if demand else 0.0,
        releases=releases,
        recorded=recorded(site.production, releases, time.time()),
    )
    most = len(cluster.mpi) * max(cluster.nodes) * cluster.budget_s / 3600
    return payback(most, load)


def _readme(site: Site, folder: Path) -> str:
    rows = [
        f"{place.file:<26} {place.goes_to:<36} {place.read_by}{', put by root' * place.root}"
        for place in places(site, folder)
    ]
    values = {"folder": folder, "user": _cluster(site, folder).user, "rows": "\n".join(rows)}
    return _script("README.txt").format(**values)


class FileState(StrEnum):
    """What becomes of a file: ``edited`` ones are kept, ``obsolete`` ones are removed."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    EDITED = "edited"
    OBSOLETE = "obsolete"


@dataclass(frozen=True)
class FileChange:
    """A file of the folder."""

    file: str
    """name of the file"""
    state: FileState
    """unchanged, edited, or what was done to it"""
    diff: tuple[str, ...] = ()
    """lines of the difference, of a file that somebody edited"""


@dataclass(frozen=True)
class WrittenSite:
    """What `site init` prints."""

    folder: Path
    """folder of the site"""
    site_file: Path
    """the site file"""
    site_file_is_new: bool
    """whether it was written now"""
    files: tuple[FileChange, ...]
    """files of the folder"""
    places: tuple[FilePlace, ...]
    """what goes where"""
    payback: Payback
    """when measuring pays"""


@dataclass(frozen=True)
class UpgradedSite:
    """What `site upgrade` prints."""

    folder: Path
    """folder of the site"""
    from_release: str
    """release that wrote the files, empty if unknown"""
    to_release: str
    """this release"""
    written: bool
    """whether anything was written"""
    files: tuple[FileChange, ...]
    """files of the folder"""
    unreadable: tuple[str, ...]
    """what this release cannot read, and why"""


@dataclass(frozen=True)
class Stamp:
    """Which release wrote a folder, and what."""

    colltune: str = ""
    files: Mapping[str, tuple[str, ...]] | None = None

    def wrote(self, name: str, text: str) -> bool:
        return _digest(text) in (self.files or {}).get(name, ())


def stamp_of(folder: Path) -> Stamp:
    """Return the stamp of `folder`; an empty one where nothing was written yet."""
    path = folder / STAMP
    if not path.exists():
        return Stamp()
    try:
        content = json_of(path.read_bytes())
        if content["format"] != FORMAT:
            version = content["format"]
            raise say("format-version", SiteError, place=path, version=version, known=FORMAT)
        files = {str(name): tuple(map(str, each)) for name, each in content["files"].items()}
        return Stamp(str(content["colltune"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise say("stamp-damaged", path=path, why=error) from error


def site_of(folder: Path) -> Site:
    """Read the site file of `folder`."""
    site = load(folder / SITE)
    _cluster(site, folder)
    return site


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make `folder`, and let nobody else write a site there meanwhile."""
    make(folder)
    with locked(folder / ".lock", 0o600):
        yield


def begin(folder: Path, text: str) -> None:
    """Write the site file `text`, unless somebody else was faster."""
    if not (folder / SITE).exists():
        write_text(folder / SITE, text, 0o644)


def agreed(folder: Path, told: Mapping[str, Any]) -> None:
    """Insist that what is `told` again is what the site file says."""
    tables = tomllib.loads((folder / SITE).read_text(encoding="utf-8"))
    for path, value in told.items():
        table, _, key = path.partition(".")
        now = tables.get(table, {}).get(key)
        if now != value:
            there = "not set" if now is None else toml(now)
            raise say("answers-differ", path=folder / SITE, key=path, now=there, told=toml(value))


def check_release(folder: Path) -> None:
    """Insist that this release wrote the folder."""
    wrote = stamp_of(folder).colltune
    if wrote not in ("", __version__):
        raise say("folder-of-another-release", folder=folder, wrote=wrote, release=__version__)


def compared(folder: Path, texts: Mapping[str, str]) -> tuple[FileChange, ...]:
    """Return what writing `texts` into `folder` would do."""
    stamp = stamp_of(folder)
    found = []
    for name in sorted({*texts, *(stamp.files or ())}):
        path, text = folder / name, texts.get(name)
        try:
            now = path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            if text is not None:
                found.append(FileChange(name, FileState.NEW))
            continue
        except OSError as error:
            raise say("file-not-read", path=path, why=error.strerror) from error
        if now == text:
            found.append(FileChange(name, FileState.UNCHANGED))
        elif stamp.wrote(name, now):
            found.append(
                FileChange(name, FileState.OBSOLETE if text is None else FileState.CHANGED)
            )
        else:
            old, new = now.splitlines(), (text or "").splitlines()
            diff = difflib.unified_diff(old, new, name, "as colltune writes it", lineterm="")
            found.append(FileChange(name, FileState.EDITED, tuple(diff)))
    return tuple(found)


def write(folder: Path, texts: Mapping[str, str]) -> tuple[FileChange, ...]:
    """Write `texts` into `folder`; edited files are kept, files that nothing stands for removed."""
    changes, stamp = compared(folder, texts), stamp_of(folder)
    states = {change.file: change.state for change in changes}
    known = {n: each for n, each in (stamp.files or {}).items() if n in states}
    hashes = {name: (_digest(text),) for name, text in texts.items()}
    # whoever is killed from here on has edited nothing
    both = {n: (*known.get(n, ()), *hashes.get(n, ())) for n in states}
    _stamp(folder, {name: tuple(dict.fromkeys(each)) for name, each in both.items()})
    for name, state in states.items():
        if state in (FileState.NEW, FileState.CHANGED):
            make((folder / name).parent)
            write_text(folder / name, texts[name], 0o755 if name in _RUN else 0o644)
        elif state is FileState.OBSOLETE:
            (folder / name).unlink(missing_ok=True)
    kept = {n for n, state in states.items() if state is FileState.EDITED}
    gone = {n for n, state in states.items() if state is FileState.OBSOLETE}
    _stamp(folder, {n: (known.get(n, ()) if n in kept else hashes[n]) for n in {*states} - gone})
    return changes


def _stamp(folder: Path, files: Mapping[str, tuple[str, ...]]) -> None:
    content = {"format": FORMAT, "colltune": __version__, "files": files}
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    if not (folder / STAMP).exists() or (folder / STAMP).read_text(encoding="utf-8") != text:
        write_text(folder / STAMP, text, 0o644)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
