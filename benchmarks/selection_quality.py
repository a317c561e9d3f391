"""Decisions on unseen shapes: share of the oracle's log gain, harm, regret; per split."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from benchmarks.figure import Figure
from colltune.dataset import read
from colltune.dataset.objective import Objective
from colltune.selector.evaluation import (
    ALL,
    Evaluation,
    Extrapolation,
    LeaveNodesOut,
    LeavePpnOut,
    NodeCounts,
    Score,
    Split,
    evaluate_split,
)

FOLDER = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[2] / "shared")) / "data"
LEARNER = os.environ.get("COLLTUNE_LEARNER", "auto")
ONLY = tuple(filter(None, os.environ.get("COLLTUNE_SPLITS", "").split(",")))
JOBS = int(os.environ["COLLTUNE_JOBS"]) if "COLLTUNE_JOBS" in os.environ else None
_PUBLISHED = ("published_knn", "published_gam", "published_xgboost")


@dataclass(frozen=True)
class Row:
    """A split of a recorded dataset, with the least share and most harm and p95 that are wanted."""

    name: str
    file: str
    split: Split
    share: float
    harm: float
    p95: float | None = None
    noise: float = 0.0
    max_nprocs: int | None = None
    where: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> Evaluation:
        """Evaluate; decisions are judged by medians, which is all that the simulation has."""
        return evaluate_split(
            read([FOLDER / self.file], self.where),
            self.split,
            learners=(LEARNER,),
            noise=self.noise,
            max_nprocs=self.max_nprocs,
            judged_by=Objective.MEDIAN,
            jobs=JOBS,
        )


def _simulated(
    name: str, split: Split, *, share: float, harm: float, p95: float | None = None
) -> Row:
    """Return a row of the simulated fat tree with 5 % noise, up to 288 processes."""
    return Row(name, "simulated_fattree36.csv.gz", split, share, harm, p95, 0.05, 288)


def _portfolio(name: str, split: Split, *, share: float, harm: float) -> Row:
    file, where = "leonardo_research_portfolio.csv.gz", {"library": "openmpi"}
    return Row(name, file, split, share, harm, where=where)


_TEST = (7, 13, 19, 27, 35)
_NATIVE = "leonardo_openmpi-4.1.6.csv.gz"
_LARGE, _SMALL = NodeCounts((4, 8, 16, 24, 32, 36), _TEST), NodeCounts((4, 16, 36), _TEST)
_BEYOND = NodeCounts((4, 7, 8, 13, 16), (24, 27, 32, 35, 36))
ROWS: tuple[Row, ...] = (
    _simulated("simulated_large", _LARGE, share=0.99, harm=0.005, p95=1.04),
    _simulated("simulated_small", _SMALL, share=0.98, harm=0.01, p95=1.10),
    _simulated("simulated_ppn8", LeavePpnOut((8,)), share=0.995, harm=0.005),
    _simulated("simulated_ppn16", LeavePpnOut((16,)), share=0.995, harm=0.005),
    _simulated("simulated_beyond", _BEYOND, share=0.99, harm=0.005),
    Row("native_left_out", _NATIVE, LeaveNodesOut(), 0.90, 0.015),
    Row("native_extrapolated", _NATIVE, Extrapolation(), 0.55, 0.015),
    _portfolio("portfolio_left_out", LeaveNodesOut(), share=0.87, harm=0.025),
    _portfolio("portfolio_extrapolated", Extrapolation(), share=0.50, harm=0.025),
)
"""Node counts of the simulated splits are those of Hunold et al. (CLUSTER 2020, Table III) that it
has. Extrapolation tests each collective's largest third of node counts, at least one: 1024 and 2048
where a collective was measured there."""


def run() -> Figure:
    """Return the mean share over the splits; the baseline is the best published learner's.

    Every split is a line on standard error. COLLTUNE_SHARED names the folder that has ``data``,
    COLLTUNE_LEARNER another learner, COLLTUNE_SPLITS some of the splits, COLLTUNE_JOBS processes.
    """
    rows = [row for row in ROWS if not ONLY or row.name in ONLY]
    unknown = [name for name in ONLY if name not in {row.name for row in ROWS}]
    if unknown or not rows:
        known = ", ".join(row.name for row in ROWS)
        sys.exit(f"COLLTUNE_SPLITS: no split {unknown[0]!r}; there are {known}")
    missing = sorted({str(FOLDER / r.file) for r in rows if not (FOLDER / r.file).exists()})
    if missing:
        sys.exit(f"{missing[0]} is missing; set COLLTUNE_SHARED to the folder that has data/")
    shares: dict[str, list[float]] = {}
    for row in rows:
        scores = {name: of[ALL] for name, of in row.run().scores.items()}
        for name, score in scores.items():
            shares.setdefault(name, []).append(score.log_gain_share or 0.0)
        _report(row, scores)
    baseline = max(fmean(shares[name]) for name in _PUBLISHED)
    ours = fmean(shares[LEARNER])
    return Figure("selection_quality", ours, "share of log gain", ours, baseline)


def _report(row: Row, scores: Mapping[str, Score]) -> None:
    """Print a split's figures, and those of the published learner with the largest share."""
    ours = scores[LEARNER]
    best = max(_PUBLISHED, key=lambda name: scores[name].log_gain_share or 0.0)
    p95 = "" if row.p95 is None else f", p95 <= {row.p95}"
    print(
        f"{row.name}: {LEARNER} {_figures(ours)}"
        f" [share >= {row.share}, harm <= {row.harm:.1%}{p95}:"
        f" {'met' if _met(row, ours) else 'missed'}]; {best} {_figures(scores[best])};"
        f" oracle {ours.oracle_geometric_mean_speedup:.3f}x on {ours.instances} instances",
        file=sys.stderr,
        flush=True,
    )


def _met(row: Row, score: Score) -> bool:
    share = score.log_gain_share or 0.0
    has_tail = row.p95 is not None and score.p95_regret > row.p95
    return share >= row.share and score.slower_share <= row.harm and not has_tail


def _figures(score: Score) -> str:
    ends = score.log_gain_share_interval
    interval = "" if ends is None else f" ({ends[0]:.2f} .. {ends[1]:.2f})"
    share = "-" if score.log_gain_share is None else f"{score.log_gain_share:.3f}"
    return (
        f"share {share}{interval}, harm {score.slower_share:.1%}, p95 {score.p95_regret:.3f},"
        f" fit {score.fit_s:.0f} s"
    )
