"""Records what the product does: `diff -r` of two states of the code is empty.

    python -m tests.golden.record FOLDER [--program .venv/bin/colltune] [--data ../shared/data]

Every call's status, output and files are kept below FOLDER, without times and paths. Nothing of
colltune is imported, so that the script runs the same calls on any state.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path

_HERE = Path(__file__).parent
_TESTS = _HERE.parent
_SHAPES = ((1, 4), (2, 2), (4, 8), (6, 3), (34, 32))
_FORMATS = {
    "openmpi-classic": ("4.1.4", "4.1.8", "5.0.11"),
    "openmpi-json": ("6.0.0",),
    "openmpi-han": ("4.1.8", "5.0.11"),
    "openmpi-parameters": ("4.1.4", "5.0.11"),
    "openmpi-table": ("5.0.11",),
    "openmpi": ("4.1.4", "5.0.6", "5.0.11", "6.0.0"),
    "mpich": ("4.0.2", "4.3.2", "5.0.2"),
    "intelmpi": ("2019.9", "2021.18.1"),
}
_LIBRARIES = {
    "openmpi": ("4.1.4", "4.1.8", "5.0.6", "5.0.11", "6.0.0"),
    "mpich": ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2"),
    "intelmpi": ("2019.9", "2021.6", "2021.11", "2021.15", "2021.18.1"),
}
_VERBS = (
    *("tune", "plan", "measure", "submit", "han measure", "han select", "han compare", "import"),
    *("export", "noise", "fit", "evaluate", "report", "plot map", "plot curves", "plot regret"),
    *("select", "profile", "pack", "what-if", "catalog", "lint", "explain", "convert", "confirm"),
    *("verify", "serve", "token add", "token list", "token revoke", "bundles list"),
    *("bundles show", "bundles diff", "bundles add", "bundles promote", "bundles rollback"),
    *("bundles gc", "bundles history", "interpose", "env", "slurm hooks", "retrain"),
)
_CAMPAIGN = """[machine]
name = "two-cores"
[library]
name = "openmpi"
release = "5.0.11"
[space]
collectives = ["bcast", "allreduce"]
nodes = [1]
ppn = [2]
msizes_bytes = [8, 2048]
[budget]
total_s = 20
"""
# what differs from one run to the next: moments, durations, random names
_MOMENTS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:?\d\d)?"), "MOMENT"),
    (re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}"), "LAUNCH"),
    (
        re.compile(
            r'("?(?:wall|timed|phases|fitted|uptime|age|fit|predict)_?\w*_s"?[:=] ?)[\d.e+-]+'
        ),
        r"\1TIME",
    ),
    (re.compile(r"\b[\d.]+ m?s\b"), "TIME"),
    (re.compile(r"^colltune [\w -]+ is now: .*\n", re.M), ""),
)


class Recorder:
    """Runs calls in a folder of their own and keeps what comes out."""

    def __init__(self, program: Path, out: Path, work: Path) -> None:
        self.program, self.out, self.work = program, out, work
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "COLUMNS": "80",
            "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": "0",
        }

    def call(self, name: str, *words: object, files: Sequence[str] = ()) -> None:
        """Run the program with `words`; keep status, output, and files it wrote."""
        command = [str(self.program), *map(str, words)]
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            stdin=subprocess.DEVNULL,
            timeout=1200,
            check=False,
        )
        told = f"status {done.returncode}\n-- stdout\n{done.stdout}\n-- stderr\n{done.stderr}\n"
        self.keep(name, told)
        for file in files:
            path = self.work / file
            for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if each.is_file():
                    self.keep(f"{name}--{each.relative_to(self.work)}", _content(each))

    def keep(self, name: str, text: str) -> None:
        """Write one file of the record, without moments, durations and paths."""
        text = text.replace(str(self.work), "WORK").replace(str(_TESTS.parent), "ROOT")
        for pattern, word in _MOMENTS:
            text = pattern.sub(word, text)
        path = self.out / (re.sub(r"[^\w.=,@-]+", "_", name) + ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _content(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\n"


def _helps(recorder: Recorder) -> None:
    recorder.call("help", "--help")
    for verb in _VERBS:
        recorder.call(f"help-{verb}", *verb.split(), "--help")


def _catalogues(recorder: Recorder) -> None:
    for library, releases in _LIBRARIES.items():
        for release in releases:
            recorder.call(
                f"catalog-{library}-{release}", "catalog", f"{library}@{release}", "--json"
            )
        recorder.call(f"catalog-{library}", "catalog", f"{library}@{releases[-1]}", "alltoall")


def _rules(recorder: Recorder) -> None:
    """Lint, explain and convert every golden configuration file, whole and cut."""
    names = (".rules", ".dispatch", ".json", ".table", ".tune")
    for source in sorted(_HERE.rglob("*")):
        if source.suffix not in names or source.parent.name == "installed":
            continue
        text = source.read_text()
        halves = {
            "whole": text,
            "cut": text[: len(text) * 2 // 3],
            "twisted": text.replace("4", "9"),
        }
        for how, content in halves.items():
            file = f"{source.parent.name}-{how}-{source.name}"
            (recorder.work / file).write_text(content)
            library = {"interposed": "openmpi"}.get(source.parent.name, source.parent.name)
            release = _LIBRARIES[library][-2]
            at = ("--release", f"{library}@{release}")
            recorder.call(f"lint-{file}", "lint", file, *at, "--json")
            recorder.call(f"lint-plain-{file}", "lint", file, *at)
            shape = ("--nodes", 4, "--ppn", 2, "--collective", "bcast", "--msize", 3000)
            recorder.call(f"explain-{file}", "explain", file, *at, *shape)
            targets = ("openmpi-classic", "openmpi-json", "mpich-json", "intelmpi-adjust")
            for target in targets if how == "whole" else ():
                words = ("convert", file, "--to", target, "--from-release", release)
                recorder.call(f"convert-{file}-{target}", *words)


def _data(recorder: Recorder, name: str, source: Path) -> None:
    """Import, export, fit, evaluate and select what was measured on one machine."""
    recorder.call(f"{name}-import", "import", source, "--out", f"{name}.d", "--json")
    recorder.call(f"{name}-export", "export", source, "--out", f"{name}.csv", files=[f"{name}.csv"])
    recorder.call(f"{name}-noise", "noise", source, "--json")
    words: tuple[object, ...]
    for split in ("leave-nodes-out", "extrapolation"):
        words = ("evaluate", source, "--split", split, "--learner", "knn", "--json")
        recorder.call(f"{name}-evaluate-{split}", *words)
    for learner in ("auto", "knn", "xgboost"):
        bundle = f"{name}-{learner}.b"
        words = ("fit", source, "--learner", learner, "--out", bundle)
        recorder.call(f"{name}-fit-{learner}", *words, files=[bundle])
        for nodes, ppn in _SHAPES:
            at = ("--bundle", bundle, "--nodes", nodes, "--ppn", ppn)
            recorder.call(f"{name}-{learner}-select-{nodes}x{ppn}", "select", *at, "--json")
            recorder.call(f"{name}-{learner}-table-{nodes}x{ppn}", "select", *at, "--no-guard")
        if learner == "xgboost":
            continue
        for nodes, ppn in _SHAPES[1:4]:
            at = ("--bundle", bundle, "--nodes", nodes, "--ppn", ppn)
            for kind, releases in _FORMATS.items():
                for release in releases:
                    file = f"{name}-{learner}-{kind}-{release}-{nodes}x{ppn}"
                    words = ("--format", kind, "--release", release, "--out", file)
                    recorder.call(file, "select", *at, *words, files=[file])
        words = ("--collective", "allreduce", "--nodes", 8, "--ppn", 2, "--msize", "1K", "--json")
        recorder.call(f"{name}-{learner}-what-if", "what-if", bundle, *words)
        shape = ("--nodes", 6, "--ppn", 2, "--replay", source, "--json")
        words = ("--out", f"{name}-{learner}.c", "--out-bundle", f"{name}-{learner}.cb")
        recorder.call(f"{name}-{learner}-confirm", "confirm", bundle, *shape, *words)


def _measuring(recorder: Recorder, source: Path) -> None:
    (recorder.work / "c.toml").write_text(_CAMPAIGN)
    recorder.call("plan", "plan", "c.toml", "--json")
    recorder.call("plan-plain", "plan", "c.toml")
    words = ("measure", "c.toml", "--replay", source, "--out", "measured", "--json")
    recorder.call("measure", *words)
    recorder.call("submit", "submit", "c.toml", "--print", "--out", "submitted")
    for wrong in ("ppn = [0]", 'ppn = "2"', "pnp = [2]", "ppn = [2", ""):
        (recorder.work / "wrong.toml").write_text(_CAMPAIGN.replace("ppn = [2]", wrong))
        recorder.call(f"plan-wrong-{wrong}", "plan", "wrong.toml")


def _site(recorder: Recorder, bundle: str) -> None:
    at = ("--registry", "registry")
    recorder.call("bundles-add", "bundles", "add", bundle, *at, "--json")
    listed = subprocess.run(
        [recorder.program, "bundles", "list", *at, "--json"],
        cwd=recorder.work,
        env=recorder.environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    name = re.search(r'"id": ?"([0-9a-f]{12})', listed)
    recorder.call("bundles-list", "bundles", "list", *at, "--json")
    if name:
        recorder.call("bundles-promote", "bundles", "promote", name[1], *at, "--note", "first")
    for verb in ("list", "history", "gc"):
        recorder.call(f"bundles-{verb}-plain", "bundles", verb, *at)
    for shape in ((2, 2), (1, 4)):
        words = ("--bundle", bundle, "--nodes", shape[0], "--ppn", shape[1])
        recorder.call(f"env-{shape}", "env", *words)
    for unit in ("systemd", "nginx", "apache", "compose", "kubernetes"):
        recorder.call(f"serve-unit-{unit}", "serve", "--print-unit", unit)
    for unit in ("site", "timer", "service", "scrontab", "cron"):
        recorder.call(f"retrain-unit-{unit}", "retrain", "--print-unit", unit)
    recorder.call("slurm-hooks", "slurm", "hooks")
    _service(recorder)


_REQUESTS = (
    *("/", "/healthz", "/readyz", "/openapi.json", "/v1/bundles", "/metrics", "/nowhere"),
    "/v1/select?collective=bcast&nodes=2&ppn=2&msize_bytes=2048&library=openmpi&release=5.0.11",
    "/v1/select?collective=bcast&nodes=0&ppn=2&msize_bytes=2048",
    "/v1/config?nodes=2&ppn=2&format=openmpi&library=openmpi&release=5.0.11&machine=two-cores",
    "/v1/config?nodes=2&ppn=2&format=nonsense",
)


def _service(recorder: Recorder) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [recorder.program, "serve", "--registry", "registry", "--port", str(port)]
    server = subprocess.Popen(
        [*map(str, command)],
        cwd=recorder.work,
        env=recorder.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port)
        paths = dict.fromkeys(_REQUESTS)
        for path in json.loads(_ask(port, "/openapi.json")[2])["paths"]:
            paths.setdefault(path.replace("{", "").replace("}", ""))
        for path in paths:
            status, headers, body = _ask(port, path)
            if path == "/metrics":
                body = "\n".join(sorted({line.split(" ")[0] for line in body.splitlines()}))
            kept = [h for h in headers if h[0].lower() not in ("date", "x-request-id", "age")]
            told = "\n".join(f"{k}: {v}" for k, v in kept)
            recorder.keep(
                f"http-{path}", f"{status}\n{told}\n\n{body}\n".replace(str(port), "PORT")
            )
    finally:
        server.terminate()
        server.wait(30)


def _wait(port: int) -> None:
    for _ in range(300):
        try:
            _ask(port, "/openapi.json")
            return
        except OSError:
            time.sleep(0.1)


def _ask(port: int, path: str) -> tuple[int, list[tuple[str, str]], str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.getheaders(), answer.read().decode()


def _sources(shared: Path | None) -> Iterator[tuple[str, Path]]:
    yield "small", _TESTS / "data" / "small_cluster.csv"
    yield "tree", _TESTS.parent / "notebooks" / "data" / "simulated_tree.csv.gz"
    if shared is not None:
        for path in sorted(shared.glob("leonardo_openmpi*.csv.gz")):
            yield "leonardo", path


def main() -> None:
    """Record all calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--program", type=Path, default=Path(".venv/bin/colltune"))
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        recorder = Recorder(options.program.absolute(), options.out, Path(work))
        _helps(recorder)
        _catalogues(recorder)
        _rules(recorder)
        sources = list(_sources(options.data))
        for name, source in sources:
            _data(recorder, name, source)
        _measuring(recorder, sources[0][1])
        _site(recorder, "small-auto.b")


if __name__ == "__main__":
    main()
