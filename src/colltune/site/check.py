"""Whether all of a site works, from its file to a job that is told what to read.

A check changes nothing that lasts, and is independent of the others.
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from colltune import __version__, process
from colltune.bench import campaign_file, durations
from colltune.bench.backends import BACKENDS, Means
from colltune.bench.campaign import Campaign
from colltune.bench.launch_costs import LaunchCosts
from colltune.bench.launchers import Mpirun
from colltune.bench.rehearsal import Rehearsal, rehearse
from colltune.bench.schedule import guessed_s
from colltune.bench.slurm import configuration
from colltune.checks import Check, CheckResult, first_line, note, ok, problem
from colltune.dataset import read_parquet
from colltune.domain import Shape
from colltune.errors import ColltuneError
from colltune.files.ownership import danger
from colltune.files.remote import url_of
from colltune.files.temporary import temporary_name
from colltune.mpi.installation import Installation
from colltune.mpi.rules import Severity
from colltune.registry import Event, Registry
from colltune.registry.names import nearest_release
from colltune.retraining import record
from colltune.retraining.site_file import Cluster, Site, SiteMpi
from colltune.selector.configuration import Target, render, selector_for
from colltune.server.slurm import hooks
from colltune.server.slurm.ask import ask
from colltune.server.slurm.job_file import AnswerError
from colltune.site import folder as stage
from colltune.site import recording
from colltune.text import counted

_ASK_S = 30.0
_SERVICE_S = 5.0
_LAUNCH_S = 5.0
_DAY_S = 24 * 3600.0
_LONGEST_S = 24 * 3600.0
_TOLD = "colltune: "
_MISSING = "missing: "
_JOB = f"""test -x "$1" || echo "{_MISSING}$1 is not there"
test -r "$2/site.toml" || echo "{_MISSING}$2 cannot be read"
env | grep -E '^(OMPI_MCA_coll|MPIR_CVAR_|I_MPI_)' || true
"""


@dataclass
class Subject:
    """A site that is checked: by a job, too, which may wait ``wait_s`` for free nodes."""

    folder: Path
    job: bool = True
    wait_s: int = 60

    @cached_property
    def site(self) -> Site:
        return stage.site_of(self.folder)

    @cached_property
    def cluster(self) -> Cluster:
        assert self.site.cluster is not None
        return self.site.cluster

    @cached_property
    def slurm(self) -> dict[str, str]:
        return configuration()

    @cached_property
    def shape(self) -> Shape:
        """The smallest measured shape that a launcher's daemons are not taken for."""
        shapes = [Shape(n, p) for n in self.cluster.nodes for p in self.cluster.ppn if n * p > 1]
        many = [shape for shape in shapes if shape.ppn > 1] or shapes
        return min(many, key=lambda s: (s.nprocs, s.nodes), default=Shape(1, 2))

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.site.registry)

    @cached_property
    def in_force(self) -> dict[str, Event]:
        return self.registry.current()

    @property
    def measure(self) -> str:
        return f"sh {self.folder}/measure"

    @property
    def init(self) -> str:
        return f"colltune site init {self.folder}"

    @property
    def chmod(self) -> str:
        """What mends owners and modes; what others could have changed may be changed."""
        return f"look whether somebody changed it; chmod go-w and chown root; {self.install}"

    @property
    def install(self) -> str:
        return f"sudo sh {self.folder}/install"


def _site(subject: Subject) -> CheckResult:
    if not (subject.folder / stage.SITE).exists():
        return problem(f"{subject.folder / stage.SITE} is not there", subject.init)
    site, cluster = subject.site, subject.cluster
    mpis = ", ".join(mpi.name for mpi in cluster.mpi)
    return ok(f"{site.machine}: {mpis}; {counted(len(cluster.nodes), 'node count')}")


