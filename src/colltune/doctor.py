"""What `colltune doctor` looks at: a table of checks, each with one finding and its mend.

A check changes nothing and does not depend on the others: one that fails or hangs says so, and the
others go on.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from colltune import __version__, process
from colltune.bench import build
from colltune.bench.backends.installed import InstalledMpi
from colltune.bench.slurm import configuration
from colltune.checks import (
    LIMIT_S,
    Check,
    CheckResult,
    CheckStatus,
    answers_of,
    explained,
    first_line,
    note,
    ok,
    problem,
)
from colltune.domain import Shape
from colltune.errors import ColltuneError, LibraryError, ProgramError
from colltune.files import cache_folder
from colltune.files.ownership import danger, risk
from colltune.models.bundle import load
from colltune.mpi import installation
from colltune.mpi.activation_check import effect_findings, outranked_findings
from colltune.mpi.formats import FORMATS, reads
from colltune.mpi.in_effect import ENVIRONMENT, Setting, values
from colltune.mpi.installation import Installation, LauncherProgram
from colltune.mpi.job_variables import concerns_collectives
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import DECIDING, FILE_STEM, with_libcolltune
from colltune.mpi.opened_file import open_file
from colltune.mpi.rules import Severity
from colltune.provenance import machine
from colltune.registry import Registry
from colltune.registry.names import nearest_release, slot_of
from colltune.server.slurm import hooks
from colltune.server.slurm.ask import ask
from colltune.server.slurm.job_decision import JobRequest, decide, folder_of, shape_of
from colltune.server.slurm.job_file import AnswerError
from colltune.text import counted
from colltune.verify.canary import Canary, CanaryRun
from colltune.verify.user_line import UserLine, words_of

_SERVICE_S, _FORBIDDEN = 2.0, 403
_SLOW_START_S = 5.0
_OLD_DAYS = 90
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - it is looked at
_LEAST_SHARED_MIB, _LEAST_FREE_MIB = 64, 200
_SLOW_CLOCKS = ("acpi_pm", "hpet", "jiffies", "refined-jiffies")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_SIZES = (("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("PMI_SIZE", "MPI_LOCALNRANKS"))
_OURS = "colltune env or the hooks"
_HARMLESS_URL = re.compile(r"https:|unix:|http://(localhost|127\.|\[::1\])")
_NO_LIBRARY = re.compile(r"loading shared libraries: ([^\s:]+)")
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:.*extra\s*==\s*['\"](?P<extra>[^'\"]+))?")
_STARTING = ("compiler", "start", "reprompi", "ranks")
# "server" is the old name of "service"
_NOT_NAMED = ("dev", "docs", "test", "server")


def rank() -> int | None:
    """Return this process's rank if a launcher started it, None outside."""
    told = [os.environ[name] for name in _RANKS if name in os.environ]
    if os.environ.get("SLURM_STEP_ID"):
        told.append(os.environ.get("SLURM_PROCID", ""))
    return int(told[0]) if told and told[0].isdigit() else None


