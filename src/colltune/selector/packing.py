"""The configuration of one application by its profile, and the folder that holds it.

Format history of ``manifest.json``
-----------------------------------
1. ``format`` (``colltune-pack``), ``version``, ``bundle`` and ``profile`` (SHA-256 of what they
   say), ``programs``, ``library``, ``release``, ``shape``, ``configuration_format``, ``files``
   (names within the folder), ``environment``, ``start_line``, ``chosen`` (collective, nprocs or
   shape, first and last byte, configuration), ``saving`` (shares of the run: expected, least,
   most), ``unknown`` (share of the time in collectives) and ``notes``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colltune.dataset.profile import Profile
from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.selector.application import application_table, calls_on
from colltune.selector.configuration import Rendered, Target, rendered, selector_for
from colltune.selector.decision_table import Intervals
from colltune.selector.job_files import WrittenConfiguration, write_rendered, write_text
from colltune.selector.profiled import Outlook, outlook

FORMAT = "colltune-pack"
FORMAT_VERSION = 1
SCRIPT = "env.sh"
_MANIFEST, _README = "manifest.json", "README.txt"


def pack(profile: Profile, bundle: Bundle, target: Target, shape: Shape, guard: Guard) -> Packed:
    """Decide for one application what its profile says that it uses, on a job of `shape`."""
    if target.form.library != profile.library:
        raise DataError(
            f"the application ran with {profile.library}; a configuration for"
            f" {target.form.library} would say nothing about it"
        )
    selector = selector_for(bundle, target, guard=guard)
    calls = calls_on(profile, shape)
    made = rendered(target, application_table(selector, calls, target))
    notes = [
        *_carried_over(profile, shape),
        *(
            f"communicators of {n} processes are left to the library: how some of them lie on"
            " nodes is not known"
            for n in calls.left_out
        ),
    ]
    made = replace(made, written=replace(made.written, notes=(*made.written.notes, *notes)))
    return Packed(profile, bundle, made, outlook(profile, selector))


def _carried_over(profile: Profile, shape: Shape) -> Iterator[str]:
    worlds = sorted({job.shape for job in profile.jobs if job.shape is not None})
    if shape not in worlds:
        known = ", ".join(map(str, worlds)) or "unknown shapes"
        yield (
            f"the application was not recorded on {shape} but on {known}: its communicators are"
            " carried over, and what is saved is told for where it was recorded"
        )


@dataclass(frozen=True)
class Packed:
    """The configuration of one application, and what it is expected to save."""

    profile: Profile
    bundle: Bundle
    made: Rendered
    foreseen: Outlook

    @property
    def table(self) -> DecisionTable:
        """What is chosen."""
        return self.made.table

    def write(
        self, folder: Path, interposed: Path | None, notes: tuple[str, ...]
    ) -> WrittenConfiguration:
        """Write the folder's files; the configuration first, what names it last.

        `interposed` is where libcolltune lies, `notes` are what is to be told of it.
        """
        written = write_rendered(self.made, folder / self.made.target.form.name, interposed, notes)
        write_text(folder / SCRIPT, f"# source this file in the job\n{written.job_line}\n")
        write_text(folder / _README, self._readme(folder.absolute(), written))
        manifest = json.dumps(self.as_dict(written), indent=2, allow_nan=False)
        write_text(folder / _MANIFEST, f"{manifest}\n")
        return written

    def as_dict(self, written: WrittenConfiguration) -> dict[str, Any]:
        """Return the manifest."""
        saving, total_s = self.foreseen.saving, max(self.profile.process_s, 1e-300)
        main = written.rules_path.name
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "bundle": self.bundle.id,
            "profile": self.profile.digest,
            "programs": list(self.profile.programs),
            "library": self.table.library,
            "release": written.written.release,
            "shape": str(self.table.shape),
            "configuration_format": written.written.format,
            "files": [*self.made.names(main).values(), written.parameter_path.name, SCRIPT],
            "environment": written.environment,
            "start_line": written.start_line,
            "chosen": list(self.chosen()),
            "saving": {
                "expected": saving.expected_s / total_s,
                "least": saving.least_s / total_s,
                "most": saving.most_s / total_s,
            },
            "unknown": self.foreseen.unknown_s / max(self.profile.collectives_s, 1e-300),
            "notes": list(written.written.notes),
        }

    @property
    def expected(self) -> str:
        """What share of the run is expected to be saved, in words."""
        total_s = max(self.profile.process_s, 1e-300)
        expected, least, most = (s / total_s for s in self.foreseen.saving)
        unknown = self.foreseen.unknown_s / max(self.profile.collectives_s, 1e-300)
        text = f"expected to save {expected:.1%} of the run ({least:.1%} .. {most:.1%})"
        return text + (f"; not known for {unknown:.1%} of the time in collectives")

    def chosen(self) -> Iterator[dict[str, Any]]:
        """Yield the decisions as the manifest has them, without those left to the library."""
        table = self.table
        keyed: list[tuple[Collective, int, str | None, Intervals]]
        keyed = [(c, n, None, i) for (c, n), i in table.rules.items()]
        keyed += [(c, s.nprocs, str(s), i) for (c, s), i in table.by_layout.items()]
        for collective, nprocs, layout, intervals in keyed:
            for interval in intervals:
                if not interval.configuration.is_default:
                    yield {
                        "collective": collective.value,
                        "nprocs": nprocs,
                        "shape": layout,
                        "first_bytes": interval.first_bytes,
                        "last_bytes": interval.last_bytes,
                        "configuration": interval.configuration.id,
                    }

    def _readme(self, folder: Path, written: WrittenConfiguration) -> str:
        lines = [
            f"MPI collectives tuned for {', '.join(self.profile.programs)},",
            f"{self.table.library} {written.written.release}, {self.table.shape}"
            " (nodes x processes per node).",
            "",
            "In the job, before mpirun or srun:",
            "",
            f"    . {folder / SCRIPT}",
            "",
            "or start it with:",
            "",
            f"    {written.start_line}",
            "",
            f"It is {self.expected}.",
            "Everything that the application was not seen to call is left to the library.",
            "The paths are absolute: move nothing, but pack again where it is to lie.",
            f"{_MANIFEST} says what it was made from.",
            *(f"Note: {note}." for note in written.written.notes),
        ]
        return "\n".join(lines) + "\n"
