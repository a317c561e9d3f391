"""What programs find in their environment that a shell starts; nothing of its script is run.

tree-sitter's grammar of bash tells the parts of a script. What it sets holds for the programs that
it starts with a launcher; a script that starts none is read to its end, as one that others source.
Only settings that are not under a condition, and that depend on nothing but the script, are known.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from colltune.process import LAUNCHERS

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True)
class Assigned:
    """A variable of the environment with its value and line; ``unknown`` says what it hangs on."""

    name: str
    value: str
    line: int
    unknown: str = ""


@dataclass
class Script:
    """What the programs of a script find in their environment.

    ``found`` are the settings that reach one of them, in the order of the script, ``replaced``
    those that another one replaces before any program starts, each with that one. ``hidden`` are
    set, but not exported. ``others`` are the lines that set nothing, ``launches`` those of the
    launchers' commands, and ``cut`` those where a shell ends a value at a ``;``. ``sourced`` are
    lines and names of files that the script reads, ``written`` those and texts that it puts into
    other files. ``sets`` tells that a line sets, unsets or
    starts something.
    """

    found: list[Assigned] = field(default_factory=list)
    replaced: list[tuple[Assigned, Assigned]] = field(default_factory=list)
    hidden: list[Assigned] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    launches: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    sourced: list[tuple[int, str]] = field(default_factory=list)
    written: list[tuple[int, str]] = field(default_factory=list)
    sets: bool = False

    @property
    def known(self) -> list[Assigned]:
        return [each for each in self.found if not each.unknown]


Environment = dict[str, Assigned]
ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<more>\+?)=(?P<value>.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_LAUNCHER = re.compile(rf"(?:{LAUNCHERS})(?:[._-][\w.-]*)?")
_CONTAINER = re.compile(r"(?:SINGULARITYENV|APPTAINERENV)_")
_SPLIT = re.compile(
    r"\$(?P<braced>\{)?(?P<name>[A-Za-z_]\w*)(?(braced)(?:\[[@*]\])?\})"
    r"|\"\$\{(?P<array>[A-Za-z_]\w*)\[@\]\}\""
)
_BROKEN_WORD = re.compile(r"(?<=[^\s\\])\\\n(?=[^\s])")
_RUNS_ITS_INPUT = re.compile(r"(?:(?:ba|da|k|z)?sh|sbatch|qsub|bsub|flux\s+batch|ssh)\b(?!.*\|)")
_NUMBERS = re.compile(r"\d[\d:,@-]*")
_MOST_DEPTH, _MOST_CALLS, _LONGEST = 200, 500, 4096
GAP, _BLANK = "\ufffc", "\ufff9"
"""Stand in values for what is not known, and for a blank inside of an array's element."""


@dataclass(frozen=True)
class Word:
    """A word of a command, and what its value hangs on, if not all of that is known."""

    text: str
    unknown: str = ""


# ---- what a shell does ----


_ABOUT_PROGRAMS = frozenset(
    {"echo", "printf", "module", "ml", "which", "type", "ls", "cat", "grep", "rm", "cp", "alias"}
    | {"hash", "spack", "conda", "pip", "sed", "awk", "test", "[", "export", "unalias", "killall"}
)