@dataclass
class Host:
    """What several checks ask, each thing once.

    ``mpi``, ``job`` and ``started_by`` (``--launcher``) are the user's options.
    """

    mpi: str | None = None
    job: bool = False
    started_by: str | None = None
    temporary: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def launcher(self) -> LauncherProgram:
        return installation.find_launcher(self.mpi)

    @cached_property
    def installation(self) -> Installation:
        return installation.find(self.mpi, None, self.started_by)

    @cached_property
    def shape(self) -> Shape:
        with suppress(ColltuneError):
            return shape_of(JobRequest(), os.environ) if self.job else Shape(1, 2)
        return Shape(1, 2)

    @cached_property
    def canary(self) -> Canary:
        """The canary, where every process of the job can start it; it is removed afterwards."""
        around = Path.cwd() if self.job else None
        folder = tempfile.TemporaryDirectory(
            prefix=".colltune-doctor-", dir=around, ignore_cleanup_errors=True
        )
        program = build.canary(self.installation, Path(self.temporary.enter_context(folder)))
        command, variables = InstalledMpi(self.installation).command(self.shape, [], {})
        return Canary(UserLine(command, variables), program, LIMIT_S)

    @cached_property
    def run(self) -> CanaryRun:
        return self.canary.start({})

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings that bear on collectives, those of the library's files too."""
        ours = os.environ.get("COLLTUNE_SET", "").split()
        return {
            name: replace(each, source=_OURS) if f"{name}={each.value}" in ours else each
            for name, each in self.launcher.mpi.in_effect(os.environ, self.launcher).items()
            if concerns_collectives(name) or name in DECIDING
        }

    @cached_property
    def activation(self) -> dict[str, str]:
        """The variables that put files into effect; ``/file`` stands for the file."""
        found: dict[str, str] = {}
        release = self.launcher.release
        for name in self.launcher.mpi.formats:
            if reads(FORMATS[name], release):
                found |= FORMATS[name].activation(release, {"": "/file", "library": "/library"})
        return found

    @property
    def files(self) -> dict[str, Path]:
        """The rules files that are named, by the variables that name them."""
        names = (name for name, value in self.activation.items() if value == "/file")
        return {name: Path(self.settings[name].value) for name in names if name in self.settings}

    @cached_property
    def slurm(self) -> dict[str, str]:
        """Slurm's configuration, as its controller tells it; empty without one."""
        with suppress(ColltuneError):
            return configuration()
        return {}

    @cached_property
    def hooks(self) -> Path | None:
        """The folder of colltune's hooks, if Slurm runs them before tasks."""
        path = Path(self.slurm.get("TaskProlog", ""))
        return path.parent if path.name == "task_prolog.sh" else None

    @cached_property
    def site(self) -> dict[str, str]:
        """The settings of the site's hooks, as far as this user can read them."""
        with suppress(OSError, ValueError):
            text = (self.hooks / hooks.SITE).read_text(encoding="utf-8") if self.hooks else ""
            pairs = (word.partition("=") for word in shlex.split(text, comments=True))
            return {name: value for name, _, value in pairs}
        return {}

    @cached_property
    def url(self) -> str:
        """The service that jobs ask; empty if none is named."""
        socket = self.site.get("COLLTUNE_SITE_SOCKET")
        theirs = f"unix:{socket}" if socket else self.site.get("COLLTUNE_SITE_URL", "")
        return os.environ.get("COLLTUNE_URL") or theirs


def _asked(program: str, *words: str) -> process.ProcessResult:
    return process.run([program, *words], timeout_s=LIMIT_S)


# ---- MPI ----


def _mpi(host: Host) -> CheckResult:
    found = host.launcher
    said = f"{found.mpi.title} {found.release}, {found.mpirun}"
    module = installation.loaded(os.environ)
    if module and (module.library != found.library or not _alike(module.release, found.release)):
        loaded = f"{said}; the loaded module is of {module.library} {module.release}"
        return note(loaded, "name the MPI of your jobs with --mpi")
    misled, mend = installation.misplaced(found.mpirun, os.environ, found.mpi)
    if misled:
        return note(f"{said}; {misled}", mend)
    others = {path: name for path, name in _on_path() if name != said.partition(",")[0]}
    first = shutil.which("mpirun")
    if first in others and host.mpi is None:
        mend = f"colltune doctor --mpi {first}, if jobs use that one"
        return note(f"{said}; the first mpirun on PATH is of {others[first]}", mend)
    also = ", ".join(f"{name} ({path})" for path, name in others.items())
    return ok(said + (f"; also on PATH: {also}" if also else ""))


def _on_path() -> Iterator[tuple[str, str]]:
    """Yield each mpirun on PATH, and which MPI it is of."""
    paths = (shutil.which("mpirun", path=folder) for folder in os.get_exec_path())
    for path in {Path(path).resolve(): path for path in reversed([*paths]) if path}.values():
        with suppress(ColltuneError):
            other = installation.find_launcher(path)
            yield path, f"{other.mpi.title} {other.release}"


def _alike(a: str, b: str) -> bool:
    """Tell whether two releases are the same as far as both are told."""
    return not a or f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.")


def _compiler(host: Host) -> CheckResult:
    found = host.installation
    said = f"{found.mpicc} compiles for {found.libmpi}"
    _ = host.canary
    first = shutil.which("mpicc") if shutil.which("mpirun") == str(found.mpirun) else None
    if first and Path(first).resolve() != found.mpicc.resolve():
        return note(f"{said}; the first on PATH is {first}", f"compile with {found.mpicc}")
    return ok(said)


