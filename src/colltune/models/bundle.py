"""Bundles: fitted models in a folder that names itself by its content.

``manifest.json`` holds the format version, the context, per collective its learner, feature set,
configurations and the SHA-256 of its array file, the shapes trained on, when it was made and by
which colltune. Reading one imports numpy and nothing heavier, and unpickles nothing.

A collective is one file, because a thousand small arrays load slowly; arrays follow each other in
numpy's own format in the order that the manifest names them, because importing a zip reader takes
longer than reading them.

Format history
--------------
1. one ``<collective>.arrays`` file per collective;
2. adds ``objective``, the statistic of the runtime that was learned, and ``evidence``, the figures
   of held-out decisions. Bundles of version 1 learned the median of medians;
3. adds where configurations ran, what noise makes of a gain, and ``confirmations``, what was
   measured again against the default, see `colltune.models.confirmations`. Of older bundles
   everything counts as running everywhere;
4. adds ``jobs`` to confirmations that production jobs refuted. A bundle without such is written as
   version 3, under the same id;
5. adds gains of a single launch, which have no interval. A bundle without such is written as
   version 3 or 4. ``sums`` and ``noise`` of confirmations, which earlier releases do not look at,
   are in each of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune import __version__
from colltune.domain import Collective, Configuration, Context, Shape
from colltune.errors import BundleError, ColltuneError, say, unknown
from colltune.files import insist_writable, writing
from colltune.files.reading import json_of, read_bytes
from colltune.files.temporary import sweep, temporary_name
from colltune.models.bundle_schema import (
    MOST_MANIFEST_BYTES,
    arrays_in,
    checked_arrays,
    checked_collective,
    checked_manifest,
)
from colltune.models.collective_model import CollectiveModel, Coverage
from colltune.models.confirmations import Confirmation, replaced
from colltune.models.error_model import ErrorModel
from colltune.models.learners import predictor_class
from colltune.text import counted

__all__ = ["FORMAT", "FORMAT_VERSION", "Bundle", "insist_answers", "insist_savable", "load"]
FORMAT = "colltune-bundle"
FORMAT_VERSION = 5
_WITHOUT_JOBS, _WITH_JOBS = 3, 4
_MANIFEST, _SUFFIX = "manifest.json", ".arrays"
_PARTS = ("predictor", "coverage", "error")
_OLD_OBJECTIVE = "median"
_NOT_IN_ID = ("id", "created_utc", "colltune_version")
_SAMPLE = 4
_ELSEWHERE = "Name another folder with --out."


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
        collectives = tuple(model.collective for model in models)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        shapes = tuple(training_shapes)
        bundle = cls("", context, tuple(models), collectives, shapes, now, __version__)
        return replace(bundle, objective=objective, evidence=dict(evidence or {}))._named()

    def with_confirmations(self, found: Sequence[Confirmation]) -> Bundle:
        """Return a revision, under another id, that has `found`, too.

        Where they overlap with those that the bundle has, the new ones count.

        Raises
        ------
        BundleError
            If only a part of the bundle was loaded.
        """
        return replace(self, confirmations=replaced(self.confirmations, found))._named()

    def with_evidence(self, **facts: Any) -> Bundle:
        """Return the bundle, under another id, with `facts` (JSON-able) added to its evidence."""
        return replace(self, evidence={**self.evidence, **facts})._named()

    def _named(self) -> Bundle:
        """Return the bundle with the id of its content."""
        return replace(self, id=_content_id(self._content()[0]))

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
        raise say("no-models-of", collective=collective, known=", ".join(self.collectives))

    @property
    def left_out(self) -> dict[str, str]:
        """Why configurations, by id, and whole collectives could not be fitted."""
        return dict(self.evidence.get("left_out", {}))

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
        among = f", in {found['instances']} decisions" if "instances" in found else ""
        return f"held out: {gained}, {slower}{among}"

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
        content, files = self._content()
        made = {"created_utc": self.created_utc, "colltune_version": self.colltune_version}
        manifest = content | {"id": _content_id(content)} | made
        files[_MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
        _write_folder(path, files)
        return path

    def _content(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return what the id covers, all but the time and version that wrote it, and the files."""
        if len(self.models) < len(self.collectives):
            raise say("partly-loaded")
        files = {f"{m.collective}{_SUFFIX}": _packed(m) for m in self.models}
        version = _WITH_JOBS if any(c.jobs for c in self.confirmations) else _WITHOUT_JOBS
        if any(c.gain is not None and c.lower is None for c in self.confirmations):
            version = FORMAT_VERSION
        content = {
            "format": FORMAT,
            "context": self.context.as_json(),
            "training_shapes": [[shape.nodes, shape.ppn] for shape in self.training_shapes],
            "collectives": {
                model.collective.value: {
                    "learner": model.learner,
                    "feature_set": model.feature_set,
                    "predictor": model.predictor.kind,
                    "configurations": [c.id for c in model.configurations],
                    "arrays": list(_arrays(model)),
                    "file": file,
                    "sha256": hashlib.sha256(packed).hexdigest(),
                }
                for model, (file, packed) in zip(self.models, files.items(), strict=True)
            },
            "format_version": version,
            "objective": self.objective,
            "evidence": dict(self.evidence),
            "confirmations": [confirmation.as_json() for confirmation in self.confirmations],
        }
        return content, files


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
    if not path.exists():
        # a writer that was killed can have left the former one beside it
        sweep(path.absolute().parent)
    manifest = _manifest(path)
    try:
        bundle = _read(path, manifest, collectives)
        for collective in () if partly else collectives or ():
            bundle.model(collective)
        return bundle
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise say("bundle-file-damaged", file=path / _MANIFEST, why=why) from error