@dataclass
class Reader:
    """The state of a shell: its environment and variables, as far as the script has been read."""

    exported: Environment = field(default_factory=dict)
    own: Environment = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    all_exported: bool = False
    seen: list[Environment] = field(default_factory=list)
    programs: list[Environment] = field(default_factory=list)
    reached: set[Assigned] = field(default_factory=set)
    probing: bool = False
    calls: int = 0
    script: Script = field(default_factory=Script)
    pending: list[tuple[Assigned, Assigned]] = field(default_factory=list)
    depth: int = 0
    first_line: int = 1
    joined: list[int] = field(default_factory=list)
    setting_lines: set[int] = field(default_factory=set)
    quiet_lines: set[int] = field(default_factory=set)

    # -- the environment --

    def export(self, each: Assigned) -> None:
        self.setting_lines.add(each.line)
        self.own.pop(each.name, None)
        before = self.exported.get(each.name)
        if before is not None and before not in self.reached:
            self.pending.append((before, each))
        self.exported[each.name] = each

    def assign(self, each: Assigned) -> None:
        """Set a variable as ``NAME=value`` does, which is exported if it was before."""
        if self.all_exported or each.name in self.exported:
            self.export(each)
        else:
            self.own[each.name] = each
            self.quiet_lines.add(each.line)

    def unset(self, name: str, line: int) -> None:
        self.setting_lines.add(line)
        self.own.pop(name, None)
        self.exported.pop(name, None)

    def launched(self, environment: Environment, line: int, *, by_launcher: bool) -> None:
        """Take what a program finds: an MPI program, or one that may be."""
        if by_launcher:
            self.script.launches.append(line)
            self.reached.update(environment.values())
        (self.seen if by_launcher else self.programs).append(environment)
        self.setting_lines.add(line)

    def handed_on(self) -> None:
        """Take what is set by a file that is in effect as it stands."""
        for each in [*self.exported.values()][:1]:
            self.launched(dict(self.exported), each.line, by_launcher=True)

    def line_of(self, node: Node) -> int:
        row = node.start_point[0]
        return self.first_line + row + bisect_left(self.joined, row)

    def value_of(self, name: str) -> Word:
        known = self.exported.get(name) or self.own.get(name)
        if known is None:
            return Word(GAP, f"${name}")
        return Word(known.value, f"${name}" if known.unknown else "")

    def under_condition(self, walk: Callable[[], None], line: int) -> None:
        """Walk through what may run or not: what it leaves set is not known behind it."""
        before, own = dict(self.exported), dict(self.own)
        walk()
        self.merge(before, own, f"the condition on line {line}")

    def merge(self, exported: Environment, own: Environment, why: str) -> None:
        """Know of a state before, and of this one, what both have."""
        self.exported = _merged(exported, self.exported, why)
        self.own = _merged(own, self.own, why)

    def apart(self, walk: Callable[[], None]) -> None:
        """Walk through a process of its own, which leaves nothing set behind it."""
        before, own = dict(self.exported), dict(self.own)
        walk()
        self.exported, self.own = before, own

    def ended(self) -> Script:
        """Return what was found."""
        script = self.script
        if not self.seen:
            self._uncalled()
        environments = self.seen or [*self.programs, self.exported]
        found = dict.fromkeys(each for seen in environments for each in seen.values())
        inside = dict.fromkeys(_inside(each) for each in found)
        script.found = sorted(inside, key=lambda each: each.line)
        script.replaced = [pair for pair in self.pending if pair[0] not in found]
        script.hidden = [each for each in self.own.values() if each not in found]
        script.sets = bool(self.setting_lines)
        lines = (self.quiet_lines | set(script.others)) - self.setting_lines
        script.others = sorted(lines - {each.line for each in script.hidden})
        return script

    def _uncalled(self) -> None:
        """Walk through the functions of a script that others source and that are left to them."""
        for name, body in list(self.functions.items()):
            if name not in self.called:
                exported, own = dict(self.exported), dict(self.own)
                self.walk(body)
                self.merge(exported, own, f"a call of {name}")

    # -- POSIX shells --

    def read_shell(self, text: str, first_line: int = 1) -> None:
        """Read a script, with words in one piece that go on in the next line."""
        parts = _BROKEN_WORD.split(text)
        rows = accumulate(part.count("\n") for part in parts[:-1])
        self.first_line, self.joined = first_line, [*rows]
        self.walk(parsed("".join(parts)))

    def walk(self, node: Node) -> None:  # noqa: C901, PLR0912
        """Go through the statements below `node` in order."""
        if self.depth > _MOST_DEPTH:
            return
        self.depth += 1
        line = self.line_of(node)
        match node.type:
            case "comment" | "heredoc_body":
                pass
            case "heredoc_redirect":
                self._here_document(node)
            case "variable_assignment":
                if (each := self._assignment(node)) is not None:
                    self.assign(each)
            case "declaration_command":
                self._declaration(node)
            case "unset_command":
                for child in node.named_children:
                    self.unset(_text(child), line)
            case "command":
                self._command_node(node)
            case "test_command":
                self.script.others.append(line)
            case "subshell" | "command_substitution":
                self.apart(lambda: self._children(node))
            case "pipeline":
                for child in node.named_children:
                    self.apart(partial(self.walk, child))
            case "function_definition":
                called, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if called is not None and body is not None:
                    self.functions[_text(called)] = body
                self.script.others.append(line)
            case "list":
                self._list(node)
            case "if_statement" | "case_statement":
                self._branches(node)
            case "for_statement" | "c_style_for_statement" | "while_statement":
                self._loop(node)
            case _:
                self._children(node)
        self.depth -= 1

    def _here_document(self, node: Node) -> None:
        """Walk through a script that a shell or a batch system gets; another file gets others."""
        body = next((c for c in node.named_children if c.type == "heredoc_body"), None)
        if body is None or node.parent is None:
            return
        line = self.line_of(body)
        if _RUNS_ITS_INPUT.match(_text(node.parent)):
            place = self.first_line, self.joined
            self.apart(partial(self.read_shell, _text(body), line))
            self.first_line, self.joined = place
        else:
            self.script.written.append((line, _text(body)))

    def _children(self, node: Node) -> None:
        for child in node.named_children:
            self.walk(child)

    def _list(self, node: Node) -> None:
        """Walk through ``a && b`` and ``a || b``: b runs if a ends well, which commands do."""
        first, *rest = node.named_children
        self.walk(first)
        operators = [c.type for c in node.children if not c.is_named]
        for operator, child in zip(operators, rest, strict=False):
            certain = operator == "&&" and not _is_test(first)
            if certain:
                self.walk(child)
            else:
                line = self.line_of(child)
                self.under_condition(partial(self.walk, child), line)

    def _branches(self, node: Node) -> None:
        """Walk through the branches of a condition, each from the state before it."""
        line = self.line_of(node)
        self.script.others.append(line)
        condition = node.child_by_field_name("condition") or node.child_by_field_name("value")
        if condition is not None and condition.type not in ("word", "string"):
            self.walk(condition)
        before, own = dict(self.exported), dict(self.own)
        after: list[tuple[Environment, Environment]] = []
        parts = [c for c in node.named_children if c != condition]
        clauses = ("else_clause", "elif_clause", "case_item")
        main = [c for c in parts if c.type not in clauses]
        for branch in [main, *([c] for c in parts if c.type in clauses)]:
            self.exported, self.own = dict(before), dict(own)
            for child in branch:
                self._children(child) if child.type in clauses else self.walk(child)
            after.append((self.exported, self.own))
        if not any(c.type == "else_clause" for c in parts):
            after.append((before, own))
        (self.exported, self.own), *others = after
        for state in others:
            before, own = self.exported, self.own
            self.exported, self.own = state
            self.merge(before, own, f"the condition on line {line}")

    def _loop(self, node: Node) -> None:
        """Walk through the body of a loop, at whose begin what it changes is not known."""
        line = self.line_of(node)
        self.script.others.append(line)
        variable = node.child_by_field_name("variable")
        own, exported = dict(self.own), dict(self.exported)
        if variable is not None:
            name = _text(variable)
            own[name] = Assigned(name, GAP, line, f"${name}")
        body = node.child_by_field_name("body") or node
        if not self.probing:
            self._probe(body, own, exported)
            self.merge(exported, own, f"the loop on line {line}")
        else:
            self.own, self.exported = own, exported
        self._children(body)
        if variable is not None:
            self.own.pop(_text(variable), None)

    def _probe(self, body: Node, own: Environment, exported: Environment) -> None:
        """Walk through the body of a loop once, to find what it changes, and forget the rest."""
        state = (self.seen, self.programs, self.pending, self.reached, self.calls)
        launches = list(self.script.launches)
        self.seen, self.programs, self.pending, self.reached = [], [], [], set()
        self.own, self.exported, self.probing = dict(own), dict(exported), True
        self._children(body)
        self.seen, self.programs, self.pending, self.reached, self.calls = state
        self.script.launches, self.probing = launches, False

    def _assignment(self, node: Node) -> Assigned | None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name" or not name.text:
            return None
        word, blank = Word("") if value is None else self.word(value), ""
        if value is not None and value.type == "array":
            words = [
                replace(word, text=word.text.replace(" ", _BLANK))
                for child in value.named_children
                for word in self._words(child)
            ]
            word, blank = _joined(words, " "), " "
        if node.children[1].type == "+=":
            word = _joined([self.value_of(_text(name)), word], blank)
        return Assigned(_text(name), word.text, self.line_of(node), word.unknown)

    def _declaration(self, node: Node) -> None:
        verb, line = node.children[0].type, self.line_of(node)
        flags = "".join(_text(c) for c in node.named_children if c.type == "word" and c.text)
        exports = verb == "export" and "n" not in flags
        exports |= verb in ("declare", "typeset") and "x" in flags
        for child in node.named_children:
            if child.type == "variable_assignment":
                each = self._assignment(child)
                if each is not None:
                    (self.export if exports else self.assign)(each)
            elif child.type == "variable_name" and child.text:
                name = _text(child)
                if verb == "export" and "n" in flags and name in self.exported:
                    self.own[name] = self.exported.pop(name)
                elif exports and name in self.own:
                    self.export(replace(self.own[name], line=self.own[name].line))
                self.setting_lines.add(line)

    def _command_node(self, node: Node) -> None:
        line = self.line_of(node)
        prefix = [
            each
            for c in node.children
            if c.type == "variable_assignment"
            if (each := self._assignment(c)) is not None
        ]
        words = list[Word]()
        for child in node.named_children:
            if child.type == "command_name":
                words += self._words(child.named_children[0])
            elif child.type not in ("variable_assignment", "file_redirect", "herestring_redirect"):
                words += self._words(child)
        self.command(words, line, prefix)

    def _words(self, node: Node) -> list[Word]:
        """Return the words that one of the script becomes: a variable's value may be several."""
        match = _SPLIT.fullmatch(_text(node))
        name = match and (match["name"] or match["array"])
        known = self.exported.get(name or "") or self.own.get(name or "")
        if known is None:
            return [self.word(node)]
        return [
            Word(
                each.replace(_BLANK, " "),
                known.unknown if GAP in each else f"${known.name}" * ("*" in each),
            )
            for each in known.value.split()
        ]

    def word(self, node: Node) -> Word:
        """Return the value of a word, as far as the script alone tells it."""
        text, found = _text(node), Word(GAP, _text(node)[:40])
        match node.type:
            case "raw_string":
                found = Word(text[1:-1])
            case "ansi_c_string" if "\\" not in text:
                found = Word(text[2:-1])
            case "string":
                found = self._string(node)
            case "concatenation" | "command_name":
                found = _joined([self.word(child) for child in node.children])
            case "simple_expansion" | "expansion":
                known = self._expansion(text)
                if not re.search(r"[\s*?\[]", known.text):
                    found = known
            case "word" if text.startswith("~"):
                pass
            case _ if not node.children and not text.startswith(("$", "`")):
                found = Word(re.sub(r"\\(.)", r"\1", text.replace("\\\n", "")))
        return found

    def _expansion(self, text: str) -> Word:
        name = text.removeprefix("$").removeprefix("{").removesuffix("}")
        return self.value_of(name) if _NAME.fullmatch(name) else Word(GAP, text[:40])

    def _string(self, node: Node) -> Word:
        """Return what stands between double quotes, with the blanks between its parts."""
        data, found = node.text or b"", list[Word]()
        at = 1
        for child in node.named_children:
            begin, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
            if child.type != "string_content":
                found.append(_quoted(data[at:begin]))
                expands = child.type in ("simple_expansion", "expansion")
                found.append(self._expansion(_text(child)) if expands else self.word(child))
                at = end
        return _joined([*found, _quoted(data[at:-1])])

    # -- commands of any shell --

    def command(self, words: Sequence[Word], line: int, prefix: Sequence[Assigned] = ()) -> None:
        """Take a command: a builtin that sets variables, or a program that finds them."""
        name = words[0].text.rpartition("/")[2] if words else ""
        arguments = words[1:]
        if name in ("setenv", "pushenv", "unsetenv") and arguments:
            self._setenv(arguments, line, unset=name == "unsetenv")
        elif name == "set":
            self._set(arguments, words, line, prefix)
        elif name == "read":
            for variable in filter(_NAME.fullmatch, (word.text for word in arguments)):
                self.assign(Assigned(variable, GAP, line, f"${variable}"))
        elif name in ("source", ".") and arguments:
            file = arguments[0].text.replace(GAP, arguments[0].unknown)
            if not file.startswith("/etc/"):
                self.script.sourced.append((line, file))
        elif _NUMBERS.fullmatch(name):
            self.script.cut.append(line)
        elif name in self.functions and self.calls < _MOST_CALLS:
            self._call(name, line)
        else:
            self._program(words, line, prefix)

    def _setenv(self, arguments: Sequence[Word], line: int, *, unset: bool) -> None:
        if unset:
            for word in arguments:
                self.unset(word.text, line)
        else:
            value = arguments[1] if len(arguments) > 1 else Word("")
            self.export(Assigned(arguments[0].text, value.text, line, value.unknown))

    def _set(
        self,
        arguments: Sequence[Word],
        words: Sequence[Word],
        line: int,
        prefix: Sequence[Assigned],
    ) -> None:
        """Take a shell's option that exports all that is assigned, or csh's assignment."""
        if {word.text for word in arguments} & {"-a", "allexport", "+a"}:
            self.all_exported = not any(word.text.startswith("+") for word in arguments)
            self.quiet_lines.add(line)
        elif "=" in (whole := _joined(arguments)).text:
            variable, _, text = whole.text.partition("=")
            self.own[variable] = Assigned(variable, text, line, whole.unknown)
            self.quiet_lines.add(line)
        else:
            self._program(words, line, prefix)

    def _call(self, name: str, line: int) -> None:
        self.script.others.append(line)
        self.calls += 1
        self.called.add(name)
        # none that calls itself
        body = self.functions.pop(name)
        self.walk(body)
        self.functions.setdefault(name, body)

    def _program(self, words: Sequence[Word], line: int, prefix: Sequence[Assigned]) -> None:
        environment = self.exported | {each.name: each for each in prefix}
        asks = bool(words) and words[0].text.rpartition("/")[2] in _ABOUT_PROGRAMS
        for at, word in enumerate(() if asks else words):
            base = word.text.rpartition("/")[2]
            if base == "env":
                environment = _by_env(environment, words[at + 1 :], line)
            of_flux = base in _FLUX and at > 0 and words[at - 1].text in ("flux", "mini")
            if of_flux or _LAUNCHER.fullmatch(base):
                environment = _by_launcher(environment, words[at + 1 :], line)
                self.launched(environment, line, by_launcher=True)
                return
        if environment != self.exported:
            self.launched(environment, line, by_launcher=False)
        else:
            self.script.others.append(line)


