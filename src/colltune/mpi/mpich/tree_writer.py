"""Decision tables as MPICH's selection tree, always complete for the release.

Two files are written, since MPICH searches two trees: the device's (ch4), which takes a
communicator apart by nodes, goes first, and the one for algorithms is asked for what is left. So
the device's tree gets ends without any function exactly where the table chooses: there MPICH runs
the chosen algorithm on the communicator as a whole, as when it was measured. Everywhere else, and
on the parts that the device and the library itself make of communicators, both trees say what the
library's own say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Limit
from colltune.mpi.file_format import Call
from colltune.mpi.mpich import builtin
from colltune.mpi.mpich.facts import UNITS, Facts
from colltune.mpi.mpich.functions import guards_of, leaf_of
from colltune.mpi.mpich.library import MPICH
from colltune.mpi.mpich.releases import LIBRARY, TITLE, catalogue_of
from colltune.mpi.mpich.tree import (
    DEFAULT,
    LARGEST,
    NOTHING,
    Branch,
    Known,
    Test,
    Tree,
    chain,
    cut,
    merged,
    test,
    with_leaves,
)

DEVICE = ".ch4"
"""End of the name of the file for the device's tree."""
_ANY_PPN = "comm_avg_ppn<=16384"
_MOST_RADIX_OF_BARRIER = 8
_NOT_FOR_ALL = frozenset(
    {Limit.POWER_OF_TWO_PROCESSES, Limit.ELEMENT_PER_POWER_OF_TWO, Limit.EQUAL_COUNTS}
)
Intervals = tuple[Interval, ...]


@dataclass
class Plan:
    """The trees of the collectives for which a table chooses anything, with `DEFAULT` elsewhere."""

    release: str
    trees: dict[str, Tree] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def series(self) -> str:
        return catalogue_of(self.release).series

    def choose_everywhere(self, configuration: Configuration, line: int) -> None:
        """Choose one configuration for all calls of its collective, as far as it can run."""
        try:
            space = MPICH.at(self.release).space
            spelled = space.canonical(configuration)
            algorithm = space.algorithm_of(spelled)
        except LibraryError as error:
            self.notes.append(f"line {line}: {error}; left to the library")
            return
        if algorithm.wrong or spelled.is_default:
            why = algorithm.wrong or "the default is no choice"
            self.notes.append(f"line {line}: {spelled.id}: {why}; left to the library")
            return
        tree = guarded(self.release, spelled)
        if Limit.POWER_OF_TWO_PROCESSES in algorithm.limits:
            tree = chain(("comm_size=pow2", tree), ("comm_size=any", DEFAULT))
        if algorithm.limits & _NOT_FOR_ALL:
            needs = ", ".join(sorted(algorithm.limits & _NOT_FOR_ALL))
            what = f"{spelled.id} needs {needs}; other calls are left to the library"
            self.notes.append(f"line {line}: {what}")
        self.trees[str(spelled.collective)] = tree


def guarded(release: str, configuration: Configuration) -> Tree:
    """Return the leaf of a configuration behind the tests that it needs at each call."""
    tree: Tree = leaf_of(release, configuration)
    if Limit.ELEMENT_PER_POWER_OF_TWO in MPICH.at(release).space.algorithm_of(configuration).limits:
        tree = chain(("count<pow2", DEFAULT), ("count=any", tree))
    for key in reversed(guards_of(release, configuration)):
        name, _, value = key.partition("=")
        tree = chain((key, tree), (f"{name}={'no' if value == 'yes' else 'yes'}", DEFAULT))
    return tree


def plan_of(table: DecisionTable, release: str) -> Plan:
    """Return what a table says, as trees."""
    plan = Plan(release)
    catalogue_of(release)
    if table.library != LIBRARY:
        raise LibraryError(f"a decision table of {table.library} cannot be written for {TITLE}")
    collectives = {c for c, _ in table.rules} | {c for c, _ in table.by_layout}
    for collective in sorted(collectives):
        tree = merged(_Planner(plan, table, collective).tree())
        if tree != DEFAULT:
            plan.trees[str(collective)] = tree
    return plan


