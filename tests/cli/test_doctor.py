"""colltune doctor: one finding of each check, and what mends it."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from colltune import doctor
from colltune.bench.backends.mpibenchmark import Program
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.checks import Check, CheckResult, CheckStatus, answer_of
from colltune.doctor import CHECKS, JOB_CHECKS, Host
from colltune.errors import ProgramError
from colltune.mpi.installation import Installation, LauncherProgram
from colltune.process import ProcessResult
from colltune.registry import Registry
from colltune.server.slurm.hooks import install
from colltune.verify.canary import Canary, CanaryRun, FileSeen, Look
from colltune.verify.user_line import UserLine
from tests.cli.conftest import Verb

PAGE = Path(__file__).parents[2] / "docs/howto/troubleshooting.md"
RULES = "1\n7\n2\n0 1\n0 0 0 0\n4 2\n0 6 0 0\n8192 3 0 0\n"
DYNAMIC = "OMPI_MCA_coll_tuned_use_dynamic_rules"
FILE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
_RELEVANT = ("OMPI_", "PMI", "SLURM_", "COLLTUNE", "LD_PRELOAD", "LOADEDMODULES", "EBVERSION")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away what the caller's environment decides, and every program."""
    for name in list(os.environ):
        if name.startswith(_RELEVANT):
            monkeypatch.delenv(name)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def host(library: str = "openmpi", release: str = "4.1.4", *, job: bool = False) -> Host:
    """Return a host with an MPI of which only the name is known."""
    found = Host(job=job)
    nowhere = Path("/nowhere/bin/mpirun")
    found.launcher = LauncherProgram(library, release, nowhere)
    found.installation = Installation(library, release, nowhere, nowhere, nowhere, "")
    return found


def answer(name: str, of: Host | None = None) -> CheckResult:
    """Return what one check says, as it would be printed."""
    only = {**CHECKS, **JOB_CHECKS}[name]._replace(needs=())
    return answer_of(only, of or host())


def test_every_check_is_on_the_page_and_the_page_names_no_other() -> None:
    """Whoever reads the name of a check finds what mends it, and the other way round."""
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert set(rows) == {*CHECKS, *JOB_CHECKS}


def test_without_an_mpi_the_other_checks_go_on(colltune: Verb) -> None:
    """The problem is told once, with its mend; what needs an MPI refers to it."""
    found = colltune("doctor", "--json")
    checks = found.json["checks"]
    assert (found.status, found.json["exit_status"], list(checks)) == (1, 1, list(CHECKS))
    assert [name for name, check in checks.items() if check["status"] == "problem"] == ["mpi"]
    assert "--mpi" in checks["mpi"]["mend"]
    assert checks["start"]["finding"] == "not looked at: see mpi"
    assert all(check["finding"] for check in checks.values())
    lines = colltune("doctor").out.splitlines()
    assert lines[0].split(maxsplit=2)[:2] == ["problem", "mpi"]
    assert lines[1].lstrip().startswith("-> install")
    assert re.fullmatch(r"1 problem, \d+ notes, \d+ ok", lines[-1])