# ---- launchers, and others that hand variables on ----

_MCA = "OMPI_MCA_"


def variable_of(parameter: str) -> str:
    """Return the variable that sets a parameter of a launcher's command line or file."""
    return f"{_MCA}{parameter}"


def parameter_of(variable: str) -> str:
    """Return what a launcher's command line calls a variable."""
    return variable.removeprefix(_MCA)


_MCA_OPTIONS = frozenset(
    f"{dash}{scope}mca" for dash in ("-", "--") for scope in ("", "g", "o", "go")
)
_FLUX = frozenset({"run", "submit", "exec", "alloc"})
_PAIRS = frozenset({"-genv", "--genv", "-env", "--env"})
_WITH_SIGN = frozenset({"-x", "--x", "-e", "-E", *_PAIRS})
_WITH_PATH = re.compile(
    r"-{1,2}(?:prefix|host-?file|machine-?file|f|rankfile|rf|wd|wdir|chdir|D|app"
    r"|configfile|tune|am|output-filename|output|error|input|o|e|i|path|preload-files|mpi-prefix"
    r"|pmixmca|launch-agent|personality|report-pid|report-uri|ompi-server|dvm-uri|node-?list)"
)
_WITHOUT_VALUE = re.compile(
    r"-{1,2}(?:oversubscribe|report-bindings|display-\w+|allow-run-as-root|verbose|v|V|quiet|q"
    r"|nooversubscribe|tag-output|timestamp-output|exclusive|l|label|u|unbuffered|overlap"
    r"|multi-prog|use-hwthread-cpus|bynode|byslot|bycore|genvall|genvnone|envall|envnone|K|O|s"
    r"|pernode|bind-to-core|enable-recovery|mem_bind|print-rank-map|prepend-rank|get-stack-traces)"
)