def _start(host: Host) -> CheckResult:
    began = time.monotonic()
    try:
        run, found = host.run, host.installation
    except ProgramError as error:
        outcome = getattr(error, "outcome", None)
        told = first_line(outcome.stderr) if isinstance(outcome, process.ProcessResult) else ""
        said = f"{host.shape.nprocs} processes do not start: {told or first_line(error.finding)}"
        return problem(said, shlex.join([*host.canary.line.words, "hostname"]))
    seconds = time.monotonic() - began
    library, release = installation.identified(run.library)
    if library != found.library or not _alike(release, found.release):
        said = f"programs load {library} {release}, but {found.mpirun} is of {found.release}"
        return problem(said, f"export LD_LIBRARY_PATH={found.libmpi.parent}:$LD_LIBRARY_PATH")
    said = f"{run.nprocs} processes started in {seconds:.1f} s"
    if seconds > _SLOW_START_S:
        return note(f"{said}, which is slow", "look up job hosts: getent hosts $(hostname)")
    if allowed := found.root_allowance():
        settings = " ".join(f"{name}={value}" for name, value in allowed.items())
        return note(f"{said}; mpirun refuses root", f"export {settings}")
    return ok(said)


# ---- what decides ----


def _rules(host: Host) -> CheckResult:
    answers = [_rules_file(host, name, path) for name, path in host.files.items()]
    if not answers:
        return ok("no rules file is named: MPI decides by itself")
    worst = max(answers, key=lambda answer: [*CheckStatus].index(answer.status))
    return CheckResult(worst.status, "; ".join(answer.finding for answer in answers), worst.mend)


def _rules_file(host: Host, name: str, path: Path) -> CheckResult:
    said = f"{path}, named by {host.settings[name].source}"
    try:
        opened = open_file(path, f"{host.launcher.library}@{host.launcher.release}")
        parsed = opened.parse()
    except LibraryError as error:
        why = first_line(str(error)).removeprefix(f"{path}: ")
        return problem(f"{said}: {why}", f"unset {name}, or name another file")
    job = dict(os.environ) | values(host.settings)
    activation = opened.format.activation(opened.release, opened.paths)
    effect = effect_findings(host.launcher.mpi, parsed, activation, opened.paths, job)
    lint = outranked_findings(opened.format.lint(parsed), parsed, opened.paths, job)
    wrong = [each for each in (*effect, *lint) if each.severity is not Severity.NOTE]
    if not wrong:
        rules = counted(len(parsed.rules), "rule")
        return ok(f"{said}, is in effect: {rules}, nothing wrong")
    more = f" ({len(wrong) - 1} more: colltune rules lint {path})" if wrong[1:] else ""
    is_bad = effect or any(each.severity is Severity.ERROR for each in wrong)
    status = CheckStatus.PROBLEM if is_bad else CheckStatus.NOTE
    return CheckResult(status, f"{said}: {wrong[0].message}{more}", wrong[0].mend)


def _settings(host: Host) -> CheckResult:
    mpi = with_libcolltune(host.launcher.mpi)
    theirs = [
        name
        for name, setting in host.settings.items()
        if mpi.user_patterns.decides(name)
        and setting.source != _OURS
        and not _is_ours(host, name, setting.value)
    ]
    if not theirs:
        return ok("no setting of yours chooses an algorithm")
    value, source = host.settings[theirs[0]].value, host.settings[theirs[0]].source
    more = f" and {len(theirs) - 1} more" if theirs[1:] else ""
    alike = " ".join(name for name in theirs if host.settings[name].source == source)
    mend = f"unset {alike}" if source == ENVIRONMENT else f"take it out of {source}"
    said = f"{theirs[0]}={value}{more}, set by {source}"
    return note(f"{said}, chooses an algorithm, so colltune sets nothing", mend)


def _is_ours(host: Host, name: str, value: str) -> bool:
    """Tell whether a value puts a file into effect."""
    wanted = host.activation.get(name)
    mpi = host.launcher.mpi
    return wanted == "/file" or (wanted is not None and mpi.same(name, value, wanted))


