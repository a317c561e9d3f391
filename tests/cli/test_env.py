"""colltune env: lines for a job's shell, and silence where there is nothing good to say."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Shape
from colltune.files import write_text
from colltune.models.bundle import load
from colltune.models.guard import Guard
from colltune.mpi import library
from colltune.registry import Registry
from colltune.selector.configuration import Target, render, selector_for
from colltune.server.slurm.job_file import JobDecisions, section_of, text_of
from tests.cli.conftest import Verb
from tests.server.slurm.fake_service import BAD, Asked, FakeService, good

RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
JOB = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_TASKS_PER_NODE": "4(x4)",
    "LOADEDMODULES": "gcc/13:openmpi/4.1.4",
}
ENDING = "; the job runs with MPI's own decisions\n"
_OURS = ("SLURM_", "COLLTUNE", "OMPI_MCA_coll", "LOADEDMODULES", "EBVERSION")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Return a function that makes this process one of job 17's, with these variables, too."""
    for name in list(os.environ):
        if name.startswith(_OURS):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def enter(**variables: str) -> None:
        for name, value in (JOB | {"SLURM_SUBMIT_DIR": str(tmp_path)} | variables).items():
            monkeypatch.setenv(name, value)

    enter()
    return enter


def exported(text: str) -> dict[str, str]:
    """Return what a shell exports that evaluates `text`."""
    found = {}
    for line in text.splitlines():
        word, setting = shlex.split(line)
        assert word == "export"
        name, _, value = setting.partition("=")
        found[name] = value
    return found


