"""Site files: what they say, and what is wrong with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from colltune.dataset.objective import Objective
from colltune.errors import SiteError
from colltune.models.workers import Slurm, Workers
from colltune.retraining.site_file import KEYS, Thresholds, deploy_file, load, parse

_LEAST = '[site]\nmachine = "hydra"\nregistry = "registry"\n[data]\ndatasets = ["data"]\n'


def test_the_example_is_a_site_file_with_every_key() -> None:
    """The shipped example parses; with its comments taken off, too, and then names every key."""
    text = deploy_file("site")
    parse(text, "site.toml", Path("/etc"))
    whole = re.sub(r"(?m)^# (?=\[|[a-z_]+ = )", "", text)
    whole = whole.replace('backend = "joblib"', 'backend = "dask"')
    whole = re.sub(r"(?m)^scheduler = .*", "", whole)
    site = parse(whole, "site.toml", Path("/etc"))
    assert site.workers.slurm == Slurm(
        16, "32GB", 2, "01:00:00", "short", "project", "ib0", ("--exclusive",)
    )
    keys = {
        f"{table}.{key}"
        for table, found in _tables(tomllib.loads(whole)).items()
        for key in found
        if f"{table}.{key}" not in KEYS
    }
    wanted = {f"{table}.{key}" for table, known in KEYS.items() for key in known}
    assert keys | {"compute.scheduler"} == wanted


def _tables(parsed: dict[str, object], above: str = "") -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, value in parsed.items():
        if isinstance(value, dict):
            found |= {f"{above}{name}": value, **_tables(value, f"{above}{name}.")}
    return found


def test_the_example_says_the_defaults() -> None:
    """What the example sets, but for paths and budgets, is what holds without it."""
    example, least = (parse(t, "s", Path("/etc")) for t in (deploy_file("site"), _LEAST))
    assert example.thresholds == least.thresholds == Thresholds()
    assert example.production == least.production
    assert (example.drift, example.examination) == (least.drift, least.examination)
    assert (example.learner, example.objective) == (least.learner, least.objective)
    assert set(example.hooks.told) == set(least.hooks.told)
    assert example.workers == least.workers == Workers()


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """Relative paths are below the file's folder, absolute ones and URLs stay as they are."""
    path = tmp_path / "site.toml"
    path.write_text(
        '[site]\nmachine = "m"\nregistry = "s3://bucket/registry"\n'
        '[data]\ndatasets = ["data", "/abs", "s3://bucket/data"]\n'
        '[fit]\nobjective = "P90"\n[backfill]\ndemand = "d"\ncampaigns = "/c"\nbudget = "1h30m"\n'
    )
    site = load(path)
    assert site.registry == "s3://bucket/registry"
    assert site.datasets == (str(tmp_path / "data"), "/abs", "s3://bucket/data")
    assert site.objective is Objective.P90
    assert site.backfill is not None
    assert (site.backfill.demand, site.backfill.campaigns) == (tmp_path / "d", Path("/c"))
    assert site.backfill.budget_s == 5400.0