def _libcolltune(host: Host) -> CheckResult:
    words = words_of(os.environ.get(PRELOAD, ""))
    path = next((Path(word) for word in words if Path(word).name.startswith(FILE_STEM)), None)
    told = next((name for name in DECIDING if name in os.environ), None)
    if path is None and told:
        said = f"{told} is set, but libcolltune is not preloaded, so it has no effect"
        return problem(said, "colltune app interpose prints the line that preloads it")
    if path is None:
        named = "COLLTUNE_INTERPOSED" in os.environ
        found = build.library_for(host.launcher.library, host.launcher.release) if named else ""
        return ok(f"not preloaded; select and env take {found}" if found else "not preloaded")
    why = danger(path, trusted=path.stat().st_uid) if path.is_file() else f"{path} is not there"
    if why:
        return problem(f"{why}, and it is preloaded into every program", f"unset {PRELOAD}")
    lines = [] if rank() is not None else host.run.outcome.stderr.splitlines()
    if said := next((line for line in lines if line.startswith("colltune: ")), ""):
        return problem(said.removeprefix("colltune: "), "colltune app interpose")
    return ok(f"{path} is preloaded{' and fits this MPI' if lines or rank() is None else ''}")


# ---- files, Python, machine, ReproMPI ----


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if machine.exists(place))


def _cache(_host: Host) -> CheckResult:
    folder = cache_folder().absolute()
    at, mend = _existing(folder), "export COLLTUNE_CACHE=/a/folder/of/yours"
    if not os.access(at, os.W_OK | os.X_OK):
        return problem(f"{at} cannot be written, so {folder} keeps no compiled program", mend)
    status = at.stat()
    # in a sticky folder others cannot touch what is made there
    if (at == folder or not status.st_mode & stat.S_ISVTX) and (found := risk(at)):
        mend = f"chmod go-w {found.place}, or {mend}" if found.is_open else mend
        return problem(f"{found.place} {found.why}, so {folder} is refused", mend)
    if at != folder:
        return ok(f"{folder} is made at first use")
    return ok(f"{folder}, uid {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}")


def _disk(_host: Host) -> CheckResult:
    places = (cache_folder(), Path(tempfile.gettempdir()), Path.cwd(), _SHARED_MEMORY)
    least = sys.maxsize
    for place in dict.fromkeys(map(_existing, places)):
        told = os.statvfs(place)
        free_mib = told.f_bavail * told.f_frsize >> 20
        if free_mib < (_LEAST_SHARED_MIB if place == _SHARED_MEMORY else _LEAST_FREE_MIB):
            return problem(f"{place} has only {free_mib} MiB free", f"df -h {place}")
        if told.f_files and not told.f_favail:
            return problem(f"{place} has no inode left", f"df -i {place}")
        least = min(least, free_mib)
    return ok(f"at least {least / 1024:.1f} GiB free: cache, TMPDIR, here, {_SHARED_MEMORY}")


def _python(_host: Host) -> CheckResult:
    missing: dict[str, list[str]] = {}
    for requirement in metadata.requires("colltune") or ():
        found = _REQUIREMENT.match(requirement)
        if found and "!= 'linux'" not in requirement.replace('"', "'"):
            try:
                metadata.version(found["name"])
            except metadata.PackageNotFoundError:
                missing.setdefault(found["extra"] or "", []).append(found["name"])
    said = f"colltune {__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}"
    if needed := missing.pop("", None):
        return problem(f"{said}; missing: {', '.join(needed)}", f"pip install {' '.join(needed)}")
    extras = ", ".join(sorted(missing.keys() - set(_NOT_NAMED)))
    return ok(said + (f"; without the extras {extras}" if extras else ""))


def _machine(_host: Host) -> CheckResult:
    facts = machine.static_facts(Path("/")) | machine.momentary_facts(Path("/"))
    now, clock = datetime.now(UTC), facts.get("clock_source", "unknown")
    cores, load = machine.usable_cores(), float(facts.get("load_average", "0").split()[0])
    said = f"{counted(cores, 'core')}, load {load:g}; {now:%Y-%m-%d %H:%M} UTC by {clock}"
    if now.timestamp() < Path(__file__).stat().st_mtime - 86400:
        return problem(f"{said}: colltune was installed after that", "set the clock: chronyd -q")
    if clock in _SLOW_CLOCKS:
        return note(f"{said}: this clock is slow to read", "boot with clocksource=tsc")
    if load > 0.5 * cores and not os.environ.get("SLURM_JOB_ID"):
        return note(f"{said}: other programs disturb measurements", "top")
    if facts.get("cpu_governor") == "powersave":
        return note(f"{said}: the clock rate varies", "cpupower frequency-set -g performance")
    return ok(said)


