"""Bundles: fitted models in a folder that names itself by its content.

``manifest.json`` holds the format version, the context, per collective its learner, feature set,
configurations and the SHA-256 of its array file, the shapes trained on, when it was made and by
which colltune. Reading one imports numpy and nothing heavier, and unpickles nothing.

Format history
--------------
1. one ``<collective>.arrays`` file per collective, see `colltune.models.bundle_files`;
2. adds ``objective``, the statistic of the runtime that was learned, and ``evidence``, the figures
   of held-out decisions. Bundles of version 1 learned the median of medians;
3. adds where configurations ran, what noise makes of a gain, and ``confirmations``, what was
   measured again against the default, see `colltune.models.confirmations`. Of older bundles
   everything counts as running everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from colltune import __version__
from colltune.domain import Collective, Configuration, Context, Shape
from colltune.errors import BundleError, ColltuneError
from colltune.files.reading import json_of, read_bytes
from colltune.models.bundle_files import (
    MANIFEST,
    SUFFIX,
    insist_savable,
    packed,
    unpacked,
    write_folder,
)
from colltune.models.collective_model import CollectiveModel
from colltune.models.confirmations import Confirmation, replaced

__all__ = ["FORMAT", "FORMAT_VERSION", "Bundle", "insist_savable", "load"]
FORMAT = "colltune-bundle"
FORMAT_VERSION = 3
_OLD_OBJECTIVE = "median"
_NOT_IN_ID = ("id", "created_utc", "colltune_version")
_MEND = "fit it again, or copy it again from where it is whole"


@dataclass(frozen=True, eq=False)
class Bundle:
    """Fitted models with where they come from.

    ``models`` are those in memory, all or the ones asked for; ``collectives`` are all that the
    bundle has; ``training_shapes`` the shapes measured; ``created_utc`` an ISO time; ``objective``
    the statistic of a cell's times that was learned; ``evidence`` figures of held-out decisions,
    JSON-able; ``confirmations`` what of its decisions was measured again.

    ``id`` is the SHA-256 of its content in hexadecimal digits; ``colltune_version`` that which
    fitted it.
    """

    id: str
    context: Context
    models: tuple[CollectiveModel, ...]
    collectives: tuple[Collective, ...]
    training_shapes: tuple[Shape, ...]
    created_utc: str
    colltune_version: str
    objective: str = _OLD_OBJECTIVE
    evidence: Mapping[str, Any] = field(default_factory=dict)
    confirmations: tuple[Confirmation, ...] = ()

    @classmethod
    def new(
        cls,
        context: Context,
        models: Sequence[CollectiveModel],
        training_shapes: Sequence[Shape],
        *,
        objective: str = _OLD_OBJECTIVE,
        evidence: Mapping[str, Any] | None = None,
    ) -> Bundle:
        """Return a bundle of freshly fitted models.

        Parameters
        ----------
        context
            Of what was measured.
        models
            One for each collective.
        training_shapes
            On which shapes was measured.
        objective
            Which statistic of repetitions is predicted.
        evidence
            Figures of held-out decisions, as JSON has them.
        """
        bundle = cls(
            "",
            context,
            tuple(models),
            tuple(m.collective for m in models),
            tuple(training_shapes),
            datetime.now(UTC).isoformat(timespec="seconds"),
            __version__,
            objective,
            dict(evidence or {}),
        )
        return bundle._named()

    def with_confirmations(self, found: Sequence[Confirmation]) -> Bundle:
        """Return a revision, under another id, that has `found`, too.

        Where they overlap with those that the bundle has, the new ones count.

        Raises
        ------
        BundleError
            If only a part of the bundle was loaded.
        """
        self._insist_on_all()
        return replace(self, confirmations=replaced(self.confirmations, found))._named()

    def _named(self) -> Bundle:
        """Return the bundle with the id of its content."""
        entries = {m.collective.value: _entry(m)[0] for m in self.models}
        return replace(self, id=_content_id(self._content(entries)))

    def _insist_on_all(self) -> None:
        if len(self.models) < len(self.collectives):
            raise BundleError("only a part of this bundle was loaded; load all of it to save it")

    def model(self, collective: Collective) -> CollectiveModel:
        """Return the models of `collective`.

        Raises
        ------
        BundleError
            If the bundle has none, or they were not loaded.
        """
        for model in self.models:
            if model.collective is collective:
                return model
        known = ", ".join(self.collectives)
        raise BundleError(
            f"this bundle has no models of {collective}, only of {known};"
            f" measure {collective} and fit again"
        )

    def held_out(self, collective: Collective) -> Mapping[str, Any]:
        """Return the figures of held-out decisions, empty for bundles that have none.

        See `colltune.models.fitting.HeldOut.figures`.
        """
        learners: Mapping[str, Any] = self.evidence.get("learners", {}).get(collective.value, {})
        figures: Mapping[str, Any] = learners.get(self.model(collective).learner, {})
        return figures

    def held_out_text(self, collective: Collective) -> str:
        """Return how good held-out decisions were, in words; empty where nothing is known."""
        found = self.held_out(collective)
        if found.get("harm") is None:
            return ""
        share = found.get("share")
        gained = "no gain was possible" if share is None else f"{share:.0%} of the possible gain"
        slower = f"{found['harm']:.1%} slower than the default"
        return f"held out: {gained}, {slower}, in {found['instances']} decisions"

    def configurations(self) -> tuple[Configuration, ...]:
        """Return all configurations modelled, collective by collective."""
        return tuple(c for model in self.models for c in model.configurations)

    def save(self, path: Path) -> Path:
        """Write the bundle to the folder `path` and return it.

        It is written under a temporary name beside `path` and renamed, so that nobody sees a part
        of it. An existing bundle is replaced; anything else that is not an empty folder is not.
        What was read from an older format is written in the current one, under another id.

        Raises
        ------
        OutputError
            If `path` is something else or cannot be written.
        BundleError
            If only a part of the bundle was loaded.
        """
        self._insist_on_all()
        write_folder(path, self._files())
        return path

    def _files(self) -> dict[str, bytes]:
        entries, files = {}, {}
        for model in self.models:
            entry, content = _entry(model)
            entries[model.collective.value] = entry
            files[entry["file"]] = content
        covered = self._content(entries)
        manifest = covered | {
            "id": _content_id(covered),
            "created_utc": self.created_utc,
            "colltune_version": self.colltune_version,
        }
        files[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
        return files

    def _content(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the id covers: all but the time and the version that wrote it."""
        fields = ("machine", "library", "library_version", "fabric")
        return {
            "format": FORMAT,
            "context": {name: getattr(self.context, name) for name in fields},
            "training_shapes": [[shape.nodes, shape.ppn] for shape in self.training_shapes],
            "collectives": dict(entries),
            "format_version": FORMAT_VERSION,
            "objective": self.objective,
            "evidence": dict(self.evidence),
            "confirmations": [confirmation.as_json() for confirmation in self.confirmations],
        }


