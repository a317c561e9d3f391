"""Campaign files: TOML whose every key is checked; an error names file, line and key.

``docs/reference/campaign-files.md`` tells what each key means and what it is by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from importlib import resources
from pathlib import Path
from typing import Any

from colltune.bench import durations, strategies
from colltune.bench.backends import BACKENDS
from colltune.bench.campaign import LEAST, MOST, Campaign, SizeWeight
from colltune.bench.launchers import LAUNCHERS
from colltune.bench.simulated import TOPOLOGIES, Simulation
from colltune.domain import Collective, Synchronisation, parse_collective
from colltune.errors import CampaignError, DataError
from colltune.files.reading import text_of
from colltune.files.toml_schema import (
    Key,
    Tables,
    TomlFile,
    choice,
    flag,
    instance_of,
    integer,
    integers,
    list_of,
    string,
    strings,
)
from colltune.mpi import LIBRARIES
from colltune.mpi.programs import Programs
from colltune.text import parse_bytes

_WEIGHTS = "weights."
_SYNCHRONISATIONS = ("barrier", "window", ["window", "barrier"])
_SMPI = "smpi."
_SMPI_NUMBERS = (
    *("speed_gflops", "latency_us", "rate_mbit", "memory_latency_us", "memory_rate_mbit"),
    *("overhead_us", "overhead_ns_per_byte", "limit_s"),
)
_SIZE = 'whole number of bytes, or a size such as "64k"'
_DURATION = 'seconds, or a wall time such as "4h"'
_NEEDED = ("space.collectives", "space.msizes_bytes")


def _size(value: int | str) -> int:
    return parse_bytes(value) if isinstance(value, str) else value


def _sizes(value: list[int | str]) -> tuple[int, ...]:
    return tuple(map(_size, value))


def _size_key(field: str, *, several: bool = False) -> Key:
    if several:
        return Key(field, f"a list, each a {_SIZE}", list_of(int, str), _sizes)
    return Key(field, f"a {_SIZE}", instance_of(int, str), _size)


def _sizes_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(list_of(int, str)(v) for v in value.values())


def _number(field: str) -> Key:
    return Key(field, "a number", instance_of(int, float), float)


def _weights(value: object) -> bool:
    each: list[Any] = list(value.values()) if isinstance(value, dict) else [value]
    return all(type(v) in (int, float) and LEAST <= v <= MOST for v in each)


KEYS: Tables = {
    "machine": {
        "name": string("machine"),
        "fabric": string("fabric"),
        "cores_per_node": integer("cores_per_node"),
    },
    "library": {
        "name": choice("library", LIBRARIES),
        "release": string("release"),
        "mpi": string("mpi"),
        "interposed": flag("interposed"),
    },
    "launcher": {
        "name": choice("launcher", LAUNCHERS),
        "program": string("launcher_program"),
        "options": strings("launcher_options"),
        "hostfile": string("hostfile"),
    },
    "space": {
        "collectives": strings("collectives"),
        "nodes": integers("nodes"),
        "ppn": integers("ppn"),
        "msizes_bytes": _size_key("msizes_bytes", several=True),
        "msizes_bytes_of": Key(
            "msizes_bytes_of",
            f"a table of lists, each value a {_SIZE}",
            _sizes_by_name,
            lambda value: {name: _sizes(sizes) for name, sizes in value.items()},
        ),
        "only": strings("only"),
        "skip": strings("skip"),
        "segsizes_bytes": _size_key("segsizes_bytes", several=True),
        "fanouts": integers("fanouts"),
        "programs": Key(
            "programs",
            "any-legal, same-types, builtin-operations, or the last two with a comma",
            instance_of(str),
            Programs.parse,
        ),
        "profile": string("profile"),
    },
    "weights": {
        c.value: Key(
            f"{_WEIGHTS}{c.value}",
            f'a number from {LEAST:g} to {MOST:g}, or a table of them by sizes, "0..4096" = 5',
            _weights,
        )
        for c in Collective
    },
    "measure": {
        "backend": choice("backend", BACKENDS),
        "strategy": Key("strategy", "a text", instance_of(str), strategies.known),
        "synchronisation": Key(
            "synchronisation",
            '"barrier", "window", or ["window", "barrier"]: barriers where no window can be kept',
            lambda value: value in _SYNCHRONISATIONS,
            lambda value: tuple(map(Synchronisation, [value] if isinstance(value, str) else value)),
        ),
        "subshapes": flag("subshapes"),
        "side_by_side": flag("side_by_side"),
        "repeat_shapes": _number("repeat_shapes"),
        "mpibenchmark": string("mpibenchmark"),
    },
    "budget": {
        "total": Key("total_s", _DURATION, instance_of(int, float, str), durations.seconds),
        "total_s": Key(
            "total_s", "a number of seconds", instance_of(int, float), durations.seconds
        ),
        "launch_s": Key("launch_s", "a number of seconds", instance_of(int, float), float),
        "max_reps": integer("max_reps"),
        "cell_s": Key("cell_s", "a number of seconds", instance_of(int, float)),
        "max_buffer_bytes": _size_key("max_buffer_bytes"),
    },
    "smpi": {
        "platform": string(f"{_SMPI}platform"),
        "topology": choice(f"{_SMPI}topology", TOPOLOGIES),
        "parameters": string(f"{_SMPI}parameters"),
        "cores": integer(f"{_SMPI}cores"),
        **{name: _size_key(f"{_SMPI}{name}") for name in ("eager_bytes", "checked_bytes")},
        **{name: _number(f"{_SMPI}{name}") for name in _SMPI_NUMBERS},
    },
}


def laptop() -> Campaign:
    """Return the campaign of `colltune tune`: three collectives on this very machine."""
    file = resources.files("colltune.bench") / "laptop.toml"
    return parse(file.read_text(encoding="utf-8"), "laptop.toml")


def load(path: Path) -> Campaign:
    return parse(text_of(path, CampaignError, "name a campaign file"), str(path))


def given_fields(path: Path) -> Set[str]:
    text = text_of(path, CampaignError, "name a campaign file")
    return TomlFile(text, str(path), CampaignError).values(KEYS, _NEEDED).keys()


def parse(text: str, source: str) -> Campaign:
    file = TomlFile(text, source, CampaignError)
    values = file.values(KEYS, _NEEDED)
    values["collectives"] = tuple(
        file.converted("space.collectives", parse_collective, name)
        for name in values["collectives"]
    )
    values["msizes_bytes_of"] = {
        file.converted("space.msizes_bytes_of", parse_collective, name): sizes
        for name, sizes in values.get("msizes_bytes_of", {}).items()
    }
    if values.get("ppn") == ():
        raise file.fail("space.ppn", "is empty. Give at least one value, or leave it out.")
    given_weights = _taken(values, _WEIGHTS)
    simulated = _taken(values, _SMPI)
    try:
        if simulated:
            values["smpi"] = Simulation(**simulated)
        campaign = Campaign(**values)
    except CampaignError as error:
        raise CampaignError(f"{source}: {error}") from None
    return campaign.changed(weights=_size_weights(file, campaign, given_weights))


def _taken(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    names = [name for name in values if name.startswith(prefix)]
    return {name.removeprefix(prefix): values.pop(name) for name in names}


def _size_weights(
    file: TomlFile, campaign: Campaign, given: Mapping[str, Any]
) -> tuple[SizeWeight, ...]:
    found: list[SizeWeight] = []
    for name, value in given.items():
        collective, path = Collective(name), f"{_WEIGHTS}{name}"
        if collective not in campaign.collectives:
            raise file.fail(
                path, "is not measured. Add it to space.collectives, or remove it here."
            )
        ranges = value if isinstance(value, dict) else {"0..": value}
        rows = [_size_weight(file, collective, path, *row) for row in ranges.items()]
        for row in rows:
            sizes = [size for size in campaign.msizes_of(collective) if row.holds(size)]
            if not sizes:
                raise file.fail(
                    path, f"{row} contains none of the campaign's message sizes. Change the range."
                )
            if any(other.holds(size) for other in rows if other is not row for size in sizes):
                raise file.fail(path, f"{row} overlaps another range. Give each size one weight.")
        found += rows
    return tuple(found)


def _size_weight(
    file: TomlFile, collective: Collective, path: str, sizes: str, weight: float
) -> SizeWeight:
    first, dots, last = sizes.partition("..")
    try:
        least, most = parse_bytes(first), parse_bytes(last) if last else None
    except DataError:
        dots = ""
    if not dots:
        raise file.fail(path, f'"{sizes}" is not a range of bytes. Write "0..4096" or "1M..".')
    return SizeWeight(collective, least, most, float(weight))
