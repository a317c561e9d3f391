"""One evaluation: a split of a dataset, what was decided on it; and two of them compared.

On disk it is one JSON file with every decision, so that two runs can be compared.

Format history
--------------
1. ``format``, ``format_version``, ``colltune_version`` and ``runs``; a run has its setup (context,
   dataset_digest, split, split_options, noise, seed, max_nprocs, judged_by), guard, objective,
   train_nodes, test_nodes,
   ``tested`` (columns of the tested instances), ``selectors`` (columns of each one's decisions,
   None for unknown noise), notes, and ``scores``, which are for other programs: reading computes
   them from the decisions again.
2. adds ``profile`` to the setup, ``weight`` to ``tested`` (how much each instance counts, null for
   all as much) and ``covered`` to the run.
3. adds ``unmeasured`` to the selectors' columns (whether the choice was not measured on the
   instance; before, only what was measured there could be chosen), their ``confirm_s`` and
   ``exhaustive_s``, and ``confirm`` to the setup; later also ``programs``, null or absent where
   all that was measured could be chosen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune import __version__
from colltune.dataset.objective import Objective
from colltune.domain import Context, parse_collective
from colltune.errors import DataError
from colltune.evaluation.scores import (
    Decided,
    Difference,
    EvaluatedInstances,
    Score,
    differences,
    plain,
    scores,
)
from colltune.files import whole
from colltune.files.reading import json_of, read_bytes


@dataclass(frozen=True)
class EvaluationSetup:
    """What an evaluation is of; two with the same setup can be compared instance by instance.

    ``split`` and ``options`` say how the dataset with the ``digest`` was parted; ``noise`` was put
    on training times, drawn with ``seed``; ``max_nprocs`` left instances out;
    ``judged_by`` is the statistic of the repetitions that the tested times are; ``profile`` the
    digest of the profile by which instances have weights, None without one; ``confirm`` tells that
    a half of the record was left to the confirmation of decisions; what harms ``programs`` was
    left out, None: nothing was.
    """

    data: Context
    digest: str
    split: str
    options: Mapping[str, Any]
    noise: float = 0.0
    seed: int = 0
    max_nprocs: int | None = None
    judged_by: str = Objective.MEDIAN.value
    profile: str | None = None
    confirm: bool = False
    programs: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {
            "context": asdict(self.data),
            "dataset_digest": self.digest,
            "split": self.split,
            "split_options": dict(self.options),
            "noise": self.noise,
            "seed": self.seed,
            "max_nprocs": self.max_nprocs,
            "judged_by": self.judged_by,
            "profile": self.profile,
            "confirm": self.confirm,
            "programs": self.programs,
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What selectors decided on the test instances of one split.

    ``train_nodes`` and ``test_nodes`` are those of any fold; ``decided`` is by selector, baselines
    first; ``objective`` is the statistic that was learned; ``notes`` say what is missing;
    ``covered`` is the share of the application's time in collectives that the instances stand for,
    None if they do not count by a profile.

    ``guard`` is whether learners' decisions were guarded, ``colltune_version`` that which
    evaluated.
    """

    setup: EvaluationSetup
    guard: bool
    objective: str
    train_nodes: tuple[int, ...]
    test_nodes: tuple[int, ...]
    tested: EvaluatedInstances
    decided: Mapping[str, Decided]
    colltune_version: str
    notes: tuple[str, ...] = ()
    covered: float | None = None

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        """The figures by selector and by collective or ``all``."""
        return {name: scores(self.tested, one) for name, one in self.decided.items()}

    @property
    def learners(self) -> tuple[str, ...]:
        """The selectors asked for, without the baselines."""
        return tuple(name for name, one in self.decided.items() if one.learner)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON-able dictionary with stable keys."""
        setup = self.setup
        return {
            "data": str(setup.data),
            "split": setup.split,
            "split_options": dict(setup.options),
            "train_nodes": list(self.train_nodes),
            "test_nodes": list(self.test_nodes),
            "guard": self.guard,
            "noise": setup.noise,
            "seed": setup.seed,
            "objective": self.objective,
            "judged_by": setup.judged_by,
            "profile": setup.profile,
            "profile_covered": self.covered,
            "confirm": setup.confirm,
            "selectors": {
                selector: {name: score.as_dict() for name, score in rows.items()}
                for selector, rows in self.scores.items()
            },
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Comparison:
    """The differences of two selectors of one split, by collective and of all together."""

    split: str
    first: str
    second: str
    differences: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        return plain(self) | {"differences": [d.as_dict() for d in self.differences]}


def compare(
    first: Sequence[Evaluation], second: Sequence[Evaluation], names: tuple[str, str]
) -> list[Comparison]:
    """Compare the learners of two results, split by split; `names` say which they are in errors.

    A learner is compared with the one of the same name. Those without a namesake are compared in
    the order in which they were asked for.
    """
    common = [(run, other) for run in first if (other := _counterpart(run, second)) is not None]
    if not common:
        splits = [_listed(dict.fromkeys(r.setup.split for r in runs)) for runs in (first, second)]
        raise DataError(
            f"{names[0]} and {names[1]} have no split in common: {names[0]} has {splits[0]}, "
            f"{names[1]} has {splits[1]}. Evaluate both with the same --split."
        )
    found = []
    for mine, other in common:
        _refuse_others(mine, other, names)
        for a, b in _pairs(mine, other, names):
            found.append(
                Comparison(
                    mine.setup.split,
                    a,
                    b,
                    differences(mine.tested, mine.decided[a], other.decided[b]),
                )
            )
    return found


def _counterpart(run: Evaluation, others: Sequence[Evaluation]) -> Evaluation | None:
    """Return the run of the same split, of the same data if there is one."""
    same = [other for other in others if other.setup.split == run.setup.split]
    exact = [other for other in same if other.setup.digest == run.setup.digest]
    return next(iter((*exact, *same)), None)


def _pairs(mine: Evaluation, other: Evaluation, names: tuple[str, str]) -> list[tuple[str, str]]:
    same = [(name, name) for name in mine.learners if name in other.learners]
    alone = [name for name in mine.learners if name not in other.learners]
    others = [name for name in other.learners if name not in mine.learners]
    pairs = [*same, *zip(alone, others, strict=False)]
    if not pairs:
        raise DataError(
            f"there are no learners to compare: {names[0]} has {_listed(mine.learners)}, "
            f"{names[1]} has {_listed(other.learners)}. Evaluate both with the same --learner."
        )
    return pairs


def _refuse_others(mine: Evaluation, other: Evaluation, names: tuple[str, str]) -> None:
    a, b = mine.setup.as_dict(), other.setup.as_dict()
    for key, what in _MUST_AGREE.items():
        if a[key] != b[key]:
            raise DataError(
                f"{names[0]} and {names[1]} cannot be compared: in split {mine.setup.split} "
                f"{what} is {_shown(a[key])} in the first and {_shown(b[key])} in the second. "
                "Evaluate both in the same way."
            )
    mine_tested, other_tested = mine.tested, other.tested
    if not _same(mine_tested, other_tested):
        raise DataError(
            f"{names[0]} and {names[1]} cannot be compared: in split {mine.setup.split} they "
            f"tested different instances or times ({len(mine_tested)} and {len(other_tested)} "
            "instances). Evaluate both with this colltune."
        )


_MUST_AGREE = {
    "context": "the context",
    "dataset_digest": "the data",
    "split_options": "the options",
    "noise": "noise",
    "seed": "seed",
    "max_nprocs": "--max-nprocs",
    "judged_by": "--judge",
    "profile": "--profile",
    "confirm": "--confirm",
    "programs": "--programs",
}


def _same(one: EvaluatedInstances, other: EvaluatedInstances) -> bool:
    return len(one) == len(other) and all(
        bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
        for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def _shown(value: object) -> str:
    if value is None:
        return "not given"
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


FORMAT = "colltune-evaluation"
FORMAT_VERSION = 3
_MEND = "write it again with `colltune evaluate … --out`, or copy it again"


def write(evaluations: Sequence[Evaluation], path: Path) -> Path:
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "colltune_version": __version__,
        "runs": [_run(evaluation) for evaluation in evaluations],
    }
    with whole(path) as temporary:
        temporary.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> list[Evaluation]:
    content = _content(path)
    try:
        runs = [_evaluation(run, str(content["colltune_version"])) for run in content["runs"]]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DataError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path}: the results are damaged: {what}; {_MEND}") from error
    if not runs:
        raise DataError(f"{path}: the results have no run; {_MEND}")
    return runs


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json_of(read_bytes(path))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path}: cut short, or not JSON ({error}); {_MEND}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path}: not the results of `colltune evaluate … --out FILE.json`")
    version = content.get("format_version")
    if version not in range(1, FORMAT_VERSION + 1):
        raise DataError(
            f"{path}: the results have format {version}, but this colltune ({__version__}) "
            f"reads formats up to {FORMAT_VERSION}. Upgrade colltune."
        )
    return content


def _run(evaluation: Evaluation) -> dict[str, Any]:
    tested = evaluation.tested
    return {
        **evaluation.setup.as_dict(),
        "guard": evaluation.guard,
        "objective": evaluation.objective,
        "train_nodes": list(evaluation.train_nodes),
        "test_nodes": list(evaluation.test_nodes),
        "tested": {
            name: value.tolist() if isinstance(value, np.ndarray) else list(value)
            for name, value in vars(tested).items()
            if value is not None
        },
        "covered": evaluation.covered,
        "selectors": {name: _columns(one) for name, one in evaluation.decided.items()},
        "notes": list(evaluation.notes),
        "scores": {
            name: {c: score.as_dict() for c, score in rows.items()}
            for name, rows in evaluation.scores.items()
        },
    }


def _columns(decided: Decided) -> dict[str, Any]:
    return {
        "learner": decided.learner,
        "configuration": list(decided.configuration),
        "selected_s": decided.selected_s.tolist(),
        "kept": decided.kept.tolist(),
        "unmeasured": decided.unmeasured.tolist(),
        "noise": [x if math.isfinite(x) else None for x in decided.noise.tolist()],
        "fit_s": dict(decided.fit_s),
        "predict_s": dict(decided.predict_s),
        "confirm_s": dict(decided.confirm_s),
        "exhaustive_s": dict(decided.exhaustive_s),
    }


def _evaluation(run: Mapping[str, Any], version: str) -> Evaluation:
    tested = _tested(run["tested"])
    setup = EvaluationSetup(
        Context(**run["context"]),
        _word(run["dataset_digest"]),
        _word(run["split"]),
        dict(run["split_options"]),
        float(run["noise"]),
        int(run["seed"]),
        None if run["max_nprocs"] is None else int(run["max_nprocs"]),
        Objective(run["judged_by"]).value,
        None if run.get("profile") is None else _word(run["profile"]),
        bool(run.get("confirm", False)),
        None if run.get("programs") is None else _word(run["programs"]),
    )
    return Evaluation(
        setup,
        bool(run["guard"]),
        _word(run["objective"]),
        tuple(int(n) for n in run["train_nodes"]),
        tuple(int(n) for n in run["test_nodes"]),
        tested,
        {_word(name): _decided(one, name, tested) for name, one in run["selectors"].items()},
        version,
        tuple(map(str, run["notes"])),
        None if run.get("covered") is None else float(run["covered"]),
    )


def _tested(columns: Mapping[str, Any]) -> EvaluatedInstances:
    words = [tuple(map(_word, columns[name])) for name in ("collective", "fold", "best")]
    nodes, ppn, sizes = (_integers(columns[name], name) for name in ("nodes", "ppn", "msize_bytes"))
    default_s, best_s = (_times(columns[name], name) for name in ("default_s", "best_s"))
    weight = _times(columns["weight"], "weight") if "weight" in columns else None
    others = () if weight is None else (weight,)
    lengths = {len(c) for c in (*words, nodes, ppn, sizes, default_s, best_s, *others)}
    if len(lengths) != 1 or not len(nodes):
        raise ValueError("the columns of tested have different lengths, or are missing")
    for name in set(words[0]):
        parse_collective(name)
    if (best_s > default_s).any():
        raise ValueError("an instance's best_s is slower than its default_s")
    return EvaluatedInstances(
        words[0], words[1], nodes, ppn, sizes, default_s, best_s, words[2], weight
    )


def _decided(columns: Mapping[str, Any], name: str, tested: EvaluatedInstances) -> Decided:
    selected_s = _times(columns["selected_s"], f"selected_s of {name}")
    noise = np.array([np.nan if x is None else float(x) for x in columns["noise"]], np.float64)
    configuration = tuple(map(_word, columns["configuration"]))
    kept = np.array(columns["kept"])
    unmeasured = np.array(columns.get("unmeasured", [False] * len(kept)))
    if {len(c) for c in (selected_s, noise, configuration, kept, unmeasured)} != {len(tested)}:
        raise ValueError(f"the columns of {name} and of tested have different lengths")
    if {kept.dtype, unmeasured.dtype} != {np.dtype(np.bool_)} or (noise < 0).any():
        raise ValueError(f"kept, unmeasured or noise of {name} has a wrong type")
    if (selected_s < tested.best_s).any():
        raise ValueError(f"{name} selects something faster than best_s")
    return Decided(
        configuration,
        selected_s,
        kept,
        unmeasured,
        noise,
        _seconds(columns["fit_s"]),
        _seconds(columns["predict_s"]),
        bool(columns["learner"]),
        _seconds(columns.get("confirm_s", {})),
        _seconds(columns.get("exhaustive_s", {})),
    )


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} stands where a text should be")
    return value


def _integers(values: Sequence[Any], name: str) -> NDArray[np.int64]:
    found = np.array(values, np.int64)
    if found.ndim != 1 or any(type(value) is not int for value in values) or (found < 0).any():
        raise ValueError(f"{name} has an entry that is not a count")
    return found


def _times(values: Sequence[Any], name: str) -> NDArray[np.float64]:
    found = np.array(values, np.float64)
    if found.ndim != 1 or not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"{name} has an entry that is not a positive time")
    return found


def _seconds(spent: Mapping[str, Any]) -> dict[str, float]:
    return {_word(name): float(seconds) for name, seconds in spent.items()}
