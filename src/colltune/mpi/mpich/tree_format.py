"""MPICH's selection file as a format: recognised, parsed, written, converted, put into effect.

What is written is always complete for the release: two files, since MPICH searches two trees. The
device's (ch4), which takes a communicator apart by nodes, goes first, and the one for algorithms is
asked for what is left. So the device's tree gets ends without any function exactly where the table
chooses: there MPICH runs the chosen algorithm on the communicator as a whole, as when it was
measured. Everywhere else, and on the parts that the device and the library itself make of
communicators, both trees say what the library's own say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError, say
from colltune.mpi.catalogue import Limit
from colltune.mpi.choosing import Chooser
from colltune.mpi.file_format import Format, Written, absolute_path, text_at
from colltune.mpi.mpich import environment as variables
from colltune.mpi.mpich import tree_lint as lint
from colltune.mpi.mpich.functions import Functions, functions_of
from colltune.mpi.mpich.library import LIBRARY, MPICH, TITLE
from colltune.mpi.mpich.tree import (
    DEFAULT,
    LARGEST,
    NOTHING,
    UNITS,
    Branch,
    Known,
    Leaf,
    Test,
    Tree,
    chain,
    cut,
    leaves,
    merged,
    rendered,
    size_of,
    test,
    with_leaves,
)
from colltune.mpi.mpich.tree_file import (
    NAME,
    DeviceTree,
    ParsedTree,
    collective_trees,
    is_of_device,
    read,
)
from colltune.mpi.mpich.variables import ParsedVariables
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Programs
from colltune.mpi.release import Release
from colltune.mpi.rules import Call, Finding, Rule, Rules, Severity
from colltune.mpi.running import Promises, RunningRange

DEVICE = ".ch4"
"""End of the name of the file for the device's tree."""
_ANY_PPN = "comm_avg_ppn<=16384"
_NOT_FOR_ALL = frozenset(
    {Limit.POWER_OF_TWO_PROCESSES, Limit.ELEMENT_PER_POWER_OF_TWO, Limit.EQUAL_COUNTS}
)
_LOOKS = re.compile(r'"\s*(?:collective\s*=|algorithm\s*=|comm_type\s*=)')
_RENAMED = {
    "MPIR_Barrier_intra_dissemination": ("MPIR_Barrier_intra_k_dissemination", (("k", "2"),)),
    "MPIR_Barrier_intra_k_dissemination": ("MPIR_Barrier_intra_dissemination", ()),
}
_MOST_RADIX_OF_BARRIER = 8
_COLLECTIVE = re.compile(r'\s*"collective=(\w+)"')


class MpichJson(Format):
    name = NAME
    library = LIBRARY
    title = "MPICH's selection tree (JSON)"
    knows_layout = True

    def limit(self, release: str, configuration: Configuration) -> str:
        barrier = configuration.collective is Collective.BARRIER
        radix = configuration.numbers.get("fanout", 0) if barrier else 0
        if configuration.algorithm == "recexch" and radix > _MOST_RADIX_OF_BARRIER:
            return f"{configuration.id} needs more than a tree can express"
        return super().limit(release, configuration)

    def recognises(self, text: str) -> bool:
        """Tell whether there is an object with keys of a selection tree."""
        return text.lstrip().startswith(("{", "/")) and _LOOKS.search(text) is not None

    def parse(self, text: str, source: str, release: str) -> ParsedTree:
        kind = DeviceTree if is_of_device(text) else ParsedTree
        return kind(release, source, read(text, source, release))

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParsedTree)
        return lint.lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return the complete tree, and the device's beside it.

        What an algorithm needs of a call is asked for in the tree.
        """
        return plan_of(
            table, release, Promises(programs, self, one_node=table.shape.nodes == 1)
        ).written(NAME)

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return a file's tree for another release, or a list of variables as a tree."""
        if isinstance(parsed, ParsedVariables):
            plan = Plan(functions_of(release))
            for configuration, line in parsed.choices(plan.notes):
                plan.choose_everywhere(configuration, line)
            return plan.written(NAME)
        if not isinstance(parsed, ParsedTree):
            raise say("not-a-format-of", file=parsed.source, format=parsed.format, title=TITLE)
        if isinstance(parsed, DeviceTree):
            return _of_device(parsed, release)
        if parsed.reading.fatal:
            raise say("ends-the-program", file=parsed.source, fatal=parsed.reading.fatal)
        trees = collective_trees(parsed.tree)
        if trees is None:
            raise say("tests-above-collectives", file=parsed.source)
        return _Conversion(parsed, release).written(trees)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables that name the files.

        Without a file for the device, neither told nor found beside the main one, its own
        collectives are switched off: otherwise they would go first, and this tree would be asked
        for their parts only.
        """
        self.catalogue_of(release)
        for path in paths.values():
            absolute_path(path, "a selection file")
        if (text := text_at(paths[""])) is not None and is_of_device(text):
            named = self.parse(text, paths[""], release)
            assert isinstance(named, DeviceTree)
            return {named.variable: paths[""]}
        found = {variables.TREE_FILE: paths[""]}
        beside = paths.get(DEVICE, f"{paths['']}{DEVICE}")
        if DEVICE in paths or Path(beside).is_file():
            return found | {variables.DEVICE_FILE: beside}
        return found | {variables.DEVICE: "none"}


def _of_device(parsed: DeviceTree, release: str) -> Written:
    """Return a tree of the device's layer for another release, without what that does not have."""
    lost = {
        leaf.function: leaf.line
        for _, leaf in leaves(parsed.tree)
        if leaf.function not in functions_of(release).of_device
    }
    trees = collective_trees(parsed.tree) or {}
    kept = {
        name: tree
        for name, tree in trees.items()
        if not any(leaf.function in lost for _, leaf in leaves(tree))
    }
    notes = [
        f"line {line}: {function} is left out with its collective: {TITLE} {release} has none"
        for function, line in lost.items()
    ]
    return Written(NAME, release, {"": rendered(kept)}, tuple(notes))


