"""`colltune confirm`: what is proved, and what becomes of a bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from colltune.dataset import read_parquet
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.bundle import load
from colltune.models.confirmations import Confirmation
from colltune.production.store import Store
from colltune.production.summary import parse_summary, text_of
from colltune.selector.argmin import ModelSelector
from colltune.selector.demand import DemandLog
from tests.cli.conftest import Verb
from tests.dataset.profiles import profile_text, row
from tests.production.summaries import HEAD

_PAIR = ("default", "binomial")


@pytest.fixture
def bundle(bundle_path: Path, tmp_path: Path) -> Path:
    """Return a bundle to be revised; its data say that binomial is three times faster."""
    return shutil.copytree(bundle_path, tmp_path / "bundle")


@pytest.fixture
def slow_csv(measurements_csv: Path, tmp_path: Path) -> Path:
    """Return measurements in which the default is the fastest, in several launches."""
    lines = measurements_csv.read_text().splitlines()
    head = next(line for line in lines if not line.startswith("#"))
    slowed = [_slowed(line) for line in lines[lines.index(head) + 1 :]]
    again = [f"{line},{launch}" for line in slowed for launch in "abcdef"]
    path = tmp_path / "slow.csv"
    path.write_text("\n".join([*lines[: lines.index(head)], f"{head},launch", *again]) + "\n")
    return path


def _slowed(line: str) -> str:
    *words, last = line.split(",")
    if "default" not in words:
        return line
    return ",".join([*words, str(float(last) / 10)])


def test_what_proves_faster_is_confirmed(
    colltune: Verb, bundle: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """The bundle says so of that shape alone, selecting tells it, measurements are kept."""
    dataset = tmp_path / "dataset"
    words = ("--nodes", 4, "--ppn", 2, "--replay", measurements_csv, "--out", dataset)
    answer = colltune("confirm", bundle, *words)
    assert answer.status == 0, answer.err
    assert "confirmed" in answer.out
    assert "3.00x (" in answer.out
    chosen = ModelSelector(load(bundle)).select(Instance(Collective.BCAST, Shape(4, 2), 64))
    assert chosen.status is Status.CONFIRMED
    assert chosen.configuration.algorithm == "binomial"
    elsewhere = ModelSelector(load(bundle)).select(Instance(Collective.BCAST, Shape(8, 2), 64))
    assert elsewhere.status is Status.PREDICTED
    assert read_parquet(dataset).shapes() == (Shape(4, 2),)
    told = colltune("select", "--bundle", bundle, "--nodes", 4, "--ppn", 2)
    assert "measured 3.00x (" in told.out
    row = colltune(
        "select", "--bundle", bundle, "--nodes", 4, "--ppn", 2, "--msize", 64, "--json"
    ).json
    assert row["status"] == "confirmed"


def test_what_proves_slower_is_withdrawn(
    colltune: Verb, bundle: Path, slow_csv: Path, tmp_path: Path
) -> None:
    """Selecting, and a file that is written, leave it to the default from then on."""
    words = ("--nodes", 4, "--ppn", 2, "--replay", slow_csv, "--out", tmp_path / "d", "--json")
    report = colltune("confirm", bundle, *words).json
    assert {d["status"] for d in report["campaign"]["judgements"]} == {"withdrawn"}
    assert all(d["configuration"].endswith(".default") for d in report["campaign"]["judgements"])
    assert report["id"] == load(bundle).id
    chosen = ModelSelector(load(bundle)).select(Instance(Collective.BCAST, Shape(4, 2), 64))
    assert (chosen.status, chosen.configuration.is_default) == (Status.WITHDRAWN, True)


def test_what_was_confirmed_is_not_measured_again(
    colltune: Verb, bundle: Path, measurements_csv: Path, slow_csv: Path, tmp_path: Path
) -> None:
    """Unless it is asked for with --again; then the newer measurement counts."""
    words = ("--nodes", 4, "--ppn", 2, "--out", tmp_path / "d")
    colltune("confirm", bundle, *words, "--replay", measurements_csv)
    before = load(bundle).id
    answer = colltune("confirm", bundle, *words, "--replay", slow_csv)
    assert "nothing to confirm" in answer.out
    assert load(bundle).id == before
    colltune("confirm", bundle, *words, "--replay", slow_csv, "--again")
    statuses = {record.status for record in load(bundle).confirmations}
    assert statuses == {Status.WITHDRAWN}


def test_another_bundle_can_be_written(
    colltune: Verb, bundle: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """With --out-bundle the one that was given stays as it is."""
    before, new = load(bundle).id, tmp_path / "new"
    words = ("--nodes", 4, "--ppn", 2, "--replay", measurements_csv, "--out", tmp_path / "d")
    colltune("confirm", bundle, *words, "--out-bundle", new)
    assert load(bundle).id == before
    assert load(new).confirmations


def test_shapes_come_from_what_jobs_asked_for(
    colltune: Verb, bundle: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """Those of the bundle's library and release count, others and single processes do not."""
    log = DemandLog(tmp_path / "demand")
    log.note("openmpi", "4.1.4", Shape(8, 4), 5)
    log.note("openmpi", "4.1.4", Shape(1, 1), 5)
    log.note("openmpi", "5.0.8", Shape(2, 2), 9)
    log.flush()
    words = ("--demand", tmp_path / "demand", "--replay", measurements_csv, "--json")
    report = colltune("confirm", bundle, *words, "--out", tmp_path / "d").json
    assert {d["contest"]["instance"]["shape"] for d in report["campaign"]["judgements"]} == {"8x4"}


