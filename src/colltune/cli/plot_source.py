"""What `colltune plot` draws from: a bundle, or measurements, and which part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.cli.options import parse_counts, parse_pairs, parse_shape
from colltune.domain import parse_collective
from colltune.errors import DataError
from colltune.files.remote import url_of
from colltune.plot_data.pick import Pick

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.dataset.objective import Objective
    from colltune.models.bundle import Bundle
    from colltune.models.guard import Guard
    from colltune.selector.argmin import ModelSelector

_BUNDLE_ONLY = "is for a bundle; drop it, or draw a bundle that `colltune fit` wrote"
_DATA_ONLY = "is for measurements; drop it, or draw a dataset"
Picked = tuple[Sequence[str] | None, str | None, str | None, Sequence[str] | None]
"""The options --collective, --nodes, --ppn and --shape."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A part of a bundle, with measurements beside it if there are any, or of measurements alone.

    ``allocation_of`` is the allocation of each launch, as far as the data tell.
    """

    pick: Pick
    bundle: Bundle | None
    dataset: PerformanceDataset | None
    allocation_of: Mapping[str, str] | None

    @property
    def measured(self) -> PerformanceDataset:
        """The measurements, which there are wherever there is no bundle."""
        assert self.dataset is not None
        return self.dataset

    def guard(self, *, guard: bool, caution: float | None) -> bool | Guard:
        """Return the guard that the options describe.

        Raises
        ------
        DataError
            If there is to be none, and it is to be cautious.
        """
        from colltune.models.guard import Guard

        if not guard and caution is not None:
            raise DataError("--caution is the guard's, and --no-guard drops it: drop one of them")
        return guard if caution is None else Guard(caution=caution)

    def selector(
        self, others: Mapping[str, object], *, guard: bool, caution: float | None
    ) -> ModelSelector:
        """Return the selector over the bundle; `others` are flags that it has no use for.

        Raises
        ------
        DataError
            If one of these was given.
        """
        from colltune.selector.argmin import ModelSelector

        assert self.bundle is not None
        _refuse(others, _DATA_ONLY)
        return ModelSelector(self.bundle, guard=self.guard(guard=guard, caution=caution))

    def objective(
        self, text: str | None, *, guard: bool = True, caution: float | None = None
    ) -> Objective:
        """Return the statistic called `text`; the others are of no use without a bundle.

        Raises
        ------
        DataError
            If there is no such statistic, or one of the others was given.
        """
        from colltune.dataset.objective import DEFAULT_OBJECTIVE, parse_objective

        _refuse({"--no-guard": not guard, "--caution": caution}, _BUNDLE_ONLY)
        return DEFAULT_OBJECTIVE if text is None else parse_objective(text)


def asked(
    paths: Sequence[Path],
    out: Path,
    picked: Picked,
    data: Sequence[Path] | None,
    where: Sequence[str] | None,
) -> Asked:
    """Read what is to be drawn, after a look at the options that can be wrong at once.

    Raises
    ------
    OutputError
        If `out` is called like no kind of picture.
    DataError
        If an option makes no sense, or the measurements cannot be read.
    BundleError
        If the bundle is damaged, or lacks a picked collective.
    """
    from colltune.plots.saving import picture_format

    picture_format(out)
    pick = pick_of(*picked)
    return Asked(pick, *_opened(paths, data, parse_pairs(where or [], "--where"), pick))


def pick_of(
    collectives: Sequence[str] | None,
    nodes: str | None,
    ppn: str | None,
    shapes: Sequence[str] | None,
) -> Pick:
    """Return what the options pick.

    Raises
    ------
    DataError
        If one makes no sense, or shapes and counts are both given.
    """
    return Pick(
        tuple(dict.fromkeys(parse_collective(name) for name in collectives or ())),
        parse_counts(nodes, "--nodes") or (),
        parse_counts(ppn, "--ppn") or (),
        tuple(parse_shape(text) for text in shapes or ()),
    )


def _opened(
    paths: Sequence[Path], data: Sequence[Path] | None, where: Mapping[str, str], pick: Pick
) -> tuple[Bundle | None, PerformanceDataset | None, Mapping[str, str] | None]:
    """Read the one bundle or the datasets at `paths`, and those of `data` beside a bundle."""
    if not any(map(is_bundle, paths)):
        if data:
            raise DataError(f"--data {_BUNDLE_ONLY}; datasets to draw together are named as SOURCE")
        return None, *_read(paths, where)
    if len(paths) > 1:
        raise DataError("a bundle is drawn alone; name measurements to draw beside it with --data")
    if where and not data:
        raise DataError("--where keeps rows of measurements, and a bundle has none: give --data")
    from colltune.models.bundle import load

    bundle = load(paths[0], pick.collectives or None)
    return bundle, *(_read(data, where) if data else (None, None))


def is_bundle(path: Path) -> bool:
    """Tell whether `path` is a bundle, maybe a damaged one."""
    if url_of(path) is not None or not path.is_dir():
        return False
    return (path / "manifest.json").exists() or any(path.glob("*.arrays"))


def _refuse(given: Mapping[str, object], why: str) -> None:
    for flag, value in given.items():
        if value is not None and value is not False:
            raise DataError(f"{flag} {why}")


def _read(
    paths: Sequence[Path], where: Mapping[str, str]
) -> tuple[PerformanceDataset, Mapping[str, str]]:
    from colltune.dataset import read
    from colltune.dataset.noise import allocations_of
    from colltune.dataset.reading import read_launch_provenances

    dataset = read(paths, where)
    launches = dataset.frame["launch"].astype(str)
    return dataset, allocations_of(launches, read_launch_provenances(paths), None).by_launch
