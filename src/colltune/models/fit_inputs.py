"""What a bundle is fitted to: measurements of the machine, of other machines, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.objective import Objective
from colltune.domain import Context
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.fitting import Progress, fit
from colltune.models.transfer import fit_with_priors

_FIELDS = ("machine", "library", "library_version", "fabric")


@dataclass(frozen=True, eq=False)
class FitInputs:
    """Own measurements, None if the machine was never measured, and those of others."""

    own: PerformanceDataset | None
    priors: tuple[PerformanceDataset, ...]
    context: Context
    any_library: bool = False

    @classmethod
    def of(
        cls,
        data: Sequence[Path],
        where: Mapping[str, str],
        priors: Sequence[Path],
        prior_where: Mapping[str, str],
        for_: str | None,
        *,
        any_library: bool = False,
    ) -> FitInputs:
        """Read the datasets that the options name."""
        if data and for_ is not None:
            raise DataError("--for is for machines without measurements: leave out it or DATA")
        if not data and (for_ is None or not priors):
            raise DataError(
                "no measurements: name DATA, or for a machine that was never measured both"
                " --prior OTHER and --for machine=NAME"
            )
        others = tuple(read([path], prior_where) for path in priors)
        if for_ is None:
            own = read(data, where)
            return cls(own, others, own.context, any_library)
        return cls(None, others, described(for_, [d.context for d in others]), any_library)

    @property
    def n_measurements(self) -> int:
        """Number of own measurements."""
        return 0 if self.own is None else len(self.own)

    def fit(
        self, learner: str, objective: Objective, *, jobs: int | None, progress: Progress | None
    ) -> Bundle:
        """Fit the bundle; see `colltune.models.transfer` for what priors are good for."""
        if self.own is not None and not self.priors:
            return fit(self.own, learner, objective=objective, jobs=jobs, progress=progress)
        return fit_with_priors(
            self.own,
            self.priors,
            self.context,
            learner,
            objective=objective,
            any_library=self.any_library,
            jobs=jobs,
            progress=progress,
        )


def described(text: str, others: Sequence[Context]) -> Context:
    """Return the context that ``machine=NAME,library_version=…`` describes.

    The library and its release are those of `others` unless named; the fabric is unknown then.
    """
    named: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in _FIELDS or key in named or not value:
            raise DataError(
                f"--for {text!r}: {part!r} is not one of {', '.join(f'{k}=…' for k in _FIELDS)},"
                " each once, separated by commas"
            )
        named[key] = value
    if "machine" not in named:
        raise DataError(f"--for {text!r}: names no machine; write machine=NAME")
    for key in ("library", "library_version"):
        values = sorted({str(getattr(context, key)) for context in others})
        if key not in named and len(values) > 1:
            raise DataError(
                f"--for {text!r}: the priors have different values of {key}"
                f" ({', '.join(values)}); add {key}=…"
            )
        named.setdefault(key, values[0])
    return Context(**named)
