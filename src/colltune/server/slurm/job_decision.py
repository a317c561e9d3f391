"""What `colltune env` decides: the shape and library of a job, by whom, and its variables."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from colltune.decisions import ENOUGH_CORES
from colltune.domain import Shape
from colltune.errors import BundleError, ColltuneError, LibraryError, say, unknown
from colltune.production.arms import Arm
from colltune.provenance.job import counts
from colltune.server.slurm.job_file import JobDecisions, check_plain, part_name, write
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.mpi import MpiLibrary
    from colltune.mpi.in_effect import Setting

_ASKED_S = 10.0
"""In which the job's MPI has to say where its files are."""
_ID = re.compile(r"[0-9a-f]{4,64}")
FindLibcolltune = Callable[[str, str, str | None], Path]
"""Returns where libcolltune lies for a library and release, of the MPI that is named, if any."""


@dataclass(frozen=True)
class JobRequest:
    """What `colltune env` is asked for; empty where nothing was said."""

    nodes: str = ""
    ppn: str = ""
    bundle: str = ""
    registry: str = ""
    url: str = ""
    library: str = ""
    release: str = ""
    mpi: str = ""
    folder: str = ""
    limit_s: float = 1.0
    programs: str = ""
    results: str = ""
    builtin_operations_only: bool = False
    interposed: bool = False
    caution: float = 1.0


class DecidedJob(NamedTuple):
    """What `colltune env` decides."""

    environment: dict[str, str]
    """variables of the job; empty: it runs with MPI's own decisions"""
    note: str = ""
    """why nothing is set, else empty"""


@dataclass(frozen=True)
class _Wanted:
    """What a decision is wanted for: a Slurm `job`, if any; `pin` begins a bundle's id.

    ``cores`` are those that the job has on each node.
    """

    request: JobRequest
    shape: Shape
    library: str
    release: str
    folder: Path
    find_libcolltune: FindLibcolltune
    pin: str = ""
    job: str = ""
    cores: int = ENOUGH_CORES


def decide(
    request: JobRequest, environment: Mapping[str, str], find_libcolltune: FindLibcolltune
) -> DecidedJob:
    """Write the job's files; return the variables to set, and why there are none."""
    shape = shape_of(request, environment)
    if shape.nprocs == 1:
        return DecidedJob({})
    library, release = release_of(request, environment)
    request = _with_promises(request, environment)
    folder = folder_of(request, environment, shape)
    check_plain(folder)
    job = environment.get("SLURM_JOB_ID", "")
    number = job if job.isascii() and job.isdigit() else ""
    wanted = _Wanted(
        request,
        shape,
        library,
        release,
        folder,
        find_libcolltune,
        job=number,
        cores=cores_of(environment, shape),
    )
    part = _decision(wanted, environment)
    if part.arm is Arm.CONTROL:
        note = (
            "this job is in the control group, by which the site sees what tuning brings; "
            f"COLLTUNE_BUNDLE={part.bundle_id[:12]} insists on tuning"
        )
        return DecidedJob({}, note)
    variables = next((dict(s.variables) for s in part.sections if s.shape == shape), {})
    if not variables:
        return DecidedJob({}, f"for {shape} no configuration is predicted to be faster")
    from colltune.mpi import library as mpi_library
    from colltune.mpi.libcolltune import PRELOAD
    from colltune.mpi.libcolltune.library import with_libcolltune

    mpi = mpi_library(part.library)
    whole = with_libcolltune(mpi) if request.interposed else mpi
    overrides = whole.user_overrides(variables, _users(whole, part.release, request, environment))
    if overrides.reason:
        return DecidedJob({}, overrides.reason)
    write(part, folder)
    section = folder / part_name(part.library, part.release) / str(shape)
    user = environment.get(PRELOAD)
    if user and PRELOAD in variables:
        # what the user preloads comes first
        ours = variables[PRELOAD]
        is_there = ours in user.replace(" ", ":").split(":")
        variables[PRELOAD] = user if is_there else f"{user}:{ours}"
    return DecidedJob(variables | _for_hooks(variables, environment, shape, section))


def _with_promises(request: JobRequest, environment: Mapping[str, str]) -> JobRequest:
    """Return the request with the promises of options and environment, empty where nobody says."""
    from colltune.mpi.programs import FOR_EVERYBODY, RESULTS_VARIABLE, VARIABLE, Programs

    results = request.results or environment.get(RESULTS_VARIABLE, "")
    found = Programs.named(request.programs, results, environment, FOR_EVERYBODY)
    results = str(found.results) if results else ""
    if not (request.programs or environment.get(VARIABLE) or request.builtin_operations_only):
        return replace(request, results=results)
    builtin = found.builtin_operations or request.builtin_operations_only
    told = Programs(found.same_types, builtin)
    return replace(request, programs=str(told), results=results)