def algorithms(plan: Plan) -> dict[str, Tree]:
    return {
        name: filled(own, plan.trees[name], plan.series) if name in plan.trees else merged(own)
        for name, own in builtin.tree_of(plan.release).items()
    }


def device(plan: Plan) -> dict[str, Tree]:
    trees = {}
    for name, own in builtin.compositions_of(plan.release).items():
        decided = with_leaves(
            plan.trees.get(name, DEFAULT), lambda leaf: leaf if leaf == DEFAULT else NOTHING
        )
        asked = merged(decided)
        trees[name] = own if asked == DEFAULT else filled(own, asked, plan.series)
    return trees


def filled(own: Tree, decided: Tree, series: str) -> Tree:
    """Return the library's `own` tree with `decided` on communicators that a program makes."""
    known = Known({})
    inside = wrapped(decided, series)
    if isinstance(own, Branch) and own.tests[0][0].key == "comm_type=intra":
        (intra, default), *others = own.tests
        tree = merged(cut(inside, known, default))
        return Branch(((intra, tree), *((found, merged(then)) for found, then in others)))
    return merged(cut(inside, known, own))


def wrapped(decided: Tree, series: str) -> Tree:
    """Return a tree that leaves the parts of communicators, by nodes, to the library.

    Up to 4.3 they know what they are; from 5.0 on they know of no nodes at all.
    """
    if series.startswith("4."):
        parts = [(f"comm_hierarchy={part}", DEFAULT) for part in ("node", "node_roots")]
        return chain(*parts, ("comm_hierarchy=any", decided))
    return chain((_ANY_PPN, decided), ("comm_size=any", DEFAULT))


def unwrapped(tree: Tree) -> Tree | None:
    """Return what `wrapped` was given, of any release; None if it did not make `tree`."""
    if not isinstance(tree, Branch):
        return None
    keys = [found.key for found, _ in tree.tests]
    if keys == ["comm_hierarchy=node", "comm_hierarchy=node_roots", "comm_hierarchy=any"]:
        return tree.tests[-1][1]
    return tree.tests[0][1] if keys == [_ANY_PPN, "comm_size=any"] else None