def _reprompi(host: Host) -> CheckResult:
    if not (os.environ.get("COLLTUNE_REPROMPI") or shutil.which("mpibenchmark")):
        return ok("no mpibenchmark; only the backend reprompi needs it")
    # they load pandas
    from colltune.bench.backends import mpibenchmark  # noqa: PLC0415
    from colltune.bench.backends.reprompi import ReproMpiBackend  # noqa: PLC0415

    path = mpibenchmark.find(None)
    try:
        backend = ReproMpiBackend(host.installation, program=path)
        program, clocks = backend.program(), backend.clocks()
    except ColltuneError as error:
        missing = _NO_LIBRARY.search(str(error))
        if missing is None:
            raise
        # installed beside it, or built in the folder above
        around = (path.resolve().parent, path.resolve().parent.parent)
        patterns = (missing[1], f"*/{missing[1]}", f"*/*/{missing[1]}")
        files = [file for folder in around for p in patterns for file in folder.glob(p)]
        folder = files[0].parent if files else f"/the/folder/of/{missing[1]}"
        mend = f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"
        return problem(f"{path} does not start: it does not find {missing[1]}", mend)
    windows = f"windows by {clocks} clocks" if clocks else "no windows on two processes here"
    how = windows if program.timed else "no windows: a release that cannot end by time"
    lacks = ", ".join(sorted(mpibenchmark.ABSENT))
    said = f"{path} measures (commit {program.commit[:12]}), {how}; it lacks {lacks}"
    if b"posix_memalign" not in path.read_bytes():
        mend = "build it with cmake -DOPTION_BUFFER_ALIGNMENT=64"
        return note(f"{said}; its buffers lie so that some processors copy slowly", mend)
    return ok(said)


# ---- site ----


def _slurm(host: Host) -> CheckResult:
    if shutil.which("scontrol") is None:
        return ok("no Slurm here")
    ping = _asked("scontrol", "ping")
    if "onfiguration source" in ping.stderr:
        return ok("Slurm's programs are installed, but there is no slurm.conf")
    if not ping.ok:
        said = first_line(ping.stdout) or first_line(ping.stderr)
        return problem(f"the controller does not answer: {said}", "scontrol ping")
    version = f"Slurm {host.slurm.get('SLURM_VERSION', '')}, the controller answers"
    with suppress(ColltuneError):
        title, plugin = host.launcher.mpi.title, host.launcher.mpi.toolchain.slurm_mpi_type
        listed = _asked("srun", "--mpi=list")
        if plugin not in listed.stdout + listed.stderr:
            mend = "start programs by mpirun in place of srun"
            return note(f"{version}; srun has no plugin {plugin} for {title}", mend)
    return ok(version)


def _hooks(host: Host) -> CheckResult:
    folder = host.hooks
    if folder is None:
        return ok("not in slurm.conf; a job can use colltune env")
    write = f"colltune site slurm hooks --out {folder}"
    prologs = [host.slurm.get(name, "") for name in ("PrologSlurmctld", "Prolog")]
    if "prolog.sh" not in [Path(prolog).name for prolog in prologs]:
        return problem("TaskProlog is set, but no prolog prepares files for it", write)
    if why := danger(folder):
        return problem(f"{why}, and Slurm runs hooks there", f"chmod go-w {folder}")
    texts = {folder / name: hooks.text_of(name) for name in (*hooks.SCRIPTS, *hooks.DATA)}
    for file, text in texts.items():
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            return note(f"{file} is not that of colltune {__version__}", write)
    jobs = host.site.get("COLLTUNE_SITE_FOLDER", "nowhere")
    if not Path(jobs).is_dir():
        return problem(f"the folder for jobs, {jobs}, is not there", f"see {folder / hooks.SITE}")
    return ok(f"{folder}, files for jobs in {jobs}")


def _service(host: Host) -> CheckResult:
    if not host.url:
        return ok("none is named (COLLTUNE_URL)")
    try:
        ready = json.loads(ask(host.url, "/health/ready", _SERVICE_S))
    except AnswerError as error:
        return problem(str(error), "start it (colltune serve), or correct COLLTUNE_URL")
    said = f"{host.url} answers for {', '.join(ready['bundles'])}"
    if ready["problems"]:
        return note(f"{said}, but: {ready['problems'][0]}", "read the service's log")
    token = os.environ.get("COLLTUNE_TOKEN")
    return _token(host, said, token) if token else ok(said)