class _Conversion:
    """Rewrites the trees of one file for another release."""

    def __init__(self, parsed: ParsedTree, release: str) -> None:
        self.parsed, self.functions = parsed, functions_of(release)
        self.whose = f"{TITLE} {release}"
        self.notes: list[str] = []

    def written(self, trees: dict[str, Tree]) -> Written:
        own, release = self.functions.own_trees, self.functions.release
        missing = [name for name in own if name not in trees]
        if missing:
            self.note(0, f"no {', '.join(missing)}: filled with {TITLE}'s own decisions")
        found = {name: self.tree(trees[name]) if name in trees else own[name] for name in own}
        if self.parsed.is_ours:
            found = {name: merged(cut(tree, Known())) for name, tree in found.items()}
        for name, why in self.harmful(rendered(found)).items():
            found[name] = own[name]
            self.note(0, f"{name}: left to the library, because the file's {why}")
        texts = {"": rendered(found)}
        if any(leaf.left_to_library for tree in found.values() for _, leaf in leaves(tree)):
            asked = {name: _chosen(tree) for name, tree in found.items()}
            texts[DEVICE] = rendered(device_trees(self.functions, asked))
        return Written(NAME, release, texts, tuple(self.notes))

    def harmful(self, text: str) -> dict[str, str]:
        """Return the collectives whose tree would break programs, and how."""
        release, source = self.functions.release, "the converted file"
        findings = lint.lint(ParsedTree(release, source, read(text, source, release)))
        wrong = {each.line: each.message for each in findings if each.severity is Severity.ERROR}
        found: dict[str, str] = {}
        name = ""
        for line, content in enumerate(text.splitlines(), start=1):
            top = _COLLECTIVE.match(content)
            name = top[1] if top else name
            if line in wrong and name:
                found.setdefault(name, wrong[line])
        return found

    def tree(self, tree: Tree) -> Tree:
        if isinstance(tree, Leaf):
            return self.leaf(tree)
        inner = unwrapped(tree) if self.parsed.is_ours else None
        if inner is not None:
            rest = self.tree(tree.tests[-1][1] if tree.tests[-1][1] != inner else tree.tests[0][1])
            again = wrapped(self.tree(inner), self.functions)
            return with_leaves(again, lambda leaf: rest if leaf == DEFAULT else leaf)
        return Branch(tuple((self.test(found), self.tree(then)) for found, then in tree.tests))

    def test(self, found: Test) -> Test:
        few = self.functions.few_tests
        if few and found.name == "comm_avg_ppn" and found.relation == "<":
            self.note(found.line, f"{self.whose} does not know {found.key!r} and takes it for <=")
            return replace(test(f"comm_avg_ppn<={(found.number or 1) - 1}"), line=found.line)
        if few and found.is_any:
            return Test("comm_size", "=", "any", found.line)
        split = found.name == "comm_hierarchy" and found.value in ("node", "node_roots", "flat")
        if split and not self.functions.knows_parts:
            self.note(
                found.line,
                f"from 5.0 on {found.key!r} holds for all communicators that are not parents",
            )
        return found

    def leaf(self, leaf: Leaf) -> Tree:
        names = self.functions.all
        if leaf.function in names:
            return leaf
        renamed, parameters = _RENAMED.get(leaf.function, ("", ()))
        if renamed in names:
            if not leaf.left_to_library:
                self.note(leaf.line, f"{leaf.function} is {renamed} in {self.whose}")
            return replace(leaf, function=renamed, parameters=parameters)
        self.note(leaf.line, f"{self.whose} has no {leaf.function}; left to the library")
        collective, _, word = leaf.function.removeprefix("MPIR_").partition("_int")
        own = self.functions.own_trees.get(collective.lower(), NOTHING)
        if isinstance(own, Leaf):
            return own
        parts = {found.key: then for found, then in own.tests}
        return parts.get(f"comm_type=int{word.partition('_')[0]}", own)

    def note(self, line: int, text: str) -> None:
        """Keep a note with the line it is about."""
        full = f"line {line}: {text}" if line else text
        if full not in self.notes:
            self.notes.append(full)


def _chosen(tree: Tree) -> Tree:
    """Return where a tree chooses, with `DEFAULT` where it leaves it to the library."""
    if isinstance(tree, Branch) and tree.tests[0][0].key == "comm_type=intra":
        tree = tree.tests[0][1]
    inner = unwrapped(tree)
    tree = tree if inner is None else inner
    return merged(with_leaves(tree, lambda leaf: DEFAULT if leaf.left_to_library else NOTHING))


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

    def runs(self, on: int | Shape, interval: Interval) -> RunningRange:
        found = super().runs(on, interval)
        if found.first_bytes is None:
            return found
        # what an algorithm needs of a call is asked for in the tree
        space = self.plan.functions.space
        spelled = space.canonical(interval.configuration)
        if Limit.ELEMENT_PER_POWER_OF_TWO in space.algorithm_of(spelled).limits:
            # asked for at each call, since it counts elements
            return replace(found, first_bytes=0)
        return found

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