def test_what_is_wrong_is_named_with_its_place(subtests: pytest.Subtests) -> None:
    """Every mistake names file, line and key, and what would be right."""
    for text, error in (
        ("[site", "s.toml: not valid TOML"),
        ("[sight]\n", r"line 1, key sight: unknown table \(did you mean site\?\)"),
        (
            '[site]\nmashine = "x"\n',
            r"line 2, key site.mashine: unknown key \(did you mean machine",
        ),
        ("[site]\nmachine = 7\n", "line 2, key site.machine: 7 must be a string"),
        ('[site]\nmachine = "x"\n', "key site.registry is missing. Add it"),
        (_LEAST.replace('"hydra"', '" "'), "key site.machine: is empty"),
        (_LEAST.replace('["data"]', "[]"), "key data.datasets: .* at least one folder"),
        (_LEAST.replace('["data"]', '"data"'), "key data.datasets: 'data' must be a list"),
        (f"{_LEAST}min_new = true\n", "key data.min_new: True must be a whole number from 1"),
        (f"{_LEAST}min_new = -1\n", "key data.min_new: -1 must be a whole number from 1"),
        (f"{_LEAST}min_new = {2**70}\n", "key data.min_new: .* must be a whole number"),
        (f'{_LEAST}[fit]\nlearner = "best"\n', "line 7, key fit.learner: unknown learner 'best'"),
        (f'{_LEAST}[fit]\nobjective = "best"\n', "key fit.objective: unknown objective"),
        (f'{_LEAST}[compute]\nbackend = "spark"\n', 'must be "joblib" or "dask"'),
        (f"{_LEAST}[compute]\njobs = 0\n", "key compute.jobs: 0 must be a whole number"),
        (f'{_LEAST}[compute]\nscheduler = "tcp://h:1"\n', 'needs backend = "dask"'),
        (f"{_LEAST}[compute.slurm]\njobs = 1\n", "key compute.slurm.cores is missing"),
        (f'{_LEAST}[compute.slurm]\ncores = 1\nmemory = "1GB"\n', 'needs backend = "dask"'),
        (f'{_LEAST}[evaluate]\nheld_out = "all"\n', '"nodes" or "ppn" or "shapes" or "msizes"'),
        (f"{_LEAST}[evaluate]\nfolds = 1\n", "key evaluate.folds: 1 must be a whole number from 2"),
        (f"{_LEAST}[promote]\nshadow = 1\n", "key promote.shadow: 1 must be true or false"),
        (f"{_LEAST}[promote]\nharm_at_most = nan\n", "key promote.harm_at_most: nan must be"),
        (f"{_LEAST}[promote]\nregret_worse_by = inf\n", "regret_worse_by: inf must be a number"),
        (f"{_LEAST}[drift]\nratio = 0.5\n", "key drift.ratio: 0.5 must be a number from 1 to"),
        (f'{_LEAST}[backfill]\ndemand = "d"\n', "key backfill.campaigns is missing"),
        (
            f'{_LEAST}[backfill]\ndemand = "d"\ncampaigns = "c"\nbudget = "soon"\n',
            "key backfill.budget: 'soon' is not a wall time",
        ),
        (f"{_LEAST}[production]\nrecord = 1\n", "key production.record: 1 must be true or false"),
        (f"{_LEAST}[production]\nsteps = [0.5, 0.2, 1]\n", "steps: .* rising shares that ends in"),
        (f"{_LEAST}[production]\nsteps = [0.5]\n", "production.steps: .* ends in 1.0"),
        (f"{_LEAST}[production]\ncontrol = 0\n", "key production.control: 0 must be a number"),
        (
            f'{_LEAST}[production]\nstore = "postgresql+psycopg://u:pw@h/d"\n',
            "line 7, key production.store: contains a password. .* PGPASSFILE",
        ),
        (f'{_LEAST}[hooks]\non = ["never"]\n', "key hooks.on: .* must be a list of promoted"),
        (f"{_LEAST}[hooks.email]\nport = 25\n", r"line 6, key hooks.email: .* hooks\.command"),
        (f"{_LEAST}[hooks]\ncommand = []\n", "key hooks.command: .* must be a program and its"),
        (f'{_LEAST}[hooks.webhook]\nurl = "file:///etc/passwd"\n', "is not a URL of http"),
        (
            f'{_LEAST}[hooks.webhook]\nurl = "http://h"\nheader = "A: b"\n',
            "key hooks.webhook.header: 'A: b' is not a header's name",
        ),
        (
            f"{_LEAST}[hooks]\nwebhook = 3\n",
            r"key hooks.webhook: must be a table: write \[hooks.webhook\]",
        ),
    ):
        with subtests.test(text=text, error=error):
            with pytest.raises(SiteError, match=error) as raised:
                parse(text, "s.toml", Path("/etc"))
            assert str(raised.value).startswith("s.toml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, a folder and a binary one are errors of usage that name it."""
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.toml", tmp_path, binary):
        with pytest.raises(SiteError, match=re.escape(str(path))) as raised:
            load(path)
        assert raised.value.exit_status == 2