def _by_env(environment: Environment, words: Sequence[Word], line: int) -> Environment:
    """Return what ``env`` makes of an environment: its options, then assignments."""
    found, rest = dict(environment), list(words)
    while rest:
        word = rest.pop(0)
        if word.text in ("-i", "-", "--ignore-environment"):
            found = {}
        elif word.text in ("-u", "--unset") and rest:
            found.pop(rest.pop(0).text, None)
        elif word.text.startswith("--unset="):
            found.pop(word.text.partition("=")[2], None)
        elif match := ASSIGNMENT.fullmatch(word.text):
            found[match["name"]] = Assigned(match["name"], match["value"], line, word.unknown)
        elif not word.text.startswith("-"):
            break
    return found


def _by_launcher(environment: Environment, words: Sequence[Word], line: int) -> Environment:
    """Return what a launcher with these words hands to its programs."""
    found = dict(environment)
    # the option whose value comes next, if any does
    rest, option = [part for word in words for part in _apart(word)], ""
    while rest:
        word = rest.pop(0)
        text, after = word.text.replace(GAP, ""), rest[0].text if rest else ""
        if text in _MCA_OPTIONS and len(rest) > 1:
            _put(found, variable_of(after), rest[1], line)
            del rest[:2]
        elif text in _WITH_SIGN and "=" in after:
            _put_pair(found, rest.pop(0), line)
        elif text in _PAIRS and len(rest) > 1:
            _put(found, after, rest[1], line)
            del rest[:2]
        elif text in ("-genvnone", "-envnone"):
            found = {}
        elif text == "--export" and rest:
            found = _exported(found, rest.pop(0), line)
        elif text.startswith("-") or word.unknown:
            takes = text.startswith("-") and "=" not in text and not _WITHOUT_VALUE.fullmatch(text)
            option = text * takes
            continue
        elif text == ":" or (
            option and (_WITH_PATH.fullmatch(option) or not text.startswith(("./", "/")))
        ):
            pass
        else:
            # the program: what follows are its own words
            if text.rpartition("/")[2] == "env":
                found = _by_env(found, rest, line)
            separator = next((at for at, each in enumerate(rest) if each.text == ":"), len(rest))
            del rest[:separator]
        option = ""
    return found


