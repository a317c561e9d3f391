"""Campaign files: TOML whose every key is checked; an error names file, line and key.

Keys
----
``[machine] name``
    Name stored with the measurements; default: this host's name. ``fabric``: the network's name,
    where one machine has several: their measurements are never joined. ``cores_per_node``:
    processors that a node's processes may use; default: those of this host.
``[library] name``
    MPI library, a key of ``colltune.mpi.LIBRARIES``; default ``openmpi``. ``release``: the one
    to be measured (another one that is found is an error); ``mpi``: its mpirun or folder.
``[launcher] name``
    A key of ``colltune.bench.launchers.LAUNCHERS``; default: the library's own. ``options``: words
    passed to it; ``hostfile``: a file that names the nodes.
``[space] collectives``
    List of collectives; ``nodes``, ``ppn``: lists of integers (``ppn`` absent: one process per
    usable core, at least 4); ``msizes_bytes``: list of message sizes as the caller passes them.
``[space] only``, ``skip``
    Globs over configuration ids; ``segsizes_bytes``, ``fanouts``: parameter values to try.
``[space.msizes_bytes_of] <collective>``
    Message sizes of one collective, instead of ``msizes_bytes``.
``[measure] backend``
    A key of ``colltune.bench.backends.BACKENDS``; default ``native``. ``strategy``: a key of
    ``colltune.bench.strategies.STRATEGIES``; default ``full_grid``. ``synchronisation``:
    ``barrier`` (default) or ``window``. ``subshapes`` (default true): measure smaller shapes
    inside a launch of the largest one; ``side_by_side`` (default false): several of them at once,
    which share links. ``mpibenchmark``: ReproMPI's program.
``[budget] total``
    Hard wall time of the campaign: seconds, or ``"30m"``, ``"4h"``, ``"1h30m"``. ``max_reps``,
    ``cell_s``: limits per cell and visit.
``[budget] max_buffer_bytes``
    Cells whose buffers would be larger on any rank are left out.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from colltune.bench import durations
from colltune.bench.backends import BACKENDS
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import LAUNCHERS
from colltune.bench.strategies import STRATEGIES
from colltune.domain import Synchronisation, parse_collective
from colltune.errors import CampaignError, ColltuneError
from colltune.mpi import LIBRARIES

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class _Key:
    """A key of a campaign file: the field it sets, and what its value must be."""

    field: str
    wanted: str
    fits: Callable[[object], bool]


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: type(value) in kinds


def _list_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(type(v) is kind for v in value)


def _sizes_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(_list_of(int)(v) for v in value.values())


def _string(field: str) -> _Key:
    return _Key(field, "a string", _is(str))


def _integer(field: str) -> _Key:
    return _Key(field, "a whole number", _is(int))


def _flag(field: str) -> _Key:
    return _Key(field, "true or false", _is(bool))


def _integers(field: str) -> _Key:
    return _Key(field, "a list of whole numbers", _list_of(int))


def _strings(field: str) -> _Key:
    return _Key(field, "a list of strings", _list_of(str))


def _choice(field: str, known: Iterable[str]) -> _Key:
    names = tuple(known)
    return _Key(field, " or ".join(f'"{name}"' for name in names), lambda value: value in names)


_DURATION = 'seconds, or a wall time such as "4h"'
KEYS: Mapping[str, Mapping[str, _Key]] = {
    "machine": {
        "name": _string("machine"),
        "fabric": _string("fabric"),
        "cores_per_node": _integer("cores_per_node"),
    },
    "library": {
        "name": _choice("library", LIBRARIES),
        "release": _string("release"),
        "mpi": _string("mpi"),
    },
    "launcher": {
        "name": _choice("launcher", LAUNCHERS),
        "options": _strings("launcher_options"),
        "hostfile": _string("hostfile"),
    },
    "space": {
        "collectives": _strings("collectives"),
        "nodes": _integers("nodes"),
        "ppn": _integers("ppn"),
        "msizes_bytes": _integers("msizes_bytes"),
        "msizes_bytes_of": _Key(
            "msizes_bytes_of", "a table of lists of whole numbers", _sizes_by_name
        ),
        "only": _strings("only"),
        "skip": _strings("skip"),
        "segsizes_bytes": _integers("segsizes_bytes"),
        "fanouts": _integers("fanouts"),
    },
    "measure": {
        "backend": _choice("backend", BACKENDS),
        "strategy": _choice("strategy", STRATEGIES),
        "synchronisation": _choice("synchronisation", list(Synchronisation)),
        "subshapes": _flag("subshapes"),
        "side_by_side": _flag("side_by_side"),
        "mpibenchmark": _string("mpibenchmark"),
    },
    "budget": {
        "total": _Key("total_s", _DURATION, _is(int, float, str)),
        "total_s": _Key("total_s", "a number of seconds", _is(int, float)),
        "max_reps": _integer("max_reps"),
        "cell_s": _Key("cell_s", "a number of seconds", _is(int, float)),
        "max_buffer_bytes": _integer("max_buffer_bytes"),
    },
}
_NEEDED = ("space.collectives", "space.msizes_bytes")


def laptop() -> Campaign:
    """Return the campaign of `colltune tune`: three collectives on this very machine."""
    file = resources.files("colltune.bench") / "laptop.toml"
    return parse(file.read_text(encoding="utf-8"), "laptop.toml")


def load(path: Path) -> Campaign:
    """Read a campaign file.

    Raises
    ------
    CampaignError
        Naming the file, and the line and key that are wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, source: str) -> Campaign:
    """Return the campaign in TOML `text`; `source` names it in errors."""
    file = CampaignFile.parse(text, source)
    values = dict(file.values)
    values["collectives"] = tuple(
        file.converted("space.collectives", parse_collective, name)
        for name in values["collectives"]
    )
    if "synchronisation" in values:
        values["synchronisation"] = Synchronisation(values["synchronisation"])
    values["msizes_bytes_of"] = {
        file.converted("space.msizes_bytes_of", parse_collective, name): tuple(sizes)
        for name, sizes in values.get("msizes_bytes_of", {}).items()
    }
    try:
        return Campaign(**values)
    except CampaignError as error:
        raise CampaignError(f"{source}: {error}") from None