def test_a_check_that_breaks_or_hangs_leaves_the_others_alone(
    colltune: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says so in its line, what follows is looked at all the same."""
    ended = threading.Event()

    def hangs(_host: Host) -> CheckResult:
        ended.wait(60)
        return CheckResult(CheckStatus.OK, "")

    def breaks(_host: Host) -> CheckResult:
        raise KeyError("µ")

    def full(_host: Host) -> CheckResult:
        raise OSError(28, "No space left on device", "/full")

    def fine(_host: Host) -> CheckResult:
        return CheckResult(CheckStatus.OK, "all is well")

    looks = {"hangs": hangs, "breaks": breaks, "full": full, "fine": fine}
    monkeypatch.setattr(
        doctor, "CHECKS", {name: Check(look, limit_s=1.0) for name, look in looks.items()}
    )
    monkeypatch.setattr("colltune.process.GRACE_S", 0.0)
    checks = colltune("doctor", "--json").json["checks"]
    found = {name: check["finding"] for name, check in checks.items()}
    ended.set()
    assert found["hangs"] == "no answer in 1 s"
    assert found["breaks"] == "this check broke: KeyError: 'µ'"
    assert found["full"] == "/full: No space left on device"
    assert found["fine"] == "all is well"


CACHES: tuple[tuple[int, str, CheckStatus, str], ...] = (
    (0o755, "", CheckStatus.OK, "mode 0755"),
    (0o755, "/deep/er", CheckStatus.OK, "is made at first use"),
    (0o775, "", CheckStatus.PROBLEM, "is writable by others (mode 0775)"),
    (0o777, "/deep", CheckStatus.PROBLEM, "is writable by others (mode 0777)"),
    (0o1777, "/deep", CheckStatus.OK, "is made at first use"),
)


@pytest.mark.parametrize(("mode", "below", "status", "said"), CACHES)
def test_the_cache_is_judged_as_it_will_be(
    mode: int,
    below: str,
    status: CheckStatus,
    said: str,
    entered: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others' access to it, or to where it will be made, counts; in a sticky folder it does not."""
    folder = entered / "cache"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("COLLTUNE_CACHE", f"{folder}{below}")
    found = answer("cache")
    assert found.status is status
    assert said in found.finding
    mend = (
        f"chmod go-w {folder}, or export COLLTUNE_CACHE=" if status is CheckStatus.PROBLEM else ""
    )
    assert found.mend.startswith(mend)
    assert bool(found.mend) == bool(mend)


Settings = Mapping[str, str]
DECIDED: tuple[tuple[str, Settings, CheckStatus, str, str], ...] = (
    ("rules", {}, CheckStatus.OK, "MPI decides by itself", ""),
    ("rules", {FILE: "{file}", DYNAMIC: "1"}, CheckStatus.OK, "is in effect: 3 rules", ""),
    (
        "rules",
        {FILE: "{file}"},
        CheckStatus.PROBLEM,
        "use_dynamic_rules is not set",
        f"{DYNAMIC}=1",
    ),
    (
        "rules",
        {FILE: "/nowhere", DYNAMIC: "1"},
        CheckStatus.PROBLEM,
        "cannot be read",
        f"unset {FILE}",
    ),
    ("settings", {FILE: "{file}", DYNAMIC: "1"}, CheckStatus.OK, "no setting of yours", ""),
    (
        "settings",
        {"OMPI_MCA_coll_tuned_bcast_algorithm": "3"},
        CheckStatus.NOTE,
        "bcast_algorithm=3, set by the environment",
        "unset OMPI_MCA_coll_tuned_bcast_algorithm",
    ),
    (
        "settings",
        {"OMPI_MCA_coll": "^tuned", "COLLTUNE_SET": "OMPI_MCA_coll=^tuned"},
        CheckStatus.OK,
        "no setting of yours",
        "",
    ),
    ("libcolltune", {}, CheckStatus.OK, "not preloaded", ""),
    (
        "libcolltune",
        {"COLLTUNE_TABLE": "/t"},
        CheckStatus.PROBLEM,
        "it has no effect",
        "app interpose",
    ),
    (
        "libcolltune",
        {"LD_PRELOAD": "/his.so:/nowhere/libcolltune-1.so"},
        CheckStatus.PROBLEM,
        "/nowhere/libcolltune-1.so is not there",
        "unset LD_PRELOAD",
    ),
    (
        "libcolltune",
        {"COLLTUNE_INTERPOSED": "/nowhere.so"},
        CheckStatus.PROBLEM,
        "this file does not exist",
        "",
    ),
    ("mpi", {"LOADEDMODULES": "openmpi/4.1.4"}, CheckStatus.OK, "Open MPI 4.1.4", ""),
    (
        "mpi",
        {"LOADEDMODULES": "mpich/4.3.2"},
        CheckStatus.NOTE,
        "module is of mpich 4.3.2",
        "--mpi",
    ),
)


@pytest.mark.parametrize(("name", "settings", "status", "said", "mend"), DECIDED)
def test_what_decides_is_told(
    name: str,
    settings: Settings,
    status: CheckStatus,
    said: str,
    mend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files and settings in effect, and by what they are overridden, with what changes that."""
    file = tmp_path / "rules.conf"
    file.write_text(RULES)
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value.format(file=file))
    found = answer(name)
    assert (found.status, said in found.finding) == (status, True), found
    assert mend in found.mend


def test_reprompis_missing_library_is_found_near_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mend is the line that lets mpibenchmark start; without a program nothing is wrong."""
    assert answer("reprompi").status is CheckStatus.OK
    program, library = tmp_path / "bin" / "mpibenchmark", tmp_path / "lib" / "libmpits.so"
    for path in (program, library):
        path.parent.mkdir()
        path.touch(mode=0o755)
    why = f"{program}: error while loading shared libraries: libmpits.so: cannot open it"

    def probed(_self: ReproMpiBackend) -> None:
        raise ProgramError(f"{program} does not start\nstderr: {why}")

    monkeypatch.setattr(ReproMpiBackend, "program", probed)
    monkeypatch.setenv("COLLTUNE_REPROMPI", str(program))
    found = answer("reprompi")
    assert found.finding == f"{program} does not start: it does not find libmpits.so"
    assert found.mend == f"export LD_LIBRARY_PATH={library.parent}:$LD_LIBRARY_PATH"
    monkeypatch.setenv("COLLTUNE_REPROMPI", "/nowhere/mpibenchmark")
    assert "not found" in answer("reprompi").finding


def test_reprompi_is_told_with_revision_clocks_and_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no window is kept on two processes, that is said; so is a build without alignment."""
    program = tmp_path / "mpibenchmark"
    program.write_text("posix_memalign")
    program.chmod(0o755)
    monkeypatch.setenv("COLLTUNE_REPROMPI", str(program))
    monkeypatch.setattr(ReproMpiBackend, "program", lambda _self: Program(True, "0123456789abcdef"))
    for clocks, said in (("HCA3O", "windows by HCA3O clocks"), ("", "no windows")):
        monkeypatch.setattr(ReproMpiBackend, "clocks", lambda _self, clocks=clocks: clocks)
        found = answer("reprompi")
        assert found.status is CheckStatus.OK
        assert all(word in found.finding for word in ("0123456789ab", said, "allgatherv"))
    program.write_text("calloc")
    found = answer("reprompi")
    assert (found.status, "OPTION_BUFFER_ALIGNMENT" in found.mend) == (CheckStatus.NOTE, True)


@pytest.mark.parametrize(
    ("release", "status", "said"),
    [
        ("4.1.4", CheckStatus.OK, "0 days old, of the machine hydra"),
        ("4.1.8", CheckStatus.OK, "openmpi-4.1.4 "),
        ("5.0.11", CheckStatus.NOTE, "in force: openmpi-4.1.4; none for openmpi-5.0.11"),
    ],
)
def test_the_bundle_in_force_is_the_one_of_this_release(
    release: str,
    status: CheckStatus,
    said: str,
    bundle_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder and a registry say the same; the same series is good, another one is not."""
    registry = Registry(tmp_path / "registry")
    registry.promote(registry.add(bundle_path), by="test")
    for variable, place in (
        ("COLLTUNE_REGISTRY", tmp_path / "registry"),
        ("COLLTUNE_BUNDLE", bundle_path),
    ):
        monkeypatch.setenv(variable, str(place))
        found = answer("bundle", host(release=release))
        assert (found.status, said in found.finding) == (status, True), found


@contextmanager
def service(ready: bytes, write_status: int) -> Iterator[tuple[str, list[str | None]]]:
    """Answer as a service that is `ready` does, and to a token by a status; note credentials."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._send(200, ready)

        def do_POST(self) -> None:
            seen.append(self.headers["Authorization"])
            why = "lacks the scope summaries" if write_status == 403 else "is not known here"
            self._send(write_status, json.dumps({"detail": f"this token {why}"}).encode())

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def test_the_service_and_its_token_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused token is a problem; it is never printed, and never sent where others can read."""
    monkeypatch.setenv("COLLTUNE_TOKEN", "s3cret")
    ready = json.dumps({"ready": True, "bundles": {"openmpi-4.1.4": "ab"}, "problems": []}).encode()
    told = []
    for status in (415, 401, 403):
        with service(ready, status) as (url, seen):
            monkeypatch.setenv("COLLTUNE_URL", url)
            told.append(answer("service"))
        assert seen == ["Bearer s3cret"]
    assert told[0].finding.endswith("answers for openmpi-4.1.4 and takes the token")
    assert (told[1].status, "not known here" in told[1].finding) == (CheckStatus.PROBLEM, True)
    assert (told[2].status, "may not report" in told[2].finding) == (CheckStatus.OK, True)
    assert "s3cret" not in str(told)
    # the server is down now
    assert answer("service").status is CheckStatus.PROBLEM
    assert answer("bundle").finding == "not looked at: see service"
    monkeypatch.setattr(doctor, "ask", lambda *_: ready)
    monkeypatch.setenv("COLLTUNE_URL", "http://tuning:8765")
    assert "http would show the token" in answer("service").finding


PING = "ping) echo 'Slurmctld(primary) at head is UP' ;;"
SLURMS: tuple[tuple[str, str, str, CheckStatus, str], ...] = (
    (
        "slurm",
        "ping) echo 'Slurmctld(primary) at head is DOWN'; exit 1 ;;",
        "",
        CheckStatus.PROBLEM,
        "DOWN",
    ),
    (
        "slurm",
        "ping) echo 'no configuration source' >&2; exit 1 ;;",
        "",
        CheckStatus.OK,
        "no slurm.conf",
    ),
    ("slurm", PING, "", CheckStatus.OK, "Slurm 22.05.8, the controller answers"),
    ("hooks", PING, "", CheckStatus.OK, "not in slurm.conf"),
    ("hooks", PING, "TaskProlog", CheckStatus.PROBLEM, "no prolog prepares files"),
    ("hooks", PING, "TaskProlog PrologSlurmctld", CheckStatus.OK, "files for jobs in {jobs}"),
    ("hooks", PING, "TaskProlog Prolog changed", CheckStatus.NOTE, "task_prolog.sh is not that of"),
    (
        "hooks",
        PING,
        "TaskProlog Prolog open",
        CheckStatus.PROBLEM,
        "is writable by others (mode 0777)",
    ),
    ("hooks", PING, "TaskProlog Prolog nofolder", CheckStatus.PROBLEM, "the folder for jobs"),
)


@pytest.mark.parametrize(("name", "ping", "conf", "status", "said"), SLURMS)
def test_slurm_and_the_hooks_that_it_runs_are_looked_at(
    name: str,
    ping: str,
    conf: str,
    status: CheckStatus,
    said: str,
    entered: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which hooks slurm.conf names, whether they are ours and safe, and where jobs' files go."""
    bin_folder, folder, jobs = (entered / part for part in ("bin", "hooks", "jobs"))
    install(folder, Path("/opt"), {"COLLTUNE_SITE_FOLDER": str(jobs)})
    lines = ["SLURM_VERSION = 22.05.8"]
    for hook, script in (("TaskProlog", "task_"), ("PrologSlurmctld", ""), ("Prolog", "")):
        named = hook in conf.split()
        lines.append(f"{hook} = {folder}/{script}prolog.sh" if named else f"{hook} = (null)")
    for program, cases in (
        ("scontrol", f"{ping}\nshow) echo '{chr(10).join(lines)}' ;;"),
        ("srun", "*) echo pmix ;;"),
    ):
        bin_folder.mkdir(exist_ok=True)
        (bin_folder / program).write_text(f"#!/bin/sh\ncase $1 in\n{cases}\nesac\n")
        (bin_folder / program).chmod(0o755)
    if "nofolder" not in conf:
        jobs.mkdir()
    if "changed" in conf:
        (folder / "task_prolog.sh").write_text("#!/bin/sh\n")
    if "open" in conf:
        folder.chmod(0o777)
    monkeypatch.setenv("PATH", str(bin_folder))
    found = answer(name)
    assert (found.status, said.format(jobs=jobs) in found.finding) == (status, True), found
    assert bool(found.mend) == (status is not CheckStatus.OK)


JOBS: tuple[tuple[str, Settings, CheckStatus, str], ...] = (
    ("job", {}, CheckStatus.PROBLEM, "this is no job"),
    (
        "job",
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_TASKS_PER_NODE": "4(x2)"},
        CheckStatus.OK,
        "job 7: 2x4",
    ),
    (
        "job",
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_TASKS_PER_NODE": "4,2"},
        CheckStatus.NOTE,
        "differ between the 2 nodes",
    ),
    (
        "job",
        {
            "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_SIZE": "8",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        },
        CheckStatus.OK,
        "8 processes of a launcher: 2x4",
    ),
    ("env", {"COLLTUNE": "off"}, CheckStatus.OK, "nothing is set"),
    ("env", {"SLURM_NTASKS": "x"}, CheckStatus.NOTE, "what Slurm sets for nodes"),
    (
        "env",
        {
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NUM_NODES": "4",
            "SLURM_TASKS_PER_NODE": "4(x4)",
            "LOADEDMODULES": "openmpi/4.1.4",
            "COLLTUNE_BUNDLE": "{bundle}",
        },
        CheckStatus.OK,
        f"would set {DYNAMIC}",
    ),
)


@pytest.mark.parametrize(("name", "settings", "status", "said"), JOBS)
def test_a_job_is_looked_at_from_inside(
    name: str,
    settings: Settings,
    status: CheckStatus,
    said: str,
    bundle_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its shape and what colltune env gives, without any file being left behind."""
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value.format(bundle=bundle_path))
    monkeypatch.chdir(tmp_path)
    found = answer(name, host(job=True))
    assert (found.status, said in found.finding) == (status, True), found
    assert list(tmp_path.iterdir()) == []


SEEN = FileSeen(0, "n1", 0, size_bytes=5, crc=7)
OTHERS: tuple[tuple[FileSeen, tuple[int, ...], CheckStatus, str], ...] = (
    (
        FileSeen(1, "n2", 0, size_bytes=5, crc=7),
        (),
        CheckStatus.OK,
        "all 2 processes on 2 nodes read",
    ),
    (
        FileSeen(1, "n2", 0, size_bytes=5, crc=7),
        (1,),
        CheckStatus.PROBLEM,
        "ranks 1 see other settings",
    ),
    (
        FileSeen(1, "n2", 0, size_bytes=5, crc=8),
        (),
        CheckStatus.PROBLEM,
        "on n2: it has other bytes",
    ),
    (FileSeen(1, "n2", 0, why="no such file"), (), CheckStatus.PROBLEM, "on n2: no such file"),
)


@pytest.mark.parametrize(("other", "differing", "status", "said"), OTHERS)
def test_nodes_that_see_something_else_are_named(
    other: FileSeen,
    differing: tuple[int, ...],
    status: CheckStatus,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Settings and rules files must be the same for all processes, or these wait without end."""
    monkeypatch.setenv(FILE, "/shared/rules")
    job = host(job=True)
    job.canary = Canary(UserLine((), {}), Path("canary"), 1.0)
    job.run = CanaryRun(ProcessResult((), 0, "", "", 0.0), nprocs=2, nodes=(("n1", 1), ("n2", 1)))
    look = Look((SEEN, other), 2, differing)
    monkeypatch.setattr(Canary, "look", lambda _self, _paths: look)
    found = answer("ranks", job)
    assert (found.status, said in found.finding) == (status, True), found


def test_one_process_of_a_job_speaks(colltune: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started by a launcher, only the first process prints."""
    monkeypatch.setenv("PMI_RANK", "1")
    assert colltune("doctor", "--job") == colltune("doctor", "--job", "--json")
    assert colltune("doctor", "--job").out == ""