def _apart(word: Word) -> list[Word]:
    """Return an option and the environment that it hands on as two words."""
    option, sign, value = word.text.partition("=")
    if sign and option in ("--env", "--export"):
        return [Word(option), replace(word, text=value)]
    return [word]


def _put(found: Environment, name: str, value: Word, line: int) -> None:
    name = name.replace(GAP, "")
    if _NAME.fullmatch(name):
        found[name] = Assigned(name, value.text, line, value.unknown)


def _put_pair(found: Environment, word: Word, line: int) -> None:
    name, _, value = word.text.partition("=")
    _put(found, name, replace(word, text=value), line)


def _exported(environment: Environment, value: Word, line: int) -> Environment:
    """Return what Slurm's ``--export`` hands on: ``ALL``, ``NONE``, names and assignments."""
    parts = value.text.split(",")
    found = dict(environment) if "ALL" in parts else {}
    for part in parts:
        if "=" in part:
            _put_pair(found, Word(part, value.unknown if GAP in part else ""), line)
        elif part in environment:
            found[part] = environment[part]
    return found


# ---- states, words ----


def _merged(one: Environment, other: Environment, why: str) -> Environment:
    """Return what is known where either of two states holds."""
    found = {}
    for name in [*one, *(name for name in other if name not in one)]:
        first, second = one.get(name), other.get(name)
        if first is not None and second is not None and first.value == second.value:
            found[name] = second if second.unknown else first
        else:
            known = second if first is None or (second and second != first) else first
            assert known is not None
            value = _either("" if first is None else first.value, known.value)
            found[name] = replace(known, value=value, unknown=known.unknown or why)
    return found