class _Planner:
    def __init__(self, plan: Plan, table: DecisionTable, collective: Collective) -> None:
        self.plan, self.table, self.collective = plan, table, collective

    def tree(self) -> Tree:
        of = self.collective
        sizes = {size for c, size in self.table.rules if c is of}
        sizes |= {shape.nprocs for c, shape in self.table.by_layout if c is of}
        steps: list[tuple[Test, Tree]] = []
        last = 0
        for size in sorted(size for size in sizes if size > 1):
            if size - 1 > last:
                steps.append((test(f"comm_size<={size - 1}"), DEFAULT))
            steps.append((test(f"comm_size<={size}"), self.size_tree(size)))
            last = size
        steps.append((test("comm_size=any"), DEFAULT))
        return Branch(tuple(steps))

    def size_tree(self, size: int) -> Tree:
        everywhere = self.intervals(size, self.table.rules.get((self.collective, size), ()))
        shapes = [s for c, s in self.table.by_layout if c is self.collective and s.nprocs == size]
        steps: list[tuple[Test, Tree]] = []
        last = 0
        for shape in sorted(shapes, key=lambda shape: shape.ppn):
            steps += [(found, everywhere) for found in self.between(last, shape)]
            intervals = self.table.by_layout[self.collective, shape]
            steps.append((test(f"comm_avg_ppn<={shape.ppn}"), self.intervals(size, intervals)))
            last = shape.ppn
        steps.append((test("comm_size=any"), everywhere))
        return Branch(tuple(steps))

    def between(self, last: int, shape: Shape) -> Iterator[Test]:
        """Yield the test for layouts with more than `last` and fewer processes per node."""
        size = shape.nprocs
        most = (size - 1) // last if last else size
        uneven = range(shape.nodes + 1, most + 1)
        if not uneven:
            return
        if self.plan.series not in ("4.0", "4.1"):
            yield test(f"comm_avg_ppn<{shape.ppn}")
            return
        if shape.ppn - 1 > last:
            yield test(f"comm_avg_ppn<={shape.ppn - 1}")
        possible = (nodes for nodes in uneven if nodes <= self.table.shape.nodes)
        if any(size > (shape.ppn - 1) * nodes for nodes in possible):
            self.note(size, f"{TITLE} {self.plan.release} takes uneven layouts for {shape}")

    def intervals(self, size: int, intervals: Intervals) -> Tree:
        """Return the tree for the message sizes of communicators of one size."""
        steps = list(self.feasible(size, intervals))
        if not steps:
            return DEFAULT
        if self.collective not in UNITS:
            if len({configuration for _, configuration in steps}) == 1:
                return self.choice(steps[0][1])
            self.note(size, "only one rule for all message sizes is safe; left to the library")
            return DEFAULT
        return self.sized(size, steps)

    def sized(self, size: int, steps: Sequence[tuple[int | None, Configuration | None]]) -> Tree:
        unit = UNITS[self.collective]
        scale = Facts(Call(self.collective, size, 1)).size(unit)
        tests: list[tuple[Test, Tree]] = []
        for at, (last, configuration) in enumerate(steps):
            tree = self.choice(configuration)
            if last is not None and last * scale <= LARGEST:
                tests.append((test(f"{unit}<={last * scale}"), tree))
                continue
            if any(other != configuration for _, other in steps[at:]):
                most = LARGEST // scale
                self.note(size, f"sizes above {most} bytes are left to the library")
                tests.append((test(f"{unit}<={most * scale}"), tree))
                tree = DEFAULT
            tests.append((test(f"{unit}=any"), tree))
            break
        return Branch(tuple(tests))

    def feasible(
        self, size: int, intervals: Intervals
    ) -> Iterator[tuple[int | None, Configuration | None]]:
        """Yield last sizes with what runs up to there; None is left to the library."""
        for interval in intervals:
            configuration, first = self.checked(size, interval)
            end = interval.last_bytes
            if configuration is not None and first > interval.first_bytes:
                kept = configuration if end is None or first <= end else None
                yield (first - 1 if kept else end), None
                if kept is None:
                    continue
            yield end, configuration

    def checked(self, size: int, interval: Interval) -> tuple[Configuration | None, int]:
        """Return what can be written of an interval, and from which size on; None for nothing."""
        configuration, release = interval.configuration, self.plan.release
        if configuration.is_default:
            return None, 0
        try:
            space = MPICH.at(release).space
            spelled = space.canonical(configuration)
            found = space.running_range(spelled, size, 1)
            limits = space.algorithm_of(spelled).limits
        except LibraryError as error:
            self.note(size, f"{error}; left to the library")
            return None, 0
        if found.first_bytes is None:
            self.note(size, f"{found.reason}; left to the library")
            return None, 0
        radix = spelled.numbers.get("fanout", 0)
        barrier = spelled.algorithm == "recexch" and self.collective is Collective.BARRIER
        if barrier and radix > _MOST_RADIX_OF_BARRIER:
            self.note(size, f"{spelled.id} needs more than a leaf can say; left to the library")
            return None, 0
        # asked for at each call, since it counts elements
        first = 0 if Limit.ELEMENT_PER_POWER_OF_TWO in limits else found.first_bytes
        if first > interval.first_bytes:
            self.note(size, f"{found.reason}; smaller ones are left to the library")
        return spelled, first

    def choice(self, configuration: Configuration | None) -> Tree:
        return DEFAULT if configuration is None else guarded(self.plan.release, configuration)

    def note(self, size: int, text: str) -> None:
        """Keep a note on communicators of `size`, once."""
        full = f"{self.collective} on {size} processes: {text}"
        if full not in self.plan.notes:
            self.plan.notes.append(full)
