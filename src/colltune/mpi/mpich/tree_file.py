"""What one release makes of a selection file: rules, findings, and what runs for a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.file_format import Call, Outcome, Rule
from colltune.mpi.mpich import environment as variables
from colltune.mpi.mpich.facts import Facts, Found, msize_after, search
from colltune.mpi.mpich.functions import configuration_of, functions_of, running_as
from colltune.mpi.mpich.releases import LIBRARY, TITLE
from colltune.mpi.mpich.tree import LARGEST, Branch, Leaf, Test, Tree, leaves
from colltune.mpi.mpich.tree_reader import Reading, read

NAME = "mpich-json"
_MOST_POWERS = 21
_WIDEST_GAP = 4096
_COLLECTIVES = {str(collective): collective for collective in Collective}


@lru_cache(maxsize=4)
def _tree_in(path: str, _changed_ns: int, release: str) -> Tree:
    """Return the tree in a file; it is asked for with every call, and read once."""
    text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    return read(text, path, release).tree


@dataclass(frozen=True, eq=False)
class ParsedTree:
    """A selection file; see `colltune.mpi.file_format.ParsedFile`."""

    release: str
    source: str
    reading: Reading

    format = NAME
    dropped = ""
    """MPICH drops no file: it takes it, or aborts."""

    @property
    def tree(self) -> Tree:
        return self.reading.tree

    @property
    def is_ours(self) -> bool:
        """Whether leaves say that the library would have chosen them by itself."""
        return any(leaf.left_to_library for _, leaf in leaves(self.tree))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All leaves of collectives that can be chosen for, in the order of the file."""
        found = []
        for path, leaf in leaves(self.tree):
            collective = _collective(path)
            inter = "comm_type=inter" in {t.key for t in path}
            if leaf.function and collective is not None and not inter:
                found.append(self.rule(collective, path, leaf))
        return tuple(found)

    def rule(self, collective: Collective, path: tuple[Test, ...], leaf: Leaf) -> Rule:
        text = " / ".join([*(found.key for found in path), f"algorithm={leaf.function}"])
        return Rule(leaf.line, text, collective, self.named(collective, leaf))

    def named(self, collective: Collective, leaf: Leaf) -> Configuration | None:
        if leaf.left_to_library:
            return Configuration.default(LIBRARY, collective)
        if leaf.function not in functions_of(self.release).by_collective[str(collective)]:
            return None
        return configuration_of(self.release, collective, leaf)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`.

        Without an `environment` the tree is asked for the communicator as a whole, as the two files
        that colltune writes, or the device switched off, make sure.
        """
        found = search(self.tree, Facts(call), self.release, str(call.collective))
        inside = self.of_tree(call, found)
        if environment is None:
            return inside
        default = Configuration.default(LIBRARY, call.collective)
        if variables.value_of(environment, variables.TREE_FILE) is None:
            why = f"{variables.TREE_FILE} is not set: {TITLE} reads no file."
            return Outcome(default, None, (why,), inside.chosen)
        error = variables.unknown_choice(self.release, environment)
        if error:
            return Outcome(default, None, (error,), inside.chosen, ends_program=error)
        return inside if self.reading.fatal else self.in_job(call, environment, inside)

    def in_job(self, call: Call, environment: Mapping[str, str], inside: Outcome) -> Outcome:
        """Return what runs in a job that reads the tree: device, variables, tree, in this order."""
        reasons: list[str] = []
        component = self.device(call, environment, reasons)
        if component:
            default = Configuration.default(LIBRARY, call.collective)
            return Outcome(default, inside.rule, tuple(reasons), inside.chosen, component)
        chosen = variables.forced(self.release, call.collective, environment)
        if chosen is not None:
            why = variables.why_unusable(self.release, chosen.function, call)
            outcome = self.of_variable(call, chosen, why, environment, inside, reasons)
            if outcome is not None:
                return outcome
        return replace(inside, reasons=(*reasons, *inside.reasons))

    def of_variable(
        self,
        call: Call,
        chosen: variables.Forced,
        why: str,
        environment: Mapping[str, str],
        inside: Outcome,
        reasons: list[str],
    ) -> Outcome | None:
        """Return what runs by a variable, which goes before the tree; None if the tree is asked."""
        default = Configuration.default(LIBRARY, call.collective)
        said = f"{chosen.variable}={chosen.value}"
        if not why:
            reasons.append(f"{said} goes before the tree.")
            ends = variables.ends_inside(chosen.function, call)
            configuration = chosen.configuration or default
            return Outcome(configuration, None, tuple(reasons), inside.chosen, ends_program=ends)
        if variables.fallback(environment) == "error":
            ends = f"{said} cannot run ({why}), and {variables.FALLBACK}=error"
            return Outcome(default, None, (*reasons, ends), inside.chosen, ends_program=ends)
        reasons.append(f"{said} cannot run ({why}), so the tree is asked.")
        return None

    def device(self, call: Call, environment: Mapping[str, str], reasons: list[str]) -> str:
        """Return which composition of the device runs in place of the tree; empty if none."""
        path = variables.value_of(environment, variables.DEVICE_FILE)
        tree: Tree | None = None
        if path is not None and variables.device_tree_is_asked(self.release, call, environment):
            try:
                tree = _tree_in(path, Path(path).stat().st_mtime_ns, self.release)
            except (OSError, LibraryError, ValueError):
                reasons.append(
                    f"{path} cannot be read here; it is taken to leave this to the tree."
                )
                return ""
        name = variables.device_goes_first(self.release, call, environment, tree)
        if not name:
            return ""
        reasons.append(f"The device goes first: {name} takes the communicator apart by nodes.")
        return f"ch4 {name}"

    def of_tree(self, call: Call, found: Found) -> Outcome:
        default = Configuration.default(LIBRARY, call.collective)
        tests = " / ".join(t.key for t in found.path) or "the root"
        ends = self.reading.fatal
        if found.leaf is None:
            if found.undefined is not None:
                why = f"line {found.undefined.line}: {found.undefined.name} is not defined for it"
            else:
                why = f"no leaf below {tests}"
            ends = ends or f"{call.collective}: {why}, so that the call ends the program"
            return Outcome(default, None, (ends,), default, ends_program=ends)
        leaf = found.leaf
        rule = self.rule(call.collective, found.path, leaf)
        chosen = rule.configuration or default
        reasons = [f"All tests on the way to {leaf.function} on line {leaf.line} hold."]
        if leaf.left_to_library:
            reasons.append(f"{TITLE}'s own tree would say so, too.")
        wrong = leaf.function not in functions_of(self.release).by_collective[str(call.collective)]
        if wrong or "_inter_" in leaf.function:
            ends = ends or f"line {leaf.line}: {leaf.function} cannot run {call.collective} here"
        runs = running_as(self.release, chosen, call.comm_size, call.msize_bytes)
        if runs != chosen:
            reasons.append(f"{chosen.id} runs as {runs.id}: there is one segment only.")
        return Outcome(runs, rule, tuple(reasons), chosen, ends_program=ends)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return the communicator sizes from which on another decision may hold, ascending.

        Where a choice holds for several sizes, all of them are told, since bounds that count the
        bytes of all processes move with each of them.
        """
        found: set[int] = set()
        for path, tree in _trees_of(self.tree, collective):
            low, high = 1, LARGEST
            for test in path:
                if test.name == "comm_size" and test.number is not None:
                    high = min(high, test.number)
            found |= set(_sizes(tree, low, high))
        return tuple(sorted(found))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        after = (msize_after(t, collective, comm_size) for t in self.sizes.get(collective, ()))
        return tuple(sorted({0, *(size for size in after if size is not None)}))

    @cached_property
    def sizes(self) -> dict[Collective, frozenset[Test]]:
        """The tests of the message's size that stand for each collective."""
        found: dict[Collective, set[Test]] = {}
        for path, _ in leaves(self.tree):
            collective = _collective(path)
            if collective is not None:
                found.setdefault(collective, set()).update(t for t in path if t.is_size)
        return {collective: frozenset(tests) for collective, tests in found.items()}


def collective_trees(tree: Tree) -> dict[str, Tree] | None:
    """Return the trees of the collectives; None where other tests stand before them."""
    if not isinstance(tree, Branch) or any(found.name != "collective" for found, _ in tree.tests):
        return None
    return {found.value: then for found, then in tree.tests}


def _collective(path: tuple[Test, ...]) -> Collective | None:
    name = next((found.value for found in path if found.name == "collective"), "")
    return _COLLECTIVES.get(name)


def _trees_of(tree: Tree, collective: Collective) -> Iterator[tuple[tuple[Test, ...], Tree]]:
    """Yield the trees of a collective with the tests that lead to them."""
    if isinstance(tree, Leaf):
        return
    for found, then in tree.tests:
        if found.name == "collective":
            if found.value == collective:
                yield (), then
        elif found.key != "comm_type=inter":
            for path, below in _trees_of(then, collective):
                yield (found, *path), below


def _sizes(tree: Tree, low: int, high: int) -> Iterator[int]:
    """Yield the communicator sizes between two at which something else may hold."""
    if low > high:
        return
    if all(leaf.left_to_library for _, leaf in leaves(tree)):
        yield low
        return
    if isinstance(tree, Leaf):
        yield from range(low, high + 1) if high - low < _WIDEST_GAP else (low,)
        return
    for found, then in tree.tests:
        if found.name == "comm_size" and found.number is not None:
            bound = found.number
            yield from _sizes(then, low, min(bound, high))
            if found.relation == "<":
                yield max(low, bound)
            low = max(low, bound + 1)
            continue
        if found.key == "comm_size=pow2":
            powers = (1 << exponent for exponent in range(_MOST_POWERS))
            yield from (n for power in powers for n in (power, power + 1) if low <= n <= high)
        if found.key != "comm_type=inter":
            yield from _sizes(then, low, high)
