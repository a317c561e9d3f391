"""Measures what every algorithm of an MPI does to legal programs (see native/legal.c).

A launch makes thousands of calls. One that ends or hangs a launch is made again at the start of the
next one, where it may take longer: only what happens twice is held against an algorithm. What was
found out is kept beside the result until that is whole, so that an interrupted measurement goes on
where it was.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, product
from pathlib import Path

from colltune.bench import build
from colltune.bench.backends.installed import InstalledMpi
from colltune.domain import INTERPOSED, Collective, Configuration, Shape
from colltune.errors import say
from colltune.files import insist_writable, write_text, writing
from colltune.mpi import programs
from colltune.mpi.bits import BitFacts, Differ, MeasuredBits, Ranges, name_of
from colltune.mpi.catalogue import Limit
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.libcolltune.space import LIBCOLLTUNE
from colltune.mpi.programs import (
    MODES,
    RANKS_AGREE,
    Measured,
    ProgramOutcome,
    kind_of,
    text_of,
)
from colltune.mpi.release import FANOUTS, SEGSIZES_BYTES, Release

PROCESSES = (2, 3, 4, 5, 8)
INTS = (1, 5, 100, 1300, 20000)
_INTS_OF: Mapping[str, tuple[int, ...]] = {
    "tidy": (1, 2, 3, 7, 17, 100, 1300, 20000, 150000),
    "few_elements": (0, 1),
}
# the ways of a mode; those that a collective does not have are left out by the program
VARIANTS: Mapping[str, int] = {
    "layouts": 4,
    "mixed_types": 4,
    "gaps": 3,
    "zero_size": 2,
    "absolute": 2,
    "odd_addresses": 2,
    "in_place": 4,
    "uneven": 3,
    "roots": 3,
    "communicators": 5,
    "between_groups": 2,
    "pending": 2,
    "operations": 6,
    "pairs": 12,
    "non_commutative": 8,
    "own_operations": 12,
}
BITS_PROCESSES = tuple(range(2, 17))
_BITS_BYTES = tuple(sorted({*(1 << k for k in range(2, 21)), 48, 176, 720, 2992, 11568}))
_BITS_AGAIN_BYTES = (8, 1024, 32768)
"""Sizes of which the bits are compared between two launches."""
FIRST, AGAIN, ON_NODES = range(3)
"""The launches of which bits are compared: one, another one, and one on several nodes."""
_MOST_BITS_BYTES = 1 << 22
"""Of all processes together."""
_FEWER_INTS = (0, 1, 100, 20000)
_SEGSIZES_BYTES = (0, 64, 1024, 65536)
_SEGSIZE_BYTES = 1024
_FANOUTS = (2, 4)
_MOST_GROUPS = 4
"""Of libcolltune's broadcasts; more of them differ in nothing but their numbers."""
_MOST_SEGMENTS, _INT_BYTES = 128, 4
BITS = "bits"
_LARGE, _LARGE_INTS, _LARGE_S = "large", (1 << 29) + 1000, 120
"""What such a call moves, and how long it may take."""
_LIMIT_S = 8
_PATIENCE = 4
"""So many times as long may a call take that seems to hang, when it is made again."""
_SILENCE_S = 30.0
_LAUNCH_S = 3600.0
_CALLS_PER_LAUNCH = 4000
_ENOUGH = 8
"""So many calls of one variant of a mode that go wrong tell of all of them."""
_ENOUGH_ENDINGS = 2
"""So many launches that a mode ended tell of all its variants."""
_STARTS = 3
_ATTEMPTS = 2
_SEVERITY = (
    ProgramOutcome.RIGHT,
    ProgramOutcome.ABORTS,
    ProgramOutcome.HANGS,
    ProgramOutcome.WRONG,
)
_ON_PARTS = ("communicators", "between_groups")
_SKIPPED = "skip"
_ANSWERS = {"right", "wrong", "aborts"}
_LAST_WORDS = {"aborts", "hangs", "refused"}
# who waits must let others run, on one host; fresh and freed memory is never 0
_CALM = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "I_MPI_FABRICS": "shm",
    "I_MPI_THREAD_YIELD": "3",
    "I_MPI_THREAD_SLEEP": "1",
    "MALLOC_PERTURB_": "165",
}
# MPICH decides by itself where an algorithm cannot run, as in a job
_FALLBACK = "MPIR_CVAR_COLLECTIVE_FALLBACK"
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, order=True)
class LegalCall:
    """What a program may call, by way `variant` of `mode`, with blocks of `ints` elements.

    Of the mode ``bits``, `ints` are bytes; its odd variants try operations of a program's own, and
    there are two of them for each launch.
    """

    collective: Collective
    mode: str
    variant: int
    ints: int
    nprocs: int

    @property
    def turn(self) -> int:
        """In which launch it is made."""
        return self.variant // 2 if self.mode == BITS else FIRST