def _users(
    mpi: MpiLibrary, release: str, request: JobRequest, environment: Mapping[str, str]
) -> dict[str, Setting]:
    """Return the user's settings: not what a site's hooks have set, but the library's own files.

    Those of the system are known where the release's installation says in time where they are.
    """
    from colltune import process
    from colltune.mpi.installation import in_effect_here

    ours = set(environment.get("COLLTUNE_SET", "").split())
    own = {n: v for n, v in environment.items() if f"{n}={v}" not in ours}
    with process.ending_by(time.monotonic() + _ASKED_S):
        return in_effect_here(mpi, release, own, request.mpi or None)


def _for_hooks(
    variables: Mapping[str, str], environment: Mapping[str, str], shape: Shape, section: Path
) -> dict[str, str]:
    """Return what tells the hooks of the job's steps that the job was decided on."""
    job = environment.get("SLURM_JOB_ID", "")
    if not job:
        return {}
    # who asks for himself is compared with nobody
    own = {"COLLTUNE_ARM": "own"} if environment.get("COLLTUNE_RECORD") else {}
    return own | {
        "COLLTUNE_JOB": f"{job}:{shape.nprocs}",
        "COLLTUNE_SECTION": str(section),
        "COLLTUNE_SET": " ".join(f"{name}={value}" for name, value in variables.items()),
        "COLLTUNE_VARIABLES": " ".join(variables),
    }


def _decision(wanted: _Wanted, environment: Mapping[str, str]) -> JobDecisions:
    request = wanted.request
    if request.bundle:
        return _by_bundle(wanted, Path(request.bundle))
    named = environment.get("COLLTUNE_BUNDLE", "")
    if _ID.fullmatch(named) and not Path(named).is_dir():
        wanted = replace(wanted, pin=named)
    elif named:
        return _by_bundle(wanted, Path(named))
    if request.url or not (request.registry or environment.get("COLLTUNE_REGISTRY")):
        url = request.url or environment.get("COLLTUNE_URL", "")
        if not url:
            what, give = "the bundle, registry or service", "--bundle, --registry or --url"
            raise say("missing", ColltuneError, what=what, give=give)
        return _by_service(wanted, url)
    return _by_registry(wanted, request.registry or environment["COLLTUNE_REGISTRY"])


def _by_bundle(wanted: _Wanted, path: Path) -> JobDecisions:
    from colltune.models.bundle import load
    from colltune.models.guard import Guard
    from colltune.mpi.programs import FOR_EVERYBODY, Programs
    from colltune.selector.configuration import Target, render, selector_for
    from colltune.server.slurm.job_file import section_of

    request = wanted.request
    bundle = load(path)
    target = Target.named(
        f"{wanted.library}-table" if request.interposed else wanted.library,
        wanted.release,
        programs=Programs.named(request.programs, request.results, {}, FOR_EVERYBODY),
    )
    guard = Guard(caution=request.caution)
    selector = selector_for(bundle, target, guard=guard, cores=wanted.cores)
    if why := selector.why_kept(wanted.shape):
        raise say("nothing-written", shape=wanted.shape, why=why)
    rendered = render(selector, wanted.shape, target)
    libcolltune = None
    if request.interposed:
        found = wanted.find_libcolltune(wanted.library, wanted.release, request.mpi or None)
        libcolltune = str(found)
    mpi, release = target.mpi, target.release
    section = section_of(rendered, str(wanted.folder / part_name(mpi.name, release)), libcolltune)
    return JobDecisions(bundle.id, mpi.name, release, mpi.user_patterns, (section,))


def _by_registry(wanted: _Wanted, root: str) -> JobDecisions:
    from colltune.registry import Registry
    from colltune.registry.names import nearest_release

    registry = Registry(root)
    if wanted.pin:
        return _by_bundle(wanted, registry.path(registry.find(wanted.pin)))
    in_force = {slot: event.bundle_id for slot, event in registry.current().items()}
    before = f"{wanted.library}-"
    known = {s.removeprefix(before): i for s, i in in_force.items() if s.startswith(before)}
    nearest = nearest_release(wanted.release, known)
    if nearest is None:
        asked, there = f"{wanted.library} {wanted.release}", sorted(in_force) or ["none"]
        raise unknown("bundle for", asked, there, BundleError).of(root)
    return _by_bundle(wanted, registry.path(known[nearest]))


