"""How noisy a dataset is: within a launch, between launches, between allocations.

Definitions
-----------
All is done on natural logarithms of times, with medians, so that a few outliers do not decide and a
component of 0.03 means 3 %. A *cell* is one configuration on one instance. The median of launch
``l`` in allocation ``a`` is taken as ``log t = cell + allocation(a) + launch(l) + sampling error``.

within a launch
    ``spread``: standard deviation of the logarithm of repetitions, 1.4826 x their median absolute
    deviation; ``p90_over_median``: what users feel. Warm-up is the median of the first 10
    repetitions over that of the others; drift is the median of the last quarter over the first.
sampling error of a launch's median
    ``pi / 2 * spread^2 / n`` for ``n`` independent repetitions, of which there are fewer than
    were timed where neighbours resemble each other (rank autocorrelation at lag 1).
between launches, between allocations
    standard deviation of a launch's (an allocation's) own contribution, from the differences ``d``
    of medians of the same cell in two launches of one allocation (in two allocations): half the
    median of ``d^2 / 0.4549 - sampling variance``. What the levels below explain is thus taken off;
    where nothing is left, an upper bound is given, never a zero.
smallest detectable difference
    1.96 standard errors of the difference between the two fastest configurations of an instance,
    from the components above and the launches and allocations that these had.

Intervals hold 95 % and are those of a variance by chi-squared, with launches (allocations) as
witnesses, however many cells each of them has; of two launches they are wide.
"""

from colltune.dataset.noise.measured import (
    Allocations,
    AllocationSource,
    allocations_of,
    drift_curve,
    measured,
)
from colltune.dataset.noise.report import (
    Group,
    NoiseLevel,
    NoiseReport,
    NoisyCell,
    Separability,
    noise_report,
)
from colltune.evidence.components import Component, allocation_medians, paired

__all__ = [
    "AllocationSource",
    "Allocations",
    "Component",
    "Group",
    "NoiseLevel",
    "NoiseReport",
    "NoisyCell",
    "Separability",
    "allocation_medians",
    "allocations_of",
    "drift_curve",
    "measured",
    "noise_report",
    "paired",
]