def insist_answers(bundle: Bundle) -> None:
    """Insist that the models loaded predict times, at a sample of instances.

    Raises
    ------
    BundleError
        If a prediction is no time (not a number, infinite, not above 0) or fails, or if nothing is
        known of its MPI library.
    """
    from colltune.mpi import LIBRARIES

    if bundle.context.library not in LIBRARIES:
        name = bundle.context.library[:80]
        raise unknown(f"MPI library of the bundle {bundle.id[:12]}", name, LIBRARIES, BundleError)
    for model in bundle.models:
        try:
            with np.errstate(all="ignore"):
                why = _why_no_answer(model)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why:
            name, of = bundle.id[:12], model.collective
            raise say("models-predict-nothing", bundle=name, collective=of, why=why[:200])


def _why_no_answer(model: CollectiveModel) -> str:
    shapes = sorted(model.coverage.shapes.tolist())
    shapes = [*shapes[:: max(1, len(shapes) // _SAMPLE)], *shapes[-1:]]
    measured = np.sort(model.coverage.sizes)
    sizes = {0, *measured[:: max(1, len(measured) // _SAMPLE)].tolist(), *measured[-1:].tolist()}
    asked = [(nodes, ppn, size) for nodes, ppn in shapes for size in sorted(sizes)]
    if not asked:
        return "nothing was measured"
    forecast = model.forecast(*np.array(asked, np.int64).T)
    for name in ("time_s", "lower_s", "upper_s"):
        found = getattr(forecast, name)
        if not (np.isfinite(found) & (found > 0)).all():
            return f"a prediction is {found[~(np.isfinite(found) & (found > 0))][0]:g} s"
    if not (np.isfinite(forecast.doubt).all() and np.isfinite(forecast.noise).all()):
        return "an error is no number"
    return ""


def _manifest(path: Path) -> dict[str, Any]:
    file = path / _MANIFEST
    try:
        content = read_bytes(file)
        if len(content) > MOST_MANIFEST_BYTES:
            raise ValueError(f"larger than {MOST_MANIFEST_BYTES >> 20} MiB")
        manifest = json_of(content)
    except FileNotFoundError:
        what = "is not a bundle: it has no manifest.json" if path.exists() else "no such bundle"
        raise say("no-bundle-here", path=path, what=what) from None
    except NotADirectoryError:
        raise say("bundle-is-a-file", path=path) from None
    except OSError as error:
        raise say("cannot-read", BundleError, place=file, why=error.strerror) from error
    except ValueError as error:
        raise say("bundle-file-damaged", file=file, why=error) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise say("not-a-manifest", file=file)
    version = manifest.get("format_version")
    if type(version) is not int or version not in range(1, FORMAT_VERSION + 1):
        raise say(
            "newer-bundle", file=file, version=version, release=__version__, newest=FORMAT_VERSION
        )
    return manifest


def _read(path: Path, manifest: Mapping[str, Any], wanted: Collection[Collective] | None) -> Bundle:
    """Read any version: what an older one lacks is as its colltune had it."""
    entries = {Collective(name): entry for name, entry in manifest["collectives"].items()}
    context = Context(**manifest["context"])
    confirmations = tuple(map(Confirmation.from_json, manifest.get("confirmations", ())))
    covered = {name: manifest[name] for name in manifest if name not in _NOT_IN_ID}
    if _content_id(covered) != manifest["id"]:
        raise say("content-of-another-id", file=path / _MANIFEST)
    checked_manifest(manifest)
    for collective, entry in entries.items():
        checked_collective(collective, entry, context.library)
    asked = [c for c in entries if wanted is None or c in wanted]
    return Bundle(
        manifest["id"],
        context,
        tuple(_read_collective(path, collective, entries[collective]) for collective in asked),
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
    file = path / f"{collective}{_SUFFIX}"
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        raise say("bundle-file-missing", file=file) from None
    except OSError as error:
        raise say("cannot-read", BundleError, place=file, why=error.strerror) from error
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise say("hash-differs", file=file, length=counted(len(content), "byte"))
    try:
        return _unpacked(collective, entry, content)
    except ColltuneError:
        raise
    except (KeyError, ValueError, EOFError, TypeError, IndexError, ArithmeticError) as error:
        raise say("manifest-differs", file=file, why=error) from error


def _content_id(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _arrays(model: CollectiveModel) -> dict[str, NDArray[Any]]:
    parts = {part: getattr(model, part).arrays() for part in _PARTS}
    return {f"{part}.{name}": a for part, arrays in parts.items() for name, a in arrays.items()}


def _packed(model: CollectiveModel) -> bytes:
    stream = io.BytesIO()
    for array in _arrays(model).values():
        np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _unpacked(collective: Collective, entry: Mapping[str, Any], content: bytes) -> CollectiveModel:
    """Rebuild a collective's models from their manifest entry and bytes."""
    parts: dict[str, dict[str, NDArray[Any]]] = {part: {} for part in _PARTS}
    for name, array in arrays_in(content, entry["arrays"]).items():
        part, _, key = name.partition(".")
        parts[part][key] = array
    learned = predictor_class(entry["predictor"])
    n_configurations = len(entry["configurations"])
    checked_arrays(learned, parts, n_configurations, entry["feature_set"])
    predictor = learned.from_arrays(parts["predictor"])
    configurations = tuple(Configuration.parse(text) for text in entry["configurations"])
    if predictor.n_outputs != len(configurations):
        raise ValueError(
            f"{counted(predictor.n_outputs, 'model')} for "
            f"{counted(len(configurations), 'configuration')}"
        )
    return CollectiveModel(
        collective,
        configurations,
        entry["learner"],
        entry["feature_set"],
        predictor,
        Coverage.from_arrays(parts["coverage"]),
        ErrorModel.from_arrays(parts["error"]),
    )


def insist_savable(path: Path) -> None:
    """Insist that a bundle can be saved to `path`, before one is fitted; nothing is left behind.

    Raises
    ------
    OutputError
        If `path` is something else or cannot be written.
    """
    target = path.resolve()
    names: set[str] = set()
    with writing(path, _ELSEWHERE), suppress(FileNotFoundError):
        names = {entry.name for entry in target.iterdir()}
    strange = [n for n in sorted(names) if n != _MANIFEST and not n.endswith(_SUFFIX)]
    if strange or (names and _MANIFEST not in names):
        raise say("folder-is-no-bundle", path=path, name=(strange or sorted(names))[0])
    insist_writable(target.with_name(f"{target.name}.new"))


def _write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the folder `path` under a temporary name beside it, and rename it."""
    insist_savable(path)
    target = path.resolve()
    temporary = temporary_name(target)
    with writing(path, _ELSEWHERE), ExitStack() as stack:
        stack.callback(_remove, temporary)
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent)
        temporary.mkdir()
        for name, content in files.items():
            with (temporary / name).open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        _swap_in(temporary, target, temporary_name(target, "old"))


def _swap_in(temporary: Path, target: Path, old: Path) -> None:
    """Put `temporary` in the place of `target`, which is absent, empty, or an older bundle."""
    try:
        temporary.rename(target)
    except OSError:
        if not (target / _MANIFEST).exists():
            raise
        target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            old.rename(target)
            raise
        _remove(old)


def _remove(folder: Path) -> None:
    """Remove a folder of plain files, as far as possible."""
    with suppress(OSError):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
