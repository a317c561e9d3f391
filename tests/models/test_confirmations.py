"""What a bundle keeps of decisions that were measured again."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import join
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import BundleError
from colltune.evidence.launches import MACHINE, Noise, Sums
from colltune.models.bundle import load
from colltune.models.confirmations import Confirmation, replaced, upheld
from colltune.models.fitting import fit
from tests.models.machines import configuration, measured
from tests.refusals import refused

DEFAULT = Configuration.default("openmpi", Collective.BCAST)
WON = Confirmation(
    Collective.BCAST,
    Shape(8, 4),
    0,
    4095,
    Status.CONFIRMED,
    configuration("binomial"),
    configuration("binomial"),
    1.214,
    1.152,
    1.28,
    2,
    "2026-11-22T10:00:00+00:00",
)
LOST = replace(
    WON,
    first_bytes=4096,
    last_bytes=None,
    status=Status.WITHDRAWN,
    configuration=DEFAULT,
    gain=0.97,
    lower=0.93,
    upper=1.01,
    launches=1,
)

TOLD = Sums(2, math.log(1.214), 0.0004, 0.0001)
KEPT = replace(WON, sums=((WON.proposed, TOLD),), noise=Noise(0.04, 5.0, 0.2))
REFUTED = replace(LOST, gain=0.5, lower=0.45, upper=0.6, launches=0, jobs=120)


def test_reasons_tell_gain_interval_and_day() -> None:
    """The measured gain stands in words, also of what was withdrawn, and of what crashed."""
    assert WON.reason == "measured 1.21x (1.15 to 1.28) on 2026-11-22 in 2 launches"
    assert LOST.reason == "withdrawn: measured 0.97x (0.93 to 1.01) on 2026-11-22 in 1 launch"
    doubtful = replace(LOST, gain=1.4, lower=0.8, upper=2.4)
    assert doubtful.reason.startswith("withdrawn, not proven faster: measured 1.40x (0.80 to 2.40)")
    crashed = replace(LOST, gain=None, lower=None, upper=None)
    assert crashed.reason == "withdrawn: binomial failed on 2026-11-22"
    slower = "withdrawn: production jobs were 2.00x slower (1.67 to 2.22) in 120 jobs"
    assert REFUTED.reason == slower


def test_what_was_not_measured_is_not_confirmed() -> None:
    """A confirmation without a winner, a gain, its bounds or a range cannot be made."""
    cases: tuple[dict[str, Any], ...] = (
        {"configuration": DEFAULT},
        {"status": Status.PREDICTED},
        {"gain": None},
        {"gain": None, "lower": None, "upper": None},
        {"first_bytes": 5000},
        {"jobs": 5},
    )
    for wrong in cases:
        with pytest.raises(ValueError, match=r"confirm|range"):
            replace(WON, **wrong)


def test_json_keeps_all() -> None:
    """What was written is what is read."""
    for one in (WON, LOST, REFUTED):
        assert Confirmation.from_json(json.loads(json.dumps(one.as_json()))) == one


def test_a_revision_has_another_id_and_survives_the_disk(tmp_path: Path) -> None:
    """Records are part of a bundle's content; models and time of fitting stay as they were."""
    bundle = fit(measured(), "knn")
    revised = bundle.with_confirmations([WON, LOST])
    assert revised.id != bundle.id
    again = load(revised.save(tmp_path / "bundle"))
    assert (again.id, again.confirmations) == (revised.id, (WON, LOST))
    assert again.created_utc == bundle.created_utc
    assert bundle.with_confirmations([]).id == bundle.id
    part = load(tmp_path / "bundle", [])
    with refused("partly-loaded", BundleError):
        part.with_confirmations([WON])


def test_only_what_jobs_refuted_needs_a_newer_colltune(tmp_path: Path) -> None:
    """A bundle without such a record is of version 3, as it was; with one it is of version 4."""
    bundle = fit(measured(), "knn")
    for number, (record, version) in enumerate(((LOST, 3), (REFUTED, 4))):
        folder = bundle.with_confirmations([record]).save(tmp_path / str(number))
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["format_version"] == version
        assert ("jobs" in manifest["confirmations"][0]) == (version == 4)
        assert load(folder).confirmations == (record,)


def test_what_jobs_refuted_is_upheld_until_it_is_measured_again() -> None:
    """The measurements that the models had proposed it by do not bring it back; confirm does."""
    assert upheld([REFUTED], measured()) == [REFUTED]
    again = replace(WON, first_bytes=4096, last_bytes=None)
    assert replaced([REFUTED], [again]) == (again,)


def test_a_bundle_of_version_2_is_read(tmp_path: Path) -> None:
    """What an earlier colltune wrote has no confirmations."""
    folder = fit(measured(), "knn").save(tmp_path / "bundle")
    old = json.loads((folder / "manifest.json").read_text())
    del old["confirmations"]
    old["format_version"] = 2
    covered = {k: v for k, v in old.items() if k not in ("id", "created_utc", "colltune_version")}
    canonical = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    old["id"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(old))
    assert load(folder).confirmations == ()


def test_a_damaged_record_is_a_damaged_bundle(tmp_path: Path) -> None:
    """A record that says nothing sensible is named with its file."""
    folder = fit(measured(), "knn").with_confirmations([WON]).save(tmp_path / "bundle")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["confirmations"][0]["gain"] = None
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with refused("bundle-file-damaged", BundleError):
        load(folder)


