"""Whether a level shifts over time."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field


@dataclass
class BatchLevel:
    """Whether a level shifts: means of batches of jobs, as logarithms.

    An e-detector (Shin, Ramdas, Rinaldo, New England Journal of Statistics in Data Science 2,
    2024): the e-values of a shift at each of the latest moments are added up, so that a false alarm
    comes once in ``1 / RATE`` batches at most, in the mean. The evidence is the Bayes factor of a
    shift that is normal with variance ``PRIOR`` in units of the scatter, with the right-Haar prior
    on the scale (Rouder et al., Psychonomic Bulletin & Review 16, 2009; Lai, Annals of Statistics
    4, 1976). A level is taken to move by ``USUAL`` from batch to batch, which counts as much as
    ``WORTH`` batches; shifts are some times as large.
    """

    batches: list[float] = field(default_factory=list)

    MOST, LEAST, STARTS = 96, 6, 12
    SMALLEST = math.log(1.05)
    RATE = 1e-4
    USUAL, WORTH, PRIOR = 0.03, 4, 10.0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.batches)

    def add(self, value: float) -> float | None:
        """Take in a batch; return the shift where there is one.

        What was before the shift is forgotten then.
        """
        self.batches = [*self.batches, round(value, 5)][-self.MOST :]
        ends = range(max(self.LEAST, len(self.batches) - self.STARTS), len(self.batches))
        shifts = {at: self._shift(at) for at in ends}
        evidence = math.fsum(math.exp(min(log_e, 500.0)) for _, log_e in shifts.values())
        if evidence < 1.0 / self.RATE:
            return None
        at = max(shifts, key=lambda start: shifts[start][1])
        if abs(shifts[at][0]) < self.SMALLEST:
            return None
        self.batches = self.batches[at:]
        return shifts[at][0]

    def _shift(self, at: int) -> tuple[float, float]:
        old, new = self.batches[:at], self.batches[at:]
        shift = statistics.fmean(new) - statistics.fmean(old)
        freedom = len(self.batches) - 2 + self.WORTH
        spread = statistics.pvariance(old) * len(old) + statistics.pvariance(new) * len(new)
        variance = (spread + self.WORTH * self.USUAL**2) / freedom
        size = len(old) * len(new) / len(self.batches)
        return shift, self._log_bayes_factor(size, size * shift**2 / variance, freedom)

    def _log_bayes_factor(self, size: float, t_squared: float, freedom: float) -> float:
        shrunk = 1.0 + size * self.PRIOR
        ratio = t_squared / freedom
        gain = math.log1p(ratio) - math.log1p(ratio / shrunk)
        return 0.5 * ((freedom + 1.0) * gain - math.log(shrunk))
