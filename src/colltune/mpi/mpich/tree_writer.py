"""Decision tables as MPICH's selection tree, always complete for the release.

Two files are written, since MPICH searches two trees: the device's (ch4), which takes a
communicator apart by nodes, goes first, and the one for algorithms is asked for what is left. So
the device's tree gets ends without any function exactly where the table chooses: there MPICH runs
the chosen algorithm on the communicator as a whole, as when it was measured. Everywhere else, and
on the parts that the device and the library itself make of communicators, both trees say what the
library's own say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError, say
from colltune.mpi.catalogue import Limit
from colltune.mpi.choosing import Chooser
from colltune.mpi.file_format import Written
from colltune.mpi.mpich.functions import Functions, functions_of
from colltune.mpi.mpich.library import LIBRARY, MPICH, TITLE
from colltune.mpi.mpich.tree import (
    DEFAULT,
    LARGEST,
    NOTHING,
    UNITS,
    Branch,
    Known,
    Tree,
    chain,
    cut,
    merged,
    rendered,
    size_of,
    with_leaves,
)
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.release import Release
from colltune.mpi.rules import Call, Rule
from colltune.mpi.running import Promises

DEVICE = ".ch4"
"""End of the name of the file for the device's tree."""
_ANY_PPN = "comm_avg_ppn<=16384"
_NOT_FOR_ALL = frozenset(
    {Limit.POWER_OF_TWO_PROCESSES, Limit.ELEMENT_PER_POWER_OF_TWO, Limit.EQUAL_COUNTS}
)


@dataclass
class Plan:
    """The trees of the collectives for which anything is chosen, with `DEFAULT` elsewhere."""

    functions: Functions
    trees: dict[str, Tree] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def choose_everywhere(self, configuration: Configuration, line: int) -> None:
        """Choose one configuration for all calls of its collective, as far as it can run."""
        space = self.functions.space
        try:
            spelled = space.canonical(configuration)
            algorithm = space.algorithm_of(spelled)
        except LibraryError as error:
            self.notes.append(f"line {line}: {error}; left to the library")
            return
        why = algorithm.wrong or space.harms(spelled).sentence(MOST_PROMISED)
        if why or spelled.is_default:
            why = why or "the default is not a choice"
            self.notes.append(f"line {line}: {spelled.id}: {why}; left to the library")
            return
        tree = guarded(self.functions, spelled)
        if Limit.POWER_OF_TWO_PROCESSES in algorithm.limits:
            tree = chain(("comm_size=pow2", tree), ("comm_size=any", DEFAULT))
        if algorithm.limits & _NOT_FOR_ALL:
            needs = ", ".join(sorted(algorithm.limits & _NOT_FOR_ALL))
            what = f"{spelled.id} needs {needs}; other calls are left to the library"
            self.notes.append(f"line {line}: {what}")
        self.trees[str(spelled.collective)] = tree

    def written(self, name: str) -> Written:
        """Return both trees, complete for the release."""
        functions, texts = self.functions, {}
        algorithms = {
            name: filled(own, self.trees[name], functions) if name in self.trees else merged(own)
            for name, own in functions.own_trees.items()
        }
        texts[""] = rendered(algorithms)
        texts[DEVICE] = rendered(device_trees(functions, self.trees))
        return Written(name, functions.release, texts, tuple(self.notes))