def test_a_newer_record_replaces_the_older() -> None:
    """Of the same shape and sizes the last one counts; another shape's stays."""
    newer = replace(LOST, first_bytes=0, last_bytes=4095)
    elsewhere = replace(WON, shape=Shape(4, 4))
    assert replaced([WON, elsewhere], [newer]) == (elsewhere, newer)
    middle = replace(newer, first_bytes=100, last_bytes=199)
    parts = replaced([WON], [middle])
    assert [(c.first_bytes, c.last_bytes, c.status) for c in parts] == [
        (0, 99, Status.CONFIRMED),
        (100, 199, Status.WITHDRAWN),
        (200, 4095, Status.CONFIRMED),
    ]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()), max_size=5))
def test_records_never_overlap(ranges: list[tuple[int, int | None]]) -> None:
    """Whatever is added, at most one record holds for a message."""
    found: tuple[Confirmation, ...] = ()
    for first, last in ranges:
        if last is None or first <= last:
            found = replaced(found, [replace(WON, first_bytes=first, last_bytes=last)])
    for one, two in itertools.pairwise(found):
        assert one.last_bytes is not None
        assert one.last_bytes < two.first_bytes


def test_new_data_uphold_what_they_do_not_contradict() -> None:
    """What proves slower, and what was withdrawn and proves faster, is dropped in a refit."""
    sizes = (64, 262144)
    fast = _measured({"default": 3.0, "binomial": 1.0}, sizes)
    slow = _measured({"default": 1.0, "binomial": 3.0}, sizes)
    elsewhere = replace(WON, shape=Shape(2, 4))
    unproven = replace(LOST, gain=None, lower=None, upper=None, launches=0)
    assert upheld([WON, LOST], fast) == [WON]
    assert upheld([WON, LOST], slow) == [LOST]
    assert upheld([elsewhere], slow) == [elsewhere]
    assert upheld([unproven], slow) == []
    assert upheld([replace(LOST, gain=None, lower=None, upper=None)], fast) == []


def test_one_later_launch_contradicts_nothing() -> None:
    """A proof is not dropped for one unlucky launch, nor for launches that hold one of both."""
    slow = {"default": 1.0, "binomial": 1.05}
    assert upheld([KEPT, LOST], _measured(slow, (64,), launches="a")) == [KEPT, LOST]
    apart = join(
        [
            _measured({"default": 1.0}, (64,), launches="abcd"),
            _measured({"binomial": 9.0}, (64,), launches="efgh"),
        ]
    )
    assert upheld([KEPT, LOST], apart) == [KEPT, LOST]


def test_a_true_gain_outlives_later_launches() -> None:
    """A gain of 1.1 is dropped in hardly any of many refits, launches differing by 5 %."""
    rng = np.random.default_rng(1)
    kept = 0
    for _ in range(60):
        factors = np.exp(rng.normal(0.0, 0.05, 3)) / 1.1
        launches = [
            _measured({"default": 1.0, "binomial": float(factor)}, (64,), launches=name)
            for name, factor in zip("abc", factors, strict=True)
        ]
        kept += len(upheld([KEPT], join(launches)))
    assert kept >= 59


def test_what_is_behind_a_record_survives_the_disk() -> None:
    """Sums of launches and their noise are read as they were written, unknown ones as unknown."""
    assert Confirmation.from_json(json.loads(json.dumps(KEPT.as_json()))) == KEPT
    unknown = replace(
        KEPT, sums=((WON.proposed, TOLD._replace(inside=math.nan)),), noise=Noise(0.04, 5.0)
    )
    again = Confirmation.from_json(json.loads(json.dumps(unknown.as_json())))
    ((configuration, sums),) = again.sums
    assert (configuration, math.isnan(sums.inside)) == (WON.proposed, True)
    assert again.noise is not None
    assert math.isnan(again.noise.alike)


def test_a_gain_of_one_launch_has_no_interval(tmp_path: Path) -> None:
    """It withdraws, is told as what it is, and makes the bundle one that older releases refuse."""
    once = replace(
        LOST,
        gain=0.5,
        lower=None,
        upper=None,
        sums=((LOST.proposed, Sums(1, math.log(0.5), 0.0, 0.0)),),
        noise=MACHINE._replace(alike=0.0),
    )
    assert once.reason == "withdrawn: measured 0.50x on 2026-11-22 in 1 launch"
    folder = fit(measured(), "knn").with_confirmations([once]).save(tmp_path / "bundle")
    assert json.loads((folder / "manifest.json").read_text())["format_version"] == 5
    assert load(folder).confirmations == (once,)


def _measured(
    factors: dict[str, float], sizes: tuple[int, ...], launches: str = "klmn"
) -> PerformanceDataset:
    measurements = [
        Measurement(
            Instance(Collective.BCAST, WON.shape, size),
            configuration(name),
            launch,
            times_s=(time_s,),
        )
        for size in sizes
        for name, time_s in factors.items()
        for launch in launches
    ]
    return PerformanceDataset.of(Context("m", "openmpi", "4.1.4"), measurements)


def test_records_with_a_list_of_sums_are_read() -> None:
    """The early form does not tell of which configuration they are, and counts as none."""
    again = Confirmation.from_json(KEPT.as_json() | {"sums": [3, 0.5, 0.01]})
    assert again == replace(KEPT, sums=())