def calls(collective: Collective, nprocs: int) -> Iterator[LegalCall]:
    """Yield all calls of a collective that are tried on `nprocs` processes."""
    for mode in MODES:
        if mode in (_LARGE, RANKS_AGREE):
            continue
        variants = range(VARIANTS.get(mode, 1))
        for variant, ints in product(variants, _INTS_OF.get(mode, INTS)):
            yield LegalCall(collective, mode, variant, ints, nprocs)


def bits_calls(collective: Collective, nprocs: int, *, turn: int = FIRST) -> Iterator[LegalCall]:
    """Yield the calls of a reduction by which its bits are known, those of one launch."""
    blocks = nprocs * (nprocs if collective.has_block_per_rank else 1)
    for n_bytes in _BITS_AGAIN_BYTES if turn == AGAIN else _BITS_BYTES:
        if collective.reduces and n_bytes * blocks <= _MOST_BITS_BYTES:
            for own in (0, 1):
                yield LegalCall(collective, BITS, 2 * turn + own, n_bytes, nprocs)


def large_call(collective: Collective, nprocs: int) -> LegalCall:
    """Return the call that moves more than 2^31 bytes."""
    ints = _LARGE_INTS // (nprocs if collective.has_block_per_rank else 1)
    return LegalCall(collective, _LARGE, 0, ints, nprocs)


@dataclass(frozen=True)
class LegalTrial:
    """One call under one configuration."""

    configuration: Configuration
    call: LegalCall

    @property
    def suspect(self) -> tuple[Collective, str, str, int]:
        """Which trials are alike, such that a few that go wrong tell of all."""
        call = self.call
        return call.collective, kind_of(self.configuration), call.mode, call.variant

    @property
    def words(self) -> str:
        call = self.call
        return f"{call.collective} {call.mode} {call.variant} {call.ints}"


class OutcomeJournal:
    """What was found out so far, in a file beside the result; ``head`` tells of what."""

    def __init__(self, path: Path, head: str) -> None:
        self.path, self.seen = path, dict[tuple[str, LegalCall], str]()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines[:1] != [head]:
            write_text(path, f"{head}\n")
            return
        for line in lines[1:]:
            words = line.split()
            if len(words) == len(_COLUMNS):  # the last line may have been cut
                call = LegalCall(Collective(words[1]), words[2], *map(int, words[3:6]))
                self.seen[words[0], call] = words[6]

    def note(self, found: Iterable[tuple[LegalTrial, str]]) -> None:
        with writing(self.path), self.path.open("a", encoding="utf-8") as stream:
            for trial, answer in found:
                self.seen[trial.configuration.id, trial.call] = answer
                words = f"{trial.configuration.id} {trial.words} {trial.call.nprocs} {answer}"
                stream.write(f"{words}\n")

    def answer(self, configuration: Configuration, call: LegalCall) -> str | None:
        return self.seen.get((configuration.id, call))


_COLUMNS = ("configuration", "collective", "mode", "variant", "ints", "processes", "answer")


@dataclass(frozen=True)
class Launched:
    """What a launch told: answers, and the trial that ended it, if one did, with how.

    ``refused`` tells that the call returned an error on some rank while others wait for ever.
    """

    answers: Mapping[LegalTrial, str]
    ended_in: LegalTrial | None = None
    ending: str = ""
    refused: bool = False
    whole: bool = False
    explained: str = ""


