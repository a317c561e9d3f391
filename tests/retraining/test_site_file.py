"""Site files: what they say, and what is wrong with them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.dataset.objective import Objective
from colltune.errors import SiteError
from colltune.files.settings import keys_of
from colltune.models.workers import Slurm
from colltune.mpi.programs import Results
from colltune.retraining.site_file import Site, deploy_file, load, parse
from tests.refusals import refused

_LEAST = '[site]\nmachine = "hydra"\nregistry = "registry"\n[data]\ndatasets = ["data"]\n'


def test_the_example_is_a_site_file_with_every_key() -> None:
    """The example parses; with its marks taken off, too, and then it names every key."""
    text = deploy_file("site")
    least = parse(_LEAST, "site.toml", Path("/etc"))
    example = parse(text, "site.toml", Path("/etc"))
    assert replace(example, registry=least.registry, datasets=least.datasets) == least
    whole = re.sub(r"(?m)^#(?=\[|[a-z_]+ = )", "", text)
    whole = whole.replace('backend = "joblib"', 'backend = "dask"')
    site = parse(re.sub(r"(?m)^scheduler = .*", "", whole), "site.toml", Path("/etc"))
    assert site.workers.slurm == Slurm(
        16, "32GB", 1, "01:00:00", "short", "project", "ib0", ("--exclusive",)
    )
    assert site.production == least.production
    tables = _tables(tomllib.loads(whole))
    named = {f"{table}.{key}" for table, found in tables.items() for key in found}
    assert {key.path for key in keys_of(Site)} == named - {*tables}


def _tables(parsed: dict[str, object], above: str = "") -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, value in parsed.items():
        if isinstance(value, dict):
            found |= {f"{above}{name}": value, **_tables(value, f"{above}{name}.")}
    return found


@pytest.mark.parametrize(
    ("site", "production", "promised"),
    [
        ("", "", Results.RANKS_AGREE),
        ("", "[production]\nrecord = true\n", Results.SAME_BITS),
        ('results = "any"\n', "[production]\nrecord = true\n", Results.ANY),
        ('results = "ranks-agree"\n', "[production]\nrecord = true\n", Results.RANKS_AGREE),
        ('programs = "same-types,results=any"\n', "", Results.ANY),
        ('results = "same-bits"\n', "", Results.SAME_BITS),
    ],
)
def test_recorded_jobs_compute_the_same_bits(site: str, production: str, promised: Results) -> None:
    """Arms that are drawn must not change results, unless the site says so."""
    text = _LEAST.replace("[data]", f"{site}[data]") + production
    assert parse(text, "site.toml", Path("/etc")).programs.results is promised


def test_what_is_promised_of_results_is_checked() -> None:
    """A wrong word is named with its key."""
    text = _LEAST.replace("[data]", 'results = "exact"\n[data]')
    with refused("not-results", SiteError) as raised:
        parse(text, "site.toml", Path("/etc"))
    assert "site.results" in str(raised.value)


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


_BACKFILL = f'{_LEAST}[backfill]\ndemand = "d"\n'
_CLUSTER = (
    f'{_LEAST}[cluster]\nuser = "u"\nmpi = ["openmpi/4.1.6"]\nnodes = [2]\nppn = [1]\n'
    'collectives = ["bcast"]\n'
)
MISTAKES = (
    ("[site", "not-toml", "s.toml"),
    ("[sight]\n", "unknown-table", "sight"),
    ('[site]\nmashine = "x"\n', "unknown-key", "site.mashine"),
    ("[site]\nmachine = 7\n", "not-allowed", "site.machine"),
    ('[site]\nmachine = "x"\n', "key-missing", "site.registry"),
    (_LEAST.replace('"hydra"', '" "'), "not-allowed", "site.machine"),
    (_LEAST.replace('["data"]', "[]"), "not-allowed", "data.datasets"),
    (_LEAST.replace('["data"]', '"data"'), "not-allowed", "data.datasets"),
    (f"{_LEAST}min_new = true\n", "not-allowed", "data.min_new"),
    (f"{_LEAST}min_new = -1\n", "not-allowed", "data.min_new"),
    (f"{_LEAST}min_new = {2**70}\n", "not-allowed", "data.min_new"),
    (f'{_LEAST}[fit]\nlearner = "best"\n', "unknown", "fit.learner"),
    (f'{_LEAST}[fit]\nobjective = "best"\n', "unknown", "fit.objective"),
    (f'{_LEAST}[compute]\nbackend = "spark"\n', "not-allowed", "compute.backend"),
    (f"{_LEAST}[compute]\njobs = 0\n", "not-allowed", "compute.jobs"),
    (f'{_LEAST}[compute]\nscheduler = "tcp://h:1"\n', "needs-dask", "compute.backend"),
    (f"{_LEAST}[compute.slurm]\njobs = 1\n", "key-missing", "compute.slurm.cores"),
    (f'{_LEAST}[compute.slurm]\ncores = 1\nmemory = "1GB"\n', "needs-dask", "compute.backend"),
    (f'{_LEAST}[evaluate]\nheld_out = "all"\n', "not-allowed", "evaluate.held_out"),
    (f"{_LEAST}[evaluate]\nfolds = 1\n", "not-allowed", "evaluate.folds"),
    (f"{_LEAST}[promote]\nshadow = 1\n", "not-allowed", "promote.shadow"),
    (f"{_LEAST}[promote]\nharm_at_most = nan\n", "not-allowed", "promote.harm_at_most"),
    (f"{_LEAST}[promote]\nregret_worse_by = inf\n", "not-allowed", "promote.regret_worse_by"),
    (f"{_LEAST}[drift]\nratio = 0.5\n", "not-allowed", "drift.ratio"),
    (_BACKFILL, "key-missing", "backfill.campaigns"),
    (f'{_BACKFILL}campaigns = "c"\nbudget = "soon"\n', "malformed", "backfill.budget"),
    (
        f'{_BACKFILL}campaigns = "c"\nconfirm = "30m"\n',
        "confirm-needs-measurements",
        "backfill.confirm",
    ),
    (f'{_CLUSTER}default_mpi = "mpich/4.2.0"\n', "not-one-of", "cluster.default_mpi"),
    (f"{_LEAST}[production]\nrecord = 1\n", "not-allowed", "production.record"),
    (f"{_LEAST}[production]\nsteps = [0.5, 0.2, 1]\n", "not-rising", "production.steps"),
    (f"{_LEAST}[production]\nsteps = [0.5]\n", "not-rising", "production.steps"),
    (f"{_LEAST}[production]\ncontrol = 0\n", "not-allowed", "production.control"),
    (
        f'{_LEAST}[production]\nstore = "postgresql+psycopg://u:pw@h/d"\n',
        "has-password",
        "production.store",
    ),
    (f'{_LEAST}[hooks]\non = ["never"]\n', "not-allowed", "hooks.on"),
    (f"{_LEAST}[hooks.email]\nport = 25\n", "no-mail", "hooks.email"),
    (f"{_LEAST}[hooks]\ncommand = []\n", "not-allowed", "hooks.command"),
    (f'{_LEAST}[hooks.webhook]\nurl = "file:///etc/passwd"\n', "not-allowed", "hooks.webhook.url"),
    (
        f'{_LEAST}[hooks.webhook]\nurl = "http://h"\nheader = "A: b"\n',
        "not-allowed",
        "hooks.webhook.header",
    ),
    (f"{_LEAST}[hooks]\nwebhook = 3\n", "not-a-table", "hooks.webhook"),
)


def test_what_is_wrong_is_named_with_its_place(subtests: pytest.Subtests) -> None:
    """Every mistake names file, line and key."""
    for text, code, key in MISTAKES:
        place = {"file": key} if code == "not-toml" else {"key": key}
        with subtests.test(text=text), refused(code, SiteError, **place) as raised:
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
