"""MPICH's selection file as a format: recognised, parsed, written, converted, put into effect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.file_format import Format, Written, absolute_path, text_at
from colltune.mpi.mpich import environment as variables
from colltune.mpi.mpich import tree_lint as lint
from colltune.mpi.mpich.functions import functions_of
from colltune.mpi.mpich.library import LIBRARY, TITLE
from colltune.mpi.mpich.tree import (
    DEFAULT,
    NOTHING,
    Branch,
    Known,
    Leaf,
    Test,
    Tree,
    cut,
    leaves,
    merged,
    rendered,
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
from colltune.mpi.mpich.tree_writer import (
    DEVICE,
    Plan,
    device_trees,
    plan_of,
    unwrapped,
    wrapped,
)
from colltune.mpi.mpich.variables import ParsedVariables
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import Finding, Rules, Severity
from colltune.mpi.running import Promises

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
        return plan_of(table, release, Promises(programs, self)).written(NAME)

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