def test_shapes_come_from_a_campaign_file_or_a_profile(
    colltune: Verb, bundle: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """The campaign names shapes and sizes; a profile what its application uses."""
    campaign = tmp_path / "c.toml"
    campaign.write_text(
        '[machine]\nname = "hydra"\n[space]\ncollectives = ["bcast"]\nnodes = [2, 4]\n'
        "ppn = [2]\nmsizes_bytes = [512]\n"
    )
    words = ("--campaign", campaign, "--replay", measurements_csv, "--json")
    report = colltune("confirm", bundle, *words, "--out", tmp_path / "d").json
    found = {
        (d["contest"]["instance"]["shape"], d["first_bytes"])
        for d in report["campaign"]["judgements"]
    }
    assert found == {("2x2", 512), ("4x2", 512)}  # what was measured, and no more
    used = tmp_path / "one.profile"
    used.write_bytes(profile_text([row("bcast", "8x4", 512, 100, 1e-3)]))
    words = ("--profile", used, "--replay", measurements_csv, "--json")
    report = colltune("confirm", bundle, *words, "--out", tmp_path / "d").json
    assert {d["contest"]["instance"]["shape"] for d in report["campaign"]["judgements"]} == {"8x4"}


def test_a_site_measures_what_its_jobs_refuted(
    colltune: Verb, bundle: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """With a site file, refuted ranges and what its jobs spend most on are measured."""
    default, binomial = (Configuration("openmpi", Collective.BCAST, a) for a in _PAIR)
    refuted = Confirmation(
        Collective.BCAST, Shape(4, 2), 256, 1023, Status.WITHDRAWN, default, binomial,
        0.5, 0.45, 0.6, 0, "2026-11-23T00:00:00+00:00", 120,
    )  # fmt: skip
    load(bundle).with_confirmations([refuted]).save(bundle)
    site = tmp_path / "site.toml"
    site.write_text(
        '[site]\nmachine = "hydra"\nregistry = "registry"\n[data]\ndatasets = ["data"]\n'
        "[production]\nrecord = true\nstore = 'production.db'\n"
    )
    words = ("--site", site, "--replay", measurements_csv, "--json", "--out", tmp_path / "d")
    early = colltune("confirm", bundle, *words)
    assert early.says("no-job-reported slot=openmpi-4.1.4")
    store = Store(str(tmp_path / "production.db"), tmp_path / "production")
    profile = profile_text([row("bcast", "8x4", 512, 100, 1e-3)])
    store.add(parse_summary(text_of(HEAD, [profile])), 1_795_000_000.0)
    store.close()
    report = colltune("confirm", bundle, *words).json
    assert {d["contest"]["instance"]["shape"] for d in report["campaign"]["judgements"]} == {
        "4x2",
        "8x4",
    }
    chosen = ModelSelector(load(bundle)).select(Instance(Collective.BCAST, Shape(4, 2), 512))
    assert chosen.status is Status.CONFIRMED
    assert not any(record.jobs for record in load(bundle).confirmations)
    campaign = tmp_path / "c.toml"
    campaign.write_text(
        '[machine]\nname = "hydra"\n[library]\nrelease = "4.1.4"\n[space]\n'
        'collectives = ["bcast", "alltoall"]\nnodes = [8]\nppn = [4]\nmsizes_bytes = [512]\n'
    )
    planned = colltune("plan", campaign, "--site", site, "--json")
    assert planned.status == 0, planned.err
    assert "alltoall" not in planned.out


def test_another_release_is_refused_before_anything_is_measured(
    colltune: Verb, bundle: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """What is measured with it says nothing of the bundle's decisions."""
    other = tmp_path / "other.csv"
    other.write_text(measurements_csv.read_text().replace(",4.1.4,", ",5.0.8,"))
    before = load(bundle).id
    words = ("--nodes", 4, "--ppn", 2, "--replay", other, "--out", tmp_path / "d")
    answer = colltune("confirm", bundle, *words)
    assert answer.status != 0
    assert "the bundle is for hydra, openmpi 4.1.4" in answer.err
    assert "openmpi 5.0.8" in answer.err
    assert not (tmp_path / "d").exists()
    assert load(bundle).id == before


def test_without_shapes_there_is_nothing_to_do(colltune: Verb, bundle: Path) -> None:
    """The error names all ways to say which."""
    answer = colltune("confirm", bundle)
    assert answer.code == "no-shapes"


def test_a_new_fit_keeps_what_was_confirmed(
    colltune: Verb, bundle: Path, measurements_csv: Path, slow_csv: Path, tmp_path: Path
) -> None:
    """Unless the data contradict it; another bundle's folder knows nothing of it."""
    words = ("--nodes", 4, "--ppn", 2, "--replay", measurements_csv, "--out", tmp_path / "d")
    colltune("confirm", bundle, *words)
    before = load(bundle).confirmations
    answer = colltune("fit", measurements_csv, "--out", bundle, "--learner", "knn")
    assert "kept as measured by confirm" in answer.out
    assert load(bundle).confirmations == before
    colltune("fit", measurements_csv, "--out", tmp_path / "new", "--learner", "knn")
    assert load(tmp_path / "new").confirmations == ()
    colltune("fit", slow_csv, "--out", bundle, "--learner", "knn")
    assert load(bundle).confirmations == ()
