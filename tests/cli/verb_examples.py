"""One call of every verb that has --json, which works without MPI, Slurm or network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from colltune import doctor
from colltune.bench import build
from colltune.bench.runner import CampaignReport
from colltune.checks import Check, CheckResult
from colltune.cli import campaigns
from colltune.cli.app import app
from colltune.decisions import Interval
from colltune.doctor import Host
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.models.bundle import load
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from colltune.mpi.rules import Rule
from colltune.page.gains import GainSummary
from colltune.registry import Registry
from colltune.selector.configuration import Target, render, selector_for, write_rendered
from colltune.server.auth import token_file
from colltune.server.auth.token_file import Scope
from colltune.tune import pipeline
from colltune.tune.job import TunedRange
from colltune.tune.pipeline import TuneResult
from colltune.verify import canary, proving
from colltune.verify.canary import Readability
from colltune.verify.rule_status import Assessment, Proof, RuleResult, RuleStatus
from tests.dataset.profiles import profile_text, row
from tests.han.samples import replace_measuring, write_tasks, write_whole
from tests.models.test_confirmations import WON
from tests.production import judged
from tests.registry.small import small
from tests.site.conftest import options

RULES = "1\n7\n1\n4 2\n0 6 0 0\n8192 3 0 4096\n"
SLOT = "openmpi-4.1.4"
CAMPAIGN = (
    '[machine]\nname = "hydra"\n[space]\ncollectives = ["bcast"]\nnodes = [2, 4]\nppn = [2]\n'
    "msizes_bytes = [8, 64]\n[budget]\ntotal_s = 100\n"
)
SITE = """
[site]
machine = "µ × …"
registry = "registry"
[data]
datasets = ["measurements"]
[cluster]
user = "root"
mpi = ["openmpi/4.1.4"]
nodes = [2]
ppn = [1]
collectives = ["bcast"]
"""
_PLANNED = CAMPAIGN + '[library]\nname = "openmpi"\nrelease = "4.1.4"\n'


@dataclass(frozen=True)
class Place:
    """A folder of its own, and what verbs read."""

    folder: Path
    data: Path
    bundle: Path

    def written(self, name: str, text: str) -> Path:
        """Return a new file with that text."""
        path = self.folder / name
        path.write_text(text)
        return path

    def registry(self) -> Path:
        """Return a registry of three bundles, of which the second took over from the first."""
        path = self.folder / "registry"
        registry = Registry(path)
        for number in range(3):
            registry.add(small(number))
        for number in range(2):
            registry.promote(small(number).id, by="ann", note="µ × …")
        return path


Words = Sequence[object]


def _known(data: Path) -> str:
    """Return measurements of algorithms that all are in the catalogue."""
    return data.read_text().replace(",ring,", ",pipeline,")


def _site(place: Place) -> Path:
    """Return a site's folder with a file that somebody edited."""
    folder = place.folder / "site"
    folder.mkdir(mode=0o755)
    (folder / "site.toml").write_text(SITE)
    (folder / "README").write_text("µ × …\n")
    return folder


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands of the real command line, by their full name."""
    yield from _below(typer.main.get_command(app([])), ())


def _below(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(names), command
        return
    for name, each in inner.items():
        yield from _below(each, (*names, name))


def has(command: click.Command, option: str) -> bool:
    """Tell whether a command has an option."""
    return any(option in parameter.opts for parameter in command.params)


def replaced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put what verbs would have found with an MPI in the place of looking for it."""
    monkeypatch.setattr(proving, "prove", lambda request, _progress: _proof(request.path))
    monkeypatch.setattr(canary, "canary_of", lambda _: (None,))
    monkeypatch.setattr(
        canary, "readability", lambda request, _: (_proof(request.path).readability, None)
    )
    nowhere = Path("mpirun")
    imagined = Installation("openmpi", "4.1.4", nowhere, nowhere, nowhere, "")
    monkeypatch.setattr(campaigns, "installation_of", lambda _campaign, _mpi: imagined)
    monkeypatch.setattr(pipeline, "tune", lambda *_: _tuned(place))
    monkeypatch.setattr(installation, "find", lambda *_: imagined)
    library = place.written("libcolltune.so", "")
    monkeypatch.setattr(build, "interposed_library", lambda _: library)
    monkeypatch.setattr(doctor, "CHECKS", {"cache": doctor.CHECKS["cache"], "bad": Check(_bad)})
    replace_measuring(monkeypatch)


def _bad(_host: Host) -> CheckResult:
    raise LibraryError("µ × …; mend µ")


def _proof(path: Path) -> Proof:
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    rule = Rule(5, "0 3 0 0 # µ ×", Collective.BCAST, chain)
    read = Readability(path, 8, ("n1",), {})
    results = (RuleResult(rule, Assessment(RuleStatus.APPLIED)),)
    told = ("openmpi-classic", "4.1.4", "Open MPI v4.1.4", {"n1": 8})
    return Proof(read, *told, results=results)


