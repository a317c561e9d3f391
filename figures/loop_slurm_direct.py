"""The same programs by turns with the library's default and tuned by hand, outside of the loop."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import log
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from colltune import process
from colltune.dataset.profile import Use, parse_profile
from colltune.domain import Collective
from colltune.production.judgement import Range
from colltune.selector.configuration import render, selector_for, target_of, write_rendered
from figures.loop_slurm_bed import LARGEST, PROGRAMS, RELEASES, Bed, library_of

_AT_ONCE, _TRIES = 3, 3
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Direct:
    """The mean log gain of calls of a collective from `first_bytes` on, over so many pairs."""

    slot: str
    collective: Collective
    first_bytes: int
    log_gain: float
    pairs: int

    def lies_in(self, judged: Range) -> bool:
        """Tell whether these calls are among those of a range."""
        return (
            self.collective is judged.collective
            and judged.nodes_first <= LARGEST.nodes <= judged.nodes_last
            and LARGEST.ppn == judged.ppn
            and judged.first_bytes <= self.first_bytes <= judged.last_bytes
        )


class _Seconds(NamedTuple):
    """Of calls: the natural logarithm of their mean, and the sum over processes."""

    log: float
    process_s: float


Calls = dict[tuple[Collective, int], _Seconds]


def compared(bed: Bed, rounds: int) -> tuple[list[Direct], dict[tuple[str, str], float]]:
    """Return the gains of `rounds` pairs of runs of each program and release.

    The other answer is by program and release what a tuned run saves, in seconds of a node.
    """
    found: dict[tuple[str, Collective, int], list[float]] = defaultdict(list)
    saved: dict[tuple[str, str], list[float]] = defaultdict(list)
    tuned = {release: _by_hand(bed, release) for release in RELEASES}
    turns = list(product(range(rounds), PROGRAMS, RELEASES))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pairs = pool.map(lambda turn: _pair(bed, tuned, *turn), turns)
        for (_, program, release), (default, ours) in zip(turns, pairs, strict=True):
            for key in default.keys() & ours.keys():
                found[tuned[release][0], *key].append(default[key].log - ours[key].log)
            process_s = [
                sum(calls.process_s for calls in side.values()) for side in (default, ours)
            ]
            saved[program, release].append((process_s[0] - process_s[1]) / LARGEST.ppn)
    gains = [Direct(*key, fmean(gains), len(gains)) for key, gains in found.items()]
    return gains, {key: fmean(seconds) for key, seconds in saved.items()}


def _by_hand(bed: Bed, release: str) -> tuple[str, dict[str, str]]:
    """Return the slot of a release, and the variables that put its bundle in force into effect."""
    slot, event = next((s, e) for s, e in bed.registry.current().items() if release in s)
    bundle = bed.registry.load(event.bundle_id)
    target = target_of(bundle)
    text = render(selector_for(bundle, target), LARGEST, target)
    return slot, write_rendered(text, bed.folder / f"rules-{release}").environment


def _pair(
    bed: Bed, tuned: dict[str, tuple[str, dict[str, str]]], number: int, program: str, release: str
) -> tuple[Calls, Calls]:
    """Return the calls of a run by the default, and of one tuned; either comes first by turns."""
    sides = [("default", {}), ("tuned", tuned[release][1])]
    calls = {
        side: dict(_run(bed, f"{side}-{number}", program, release, told))
        for side, told in (sides if number % 2 else sides[::-1])
    }
    return calls["default"], calls["tuned"]


def _run(
    bed: Bed, name: str, program: str, release: str, variables: dict[str, str]
) -> Iterator[tuple[tuple[Collective, int], _Seconds]]:
    """Run a program with every call timed; yield the seconds of each kind of calls."""
    folder = bed.folder / "direct" / f"{program}-{release}-{name}"
    folder.mkdir(parents=True)
    told = {"COLLTUNE_PROFILE": str(folder), "COLLTUNE_PROFILE_RATE": "1"}
    told |= {"LD_PRELOAD": str(library_of(bed, release)), **variables}
    exports = ",".join(["ALL", *told])
    command = ("srun", "--quiet", "--mpi=pmix", f"--nodes={LARGEST.nodes}", f"--export={exports}")
    steps = str(PROGRAMS[program])
    # the hooks of the site must not decide for this job, which is on its own
    env = {**bed.transport, "COLLTUNE": "off", **told}
    for _ in range(_TRIES):
        outcome = bed.slurm.run(
            *command, f"--ntasks-per-node={LARGEST.ppn}", bed.program(program, release), steps,
            timeout_s=_TIMEOUT_S, environment=env,
        )  # fmt: skip
        if outcome.ok:
            break
        # an hour of watching must not be lost to one run; whoever reads the log sees it
        print(outcome.explain(), file=sys.stderr, flush=True)
    process.check(outcome, f"{program} with Open MPI {release}")
    for file in Path(folder).glob("*.profile"):
        _, uses = parse_profile(file.read_bytes(), str(file))
        yield from (
            (_key(use), _Seconds(log(use.call_s), use.process_s)) for use in uses if use.call_s
        )


def _key(use: Use) -> tuple[Collective, int]:
    return use.kind.collective, use.kind.first_bytes