def _files(subject: Subject) -> CheckResult:
    changes = stage.compared(subject.folder, stage.files_of(subject.site, subject.folder))
    wrote = stage.stamp_of(subject.folder).colltune
    if wrote not in ("", __version__):
        mend = f"colltune site upgrade {subject.folder} --check"
        return note(f"written by colltune {wrote}, this is {__version__}", mend)
    edited = [change.file for change in changes if change.state is stage.FileState.EDITED]
    as_said = (stage.FileState.EDITED, stage.FileState.UNCHANGED)
    if stale := [change.file for change in changes if change.state not in as_said]:
        finding = f"not as site.toml says: {', '.join(stale)}"
        return problem(finding, f"{subject.init}; {subject.install}")
    for name in (stage.SITE, *(change.file for change in changes)):
        if why := danger(subject.folder / name):
            return problem(f"{why}, and what is there is run", subject.chmod)
    program = stage.program()
    if why := danger(program, program.stat().st_uid if program.exists() else 0):
        return problem(f"{why}, and {subject.cluster.user} runs it", "chmod go-w that, or chown it")
    if edited:
        return note(f"edited by somebody, and kept: {', '.join(edited)}", subject.init)
    return ok(f"{counted(len(changes), 'file')} as colltune {wrote} wrote them")


def _registry(subject: Subject) -> CheckResult:
    root, user = subject.site.registry, subject.cluster.user
    if url_of(root) is not None:
        return ok(f"{root}: {counted(len(Registry(root).ids()), 'bundle')} (writing is not tried)")
    folder = Path(root)
    if not folder.is_dir():
        return problem(f"{folder} is not there", subject.install)
    owner = folder.stat().st_uid
    if owner != pwd.getpwnam(user).pw_uid:
        return problem(f"{folder} belongs to uid {owner}, not to {user}", subject.install)
    bundles = counted(len(Registry(root).ids()), "bundle")
    if not os.access(folder, os.W_OK):
        return note(f"{folder}: {bundles}; only {user} can try to write it", f"run it as {user}")
    first, second = (temporary_name(folder / "check") for _ in range(2))
    try:
        first.touch()
        os.link(first, second)
        with suppress(FileExistsError):
            os.link(first, second)
            return problem(f"{folder} lets two writers make one file", "use another file system")
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)
    return ok(f"{folder}: {bundles}, can be written, a file appears whole and once")


def _campaigns(subject: Subject) -> CheckResult:
    said = []
    for path in sorted((subject.folder / "campaigns").glob("*.toml")):
        campaign = campaign_file.load(path).changed(strategy="full_grid")
        shapes, budget = counted(len(campaign.shapes), "shape"), durations.text(campaign.budget_s)
        if len(campaign.shapes) * _LAUNCH_S > campaign.budget_s:
            mend = f"raise cluster.budget in site.toml; {subject.init}"
            return problem(f"{path.name}: {budget} is too short for {shapes}", mend)
        planned = _planned(campaign)
        whole_s = planned.every.expected_s + planned.launches_for_all * _LAUNCH_S
        every = durations.text(whole_s)
        said.append(f"{path.name}: {shapes} in {budget} (all cells would take about {every})")
    return ok("; ".join(said)) if said else problem("there is no campaign", subject.init)


def _planned(campaign: Campaign) -> Rehearsal:
    """Go through a campaign whose MPI need not be installed here."""
    nowhere, release = Path("mpirun"), campaign.release or ""
    imagined = Installation(campaign.library, release, nowhere, nowhere, nowhere, "")
    means = Means(lambda: imagined, lambda _found: Mpirun(nowhere), imagined=True)
    backend = BACKENDS[campaign.backend].made_for(campaign, means)
    return rehearse(
        campaign, backend, lambda cell: guessed_s(cell.instance), costs=LaunchCosts(_LAUNCH_S)
    )