def _token(host: Host, said: str, token: str) -> CheckResult:
    if not _HARMLESS_URL.match(host.url):
        return note(f"{said}; http would show the token to others", "use https")
    # such content is refused, but only of those who may report
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        ask(host.url, "/v1/summaries", _SERVICE_S, "POST", headers, expected=415)
    except AnswerError as error:
        if error.status != _FORBIDDEN:
            raise
        return ok(f"{said} and knows the token, which may not report jobs there")
    return ok(f"{said} and takes the token")


class _InForce(NamedTuple):
    id: str
    created_utc: str
    machine: str


def _in_force(host: Host) -> dict[str, _InForce]:
    """Return the bundles that `colltune env` would use, in its order of preference, by slot."""
    named, root = (os.environ.get(f"COLLTUNE_{name}", "") for name in ("BUNDLE", "REGISTRY"))
    if "/" in named or Path(named or "/nowhere").is_dir():
        bundle = load(Path(named), ())
        found = _InForce(bundle.id, bundle.created_utc, bundle.context.machine)
        return {slot_of(bundle.context): found}
    if root:
        registry = Registry(root)
        entries = [registry.entry(event.bundle_id) for event in registry.current().values()]
        return {e.slot: _InForce(e.id, e.created_utc, e.context.machine) for e in entries}
    if not host.url:
        return {}
    told = json.loads(ask(host.url, "/v1/bundles", _SERVICE_S))
    return {
        b["slot"]: _InForce(b["id"], b["created_utc"], b["context"]["machine"])
        for b in told["bundles"]
        if told["in_force"].get(b["slot"]) == b["id"]
    }


def _bundle(host: Host) -> CheckResult:
    try:
        found = _in_force(host)
    except AnswerError:
        return note("not looked at: see service")
    if not found:
        return ok("none is named (COLLTUNE_BUNDLE, _REGISTRY or _URL)")
    slots = list(found)
    with suppress(ColltuneError):
        before = f"{host.launcher.library}-"
        known = {s.removeprefix(before): s for s in found if s.startswith(before)}
        nearest = nearest_release(host.launcher.release, known)
        if nearest is None:
            said = f"in force: {', '.join(found)}; none for {before}{host.launcher.release}"
            return note(said, "measure and fit this release, or name another MPI with --mpi")
        slots = [known[nearest]]
    bundle = found[slots[0]]
    days = (datetime.now(UTC) - datetime.fromisoformat(bundle.created_utc)).days
    said = (
        f"{slots[0]} {bundle.id[:12]}, {counted(days, 'day')} old, of the machine {bundle.machine}"
    )
    if days > _OLD_DAYS:
        return note(said, "measure again and fit, or run colltune site retrain")
    return ok(said)


# ---- within a job ----


def _job(host: Host) -> CheckResult:
    for size, local in _SIZES:
        processes, ppn = os.environ.get(size, ""), os.environ.get(local, "")
        if rank() is not None and processes.isdigit() and ppn.isdigit():
            nodes = int(processes) // int(ppn)
            return ok(f"{processes} processes of a launcher: {nodes}x{ppn} (nodes x ppn)")
    if not os.environ.get("SLURM_JOB_ID"):
        mend = "run it in a batch script, or: mpirun -np 4 colltune doctor --job"
        return problem("this is no job of Slurm, and no launcher started it", mend)
    try:
        shape = shape_of(JobRequest(), os.environ)
    except ColltuneError as error:
        return note(*explained(error))
    return ok(f"job {os.environ['SLURM_JOB_ID']}: {shape} (nodes x ppn)")


def _ranks(host: Host) -> CheckResult:
    files = list(host.files.values())
    look = host.canary.look(files or [host.canary.program])
    if look.differing_ranks:
        ranks = ", ".join(map(str, look.differing_ranks[:8]))
        mend = "hand variables on: mpirun -x NAME, srun --export=ALL"
        return problem(f"ranks {ranks} see other settings of collectives than rank 0", mend)
    first = {file.index: file for file in reversed(look.files)}
    for file in look.files if files else ():
        path, differs = files[file.index], file.crc != first[file.index].crc
        if why := file.why or (differs and "it has other bytes than elsewhere"):
            return problem(f"{path} on {file.host}: {why}", "put it where all nodes see it")
    what = f"read {', '.join(map(str, files))}" if files else "keep MPI's own decisions"
    nodes = counted(len(host.run.nodes), "node")
    return ok(f"all {host.run.nprocs} processes on {nodes} {what}")