@dataclass(frozen=True)
class CampaignFile:
    """A campaign file whose tables, keys and types are right; ``values`` go by field name."""

    text: str
    source: str
    values: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, source: str) -> CampaignFile:
        """Check `text`; `source` names it in errors.

        Raises
        ------
        CampaignError
            Naming file, line and key.
        """
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise CampaignError(f"{source}: not valid TOML: {error}") from error
        reader = _Reader(text, source)
        values: dict[str, Any] = {}
        for name, table in tables.items():
            reader.read_table(name, table, values)
        for needed in _NEEDED:
            table_name, _, key = needed.partition(".")
            if key not in tables.get(table_name, {}):
                raise CampaignError(f"{source}: key {needed} is missing; add it")
        return cls(text, source, values)

    def converted(self, path: str, convert: Callable[[str], _Value], value: str) -> _Value:
        """Return ``convert(value)``; an error names file, line and the key `path`."""
        try:
            return convert(value)
        except ColltuneError as error:
            raise _Reader(self.text, self.source).error(path, str(error)) from None


@dataclass(frozen=True)
class _Reader:
    text: str
    source: str

    def error(self, path: str, why: str) -> CampaignError:
        line = _line_of(self.text, path)
        return CampaignError(f"{self.source}, line {line}, key {path}: {why}")

    def read_table(self, name: str, table: object, values: dict[str, Any]) -> None:
        if name not in KEYS:
            raise self.error(name, f"unknown table{_meant(name, KEYS)}; known: {', '.join(KEYS)}")
        if not isinstance(table, dict):
            raise self.error(name, f"must be a table: write [{name}]")
        for key, value in table.items():
            path = f"{name}.{key}"
            if key not in KEYS[name]:
                known = ", ".join(KEYS[name])
                raise self.error(
                    path, f"unknown key{_meant(key, KEYS[name])}; known in [{name}]: {known}"
                )
            wanted = KEYS[name][key]
            if not wanted.fits(value):
                raise self.error(path, f"{value!r} must be {wanted.wanted}")
            if wanted.field in values:
                raise self.error(path, "is given twice, as total and as total_s; keep one")
            values[wanted.field] = self.prepared(path, wanted.field, value)

    def prepared(self, path: str, field: str, value: Any) -> Any:
        if field == "total_s":
            try:
                return durations.seconds(value)
            except CampaignError as error:
                raise self.error(path, str(error)) from None
        return tuple(value) if isinstance(value, list) else value


def _meant(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _line_of(text: str, path: str) -> int:
    """Return the line on which the table or key `path` is written (1 where it is not found)."""
    table, _, key = path.partition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header:
            current = header[1]
            if current == path or (not key and current.startswith(table)):
                return number
        word = re.match(r"""\s*["']?([\w.-]+)["']?\s*=""", line)
        if word and path in (f"{current}.{word[1]}", word[1]):
            return number
    return 1