def _slurm(subject: Subject) -> CheckResult:
    cluster = subject.cluster
    sinfo = process.find("sinfo", "run this where Slurm's client programs are")
    asked = process.run([sinfo, "--noheader", "--format=%R %D %c"], timeout_s=_ASK_S)
    told = process.check(asked, "asking for the partitions")
    rows = [line.split() for line in told.stdout.splitlines()]
    names = sorted({row[0] for row in rows})
    for name in cluster.partitions:
        if name not in names:
            finding = f"there is no partition {name}; there are {', '.join(names)}"
            return problem(finding, "change cluster.partitions in site.toml")
    wanted = set(cluster.partitions or names)
    nodes = {n: sum(int(row[1]) for row in rows if row[0] == n) for n in wanted}
    cores = max(int(row[2].rstrip("+")) for row in rows if row[0] in wanted)
    if max(cluster.nodes) > max(nodes.values()):
        finding = f"{max(cluster.nodes)} nodes are to be measured, of {max(nodes.values())}"
        return problem(finding, "change cluster.nodes in site.toml")
    if max(cluster.ppn) > cores:
        finding = f"{max(cluster.ppn)} processes per node are to be measured on {cores} cores"
        return problem(finding, "change cluster.ppn in site.toml")
    shown = ", ".join(f"{name}: {counted(n, 'node')}" for name, n in nodes.items())
    return ok(f"Slurm {subject.slurm.get('SLURM_VERSION', '')}; {shown}, up to {cores} cores each")


def _hooks(subject: Subject) -> CheckResult:
    where = subject.folder / "slurm"
    if not subject.cluster.service:
        return ok("none: users load the module, since cluster.service is empty")
    for line in hooks.Installed(where, (), ()).slurm_conf().splitlines():
        name, _, value = line.partition("=")
        now = subject.slurm.get(name, "")
        if now != value:
            return problem(
                f"slurm.conf has {name}={now or 'nothing'}, not {value}", subject.install
            )
    slurm_user = subject.slurm.get("SlurmUser", "root").partition("(")[0]
    uid, jobs = pwd.getpwnam(slurm_user).pw_uid, subject.cluster.jobs
    mine = jobs.is_dir() and jobs.stat().st_uid == uid
    private = (subject.folder / name for name in (recording.SALT, recording.HEADER))
    wrong = [
        *(f"not everybody can run {where / n}" for n in hooks.SCRIPTS if _mode(where / n, 0o555)),
        *(f"{why}, and Slurm runs it" for n in hooks.SCRIPTS if (why := _wrong(where / n, uid))),
        *(f"{why}, and hooks read it" for n in hooks.READ if (why := _wrong(where / n, uid))),
        *(f"others can read {path}" for path in private if _is_open(path)),
        *([] if mine else [f"{jobs} is not there, or does not belong to {slurm_user}"]),
        *(f"{why}, so the prolog writes nothing" for why in [mine and danger(jobs, uid)] if why),
    ]
    if wrong:
        return problem(wrong[0], subject.chmod)
    return ok(f"in slurm.conf; users can run them; {slurm_user} writes {jobs}")


def _mode(path: Path, wanted: int) -> bool:
    """Tell whether a mode lacks some of what is wanted."""
    return path.stat().st_mode & wanted != wanted


def _is_open(path: Path) -> bool:
    return path.exists() and path.stat().st_mode & 0o077 != 0


def _wrong(path: Path, trusted: int = 0) -> str:
    """Return who else could change a file that all users need, or that they cannot read it."""
    if why := danger(path, trusted):
        return why
    closed = next((folder for folder in path.resolve().parents if _mode(folder, 0o001)), None)
    if closed is not None:
        return f"users cannot enter {closed}"
    return f"users cannot read {path}" if _mode(path, 0o004) else ""


def _service(subject: Subject) -> CheckResult:
    url = subject.cluster.service
    if not url:
        return ok("none, since cluster.service is empty")
    try:
        ask(url, "/health/live", _SERVICE_S)
        if not subject.in_force:
            return note(f"{url} answers, and waits for a bundle in force", subject.measure)
        ready = json.loads(ask(url, "/health/ready", _SERVICE_S))
    except AnswerError as error:
        return problem(str(error), "systemctl restart colltune; journalctl -u colltune")
    return ok(f"{url} answers for {', '.join(ready['bundles'])}")