def _env(host: Host) -> CheckResult:
    if os.environ.get("COLLTUNE", "").lower() == "off":
        return ok("COLLTUNE=off: nothing is set")
    if section := os.environ.get("COLLTUNE_SECTION"):
        return ok(f"set already, from {section}")
    request = JobRequest(mpi=host.mpi or "")
    with tempfile.TemporaryDirectory(prefix="colltune-doctor-") as folder:
        try:
            asked = JobRequest(mpi=host.mpi or "", folder=folder)
            variables, why = decide(asked, os.environ, build.library_for)
            home = _existing(folder_of(request, os.environ, host.shape))
        except ColltuneError as error:
            variables, why = {}, first_line(str(error))
    if not variables:
        return note(f"colltune env leaves the job as it is: {why or 'it is a single process'}")
    if not os.access(home, os.W_OK):
        return problem(f"colltune env cannot write {home}", "colltune env --folder /on/all/nodes")
    names = [name for name in variables if not name.startswith("COLLTUNE_")]
    return ok(f"colltune env would set {', '.join(names)}")


def _limits(host: Host) -> CheckResult:
    names = ("MEMLOCK", "NOFILE", "NPROC")
    soft = {n: resource.getrlimit(getattr(resource, f"RLIMIT_{n}"))[0] for n in names}
    fabric = machine.fabric_facts(Path("/")).get("fabric", "Ethernet")
    if soft["MEMLOCK"] != resource.RLIM_INFINITY and "Ethernet" not in fabric:
        said = f"{soft['MEMLOCK'] >> 10} KiB of memory can be locked, too little for {fabric}"
        return problem(said, "ulimit -l unlimited; for Slurm: LimitMEMLOCK of slurmd")
    cores = machine.usable_cores()
    if rank() is None and host.shape.ppn > cores:
        said = f"{host.shape.ppn} processes share {counted(cores, 'core')} of this node"
        return note(f"{said}: measurements are noisy", "sbatch --ntasks-per-node, --exclusive")
    soft["MEMLOCK"] >>= 10 if soft["MEMLOCK"] > 0 else 0
    words = (f"{n.lower()} {'unlimited' if v < 0 else v}" for n, v in soft.items())
    return ok(f"{counted(cores, 'core')}; {', '.join(words)} (KiB, files, processes)")


CHECKS: dict[str, Check[Host]] = {
    "mpi": Check(_mpi),
    "compiler": Check(_compiler, ("mpi",)),
    "start": Check(_start, ("mpi", "compiler")),
    "rules": Check(_rules, ("mpi",)),
    "settings": Check(_settings, ("mpi",)),
    "libcolltune": Check(_libcolltune, ("mpi",)),
    "cache": Check(_cache),
    "disk": Check(_disk),
    "python": Check(_python),
    "machine": Check(_machine),
    "reprompi": Check(_reprompi, ("mpi", "compiler")),
    "slurm": Check(_slurm),
    "hooks": Check(_hooks, ("slurm",)),
    "service": Check(_service),
    "bundle": Check(_bundle),
}
JOB_CHECKS: dict[str, Check[Host]] = {
    "job": Check(_job),
    "ranks": Check(_ranks, ("mpi", "compiler", "start", "job")),
    "env": Check(_env, ("job",)),
    "limits": Check(_limits, ("job",)),
}


def answers(host: Host, tell: Callable[[str], None] = lambda _name: None) -> dict[str, CheckResult]:
    """Return what each check finds, with those of a job if ``host.job``; `tell` hears of each."""
    checks = CHECKS | JOB_CHECKS if host.job else CHECKS
    if rank() is not None:
        # no launcher works within another one's process
        told = Check[Host](lambda _host: ok("not tried in a process of a job, only in its script"))
        checks = checks | {name: told for name in _STARTING if name in checks}
    with host.temporary:
        return answers_of(checks, host, tell)