def device_trees(functions: Functions, decided: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return the device's trees, without an end where algorithms are `decided`."""
    trees = {}
    for name, own in functions.compositions.items():
        asked = merged(
            with_leaves(
                decided.get(name, DEFAULT), lambda leaf: leaf if leaf == DEFAULT else NOTHING
            )
        )
        trees[name] = own if asked == DEFAULT else filled(own, asked, functions)
    return trees


def guarded(functions: Functions, spelled: Configuration) -> Tree:
    """Return the leaf of a configuration behind the tests that it needs at each call."""
    tree: Tree = functions.leaf_of(spelled)
    if Limit.ELEMENT_PER_POWER_OF_TWO in functions.space.algorithm_of(spelled).limits:
        tree = chain(("count<pow2", DEFAULT), ("count=any", tree))
    for key in reversed(functions.guards_of(spelled)):
        name, _, value = key.partition("=")
        tree = chain((key, tree), (f"{name}={'no' if value == 'yes' else 'yes'}", DEFAULT))
    return tree


def plan_of(table: DecisionTable, release: str, promises: Promises) -> Plan:
    """Return what a table says, as trees; see `Promises`."""
    plan = Plan(functions_of(release))
    if table.library != LIBRARY:
        raise say("table-not-writable", library=table.library, title=TITLE)
    collectives = {c for c, _ in table.rules} | {c for c, _ in table.by_layout}
    for collective in sorted(collectives):
        tree = merged(_Planner(plan, table, collective, promises).tree())
        if tree != DEFAULT:
            plan.trees[str(collective)] = tree
    return plan


def filled(own: Tree, decided: Tree, functions: Functions) -> Tree:
    """Return the library's `own` tree with `decided` on communicators that a program makes."""
    known = Known({})
    inside = wrapped(decided, functions)
    if isinstance(own, Branch) and own.tests[0][0].key == "comm_type=intra":
        (intra, default), *others = own.tests
        tree = merged(cut(inside, known, default))
        return Branch(((intra, tree), *((found, merged(then)) for found, then in others)))
    return merged(cut(inside, known, own))


def wrapped(decided: Tree, functions: Functions) -> Tree:
    """Return a tree that leaves the parts of communicators, by nodes, to the library.

    Up to 4.3 they know what they are; from 5.0 on they know of no nodes at all.
    """
    if functions.knows_parts:
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


class _Planner(Chooser):
    """Makes the tree of one collective."""

    def __init__(
        self, plan: Plan, table: DecisionTable, collective: Collective, promises: Promises
    ) -> None:
        one_rule = frozenset(Collective) - frozenset(UNITS)
        space = plan.functions.space
        super().__init__(
            Release(MPICH, space, one_rule=one_rule),
            ", because only one rule for all message sizes is safe for this collective",
            promises,
        )
        self.plan, self.table, self.collective = plan, table, collective
        self.notes = plan.notes

    def tree(self) -> Tree:
        of = self.collective
        sizes = {size for c, size in self.table.rules if c is of}
        sizes |= {shape.nprocs for c, shape in self.table.by_layout if c is of}
        steps: list[tuple[str, Tree]] = []
        last = 0
        for size in sorted(size for size in sizes if size > 1):
            if size - 1 > last:
                steps.append((f"comm_size<={size - 1}", DEFAULT))
            steps.append((f"comm_size<={size}", self.size_tree(size)))
            last = size
        return chain(*steps, ("comm_size=any", DEFAULT))

    def size_tree(self, size: int) -> Tree:
        everywhere = self.sized(size, None, self.table.rules.get((self.collective, size), ()))
        shapes = [s for c, s in self.table.by_layout if c is self.collective and s.nprocs == size]
        steps: list[tuple[str, Tree]] = []
        last = 0
        for shape in sorted(shapes, key=lambda shape: shape.ppn):
            steps += [(key, everywhere) for key in self.between(last, shape)]
            intervals = self.table.by_layout[self.collective, shape]
            steps.append((f"comm_avg_ppn<={shape.ppn}", self.sized(size, shape, intervals)))
            last = shape.ppn
        return chain(*steps, ("comm_size=any", everywhere))

    def between(self, last: int, shape: Shape) -> Iterator[str]:
        """Yield the test for layouts with more than `last` and fewer processes per node."""
        size, functions = shape.nprocs, self.plan.functions
        most = (size - 1) // last if last else size
        uneven = range(shape.nodes + 1, most + 1)
        if not uneven:
            return
        if not functions.few_tests:
            yield f"comm_avg_ppn<{shape.ppn}"
            return
        if shape.ppn - 1 > last:
            yield f"comm_avg_ppn<={shape.ppn - 1}"
        possible = (nodes for nodes in uneven if nodes <= self.table.shape.nodes)
        if any(size > (shape.ppn - 1) * nodes for nodes in possible):
            self.note(
                size,
                f"{TITLE} {functions.release} also uses this for uneven layouts, as if they were "
                f"{shape}",
            )

    def sized(self, size: int, layout: Shape | None, intervals: tuple[Interval, ...]) -> Tree:
        """Return the tree for the message sizes of communicators of one size."""
        if not intervals:
            return DEFAULT
        rules = self.entry(self.collective, layout or size, intervals).rules
        if len(rules) == 1:
            return self.choice(rules[0])
        unit = UNITS[self.collective]
        scale = size_of(Call(self.collective, size, 1), unit)
        tests: list[tuple[str, Tree]] = []
        for rule in rules[:-1]:
            last, tree = rule.last, self.choice(rule)
            if last * scale > LARGEST:
                most = LARGEST // scale
                self.note(size, f"sizes above {most} bytes are left to the library")
                tests.append((f"{unit}<={most * scale}", tree))
                return chain(*tests, (f"{unit}=any", DEFAULT))
            tests.append((f"{unit}<={last * scale}", tree))
        return chain(*tests, (f"{unit}=any", self.choice(rules[-1])))

    def refusal(self, on: int | Shape, interval: Interval) -> tuple[str, int]:
        found = self.bound.runs(interval.configuration, on, self.promises)
        if found.first_bytes is None:
            return found.reason, 0
        # what an algorithm needs of a call is asked for in the tree
        space = self.plan.functions.space
        spelled = space.canonical(interval.configuration)
        if Limit.ELEMENT_PER_POWER_OF_TWO in space.algorithm_of(spelled).limits:
            # asked for at each call, since it counts elements
            return "", 0
        if interval.last_bytes is not None and found.first_bytes > interval.last_bytes:
            return found.reason, 0
        return "", found.first_bytes

    def choice(self, rule: Rule) -> Tree:
        chosen = rule.configuration
        if chosen is None or chosen.is_default:
            return DEFAULT
        return guarded(self.plan.functions, chosen)

    def note(self, size: int, text: str) -> None:
        """Keep a note on communicators of `size`, once."""
        full = f"{self.collective} on {size} processes: {text}"
        if full not in self.notes:
            self.notes.append(full)