def _bundles(subject: Subject) -> CheckResult:
    current, said = subject.in_force, []
    for mpi in subject.cluster.mpi:
        slots = [slot.partition(f"{mpi.library}-") for slot in current]
        release = nearest_release(mpi.release, [name for before, _, name in slots if not before])
        if release is None:
            return _nothing_in_force(subject, mpi)
        event = current[f"{mpi.library}-{release}"]
        bundle = subject.registry.load(event.bundle_id)
        subject.site.insist_own(bundle)
        target = Target.named(mpi.library, mpi.release, programs=subject.site.programs)
        made = render(selector_for(bundle, target), subject.shape, target)
        text = made.written.texts[""]
        for finding in target.form.lint(target.form.parse(text, "its file", mpi.release)):
            if finding.severity is Severity.ERROR:
                return problem(f"{mpi.name}: {finding.message}", "please report it")
        rules = sum(len(each) for each in made.table.rules.values())
        said.append(f"{mpi.name}: {event.bundle_id[:12]}, {rules} ranges on {subject.shape}")
    return ok("; ".join(said))


def _nothing_in_force(subject: Subject, mpi: SiteMpi) -> CheckResult:
    finding = f"nothing is in force for {mpi.name}"
    slot = record.latest(subject.registry).slots.get(f"{mpi.library}-{mpi.release}")
    if slot is None or not slot.facts.get("candidate"):
        return note(f"{finding}, and nothing was fitted", subject.measure)
    promote = f"colltune site bundles promote {slot.facts['candidate'][:12]}"
    return note(
        f"{finding}; the last run kept one back: {slot.facts.get('reason')}",
        f"measure more: {subject.measure}; or all the same:"
        f" {promote} --registry {subject.site.registry}",
    )


def _job(subject: Subject) -> CheckResult:
    """Print what a job, started as users start theirs, was told by the hooks."""
    if not subject.job:
        return note("not started, since --no-job was given")
    shape, cluster = subject.shape, subject.cluster
    outcome = _started(subject)
    if subject.in_force and "=" not in outcome.stdout:
        # the first answer for a shape may come too late for a hook, the next one does not
        for mpi in cluster.mpi if cluster.service else ():
            with suppress(ColltuneError):
                ask(cluster.service, _question(mpi, shape, subject.folder), _SERVICE_S)
        outcome = _started(subject)
    if not outcome.ok:
        why = first_line(outcome.stderr) or first_line(outcome.stdout) or "no answer"
        if "mmediate" in outcome.stderr:
            return note(f"no job on {shape}: {why}", "wait for free nodes, or give --wait SECONDS")
        return problem(f"no job on {shape}: {why}", "see the log of Slurm's controller")
    lines = outcome.stdout.splitlines()
    for line in lines:
        if line.startswith(_MISSING):
            said = f"on a node, {line.removeprefix(_MISSING)}"
            return problem(said, "it must lie on a file system of all nodes")
    return _as_told(subject, lines)


def _started(subject: Subject) -> process.ProcessResult:
    srun = process.find("srun", "run this where Slurm's client programs are")
    shape, partitions = subject.shape, ",".join(subject.cluster.partitions)
    options = [f"--nodes={shape.nodes}", f"--ntasks-per-node={shape.ppn}", "--time=2"]
    options += [f"--immediate={subject.wait_s}", "--job-name=colltune-check", "--mpi=none"]
    options += [f"--partition={partitions}"] * bool(partitions)
    job = ["sh", "-c", _JOB, "sh", str(stage.program()), str(subject.folder)]
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "COLLTUNE"))
    }
    return process.run(
        [srun, "--quiet", *options, *job],
        timeout_s=subject.wait_s + 2 * _ASK_S,
        env=inherited | {"COLLTUNE_VERBOSE": "1"},
    )