@dataclass(frozen=True)
class Launch:
    """Configurations that one launch can try, and the environment that it needs.

    ``turn`` tells which one it is of those whose bits are compared.
    """

    configurations: tuple[Configuration, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    at_start: bool = False
    turn: int = FIRST

    def joins(self, configuration: Configuration, environment: Mapping[str, str]) -> bool:
        """Tell whether another configuration can be forced for the same launch."""
        collectives = {each.collective for each in self.configurations}
        agree = all(self.environment.get(n, v) == v for n, v in environment.items())
        return configuration.collective not in collectives and agree


def configurations(
    release: Release, collective: Collective, *, own: bool = False
) -> tuple[Configuration, ...]:
    """Return what is measured beside the default: all algorithms, also those never to be used.

    ``own`` are libcolltune's.
    """
    if own:
        every = LIBCOLLTUNE.offered(collective)
        groups = ((each, dict(each.parameters).get("groups", 0)) for each in every)
        return tuple(each for each, n in groups if isinstance(n, int) and n <= _MOST_GROUPS)
    space, found = release.space, list[Configuration]()
    grids = {"segsize": _SEGSIZES_BYTES, "fanout": _FANOUTS}
    for algorithm in space.entry_of(collective).algorithms:
        least = dict(algorithm.minimums)
        offered = [name for name in algorithm.parameters if name in grids]
        values = [[v for v in grids[name] if v >= least.get(name, 0)] for name in offered]
        for combination in product(*values):
            parameters = dict(zip(offered, combination, strict=True))
            if Limit.SEGMENTED not in algorithm.limits or parameters["segsize"]:
                found.append(space.configuration(collective, algorithm, parameters))
    return tuple(found)


def offered(
    release: Release, collective: Collective, *, own: bool = False
) -> tuple[Configuration, ...]:
    """Return whose bits are measured beside the default's: all that a portfolio has."""
    if own:
        return LIBCOLLTUNE.offered(collective) if collective.reduces else ()
    space = release.space
    every = space.offered(collective, SEGSIZES_BYTES, FANOUTS) if collective.reduces else ()
    return tuple(dict.fromkeys(space.canonical(each) for each in every if not each.is_default))


def chosen_at(release: Release, configuration: Configuration, call: LegalCall) -> bool:
    """Tell whether `configuration` is ever chosen where `call` is made.

    What is for two processes alone ends programs elsewhere, and is never chosen there. Segments by
    the thousand take some libraries minutes, which would pass for a hang.
    """
    segsize = configuration.numbers.get("segsize", 0)
    if segsize and call.mode == _LARGE:
        return segsize == max(_SEGSIZES_BYTES)
    if call.mode != BITS and segsize and call.ints * _INT_BYTES > _MOST_SEGMENTS * segsize:
        return False
    if configuration.is_default or configuration.library == INTERPOSED:
        return True
    two = Limit.TWO_PROCESSES in release.space.algorithm_of(configuration).limits
    return not two or (call.nprocs == 2 and call.mode not in _ON_PARTS)


@dataclass(frozen=True)
class Matrix:
    """What is measured: the configurations and calls of which collectives on how many processes.

    ``own`` asks for libcolltune's algorithms in place of the library's. A call may take ``limit_s``
    seconds; a launch that tells nothing for ``silence_s`` is stopped. ``large`` adds calls of more
    than 2^31 bytes, on the smallest number of processes. ``bits`` asks which bits reductions give,
    in place of what becomes of legal programs; ``nodes`` above 1 asks whether they depend on how
    processes lie on nodes, where processes can lie evenly on so many.
    """

    processes: tuple[int, ...] = PROCESSES
    collectives: tuple[Collective, ...] = tuple(Collective)
    own: bool = False
    calls: Callable[[Collective, int], Iterable[LegalCall]] = calls
    keeps: Callable[[Release, Configuration], bool] = lambda _release, _configuration: True
    fits: Callable[[Release, Configuration, LegalCall], bool] = chosen_at
    limit_s: int = _LIMIT_S
    silence_s: float = _SILENCE_S
    large: bool = False
    bits: bool = False
    nodes: int = 1

    def turns(self, nprocs: int) -> tuple[int, ...]:
        """Return which launches are made on `nprocs` processes."""
        if not self.bits:
            return (FIRST,)
        on_nodes = self.nodes > 1 and nprocs % self.nodes == 0
        return (FIRST, AGAIN, ON_NODES)[: 2 + on_nodes]

    def every_call(self, collective: Collective, nprocs: int) -> Iterator[LegalCall]:
        """Yield what is called on `nprocs` processes."""
        yield from self.calls(collective, nprocs)
        for turn in self.turns(nprocs)[1:]:
            yield from bits_calls(collective, nprocs, turn=turn)
        if self.large and nprocs == min(self.processes):
            yield large_call(collective, nprocs)

    def configurations(self, release: Release) -> dict[Collective, tuple[Configuration, ...]]:
        """Return what is measured of each collective beside the default."""
        every = offered if self.bits else configurations
        found = {
            collective: tuple(
                each
                for each in every(release, collective, own=self.own)
                if self.keeps(release, each)
            )
            for collective in self.collectives
        }
        return {collective: every for collective, every in found.items() if every}


def bits_matrix(
    processes: tuple[int, ...] = BITS_PROCESSES, *, own: bool = False, nodes: int = 1
) -> Matrix:
    """Return what tells which bits reductions give."""
    return Matrix(processes, own=own, calls=bits_calls, bits=True, nodes=nodes)


def reduced(matrix: Matrix) -> Matrix:
    """Return about a third of it: few, some and many elements, one segment size and fan-out."""

    def fewer_calls(collective: Collective, nprocs: int) -> Iterator[LegalCall]:
        for call in matrix.calls(collective, nprocs):
            if call.ints in _FEWER_INTS and not (call.mode == "operations" and call.ints == 1):
                yield call

    def keeps(release: Release, configuration: Configuration) -> bool:
        numbers = configuration.numbers
        usual = numbers.get("segsize", 0) in (0, _SEGSIZE_BYTES) and numbers.get("fanout", 2) == 2
        return matrix.keeps(release, configuration) and (
            usual or configuration.library == INTERPOSED
        )

    return replace(matrix, calls=fewer_calls, keeps=keeps)


def journal_of(out: Path, matrix: Matrix) -> Path:
    """Return where it stands what was found out so far."""
    return out.with_name(f"{out.name}{'.bits' * matrix.bits}.journal")


class LegalityMeasurement:
    """Measures `matrix` of the installed `mpi`, and writes the outcomes to `out`.

    `program` is the conformance program, where it is not the one that is compiled for `mpi`;
    `starter` starts it, where that is not the library's own launcher without options.
    """

    def __init__(
        self,
        mpi: Installation,
        out: Path,
        matrix: Matrix = Matrix(),
        program: Path | None = None,
        starter: InstalledMpi | None = None,
    ) -> None:
        self.mpi, self.out, self.matrix = mpi, out, matrix
        self._release = with_libcolltune(mpi.mpi).at(mpi.release)
        self._insist_on_a_free_environment()
        insist_writable(out, folder=False)
        self._told()
        self._starter = starter or InstalledMpi(mpi)
        self._program = program or build.legal_program(mpi)
        self._preload = build.interposed_library(mpi) if matrix.own else None
        self._found = matrix.configurations(self._release)
        told = (mpi.library, mpi.release, self._program.name, matrix.own)
        digest = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
        self._journal = OutcomeJournal(journal_of(out, matrix), f"calls {digest}")
        self._bad = Counter[tuple[Collective, str, str, int]]()
        self._endings = Counter[tuple[Collective, str, str]]()
        self.odd: list[str] = []
        """Configurations under which a launch ended once, and not when it was tried again."""
        self.answers = Counter[ProgramOutcome]()
        """What became of the calls of algorithms, the default's left out."""

    def run(self, progress: Progress = lambda _done, _total, _now: None) -> Measured:
        """Measure what is not in the journal yet; write and return the result.

        Bits are added to what the file tells of the same release, and outcomes leave them there.
        """
        every = [each for found in self._found.values() for each in found]
        done, total = 0, len(self.matrix.processes) * (len(every) + len(self._found))
        for nprocs in self.matrix.processes:
            for launch in self._launches(every):
                names = ", ".join(sorted({each.id for each in launch.configurations})[:2])
                progress(done, total, f"{nprocs} processes: {names}")
                for turn in self.matrix.turns(nprocs):
                    self._finish(replace(launch, turn=turn), nprocs)
                done += len(launch.configurations)
        measured = self._with_bits() if self.matrix.bits else self._measured()
        write_text(self.out, text_of(measured))
        self._journal.path.unlink()
        return measured

    # ---- launches ----

    def _launches(self, every: Sequence[Configuration]) -> Iterator[Launch]:
        """Yield the defaults, what can be chosen within a launch, and what needs its own."""
        yield Launch(tuple(self._default(collective) for collective in self._found))
        within: dict[tuple[tuple[str, str], ...], list[Configuration]] = defaultdict(list)
        apart: list[Launch] = []
        for each in every:
            needed = self._release.launch_environment(each)
            if needed is not None:
                within[tuple((self._release.base_environment() | needed).items())].append(each)
                continue
            forced = self._release.forced_environment(each)
            for index, launch in enumerate(apart):
                if launch.joins(each, forced):
                    joined = (*launch.configurations, each)
                    apart[index] = Launch(joined, {**launch.environment, **forced}, at_start=True)
                    break
            else:
                apart.append(Launch((each,), forced, at_start=True))
        for environment, found in within.items():
            by_kind = sorted(found, key=lambda each: (each.collective, each.id))
            yield Launch(tuple(by_kind), dict(environment))
        yield from apart

    def _default(self, collective: Collective) -> Configuration:
        return Configuration.default(self.mpi.library, collective)

    def _trials(self, launch: Launch, nprocs: int) -> Iterator[LegalTrial]:
        for each in launch.configurations:
            for call in self.matrix.every_call(each.collective, nprocs):
                if call.turn != launch.turn:
                    continue
                if self._journal.answer(each, call) is None and self._is_fair(each, call):
                    yield LegalTrial(each, call)

    def _is_fair(self, configuration: Configuration, call: LegalCall) -> bool:
        """Tell whether the default does it right, and the algorithm can be chosen there at all."""
        if configuration.is_default:
            return True
        default = self._default(configuration.collective)
        if not _is_right(self._journal.answer(default, call)):
            return False
        return self.matrix.fits(self._release, configuration, call)

    def _finish(self, launch: Launch, nprocs: int) -> None:
        """Make all trials, in as many launches as it takes."""
        trials, again, failures = list(self._trials(launch, nprocs)), None, 0
        before = list[LegalTrial]()
        while trials := [trial for trial in trials if not self._is_known(trial)]:
            batch = trials[:_CALLS_PER_LAUNCH]
            seen = self._launch(launch, batch, nprocs, patient=int(again == batch[0]))
            self._take(seen.answers)
            if again is not None and again in seen.answers:
                self._isolate(launch, before, nprocs)
            again, before = seen.ended_in, [*seen.answers]
            if again is not None and (seen.refused or again == batch[0]):
                self._condemn(again, seen.ending)
            elif again is None and not seen.whole and seen.answers:
                self._isolate(launch, seen.answers, nprocs)
            elif again is None and not seen.whole:
                failures += 1
                if failures == _STARTS or launch.at_start:
                    self._did_not_start(launch, nprocs, seen)
                    return
            left = [t for t in trials if self._journal.answer(t.configuration, t.call) is None]
            trials = sorted(left, key=lambda trial: trial != again)

    def _isolate(self, launch: Launch, made: Iterable[LegalTrial], nprocs: int) -> None:
        """Find whose calls do harm that shows only later, and in which way of which mode.

        A launch ended outside of its calls, or in one that is right when it is made first: an
        earlier one has damaged what the library keeps. Each configuration, the last one first, and
        then each way of its modes gets a launch of its own.
        """
        tried = list(dict.fromkeys(trial.configuration for trial in made))
        for configuration in reversed(tried):
            right: dict[tuple[str, int], list[LegalTrial]] = defaultdict(list)
            for call in self.matrix.every_call(configuration.collective, nprocs):
                if _is_right(self._journal.answer(configuration, call)):
                    right[call.mode, call.variant].append(LegalTrial(configuration, call))
            if self._is_harmless(launch, list(chain.from_iterable(right.values())), nprocs):
                continue
            guilty = [way for way, b in right.items() if not self._is_harmless(launch, b, nprocs)]
            for way in guilty:
                # what the default only seems to do right is not to be asked of any algorithm
                for trial in right[way][: None if configuration.is_default else 1]:
                    self._condemn(trial, ProgramOutcome.ABORTS.value)
            if guilty:
                return
        self.odd.append(f"{tried[-1].id} on {nprocs} processes")

    def _is_harmless(self, launch: Launch, batch: Sequence[LegalTrial], nprocs: int) -> bool:
        patient = len(batch)
        tries = (self._launch(launch, batch, nprocs, patient) for _ in range(_ATTEMPTS))
        return not batch or any(seen.whole for seen in tries)

    def _is_known(self, trial: LegalTrial) -> bool:
        """Tell whether enough is known of what is alike; of the default, all ways are tried."""
        ended = 0 if trial.configuration.is_default else self._endings[trial.suspect[:3]]
        return self._bad[trial.suspect] >= _ENOUGH or ended >= _ENOUGH_ENDINGS

    def _take(self, answers: Mapping[LegalTrial, str]) -> None:
        for trial, answer in answers.items():
            if answer != _SKIPPED and not _is_right(answer):
                self._bad[trial.suspect] += 1

    def _condemn(self, trial: LegalTrial, ending: str) -> None:
        self._journal.note([(trial, ending)])
        self._bad[trial.suspect] += _ENOUGH
        self._endings[trial.suspect[:3]] += 1

    def _did_not_start(self, launch: Launch, nprocs: int, seen: Launched) -> None:
        """Try what was forced together one by one; what does not start alone, ends programs."""
        if not launch.at_start:
            what = "the conformance program"
            raise say("did-not-start", what=what, why="", told=seen.explained)
        if len(launch.configurations) > 1:
            for each in launch.configurations:
                alone = self._release.forced_environment(each)
                self._finish(replace(launch, configurations=(each,), environment=alone), nprocs)
            return
        self._journal.note((t, ProgramOutcome.ABORTS.value) for t in self._trials(launch, nprocs))

    def _launch(
        self, launch: Launch, batch: Sequence[LegalTrial], nprocs: int, patient: int = 0
    ) -> Launched:
        """Make the calls of `batch`, of which the first `patient` ones may take long."""
        longest_s = max(limit_s for _, limit_s in self._limits(batch, patient))
        silence_s = self.matrix.silence_s + longest_s - self.matrix.limit_s
        nodes = self.matrix.nodes if launch.turn == ON_NODES else 1
        # all nodes read the plan
        with tempfile.TemporaryDirectory(dir=self.out.parent if nodes > 1 else None) as folder:
            plan, results = Path(folder) / "plan", Path(folder) / "results"
            plan.write_text("".join(self._plan(batch, patient)), encoding="utf-8")
            words: list[str | Path] = [self._program, plan, results, str(self.matrix.limit_s)]
            if self._preload is not None:
                words = ["env", f"{PRELOAD}={self._preload}", *words]
            wanted = _CALM | dict(launch.environment)
            shape, watch = Shape(nodes, nprocs // nodes), _Speaking(results, silence_s)
            command, environment = self._starter.command(shape, words, wanted)
            seen = Launched({})
            try:
                outcome = self._starter.start(shape, command, environment, _LAUNCH_S, watch)
            finally:
                lines = results.read_text().splitlines() if results.exists() else []
                seen = read(lines, batch)
                self._journal.note(seen.answers.items())
        return replace(seen, explained=outcome.explain())

    def _limits(
        self, batch: Sequence[LegalTrial], patient: int
    ) -> Iterator[tuple[LegalTrial, int]]:
        """Yield each trial with the seconds that it may take."""
        for number, trial in enumerate(batch):
            longer = _PATIENCE if number < patient else 1
            large_s = _LARGE_S if trial.call.mode == _LARGE else 0
            yield trial, max(self.matrix.limit_s * longer, large_s)

    def _plan(self, batch: Sequence[LegalTrial], patient: int) -> Iterator[str]:
        chosen: Configuration | None = None
        told_s = self.matrix.limit_s
        for number, (trial, limit_s) in enumerate(self._limits(batch, patient)):
            if limit_s != told_s:
                told_s = limit_s
                yield f"limit {limit_s}\n"
            if trial.configuration != chosen:
                chosen = trial.configuration
                yield f"config{''.join(f' {n}={v}' for n, v in self._settings(chosen).items())}\n"
            yield f"case {number} {trial.words}\n"

    def _settings(self, configuration: Configuration) -> dict[str, int | str]:
        if configuration.is_default or self._release.launch_environment(configuration) is None:
            return {}
        variables = self._release.force(configuration)
        return {name: value for name, value in variables.items() if name != _FALLBACK}

    def _insist_on_a_free_environment(self) -> None:
        for name in sorted(os.environ):
            if self._release.mpi.user_patterns.decides(name):
                raise say("environment-decides", name=name)

    # ---- the result ----

    def _measured(self) -> Measured:
        modes, outcomes, n_calls = {}, {}, 0
        for collective, found in self._found.items():
            default = self._default(collective)
            worst: dict[str, dict[str, ProgramOutcome]] = defaultdict(dict)
            for configuration in (default, *found):
                of_kind = worst[kind_of(configuration)]
                for call, answer in self._of(configuration):
                    n_calls, outcome = n_calls + 1, ProgramOutcome(answer)
                    self.answers[outcome] += not configuration.is_default
                    before = of_kind.get(call.mode, ProgramOutcome.RIGHT)
                    of_kind[call.mode] = max(before, outcome, key=_SEVERITY.index)
            tried = worst[kind_of(default)]
            modes[collective] = tuple(mode for mode in MODES if mode in tried)
            outcomes[collective] = {
                kind: {
                    mode: seen.get(mode, ProgramOutcome.NOT_MEASURED)
                    for mode in modes[collective]
                    if seen.get(mode) is not ProgramOutcome.RIGHT
                }
                for kind, seen in worst.items()
            }
        over = self.mpi.library if self.matrix.own else ""
        library = INTERPOSED if self.matrix.own else self.mpi.library
        release = self.mpi.release
        bits = self._told().bits
        return Measured(
            library, release, self.matrix.processes, n_calls, modes, outcomes, over, bits
        )

    def _told(self) -> Measured:
        """Return what the file tells already."""
        release = self.mpi.release
        library, over = self.mpi.library, ""
        if self.matrix.own:
            library, over = INTERPOSED, library
        if not self.out.exists():
            return Measured(library, release, (), 0, {}, {}, over)
        known = programs.parse(self.out.read_text(encoding="utf-8"), str(self.out))
        if (known.library, known.release, known.over) != (library, release, over):
            raise say("outcomes-of-another", file=self.out, library=library, release=release)
        return known

    def _with_bits(self) -> Measured:
        """Return what the file tells, with the bits that were measured."""
        known = self._told()
        modes, outcomes = dict(known.modes), dict(known.outcomes)
        bits = dict(known.bits)
        for collective, found in self._found.items():
            seen = [self._default(collective), *found]
            facts = {name_of(each): self._bits(each) for each in seen}
            calls = sum(len(list(self._of(each))) for each in seen)
            layouts = [
                str(Shape(self.matrix.nodes, nprocs // self.matrix.nodes))
                for nprocs in self.matrix.processes
                if ON_NODES in self.matrix.turns(nprocs)
            ]
            new = MeasuredBits.of(self.matrix.processes, max(_BITS_BYTES), calls, facts, layouts)
            bits[collective] = bits[collective].joined(new) if collective in bits else new
            if collective is not Collective.ALLREDUCE:
                continue
            modes[collective] = (*dict.fromkeys((*modes.get(collective, ()), RANKS_AGREE)),)
            kinds = {kind: dict(told) for kind, told in outcomes.get(collective, {}).items()}
            for each in seen:
                if Differ.RANKS in facts[name_of(each)].differ:
                    kinds.setdefault(kind_of(each), {})[RANKS_AGREE] = ProgramOutcome.WRONG
            outcomes[collective] = kinds
        return replace(known, modes=modes, outcomes=outcomes, bits=bits)

    def _bits(self, configuration: Configuration) -> BitFacts:
        """Return what the bits that were measured of a configuration tell."""
        told = {c: _Bits.of(a) for c, a in self._of(configuration) if _is_right(a)}
        alike = {each.call for each in self.compared(configuration) if each.as_default}
        builtin, own = (
            {n: _ranges(configuration.collective, n, variant, alike) for n in self.matrix.processes}
            for variant in (0, 1)
        )
        return BitFacts(frozenset(self._differ(told)), builtin, own)

    def _differ(self, told: Mapping[LegalCall, _Bits]) -> Iterator[Differ]:
        """Yield between what the bits differ that calls gave; on several nodes, if they failed."""
        heads: dict[tuple[int, int], set[str]] = defaultdict(set)
        for call, bits in told.items():
            if call.turn == ON_NODES:
                yield from {Differ.RANKS}.intersection(bits.differ)
                continue
            yield from bits.differ
            second, on_nodes = (
                told.get(replace(call, variant=call.variant % 2 + 2 * turn))
                for turn in (AGAIN, ON_NODES)
            )
            if second is not None and not second.is_like(bits):
                yield Differ.LAUNCHES
            if ON_NODES in self.matrix.turns(call.nprocs) and (
                on_nodes is None or not on_nodes.is_like(bits) or Differ.CALLS in on_nodes.differ
            ):
                yield Differ.LAYOUTS
            if call.ints >= _WHOLE_BYTES:
                heads[call.variant, call.nprocs].add(bits.head)
        if any(len(found) > 1 for found in heads.values()):
            yield Differ.SIZES

    def compared(self, configuration: Configuration) -> Iterator[ComparedBits]:
        """Yield what is known of the bits of each call of a reduction."""
        default = self._default(configuration.collective)
        defaults = {c: _Bits.of(a) for c, a in self._of(default) if _is_right(a)}
        for call, answer in self._of(configuration):
            if call in defaults and _is_right(answer):
                bits = _Bits.of(answer)
                numbers = len(bits.hashes) - bits.hashes.count("-")
                agree = Differ.RANKS not in bits.differ
                yield ComparedBits(call, numbers, bits.is_like(defaults[call]), agree)

    def _of(self, configuration: Configuration) -> Iterator[tuple[LegalCall, str]]:
        """Yield the calls that were made under a configuration, and what became of them."""
        for nprocs in self.matrix.processes:
            for call in self.matrix.every_call(configuration.collective, nprocs):
                answer = self._journal.answer(configuration, call)
                if answer is not None and answer != _SKIPPED:
                    yield call, answer


_WHOLE_BYTES = 8
"""The first element of smaller messages is not that of larger ones."""
_DIFFER = (Differ.RANKS, Differ.CALLS, Differ.PLACES)


@dataclass(frozen=True)
class ComparedBits:
    """What is known of a call with several kinds of ``numbers``.

    Whether its bits are the default's on all ranks, and whether all ranks of an allreduce agree.
    """

    call: LegalCall
    numbers: int
    as_default: bool
    ranks_agree: bool


@dataclass(frozen=True)
class _Bits:
    """What a call of the mode ``bits`` told: see native/legal_bits.c."""

    differ: tuple[Differ, ...]
    head: str
    hashes: tuple[str, ...]

    @classmethod
    def of(cls, answer: str) -> _Bits:
        flags, head, *hashes = answer.partition("/")[2].split(".")
        differ = tuple(d for d, same in zip(_DIFFER, flags, strict=True) if same == "0")
        return cls(differ, head, tuple(hashes))

    def is_like(self, other: _Bits) -> bool:
        return self.hashes == other.hashes


def _is_right(answer: str | None) -> bool:
    return answer is not None and answer.partition("/")[0] == ProgramOutcome.RIGHT


def _ranges(
    collective: Collective, nprocs: int, variant: int, alike: Collection[LegalCall]
) -> Ranges:
    """Return the message sizes between which all calls of a variant are among `alike`."""
    found: list[tuple[int, int]] = []
    calls = (call for call in bits_calls(collective, nprocs) if call.variant == variant)
    for is_alike, group in groupby(calls, key=lambda call: call in alike):
        sizes = [call.ints for call in group]
        if is_alike:
            first = 0 if sizes[0] == min(_BITS_BYTES) else sizes[0]
            found.append((first, sizes[-1]))
    return tuple(found)


class _Speaking:
    """Watches that the results grow: a launch that is silent for long has ended, or hangs."""

    def __init__(self, results: Path, silence_s: float) -> None:
        self._results, self._silence_s = results, silence_s
        self._size, self._grown = -1, time.monotonic()

    def __call__(self) -> bool:
        size = self._results.stat().st_size if self._results.exists() else -1
        if size != self._size:
            self._size, self._grown = size, time.monotonic()
        return time.monotonic() - self._grown < self._silence_s


def read(lines: Sequence[str], batch: Sequence[LegalTrial]) -> Launched:
    """Return what the lines of a launch's results tell of the trials of `batch`."""
    answers, begun, ending, refused = (
        dict[LegalTrial, str](),
        None,
        ProgramOutcome.ABORTS.value,
        False,
    )
    for line in lines:
        words = line.split()
        if words[:1] == ["end"]:
            return Launched(answers, whole=True)
        if len(words) < 2 or not words[1].isdecimal() or int(words[1]) >= len(batch):
            continue
        trial = batch[int(words[1])]
        if words[0] == _SKIPPED:
            answers[trial] = _SKIPPED
        elif words[0] == "begin":
            begun = trial
        elif words[0] == "done" and words[2] in _ANSWERS:
            answers[trial], begun = "/".join(words[2:4]), None
        elif words[0] in _LAST_WORDS:
            # another process than the one that tells of beginnings may be ahead
            begun = trial
            refused |= words[0] == "refused"
            ending = ProgramOutcome.HANGS.value if words[0] == ProgramOutcome.HANGS else ending
    if refused:
        ending = ProgramOutcome.ABORTS.value
    return Launched(answers, begun, ending, refused)