def _tuned(place: Place) -> TuneResult:
    shape = Shape(1, 4)
    target = Target.named("openmpi", "4.1.4")
    found = render(selector_for(load(place.bundle), target), shape, target)
    written = write_rendered(found, place.folder / "rules")
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    row = TunedRange(Collective.BCAST, Interval(0, None, chain), ("ring",), 1.2, WON, True)
    rows = (row, replace(row, in_effect=False), replace(row, measured=None))
    return TuneResult(
        mpirun=Path("/opt/openmpi/bin/mpirun"),
        shape=shape,
        context="µ × …",
        rows=rows,
        gain=GainSummary(1, 1.2, 0.1, 1.1, 0.0, 0.5),
        dataset=place.folder / "d",
        bundle=place.bundle,
        page=place.folder / "report.html",
        written=written,
        report=CampaignReport(),
        wall_s=1.0,
        timed_s=0.5,
        phases_s={},
        notes=("µ",),
        cores_shared="",
        unproven="",
    )


def _profile(place: Place) -> Path:
    path = place.folder / "one.profile"
    path.write_bytes(profile_text([row("bcast", "8x4", 512, 100, 1e-3)]))
    return path


def _lint(place: Place) -> Words:
    return "rules", "lint", place.written("rules µ\udcff.conf", RULES), "--release", "4.1.6"


def _tasks(place: Place) -> Words:
    """Return a file of task times, and the options that name what is in it."""
    path = write_tasks(place.folder / "tasks.jsonl")
    options = ("--collective", "bcast", "--segsize", "4K", "--up", "libnbc", "--low", "sm")
    return path, *options, "--msize", "4K,64K"


def _whole(place: Place) -> Path:
    return write_whole(place.folder / "whole")


def _token_list(place: Place) -> Words:
    tokens = place.folder / "tokens"
    token_file.write(tokens, [token_file.Token("ci", frozenset(Scope), "0" * 64, None)])
    return "site", "token", "list", "--tokens", tokens