def _recording(subject: Subject) -> CheckResult:
    """Judge whether jobs can report, and did."""
    site, url = subject.site, subject.cluster.service
    if not site.production.record:
        return ok("none: jobs report nothing, since production.record is false")
    if not url:
        mend = f"set cluster.service in site.toml; {subject.init}"
        return problem("cluster.service is empty, so no hook runs and no job reports", mend)
    if answer := _libraries(subject):
        return answer
    refused = _refused_token(subject.folder / recording.HEADER, url)
    if refused:
        return problem(refused, f"{subject.init}; {subject.install}")
    if ending := _ending(subject):
        return note(
            ending, f"sudo {subject.init} renews the epilog's; for others: colltune site token"
        )
    return ok(f"all ranks of a job preload a library; one call in {site.production.rate} is timed")


def _reports(subject: Subject) -> CheckResult:
    """Judge whether jobs did report."""
    from colltune.production.store import Store  # noqa: PLC0415 - an extra

    site = subject.site.production
    if not recording.records(subject.site):
        return ok("none, as said above")
    if waiting := _waiting(subject.cluster.jobs / ".spool"):
        finding = f"{counted(waiting, 'summary', 'summaries')} of jobs wait for the service"
        return note(finding, "the next epilogs send them; see journalctl -u colltune")
    if "://" not in site.store and not os.access(site.store, os.R_OK | os.W_OK):
        user = subject.cluster.user
        return note(f"{site.store}: not there yet, or only {user} reads it", f"run it as {user}")
    store, since = Store(site.store, site.archive), datetime.now(UTC).timestamp() - _DAY_S
    given, told = counted(store.asked(since).total(), "job"), store.received(since)
    if told:
        return ok(f"{counted(told, 'job')} reported within a day; {given} got an arm")
    mend = "run a job of several processes; see lines of colltune in the controller's syslog"
    return note(f"no job reported within a day; {given} got an arm", mend)


def _libraries(subject: Subject) -> CheckResult | None:
    """Return what is wrong with a library that jobs preload."""
    for mpi in subject.cluster.mpi:
        library = recording.library_of(mpi, subject.folder)
        if not library.is_file():
            mend = recording.how_to_compile(mpi, subject.folder)
            return problem(f"jobs of {mpi.name} preload nothing, so they are not recorded", mend)
        if wrong := _wrong(library):
            return problem(f"{wrong}, and all jobs of {mpi.name} preload it", subject.chmod)
    return None


def _ending(subject: Subject) -> str:
    """Return which of the site's tokens end soon, or never; only who reads the file can tell."""
    if not os.access(subject.folder / recording.TOKENS, os.R_OK):
        return ""
    now = datetime.now(UTC)
    tokens = recording.tokens_of(subject.cluster, subject.folder)
    said = [
        f"{token.name} {f'ends {token.expires:%Y-%m-%d}' if token.expires else 'never ends'}"
        for token in tokens
        if not recording.ends_late(token, now)
    ]
    return f"tokens that end soon or never: {', '.join(said)}" if said else ""


def _refused_token(header: Path, url: str) -> str:
    """Return why the service does not take the epilog's token; empty if it does, or who knows."""
    if not header.exists():
        return f"{header} is not there, so the epilog has no token"
    if not os.access(header, os.R_OK):
        return ""
    name, _, value = header.read_text(encoding="utf-8").strip().partition(": ")
    sent = {name: value, "Content-Type": "text/plain"}
    try:
        ask(url, "/v1/summaries", _SERVICE_S, method="POST", headers=sent)
    except AnswerError as error:
        # it refuses the empty text only after the token
        return str(error) if error.status in (401, 403, 404) else ""
    return ""


def _waiting(spool: Path) -> int:
    try:
        return len(list(spool.glob("[0-9]*")))
    except OSError:
        return 0


