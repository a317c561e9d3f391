"""What the two formats with rules for coll/tuned have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from colltune.domain import Configuration, Shape
from colltune.mpi.file_format import Format
from colltune.mpi.openmpi import activation, han_setups
from colltune.mpi.openmpi.dispatch import DISPATCH
from colltune.mpi.openmpi.releases import LIBRARY


class TunedFormat(Format):
    library = LIBRARY

    def why_not_expressed(self, release: str, configuration: Configuration) -> str:
        if han_setups.is_setup(configuration):
            return f"{self.name} cannot name {configuration.id}, which holds for a whole job"
        return super().why_not_expressed(release, configuration)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the rules, and coll/han's file where the job may span nodes."""
        dispatch = paths.get(DISPATCH)
        parameters = activation.activation(
            release,
            Path(paths[""]),
            spans_nodes=job is None or job.nodes > 1,
            dispatch_path=Path(dispatch) if dispatch is not None else None,
        )
        return activation.environment(parameters)