def _by_service(wanted: _Wanted, url: str) -> JobDecisions:
    from colltune.server.slurm.ask import ask
    from colltune.server.slurm.job_file import parse

    if wanted.request.interposed:
        other = "--bundle or --registry"
        raise say("works-only-with", ColltuneError, option="--interposed", other=other)
    release = wanted.library, wanted.release
    folder = wanted.folder / part_name(*release)
    query = {"nodes": wanted.shape.nodes, "ppn": wanted.shape.ppn, "folder": str(folder)}
    if wanted.request.programs:
        query["programs"] = wanted.request.programs
    if wanted.request.results:
        query["results"] = wanted.request.results
    if wanted.pin:
        query["bundle"] = wanted.pin
    elif wanted.job:
        query["job"] = wanted.job
    path = f"/v1/job/{quote(release[0], safe='')}/{quote(release[1], safe='')}?{urlencode(query)}"
    return parse(ask(url, path, wanted.request.limit_s), *release, [wanted.shape], folder)


def shape_of(request: JobRequest, environment: Mapping[str, str]) -> Shape:
    if not (request.nodes and request.ppn):
        _refuse_unclear(environment)
    nodes = _number(
        request.nodes or _first(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "nodes"
    )
    text = request.ppn or _first(environment, "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
    if not text and environment.get("SLURM_NTASKS", "").isdecimal():
        tasks = int(environment["SLURM_NTASKS"])
        text = str(tasks // nodes) if tasks % nodes == 0 else ""
    return Shape(nodes, _uniform(text, nodes))


def cores_of(environment: Mapping[str, str], shape: Shape) -> int:
    """Return the cores that a job of `shape` has on each node; enough where nothing tells it."""
    from colltune.provenance import usable_cores

    try:
        told = counts(_first(environment, "SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_ON_NODE"))
    except ValueError:
        told = ()
    if told:
        return max(told)
    # without Slurm this shell is the job's, on its only node
    here = shape.nodes == 1 and not environment.get("SLURM_JOB_ID")
    return usable_cores() if here else ENOUGH_CORES


def _refuse_unclear(environment: Mapping[str, str]) -> None:
    parts = [name for name in environment if "_HET_GROUP_" in name]
    if environment.get("SLURM_HET_SIZE") or parts:
        raise say("heterogeneous-job")
    if environment.get("SLURM_STEP_ID"):
        raise say("within-a-step")


def _first(environment: Mapping[str, str], *names: str) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _number(text: str, what: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit() and 0 < int(stripped[:10]) < 2**31):
        raise say("not-a-count", value=text[:40], what=what)
    return int(stripped)


def _uniform(text: str, nodes: int) -> int:
    """Return the processes on each node, where ``4(x3)`` tells the same for all."""
    try:
        found = counts(text.strip())
    except ValueError:
        return _number(text, "ppn")
    if len(set(found)) > 1 or len(found) not in (1, nodes):
        raise say("uneven-job", text=text, nodes=counted(nodes, "node"))
    return _number(str(found[0]), "ppn")


def release_of(request: JobRequest, environment: Mapping[str, str]) -> tuple[str, str]:
    from colltune.mpi.installation import UNKNOWN, loaded

    if request.library and request.release:
        return request.library, request.release
    told = None if request.mpi else loaded(environment)
    if told is not None and request.library in ("", told.library):
        if told.library == UNKNOWN:
            raise say("not-writable-yet", title="the loaded MPI")
        if request.release or told.release:
            return told.library, request.release or told.release
    return _asked(request)


def _asked(request: JobRequest) -> tuple[str, str]:
    from colltune.mpi.installation import find_launcher

    # the job's mpirun is the one on PATH, not one that lies beside this Python
    named = request.mpi or (None if request.library else shutil.which("mpirun"))
    if named is None and not request.library:
        what = "the job's MPI, of which neither the loaded modules nor an mpirun on PATH tell,"
        raise say("missing", LibraryError, what=what, give="--library and --release")
    found = find_launcher(named, request.library or None)
    return found.library, request.release or found.release


def folder_of(request: JobRequest, environment: Mapping[str, str], shape: Shape) -> Path:
    if request.folder:
        return Path(request.folder).absolute()
    home = Path(environment.get("SLURM_SUBMIT_DIR") or Path.cwd())
    return home.absolute() / ".colltune" / (environment.get("SLURM_JOB_ID") or str(shape))