def _as_told(subject: Subject, lines: list[str]) -> CheckResult:
    """Judge what a job printed."""
    told = next((line.removeprefix(_TOLD) for line in lines if line.startswith(_TOLD)), "")
    settings = sorted({line.partition("=")[0] for line in lines if "=" in line})
    if settings:
        return ok(f"a job on {subject.shape} got {', '.join(settings)}")
    if not subject.cluster.service:
        return ok(f"a job on {subject.shape} ran; there are no hooks")
    if not told:
        return problem(f"a job on {subject.shape} ran, but no hook spoke", subject.install)
    if "are kept for" in told:
        return ok(f"a job on {subject.shape} heard: {told}")
    if not subject.in_force:
        return note(f"a job on {subject.shape} heard: {told}", subject.measure)
    mend = "see `bundles` and `service` above, and lines of colltune in the controller's syslog"
    if _began_without_prolog(subject.slurm):
        mend = "restart slurmctld: before Slurm 23.11 it takes no new prolog while it runs"
    return problem(f"a job on {subject.shape} got nothing: {told}", mend)


def _began_without_prolog(slurm: Mapping[str, str]) -> bool:
    """Tell whether the controller has run since before slurm.conf was last changed."""
    with suppress(OSError, ValueError, KeyError):
        began = datetime.fromisoformat(slurm["BOOT_TIME"]).timestamp()
        return Path(slurm["SLURM_CONF"]).stat().st_mtime > began
    return False


def _question(mpi: SiteMpi, shape: Shape, folder: Path) -> str:
    return f"/v1/job/{mpi.name}?nodes={shape.nodes}&ppn={shape.ppn}&folder={folder}/jobs/0"


def _nightly(subject: Subject) -> CheckResult:
    how, user = subject.cluster.nightly, subject.cluster.user
    if how == "none":
        command = f"colltune site retrain --config {subject.folder / stage.SITE}"
        return note("nothing runs every night", f"set cluster.nightly, or run: {command}")
    if how == "systemd":
        systemctl = process.find("systemctl", "set cluster.nightly to scrontab or none")
        asked = process.run([systemctl, "is-active", "colltune-retrain.timer"], timeout_s=_ASK_S)
        if asked.stdout.strip() == "active":
            return ok("colltune-retrain.timer is active")
        return problem("colltune-retrain.timer is not active on this host", subject.install)
    scrontab = process.find("scrontab", "set cluster.nightly to systemd or none")
    asked = process.run([scrontab, "-u", user, "-l"], timeout_s=_ASK_S)
    if str(subject.folder / stage.SITE) in asked.stdout:
        return ok(f"in the scrontab of {user}")
    return problem(f"not in the scrontab of {user}", subject.install)


def unreadable(site: Site) -> list[str]:
    """Return why this release cannot read what is in force or was measured; empty if it can."""
    found = []
    registry = Registry(site.registry)
    is_there = url_of(site.registry) is not None or Path(site.registry).is_dir()
    for slot, event in registry.current().items() if is_there else ():
        try:
            registry.load(event.bundle_id, ())
        except ColltuneError as error:
            found.append(f"{slot}: {error}")
    for place in site.datasets if url_of(site.datasets[0]) is None else ():
        for file in sorted(Path(place).glob("*.parquet")):
            try:
                read_parquet(file)
            except ColltuneError as error:
                found.append(str(error))
    return found


CHECKS: dict[str, Check[Subject]] = {
    "site": Check(_site),
    "files": Check(_files, ("site",)),
    "slurm": Check(_slurm, ("site",)),
    "campaigns": Check(_campaigns, ("site",)),
    "registry": Check(_registry, ("site",)),
    "bundles": Check(_bundles, ("site", "registry")),
    "service": Check(_service, ("site", "registry")),
    "hooks": Check(_hooks, ("site", "slurm")),
    "job": Check(_job, ("site", "slurm"), limit_s=_LONGEST_S),
    "nightly": Check(_nightly, ("site",)),
    "recording": Check(_recording, ("site",)),
    "reports": Check(_reports, ("site", "recording")),
}
