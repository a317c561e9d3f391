"""The reference generalised additive model, by R's mgcv."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from colltune import process
from colltune.dataset import PerformanceDataset, read
from colltune.dataset.parquet import append_dataset
from colltune.domain import Collective, Instance, Measurement, RunStatus
from colltune.errors import ProgramError
from colltune.features import feature_set
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.learners import LEARNERS, UnfittableError, fitted, gam, learner_entry
from colltune.models.learners.mgcv import SCRIPT
from tests.models.machines import configuration, measured
from tests.refusals import refused

Numbers = np.typing.NDArray[np.float64]
LEARNER = LEARNERS["mgcv"]
needs_r = pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not on PATH")

# as short as a user of mgcv would write it
_REFERENCE = """
suppressPackageStartupMessages(library(mgcv))
folder <- commandArgs(trailingOnly = TRUE)[1]
data <- read.csv(file.path(folder, "data.csv"))
new <- read.csv(file.path(folder, "new.csv"))
model <- gam(y ~ s(m, k = 10) + s(n, k = 5) + p, family = Gamma(link = "log"), data = data)
cat(sprintf("%.17g", predict(model, new, type = "response")), sep = "\\n")
"""


def _sample(noise: float = 0.05) -> tuple[Numbers, Numbers]:
    """Return features of a grid of 12 sizes, 5 node counts and 2 ppn, and times."""
    axes = np.arange(0.0, 24.0, 2.0), np.array([1.0, 2.0, 3.0, 4.0, 5.2]), np.array([0.0, 2.0])
    points = np.column_stack([c.ravel() for c in np.meshgrid(*axes, indexing="ij")])
    times = 1e-6 * np.exp(0.002 * points[:, 0] ** 2.4 + 0.3 * points[:, 1] + 0.1 * points[:, 2])
    return points, times * np.random.default_rng(0).lognormal(0, noise, len(points))


def _table(file: Path, header: str, columns: Numbers) -> None:
    lines = [",".join(map(repr, row)) for row in columns.tolist()]
    file.write_text("\n".join([header, *lines]) + "\n")


@needs_r
def test_predicts_what_mgcv_predicts(tmp_path: Path) -> None:
    """Inside, between and beyond the data the exported arrays agree with R's own predictions."""
    points, times = _sample()
    new = np.random.default_rng(1).uniform([-8, -1, 0], [32, 9, 4], (300, 3))
    _table(tmp_path / "data.csv", "y,m,n,p", np.column_stack([times * 1e5, points]))
    _table(tmp_path / "new.csv", "m,n,p", new)
    script = tmp_path / "reference.R"
    script.write_text(_REFERENCE)
    outcome = process.run(["Rscript", "--vanilla", script, tmp_path], timeout_s=120)
    expected = 1e-5 * np.array([float(line) for line in process.check(outcome, "R").stdout.split()])
    exported = LEARNER.fit(points, times)
    np.testing.assert_allclose(exported.predict(new)[:, 0], expected, rtol=1e-5)


@needs_r
def test_pygam_and_mgcv_agree_where_there_are_data() -> None:
    """With the same family and link the two implementations are within 5 % at the data."""
    points, times = _sample()
    ours = gam.fit(points, times).predict(points)
    reference = LEARNER.fit(points, times).predict(points)
    np.testing.assert_allclose(ours, reference, rtol=0.05)


@needs_r
def test_configurations_are_fitted_as_if_alone() -> None:
    """One process of R for three configurations with gaps gives what three processes give."""
    points, times = _sample()
    together = times[:, None] * np.exp2(points[:, [0]] * [0.0, 0.1, -0.05])
    together[points[:, 0] > 16, 1] = np.nan
    joint = LEARNER.fit(points, together).predict(points)
    for column, seconds in enumerate(together.T):
        known = np.isfinite(seconds)
        alone = LEARNER.fit(points[known], seconds[known]).predict(points)
        np.testing.assert_allclose(joint[:, [column]], alone, rtol=1e-9)


@needs_r
def test_equal_times_are_a_level_model() -> None:
    """Times without any variation, where mgcv's criterion is undefined, are predicted as such."""
    points, _ = _sample()
    times = np.full((len(points), 2), 3e-6)
    times[:, 1] = _sample()[1]
    predicted = LEARNER.fit(points, times).predict(points)
    np.testing.assert_allclose(predicted[:, 0], 3e-6, rtol=1e-12)


def test_without_r_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no Rscript is on PATH, the message names it and the packages."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with refused("program-missing", ProgramError, program="Rscript"):
        LEARNER.fit(*_sample())


