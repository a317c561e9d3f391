"""The variables that manifests set: Kubernetes', charts', compose's, CIME's, and Python's.

They are apart from other files of jobs since few have one, and the parser of YAML takes time to
load.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial

from yaml import CSafeLoader, MappingNode, Node, ScalarNode, SequenceNode, YAMLError, compose_all

from colltune.errors import say
from colltune.mpi.shell import ASSIGNMENT, GAP, Assigned, Reader, Word

_COMMANDS = ("command", "args", "entrypoint")
_VARIABLE = re.compile(r"[A-Z][A-Za-z0-9]*_\w+")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
_OPENS = re.compile(r"\{[{%]-?\s*(?:if|range|with|for)\b")
_CLOSES = re.compile(r"\{[{%]-?\s*(?:end|endif|endfor)\b")
_ELEMENT = re.compile(
    r"<(?P<block>machine|environment_variables)\b(?P<where>[^>]*)>"
    r"|<env name=\"(?P<name>\w+)\"\s*>(?P<value>[^<]*)</env>"
)


def read_yaml(reader: Reader, text: str) -> None:
    """Read a manifest in YAML, of Kubernetes, of a chart, of compose: what each container finds."""
    lines, conditions = [], list[int]()
    templated = set[int]()
    for number, line in enumerate(text.split("\n")):
        conditions += [number] * len(_OPENS.findall(line))
        templated.update([number] * bool(conditions))
        del conditions[len(conditions) - len(_CLOSES.findall(line)) :]
        bare = _TEMPLATE.sub(GAP, line)
        lines.append("" if bare.strip() == GAP else bare)
    try:
        for document in compose_all("\n".join(lines), CSafeLoader):
            _Manifest(reader, templated).walk(document)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        why = getattr(error, "problem", error)
        raise say("not-parsed", where=where, what="YAML", why=why) from error


@dataclass(frozen=True)
class _Manifest:
    """What is read of a manifest: its variables hold for what stands beside and below them."""

    reader: Reader
    templated: Container[int]

    def walk(self, node: Node | None) -> None:
        """Take the variables and the commands below `node`."""
        if isinstance(node, MappingNode):
            self.reader.apart(partial(self._mapping, node))
        elif isinstance(node, SequenceNode):
            for child in node.value:
                self.walk(child)
        elif node is not None and "\n" in node.value.strip():
            self.reader.read_shell(node.value, node.start_mark.line + 2)

    def _mapping(self, node: MappingNode) -> None:
        reader = self.reader
        launched = len(reader.seen)
        found = [*self._keys(node), *(each for _, child in node.value for each in self._set(child))]
        for each in found:
            reader.export(each)
        words = [w for key, child in node.value if key.value in _COMMANDS for w in _scalars(child)]
        command = [Word(word.value, self._unknown(word)) for word in words]
        if command and len(words) == 3 and re.fullmatch("-[a-z]*c", command[1].text):
            self.walk(words[2])
        elif command:
            reader.command(command, words[0].start_mark.line + 1)
        for key, child in node.value:
            if key.value not in _COMMANDS:
                self.walk(child)
        if found and len(reader.seen) == launched:
            reader.launched(dict(reader.exported), found[0].line, by_launcher=True)

    def _keys(self, node: MappingNode) -> Iterator[Assigned]:
        """Yield the variables that are keys of a mapping themselves."""
        for key, value in node.value:
            if isinstance(value, ScalarNode) and _VARIABLE.fullmatch(key.value):
                yield Assigned(key.value, value.value, _line(key), self._unknown(value))

    def _set(self, node: Node) -> Iterator[Assigned]:
        """Yield what a list sets, of names with values or of ``NAME=value``."""
        children = node.value if isinstance(node, SequenceNode) else []
        for child in children:
            if isinstance(child, MappingNode):
                pair = {key.value: value for key, value in child.value}
                name, value = pair.get("name"), pair.get("value") or pair.get("valueFrom")
                if name is not None and value is not None and _VARIABLE.fullmatch(name.value):
                    text = value.value if isinstance(value, ScalarNode) else GAP
                    yield Assigned(name.value, text, _line(name), self._unknown(value))
        matches = [ASSIGNMENT.fullmatch(each.value) for each in _scalars(node)]
        for child, match in zip(children, matches, strict=False):
            if match and all(matches):
                yield Assigned(match["name"], match["value"], _line(child), self._unknown(child))

    def _unknown(self, node: Node) -> str:
        """Return what the value of a node hangs on."""
        if not isinstance(node, ScalarNode):
            return "what valueFrom names"
        if GAP in node.value or node.start_mark.line in self.templated:
            return "the template"
        return node.value[:40] if "$" in node.value else ""


def _scalars(node: Node) -> list[ScalarNode]:
    return (
        [node]
        if isinstance(node, ScalarNode)
        else [each for each in node.value if isinstance(each, ScalarNode)]
    )


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def read_xml(reader: Reader, text: str) -> None:
    """Read CIME's description of machines: variables by machine, compiler and MPI library."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    elements = [*_ELEMENT.finditer(text)]
    several = sum(each["block"] == "machine" for each in elements) > 1
    where = dict.fromkeys(("machine", "environment_variables"), "")
    for each in elements:
        if block := each["block"]:
            where[block] = each["where"].strip() * (several or block != "machine")
            continue
        name, value = each["name"], each["value"].strip()
        unknown = " ".join(filter(None, where.values())) or value * ("$" in value)
        line = text.count("\n", 0, each.start()) + 1
        found = {name: Assigned(name, value, line, unknown)}
        reader.launched(found, line, by_launcher=True)


def read_python(reader: Reader, text: str) -> None:
    """Read what a recipe of EasyBuild or another file in Python sets, in dictionaries and calls."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise say("not-parsed", where="", what="Python", why=error) from error
    pairs: list[tuple[ast.AST | None, ast.AST]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Dict():
                pairs += zip(node.keys, node.values, strict=True)
            case ast.Assign(targets=[ast.Subscript(slice=key)], value=value):
                pairs.append((key, value))
            case ast.Call(args=[key, value]):
                pairs.append((key, value))
    for name, given in pairs:
        if isinstance(name, ast.Constant) and _VARIABLE.fullmatch(str(name.value)):
            known = isinstance(given, ast.Constant)
            found = str(given.value) if isinstance(given, ast.Constant) else GAP
            unknown = "" if known else ast.unparse(given)[:40]
            reader.export(Assigned(str(name.value), found, name.lineno, unknown))
    reader.handed_on()


READERS = {"yaml": read_yaml, "python": read_python, None: read_xml}
