"""What of a bundle's decisions was measured again against the default, and what came of it.

A confirmation holds for one shape and one range of message sizes. It is a measurement, so that it
goes before what models predict there. Production measures, too: where its jobs were slower than
those of a control group, the decision is withdrawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Shape
from colltune.evidence.launches import (
    MACHINE,
    NO_GAIN,
    LaunchGain,
    LaunchVerdict,
    Noise,
    Sums,
    interval,
    verdict,
)
from colltune.models.error_model import default_gains
from colltune.text import counted

if TYPE_CHECKING:
    import pandas as pd

    from colltune.dataset import PerformanceDataset

_LIMIT_BEFORE = 2.24
"""Standard errors on either side of records without ``sums``."""

_PLAIN = ("first_bytes", "last_bytes", "gain", "lower", "upper", "launches", "measured_utc")


@dataclass(frozen=True)
class Confirmation:
    """The decision for messages of ``first_bytes`` to ``last_bytes`` (None: no end) on a shape.

    ``configuration`` is in force: what was confirmed, or the default where ``status`` is withdrawn.
    ``proposed`` was predicted to be the fastest. ``gain`` is the time of the default over that of
    the configuration that was measured to be the best, ``lower`` to ``upper`` its 95 % interval,
    all None where it failed, or was not measured at all; a single launch has a gain and no
    interval. ``launches`` tells in how many launches (0: none), ``measured_utc`` when (an ISO
    time). ``sums`` are the log gains of each configuration that was measured, none in records of
    before, and ``noise`` is that between launches. Where production jobs refuted the decision
    ``jobs`` tells how many (0: none did), and the gain is that of ``proposed`` in them.
    """

    collective: Collective
    shape: Shape
    first_bytes: int
    last_bytes: int | None
    status: Status
    configuration: Configuration
    proposed: Configuration
    gain: float | None
    lower: float | None
    upper: float | None
    launches: int
    measured_utc: str
    jobs: int = 0
    sums: tuple[tuple[Configuration, Sums], ...] = ()
    noise: Noise | None = None

    def __post_init__(self) -> None:
        known = [value is not None for value in (self.gain, self.lower, self.upper)]
        is_confirmed = self.status is Status.CONFIRMED
        is_single = self.launches == 1 and bool(self.sums) and known[0]
        if self.status is Status.PREDICTED or (not is_single and any(known) != all(known)):
            raise ValueError(
                "a confirmation is either confirmed or withdrawn, and has a gain with its bounds"
            )
        if is_confirmed == self.configuration.is_default or (is_confirmed and not all(known)):
            raise ValueError("a confirmed configuration is not the default, and was measured")
        if self.jobs and (is_confirmed or not all(known)):
            raise ValueError("a confirmation by jobs withdraws, by a gain that they measured")
        if self.last_bytes is not None and self.last_bytes < self.first_bytes:
            raise ValueError(f"{self.first_bytes} to {self.last_bytes} bytes is not a range")

    @property
    def confirmed(self) -> Configuration | None:
        """What was confirmed, if anything was."""
        return self.configuration if self.status is Status.CONFIRMED else None

    @property
    def is_undecided(self) -> bool:
        """Whether more launches may still prove what was withdrawn for want of proof."""
        lower, upper = self.lower, self.upper
        is_open = lower is not None and upper is not None and upper >= math.exp(NO_GAIN)
        return self.status is Status.WITHDRAWN and bool(self.sums) and is_open

    @property
    def harm(self) -> str:
        """What jobs lost by it, in words; empty where no production jobs refuted it."""
        if not (self.jobs and self.gain and self.lower and self.upper):
            return ""
        return (
            f"production jobs were {1 / self.gain:.2f}x slower"
            f" ({1 / self.upper:.2f} to {1 / self.lower:.2f}) in {counted(self.jobs, 'job')}"
        )

    @property
    def reason(self) -> str:
        """What was measured, in words: ``measured 1.21x (1.15 to 1.28) on 2026-11-22 …``."""
        if self.harm:
            return f"withdrawn: {self.harm}"
        if not self.launches:
            return "withdrawn: not measured again, so no proof that it is faster"
        if self.gain is None:
            return f"withdrawn: {self.proposed.short} failed on {self.measured_utc[:10]}"
        within = "" if self.lower is None else f" ({self.lower:.2f} to {self.upper:.2f})"
        launches = counted(self.launches, "launch", "es")
        text = f"measured {self.gain:.2f}x{within} on {self.measured_utc[:10]} in {launches}"
        if self.status is Status.CONFIRMED:
            return text
        return f"withdrawn{', not proven faster' if self.gain > 1.0 else ''}: {text}"

    def holds(self, msize_bytes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which messages of so many bytes belong to it."""
        return np.asarray((self.first_bytes <= msize_bytes) & (msize_bytes <= self._last))

    @property
    def _last(self) -> float:
        return math.inf if self.last_bytes is None else self.last_bytes

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return what `as_json` made; KeyError, ValueError or TypeError if it is something else."""
        sums = found.get("sums")
        # an early form, a list that does not say of which configuration, tells nothing
        by_name = sums if isinstance(sums, dict) else {}
        return cls(
            collective=Collective(found["collective"]),
            shape=Shape(int(found["nodes"]), int(found["ppn"])),
            status=Status(found["status"]),
            configuration=Configuration.parse(found["configuration"]),
            proposed=Configuration.parse(found["proposed"]),
            **{name: found[name] for name in _PLAIN},
            jobs=int(found.get("jobs", 0)),
            sums=tuple(
                (Configuration.parse(name), Sums(*_numbers(told))) for name, told in by_name.items()
            ),
            noise=Noise(*_numbers(found["noise"])) if "noise" in found else None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON knows them; ``jobs`` and what is behind it only where known."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        plain |= {"jobs": self.jobs} if self.jobs else {}
        if self.sums:
            plain["sums"] = {configuration.id: _plain(told) for configuration, told in self.sums}
        if self.noise:
            plain["noise"] = _plain(self.noise)
        return plain | {
            "collective": self.collective.value,
            "nodes": self.shape.nodes,
            "ppn": self.shape.ppn,
            "status": self.status.value,
            "configuration": self.configuration.id,
            "proposed": self.proposed.id,
        }


def replaced(old: Iterable[Confirmation], new: Sequence[Confirmation]) -> tuple[Confirmation, ...]:
    """Return both, ordered, without those parts of `old` of which `new` tells."""
    kept = [part for one in old for part in _without(one, new)]
    return tuple(sorted((*kept, *new), key=lambda c: (c.collective, c.shape, c.first_bytes)))


def upheld(records: Iterable[Confirmation], dataset: PerformanceDataset) -> list[Confirmation]:
    """Return those of `records` that the measurements of the same context do not contradict.

    Launches of `dataset` count that hold both, the default and what was judged. What was confirmed
    falls where they prove it slower, by themselves or with what the record rests on; what was
    withdrawn where they prove it faster. Records of which it has nothing stay, but for
    those that rest on no measurement themselves. What production jobs refuted stays withdrawn until
    `colltune confirm` measures it again: the models that proposed it had such measurements, too.
    """
    gains = default_gains(dataset.timed())
    return [
        record
        for record in records
        if record.jobs or (record.launches and not _is_contradicted(record, gains))
    ]


def _is_contradicted(record: Confirmation, gains: pd.DataFrame) -> bool:
    judged = record.proposed if record.configuration.is_default else record.configuration
    ours = (
        (gains["collective"] == record.collective.value)
        & (gains["nodes"] == record.shape.nodes)
        & (gains["ppn"] == record.shape.ppn)
        & (gains["algorithm"] == judged.stored_algorithm)
        & (gains["parameters"] == judged.parameter_text)
        & record.holds(gains["msize_bytes"].to_numpy())
    )
    # sizes of a range are no launches of their own
    logs = gains[ours].groupby("launch")["log"].mean()
    found = Sums.of(LaunchGain(log, math.nan, 1) for log in logs)
    if found is None:
        return False
    told = [found]
    if record.status is Status.CONFIRMED:
        told.append(dict(record.sums).get(judged, _sums_behind(record)).plus(found))
    wrong = LaunchVerdict.SLOWER if record.status is Status.CONFIRMED else LaunchVerdict.FASTER
    noise = record.noise or MACHINE
    return any(verdict(interval(one, noise, sequence=True)) is wrong for one in told)


def _sums_behind(record: Confirmation) -> Sums:
    """Return what a record of before rests on, by its interval of 2.24 standard errors."""
    assert record.gain is not None
    assert record.lower is not None
    assert record.upper is not None
    n = max(1, record.launches)
    of_mean = math.log(record.upper / record.lower) / (2 * _LIMIT_BEFORE)
    return Sums(n, math.log(record.gain), (n - 1) * n * of_mean**2, math.nan)


def _plain(numbers: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in numbers]


def _numbers(found: Iterable[float | None]) -> list[Any]:
    """Return the numbers of a record, what was not known being none."""
    return [math.nan if value is None else value for value in found]


def _without(old: Confirmation, new: Iterable[Confirmation]) -> Iterator[Confirmation]:
    """Yield what is left of `old`."""
    parts = [old]
    for one in new:
        if (one.collective, one.shape) == (old.collective, old.shape):
            parts = [left for part in parts for left in _cut(part, one)]
    yield from parts


def _cut(part: Confirmation, one: Confirmation) -> Iterator[Confirmation]:
    if one.first_bytes > part._last or one._last < part.first_bytes:
        yield part
        return
    if part.first_bytes < one.first_bytes:
        yield replace(part, last_bytes=one.first_bytes - 1)
    if one.last_bytes is not None and one.last_bytes < part._last:
        yield replace(part, first_bytes=one.last_bytes + 1)