def test_failures_of_r_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing package, what R printed, and the configuration that cannot be fitted are named."""
    failing = "echo 'cannot allocate vector' >&2; exit 1"
    for body, code in (("exit 3", "no-mgcv"), (failing, "program-failed")):
        _program(monkeypatch, tmp_path, body)
        with refused(code, ProgramError):
            LEARNER.fit(*_sample())
    _program(monkeypatch, tmp_path, 'printf "output,message\\n1,no luck\\n" > "$3/errors.csv"')
    with pytest.raises(UnfittableError) as raised:
        LEARNER.fit(*_sample())
    assert raised.value.reasons == {0: "mgcv cannot fit it: no luck"}


def _program(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Put a program called Rscript first on PATH."""
    fake = folder / "Rscript"
    fake.write_text(f"#!/bin/sh\n{body}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


_COLLTUNE = Path(sys.executable).with_name("colltune")
_USE = """
words <- commandArgs(trailingOnly = TRUE)
source(words[1])
setwd(words[2])
fit <- colltune_fit(colltune_data("dataset", colltune = words[3]), "bcast")
write.csv(predict(fit, read.csv("new.csv")), "predicted.csv", row.names = FALSE)
png("plot.png")
drawn <- plot(fit, nodes = 4, ppn = 1)
stopifnot(all(diff(drawn$msize_bytes) > 0), drawn$fastest %in% names(fit$models))
"""


def _dataset(folder: Path) -> CellMatrix:
    """Write a dataset of several launches with slow and wrong cells; return the cells of bcast."""

    def is_slow(algorithm: str, instance: Instance) -> bool:
        return algorithm == "linear" and instance.msize_bytes > 100_000

    data = measured(noise=0.1, left_out=is_slow)
    found = list(data.measurements())
    found += [
        replace(m, launch="two", times_s=(2 * m.times_s[0],), summary=None) for m in found[::3]
    ]
    found += [
        Measurement(instance, configuration("linear"), "one", RunStatus.TIMEOUT)
        for instance in {m.instance: None for m in found}
        if is_slow("linear", instance)
    ]
    wrong = next(m for m in found if m.configuration.algorithm == "scatter_allgather")
    found.append(Measurement(wrong.instance, wrong.configuration, "3", RunStatus.WRONG_RESULT))
    append_dataset(folder, PerformanceDataset.of(data.context, found), {})
    return cell_matrices(read([folder], {}))[Collective.BCAST]


@needs_r
def test_users_of_r_get_the_models_of_the_learner(tmp_path: Path) -> None:
    """From a dataset's folder the R functions predict what the learner predicts."""
    cells = _dataset(tmp_path / "dataset")
    assert cells.slow.any()
    fit = fitted(cells, "mgcv")
    names = [configuration.short for configuration in fit.cells.configurations]
    assert names == ["binomial", "default", "linear"]
    new = np.array([(3, 2, 0), (4, 1, 64), (16, 4, 1 << 22), (40, 8, 1 << 24)])
    _table(tmp_path / "new.csv", "nodes,ppn,msize_bytes", new)
    (tmp_path / "use.R").write_text(_USE)
    words: list[str | Path] = [
        "Rscript",
        "--vanilla",
        tmp_path / "use.R",
        SCRIPT,
        tmp_path,
        _COLLTUNE,
    ]
    process.check(process.run(words, timeout_s=300), "R")
    found = pd.read_csv(tmp_path / "predicted.csv")
    assert list(found.columns) == names
    known = feature_set(learner_entry("mgcv").feature_set).matrix(*new.T)
    np.testing.assert_allclose(found.to_numpy(), fit.predictor.predict(known), rtol=1e-6)
    assert (tmp_path / "plot.png").stat().st_size > 3000


@needs_r
def test_the_page_for_users_of_r_runs(tmp_path: Path) -> None:
    """What docs/howto/r.md tells to type runs on the data that it names."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "howto" / "r.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```r\n(.*?)```", page, re.DOTALL)
    (typed,) = re.findall(r"\$ colltune (data export) (\S+) --out (\S+) --with-r", page)
    verb, data, out = typed
    words: list[str | Path] = [
        _COLLTUNE,
        *verb.split(),
        root / data,
        "--out",
        tmp_path / out,
        "--with-r",
    ]
    process.check(process.run(words, timeout_s=60), "colltune")
    (tmp_path / "page.R").write_text(code)
    outcome = process.run(["Rscript", "--vanilla", "page.R"], timeout_s=300, cwd=tmp_path)
    assert "binomial_tree" in process.check(outcome, "the page's code").stdout
    assert (tmp_path / "Rplots.pdf").exists()


@needs_r
def test_r_tells_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    """A column that is missing and a time that is none are named, with file and line."""
    head = "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes"
    cases = [
        (f"{head}\nm,l,1,bcast,default,2,1,8\n", "data.csv: missing column time_s"),
        ("", "data.csv: no readable CSV"),
        (f"{head},time_s\nm,l,1,bcast,default,2,1,8,-1\n", "data.csv, line 2: time_s is no pos"),
    ]
    for text, told in cases:
        (tmp_path / "data.csv").write_text(text)
        code = f"source('{SCRIPT}'); colltune_data('{tmp_path / 'data.csv'}')"
        outcome = process.run(["Rscript", "--vanilla", "-e", code], timeout_s=60)
        assert outcome.returncode
        assert told in outcome.stderr