@pytest.mark.usefixtures("job")
def test_a_job_is_told_its_rules(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """Nodes, processes and library are Slurm's and the module's; the files are the job's own."""
    answer = colltune("env", "--bundle", bundle_path)
    found = exported(answer.out)
    section = tmp_path / ".colltune/17/openmpi-4.1.4/4x4"
    assert found[RULES] == str(section / "rules")
    assert (section / "rules").read_text().startswith("# ")
    settings = dict(line.split("=") for line in (section / "exports").read_text().split())
    assert settings.items() <= found.items()
    assert {n: v for n, v in found.items() if n.startswith("COLLTUNE")} == {
        "COLLTUNE_JOB": "17:16",
        "COLLTUNE_SECTION": str(section),
        "COLLTUNE_SET": " ".join(f"{n}={v}" for n, v in settings.items()),
        "COLLTUNE_VARIABLES": " ".join(settings),
    }
    assert (answer.status, answer.err) == (0, "")
    assert colltune("env", "--bundle", bundle_path).out == answer.out
    shell = process.run(["sh", "-c", f'{answer.out}\nprintf %s "${RULES}"'], timeout_s=10, env={})
    assert shell.stdout == found[RULES]
    strict = colltune("env", "--bundle", "/nowhere", "--strict")
    assert (strict.status, strict.out) == (7, "")


def test_libcolltune_goes_behind_what_the_job_preloads(
    colltune: Verb, job: Callable[..., None], bundle_path: Path, tmp_path: Path
) -> None:
    """A table is written, its library named once, and a table of the user's own wins."""
    (tmp_path / "ours.so").touch()
    ours = str(tmp_path / "ours.so")
    for before in ("/his.so", f"/his.so:{ours}"):
        job(COLLTUNE_INTERPOSED=ours, LD_PRELOAD=before)
        found = exported(colltune("env", "--bundle", bundle_path, "--interposed").out)
        assert found["LD_PRELOAD"] == f"/his.so:{ours}"
        table = Path(found["COLLTUNE_TABLE"])
        assert table.read_text().startswith("colltune-table 1\nlibrary openmpi 4.1.4\nshape 4x4\n")
    job(COLLTUNE_INTERPOSED=ours, COLLTUNE_TABLE="/his.table")
    answer = colltune("env", "--bundle", bundle_path, "--interposed")
    assert (answer.out, answer.status) == ("", 0)
    assert "COLLTUNE_TABLE=/his.table is already set" in answer.err


def test_a_libcolltune_that_others_can_change_is_not_preloaded(
    colltune: Verb, job: Callable[..., None], bundle_path: Path, entered: Path
) -> None:
    """Code of theirs would run in all processes of the job, which runs as ever instead."""
    ours = entered / "ours.so"
    ours.touch()
    ours.chmod(0o775)
    job(COLLTUNE_INTERPOSED=str(ours))
    answer = colltune("env", "--bundle", bundle_path, "--interposed")
    assert (answer.out, answer.status) == ("", 0)
    assert f"{ours} is writable by others (mode 0775)" in answer.err
    ours.chmod(0o755)
    answer = colltune("env", "--bundle", bundle_path, "--interposed")
    assert exported(answer.out)["LD_PRELOAD"] == str(ours)


def test_without_libcolltune_the_job_runs_as_ever(
    colltune: Verb, job: Callable[..., None], bundle_path: Path
) -> None:
    """A library that is not there, and a service, which knows no tables, cost one line."""
    job(COLLTUNE_INTERPOSED="/nowhere.so")
    answer = colltune("env", "--bundle", bundle_path, "--interposed")
    assert (answer.out, answer.status) == ("", 0)
    assert answer.err.endswith(f"this file does not exist{ENDING}")
    answer = colltune("env", "--url", "http://127.0.0.1:9", "--interposed")
    assert (answer.out, answer.status) == ("", 0)
    assert "--bundle or --registry" in answer.err


@pytest.mark.usefixtures("job")
def test_bundle_registry_and_service_say_the_same(
    colltune: Verb, bundle_path: Path, tmp_path: Path
) -> None:
    """One decision by three ways; the release of a series that was not measured takes it, too."""
    registry = Registry(tmp_path / "registry")
    bundle_id = registry.add(bundle_path)
    registry.promote(bundle_id, by="test")
    bundle, target = load(bundle_path), Target.named("openmpi", "4.1.4")
    rendered = render(selector_for(bundle, target, guard=Guard()), Shape(4, 4), target)

    def answer(asked: Asked) -> bytes:
        patterns = library("openmpi").user_patterns
        sections = (section_of(rendered, asked.folder),)
        told = JobDecisions(bundle.id, "openmpi", "4.1.4", patterns, sections)
        return text_of(told).encode()

    service = FakeService(tmp_path / "socket")
    service.answer = answer
    with service.running():
        ways = (
            ("--bundle", bundle_path),
            ("--registry", registry),
            ("--url", f"unix:{tmp_path}/socket"),
        )
        texts = [colltune("env", *way, "--folder", tmp_path / "job").out for way in ways]
    assert texts[0] == texts[1] == texts[2] != ""
    other = colltune(
        "env", "--registry", registry, "--release", "4.1.6", "--library", "openmpi"
    ).out
    assert "/openmpi-4.1.6/4x4/rules" in other


SILENT: tuple[tuple[dict[str, str], str], ...] = (
    ({"COLLTUNE": "off"}, ""),
    ({"OMPI_MCA_coll_tuned_bcast_algorithm": "3"}, "bcast_algorithm=3 is already set"),
    ({"SLURM_TASKS_PER_NODE": "4(x3),2"}, "differ between the 4 nodes"),
    ({"SLURM_HET_SIZE": "2"}, "heterogeneous jobs are left to the library"),
    ({"SLURM_JOB_NUM_NODES_HET_GROUP_1": "2"}, "heterogeneous jobs are left"),
    ({"SLURM_STEP_ID": "0"}, "within a step Slurm describes the step, not the job"),
    ({"SLURM_TASKS_PER_NODE": "", "SLURM_NTASKS": "17"}, "Name --ppn"),
    ({"SLURM_JOB_NUM_NODES": "x"}, "Name --nodes"),
    ({"SLURM_JOB_NUM_NODES": "9" * 400}, "Name --nodes"),
    ({"LOADEDMODULES": "cray-mpich/8.1"}, "cannot write configuration files"),
    ({"LOADEDMODULES": "openmpi/9.9.9"}, "9.9.9"),
    ({"COLLTUNE_BUNDLE": "/nowhere"}, "no such bundle"),
    ({"SLURM_SUBMIT_DIR": "/tmp/a b"}, "not an absolute path of letters"),
    ({"SLURM_SUBMIT_DIR": "/proc/1"}, "cannot write"),
)


def test_a_job_goes_on_where_there_is_nothing_to_say(
    colltune: Verb,
    bundle_path: Path,
    job: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is printed but one line on standard error, and the status is 0."""
    for variables, said in SILENT:
        job(**variables)
        named = () if "COLLTUNE_BUNDLE" in variables else ("--bundle", bundle_path)
        answer = colltune("env", *named)
        assert (answer.status, answer.out) == (0, ""), variables
        assert said in answer.err, variables
        assert answer.err.count("\n") == bool(said), variables
        assert not said or answer.err.endswith(ENDING), variables
        for name in variables:
            monkeypatch.delenv(name)


def test_settings_in_a_file_of_open_mpis_are_the_users(
    colltune: Verb, bundle_path: Path, job: Callable[..., None], tmp_path: Path
) -> None:
    """What stands in the home folder's mca-params.conf wins as a variable does."""
    (tmp_path / ".openmpi").mkdir()
    job(HOME=str(tmp_path))
    file = tmp_path / ".openmpi" / "mca-params.conf"
    file.write_text("# mine\nbtl = self,tcp\n")
    assert colltune("env", "--bundle", bundle_path).out != ""
    file.write_text("coll_tuned_bcast_algorithm = 3\n")
    answer = colltune("env", "--bundle", bundle_path)
    assert answer.out == ""
    assert "OMPI_MCA_coll_tuned_bcast_algorithm=3 is already set" in answer.err


@pytest.mark.parametrize("release", ["4.1.4", "4.0.9"])
def test_settings_of_the_system_are_the_users(
    colltune: Verb,
    bundle_path: Path,
    job: Callable[..., None],
    tmp_path: Path,
    release: str,
) -> None:
    """So are those of the job's own Open MPI, beside its programs; another one's are not."""
    programs = {
        "mpirun": f"echo 'mpirun (Open MPI) {release}'",
        "ompi_info": "echo path:prefix:/opt; echo path:sysconfdir:/opt/etc",
    }
    write_text(tmp_path / "etc/openmpi-mca-params.conf", "coll_tuned_bcast_algorithm = 3\n")
    for name, line in programs.items():
        write_text(tmp_path / "bin" / name, f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    job(PATH=str(tmp_path / "bin"))
    answer = colltune("env", "--bundle", bundle_path)
    assert (answer.out == "") is (release == "4.1.4")
    assert ("coll_tuned_bcast_algorithm=3 is already set" in answer.err) is (release == "4.1.4")


@pytest.mark.usefixtures("job")
def test_a_decision_in_use_is_not_changed(
    colltune: Verb, bundle_path: Path, tmp_path: Path
) -> None:
    """Where another decision lies in the job's folder, it stays, and nothing is exported."""
    rules = Path(exported(colltune("env", "--bundle", bundle_path).out)[RULES])
    rules.write_text("0\n")
    answer = colltune("env", "--bundle", bundle_path)
    assert (answer.status, answer.out) == (0, "")
    assert "another decision, which" in answer.err
    assert rules.read_text() == "0\n"
    assert colltune("env", "--bundle", bundle_path, "--folder", tmp_path / "other").out != ""


def test_what_the_sites_hooks_have_set_is_not_the_users(
    colltune: Verb, bundle_path: Path, job: Callable[..., None]
) -> None:
    """A job that was told something by the site can ask for itself."""
    theirs = {RULES: "/site/17/openmpi-4.1.4/4x4/rules"}
    job(**theirs, COLLTUNE_JOB="17:16", COLLTUNE_SET=f"{RULES}={theirs[RULES]}")
    assert exported(colltune("env", "--bundle", bundle_path).out)[RULES] != theirs[RULES]
    job(COLLTUNE_SET="")
    assert colltune("env", "--bundle", bundle_path).out == ""


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("kind", [*BAD, "down"])
def test_a_bad_service_is_no_obstacle(colltune: Verb, kind: str, tmp_path: Path) -> None:
    """Nothing is printed but one line, and nothing is written, whatever it answers."""
    service = FakeService(tmp_path / "socket")
    service.answer = BAD.get(kind, good)
    name = "socket" if kind != "down" else "nobody"
    with service.running():
        answer = colltune("env", "--url", f"unix:{tmp_path}/{name}", "--limit", "0.2")
    assert (answer.status, answer.out) == (0, "")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / ".colltune").exists()


class _Dripping(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(12):
            self.wfile.write(b"#")
            self.wfile.flush()
            time.sleep(0.05)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def _dripping() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Dripping) as server:
        server.daemon_threads = False
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("job")
def test_a_service_that_sends_a_byte_at_a_time_is_given_up(colltune: Verb) -> None:
    """The limit is for all of the answer."""
    with _dripping() as port:
        answer = colltune("env", "--url", f"http://127.0.0.1:{port}", "--limit", "0.2")
    assert "no answer in 0.2 s" in answer.err
    assert (answer.status, answer.out) == (0, "")


@pytest.mark.usefixtures("job")
def test_an_address_that_is_none_is_named(colltune: Verb) -> None:
    """The line shows what was given and what to write."""
    for url in ("ftp://x", "http://", "unix:", "localhost:80", "http://[::"):
        answer = colltune("env", "--url", url)
        assert "is not the address of a service" in answer.err, url