EXAMPLES: dict[str, Callable[[Place], Words]] = {
    "doctor": lambda _: ("doctor",),
    "tune": lambda p: ("tune", "--out", p.folder / "tuned"),
    "plan": lambda p: ("plan", p.written("c.toml", _PLANNED), "--data", p.data),
    "measure": lambda p: (
        *("measure", p.written("c.toml", CAMPAIGN), "--replay", p.data, "--out", p.folder / "d"),
    ),
    "submit": lambda p: (
        *("submit", p.written("c.toml", CAMPAIGN), "--print", "--out", p.folder / "d"),
    ),
    "data import": lambda p: (
        *("data", "import", p.written("known.csv", _known(p.data)), "--out", p.folder / "d"),
    ),
    "data export": lambda p: ("data", "export", p.data, "--out", p.folder / "e.csv"),
    "han measure": lambda p: (
        *("han", "measure", p.folder / "tasks.jsonl", "--shape", "2x2", "--budget", "1m"),
    ),
    "han select": lambda p: ("han", "select", *_tasks(p), "--shape", "2x2", "--out", p.folder),
    "han compare": lambda p: (
        *("han", "compare", _tasks(p)[0], _whole(p), "--segsize", "4K", "--up", "libnbc"),
        *("--low", "sm"),
    ),
    "han overlap": lambda p: ("han", "overlap", _tasks(p)[0]),
    "data noise": lambda p: ("data", "noise", p.data),
    "fit": lambda p: ("fit", p.data, "--learner", "knn", "--out", p.folder / "b"),
    "confirm": lambda p: (
        *("confirm", p.bundle, "--nodes", 6, "--ppn", 2, "--replay", p.data),
        *("--out", p.folder / "d", "--out-bundle", p.folder / "b"),
    ),
    "evaluate": lambda p: (*("evaluate", p.data, "--split", "extrapolation", "--learner", "knn"),),
    "report": lambda p: ("report", p.bundle, "--data", p.data, "--out", p.folder / "r.html"),
    "select": lambda p: ("select", "--bundle", p.bundle, "--nodes", 6, "--ppn", 2),
    "env": lambda p: (
        *("env", "--bundle", p.bundle, "--nodes", 6, "--ppn", 2, "--library", "openmpi"),
        *("--release", "4.1.4", "--folder", p.folder / "job"),
    ),
    "app profile": lambda p: ("app", "profile", _profile(p), "--bundle", p.bundle),
    "app pack": lambda p: (
        *("app", "pack", "--profile", _profile(p), "--bundle", p.bundle, "--nodes", 8, "--ppn", 4),
        *("--out", p.folder / "packed"),
    ),
    "what-if": lambda p: (
        *("what-if", p.bundle, "--collective", "bcast", "--nodes", 8, "--ppn", 2),
        *("--msize", "1K"),
    ),
    "plot map": lambda p: ("plot", "map", p.bundle, "--out", p.folder / "p.svg"),
    "plot curves": lambda p: (
        *("plot", "curves", p.bundle, "--shape", "4x2", "--out", p.folder / "p.svg"),
    ),
    "plot regret": lambda p: (
        *("plot", "regret", p.bundle, "--data", p.data, "--out", p.folder / "p.svg"),
    ),
    "rules catalog": lambda _: ("rules", "catalog", "openmpi@5.0.8"),
    "rules lint": _lint,
    "rules explain": lambda p: (
        *("rules", "explain", p.written("r.conf", RULES), "--release", "4.1.6", "--nodes", 2),
        *("--ppn", 2, "--collective", "bcast", "--msize", 10, "--bundle", p.bundle),
    ),
    "rules convert": lambda p: (
        *("rules", "convert", p.written("r.conf", RULES), "--to", "openmpi-json"),
        *("--from-release", "5.0.8", "--release", "6.0.0"),
    ),
    "app interpose": lambda p: ("app", "interpose", "--out", p.folder / "lib.so"),
    "verify": lambda p: ("verify", p.written("r.conf", RULES), "--", "mpirun", "-n", 8),
    "site retrain": lambda _: ("site", "retrain", "--print-unit", "site"),
    "site token add": lambda p: (
        *("site", "token", "add", "ci", "--tokens", p.folder / "tokens", "--scope", "promote"),
    ),
    "site token list": _token_list,
    "site token revoke": lambda p: ("site", "token", "revoke", "ci", *_token_list(p)[3:]),
    "site bundles list": lambda p: ("site", "bundles", "list", "--registry", p.registry()),
    "site bundles show": lambda p: ("site", "bundles", "show", SLOT, "--registry", p.registry()),
    "site bundles diff": lambda p: (
        *(
            "site",
            "bundles",
            "diff",
            small(0).id[:12],
            small(1).id[:12],
            "--registry",
            p.registry(),
        ),
    ),
    "site bundles add": lambda p: ("site", "bundles", "add", p.bundle, "--registry", p.registry()),
    "site bundles promote": lambda p: (
        *("site", "bundles", "promote", small(2).id[:12], "--registry", p.registry()),
    ),
    "site bundles rollback": lambda p: ("site", "bundles", "rollback", "--registry", p.registry()),
    "site bundles gc": lambda p: ("site", "bundles", "gc", "--registry", p.registry()),
    "site bundles history": lambda p: ("site", "bundles", "history", "--registry", p.registry()),
    "site init": lambda p: ("site", "init", p.folder / "site", *options()),
    "site check": lambda p: ("site", "check", _site(p), "--no-job"),
    "site status": lambda p: (
        *("site", "status", judged.site(p.folder / "site")),
        *("--report", p.folder / "november.html"),
    ),
    "site upgrade": lambda p: ("site", "upgrade", _site(p), "--check"),
    "site slurm hooks": lambda _: ("site", "slurm", "hooks"),
}


def _instances(place: Place) -> Path:
    return place.written("in.csv", "collective,nodes,ppn,msize_bytes\nbcast,4,2,64\nscan,4,2,64\n")


_RULES = ("--release", "4.1.6", "--nodes", 2, "--ppn", 2, "--collective", "bcast", "--msize", 10)
OTHER_FORMS: dict[str, Callable[[Place], Words]] = {
    "select --msize": lambda p: (*EXAMPLES["select"](p), "--msize", "4k"),
    "select --format": lambda p: (
        *(*EXAMPLES["select"](p), "--format", "openmpi", "--out", p.folder / "rules"),
    ),
    "select --instances": lambda p: (
        *("select", "--bundle", p.bundle, "--instances", _instances(p)),
        *("--out", p.folder / "o.csv"),
    ),
    "plan": lambda p: ("plan", p.written("c.toml", _PLANNED)),
    "plot curves": lambda p: (*EXAMPLES["plot curves"](p), "--data", p.data),
    "submit --status": lambda p: ("submit", "--status", "--out", p.folder),
    "evaluate --out": lambda p: (*EXAMPLES["evaluate"](p), "--out", p.folder / "o.json"),
    "rules catalog": lambda p: ("rules", "catalog"),
    "rules explain": lambda p: (
        *("rules", "explain", p.written("r.conf", RULES), *_RULES),
        *("--bundle", p.bundle, "--data", p.data),
    ),
    "what-if": lambda p: (*EXAMPLES["what-if"](p), "--rails", 2, "--data", p.data),
    "app profile": lambda p: ("app", "profile", _profile(p)),
    "app profile --what-is-sent": lambda p: ("app", "profile", _profile(p), "--what-is-sent"),
    "verify": lambda p: (
        *("verify", "--readable-only", p.written("r.conf", RULES), "--", "mpirun", "-n", 8),
    ),
}
"""Calls of which the document is another one than of `EXAMPLES`; that of `evaluate --suite` is held
to its description where the suite is tested."""