def _either(one: str, other: str) -> str:
    """Return the words of two values, with a gap in those that only one of them has."""
    first, second = one.split(), other.split()
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )
    apart = [f"{word.replace(GAP, '')}{GAP}" for word in (*first[same:], *second[same:])]
    return " ".join([*first[:same], *apart])[:_LONGEST]


def _is_test(node: Node) -> bool:
    text = (node.text or b"").lstrip()
    return (
        node.type == "test_command"
        or text.startswith((b"[", b"test ", b"!", b"(("))
        or any(_is_test(child) for child in node.named_children if node.type == "list")
    )


def _inside(each: Assigned) -> Assigned:
    """Return a variable by its name inside a container, with the value if that is known."""
    name = _CONTAINER.sub("", each.name, count=1)
    return replace(each, name=name, value="" if each.unknown else each.value)


def _joined(words: Sequence[Word], blank: str = "") -> Word:
    unknown = next((word.unknown for word in words if word.unknown), "")
    return Word(blank.join(word.text for word in words), unknown)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", errors="surrogateescape")


def _quoted(data: bytes) -> Word:
    """Return what a part of a string between double quotes means."""
    text = data.decode("utf-8", errors="surrogateescape").replace("\\\n", "")
    return Word(re.sub(r'\\([$`"\\])', r"\1", text))


def parsed(text: str) -> Node:
    return _parser().parse(text.encode("utf-8", errors="surrogateescape")).root_node


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