def load(
    path: Path, collectives: Collection[Collective] | None = None, *, partly: bool = False
) -> Bundle:
    """Read the bundle in the folder `path`.

    Parameters
    ----------
    path
        The folder.
    collectives
        Read only these; by default all. What is read is checked against its hash.
    partly
        Read those of `collectives` that it has; by default it must have all.

    Raises
    ------
    BundleError
        If it is missing, cut, damaged, of a newer format, or lacks one of `collectives`.
    """
    manifest = _manifest(path)
    try:
        bundle = _read(path, manifest, collectives)
        for collective in () if partly else collectives or ():
            bundle.model(collective)
        return bundle
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(
            f"{path / MANIFEST}: damaged: {type(error).__name__}: {error}; {_MEND}"
        ) from error


def _manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = json_of(read_bytes(file))
    except FileNotFoundError:
        what = "is not a bundle: it has no manifest.json" if path.exists() else "no such bundle"
        raise BundleError(
            f"{path}: {what}; make one with `colltune fit DATA --out BUNDLE`"
        ) from None
    except NotADirectoryError:
        raise BundleError(f"{path}: a bundle is a folder, and this is a file") from None
    except OSError as error:
        raise BundleError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BundleError(f"{file}: cut short or damaged ({error}); {_MEND}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{file}: not the manifest of a colltune bundle")
    version = manifest.get("format_version")
    if version not in range(1, FORMAT_VERSION + 1):
        raise BundleError(
            f"{file}: bundle format {version!r} is not known to this colltune ({__version__}),"
            f" which reads up to {FORMAT_VERSION}; upgrade colltune or fit the data again"
        )
    return manifest


def _read(path: Path, manifest: Mapping[str, Any], wanted: Collection[Collective] | None) -> Bundle:
    """Read any version: what an older one lacks is as its colltune had it."""
    entries = {Collective(name): entry for name, entry in manifest["collectives"].items()}
    context = Context(**manifest["context"])
    confirmations = tuple(map(Confirmation.from_json, manifest.get("confirmations", ())))
    covered = {name: manifest[name] for name in manifest if name not in _NOT_IN_ID}
    if _content_id(covered) != manifest["id"]:
        raise BundleError(f"{path / MANIFEST}: its content does not fit its id; {_MEND}")
    return Bundle(
        manifest["id"],
        context,
        tuple(
            _read_collective(path, collective, entry)
            for collective, entry in entries.items()
            if wanted is None or collective in wanted
        ),
        tuple(entries),
        tuple(Shape(n, p) for n, p in manifest["training_shapes"]),
        manifest["created_utc"],
        manifest["colltune_version"],
        manifest.get("objective", _OLD_OBJECTIVE),
        manifest.get("evidence", {}),
        confirmations,
    )


def _read_collective(
    path: Path, collective: Collective, entry: Mapping[str, Any]
) -> CollectiveModel:
    file = path / f"{collective}{SUFFIX}"
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        raise BundleError(f"{file}: missing from the bundle; {_MEND}") from None
    except OSError as error:
        raise BundleError(f"{file}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise BundleError(
            f"{file}: cut short or damaged ({len(content)} bytes do not fit the manifest's hash);"
            f" {_MEND}"
        )
    try:
        return unpacked(collective, entry, content)
    except ColltuneError:
        raise
    except (KeyError, ValueError, EOFError, TypeError) as error:
        raise BundleError(f"{file}: does not fit the manifest ({error}); {_MEND}") from error


def _entry(model: CollectiveModel) -> tuple[dict[str, Any], bytes]:
    entry, content = packed(model)
    return entry | {
        "file": f"{model.collective}{SUFFIX}",
        "sha256": hashlib.sha256(content).hexdigest(),
    }, content


def _content_id(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
