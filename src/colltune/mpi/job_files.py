"""The files that set variables for jobs, each read into the state of one shell.

They are scripts of POSIX shells and csh, Lmod's and Tcl's module files, Dockerfiles, lists of
``NAME=value``, and manifests in YAML. Nothing of them is ever run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import pairwise

from colltune.mpi.shell import ASSIGNMENT, GAP, Assigned, Environment, Reader, Script, Word, parsed

_DIRECTIVE = re.compile(
    r"#(?:(?:SBATCH|PBS|\$|BSUB|COBALT|PJM|OAR)\s|\s*(?i:flux):)\s*(?P<options>.*)"
)
_HANDING = frozenset({"--export", "--env", "-env", "-v", "-x"})
_CSH = re.compile(r"(?m)\A#!.*\bt?csh\b|^[ \t]*(?:setenv|unsetenv|pushenv)[ \t]+[A-Za-z_]")
_EXPORT = re.compile(r"(?m)\A#!.*/(?:ba|da|k|z)?sh\b|^[ \t]*export[ \t]")
DOCKERFILE = re.compile(r"(?:\s|#.*\n|(?i:ARG) .*\n)*+(?i:FROM)[ \t]+\S")
_INSTRUCTION = re.compile(r"(?m)^[ \t]*(?P<verb>[A-Za-z]+)[ \t]+(?P<rest>(?:.*\\\n)*.*)$")
_YAML = r"(?:\s*\n|#(?!!).*\n|---.*\n|%YAML.*\n|\{\{.*\n)*+(?:- *)?[a-z][\w.-]*:(?:\s|$)"
_PYTHON = (
    r"#!.*\bpython|(?:\s|#(?!!).*\n)*+(?:(?:easyblock|name) = |import \w+(?:\s*\n|,)"
    r"|from [\w.]+ import )"
)
MANIFEST = re.compile(rf"(?P<yaml>{_YAML})|(?P<python>{_PYTHON})|\s*<(?:\?xml|machine|config_)")
_LUA = re.compile(
    r"(?m)^[ \t]*(?P<verb>setenv|pushenv|unsetenv)[ \t]*\([ \t]*(?P<words>.*?)\)"
    r"[ \t]*;?[ \t]*(?:--.*)?$"
)
_LUA_WORD = re.compile(r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<other>[^,]+))\s*,?""")
_LIST = re.compile(r"[ \t]*(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*(?P<value>.*?)[ \t\r]*")


# several verbs and formats ask for the same text
@lru_cache(maxsize=4)
def read_script(text: str) -> Script:
    """Return what the script `text` sets for the programs that it starts."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    reader = Reader()
    for number, options in _directives(text):
        for each in _handed(options, number):
            reader.export(each)
    if kind := MANIFEST.match(text):
        from colltune.mpi.manifests import READERS

        READERS[kind.lastgroup](reader, text)
    elif (listed := _listed(text)) is not None:
        for each, is_cut in listed:
            reader.export(each)
            reader.script.cut += [each.line] * is_cut
    elif DOCKERFILE.match(text):
        _read_dockerfile(reader, text)
    elif _LUA.search(text):
        _read_lua(reader, text)
    elif _CSH.search(text) and not _EXPORT.search(text):
        _read_csh(reader, text)
    else:
        reader.read_shell(text)
    return reader.ended()


def has_directives(text: str) -> bool:
    """Tell whether `text` has lines for a batch system, as only a job script has."""
    return next(_directives(text), None) is not None


def _directives(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#") and (directive := _DIRECTIVE.match(line)):
            yield number, directive["options"]


def _handed(options: str, line: int) -> Iterator[Assigned]:
    """Yield what the options of a batch system's line set: ``--export=A=1``, ``-v A=1,B=2``."""
    try:
        words = shlex.split(options, comments=True)
    except ValueError:
        return
    for option, after in pairwise([*words, ""]):
        name, _, given = option.partition("=")
        value = (given or after) if name in _HANDING else ""
        for part in re.split(r"[,:]\s*(?=[A-Za-z_]\w*=)|,", value):
            if match := ASSIGNMENT.fullmatch(part):
                yield Assigned(match["name"], match["value"], line)


def _read_csh(reader: Reader, text: str) -> None:
    """Read a script of csh, or a module file in Tcl: its commands are those of bash, by lines."""
    conditions = list[tuple[int, Environment, Environment]]()
    for line, bare in _csh_lines(reader, text):
        reader.first_line = line
        if re.match(r"if\b.*(?:\bthen|\{)$", bare):
            conditions.append((line, dict(reader.exported), dict(reader.own)))
        elif bare in ("endif", "}") and conditions:
            begun, exported, own = conditions.pop()
            reader.merge(exported, own, f"the condition on line {begun}")
        elif loop := re.match(r"foreach\s+(\w+)", bare):
            reader.own[loop[1]] = Assigned(loop[1], GAP, line, f"${loop[1]}")
        elif re.match(r"(?:else|end|while|switch|case|breaksw)\b|\}", bare) is None:
            single = re.match(r"if\s*\(.*?\)\s+(?=\w+env\b)", bare)
            rest = bare[single.end() :] if single else bare
            walk = partial(reader.walk, parsed(rest))
            if single:
                reader.under_condition(walk, line)
            else:
                walk()
            continue
        reader.script.others.append(line)


def _csh_lines(reader: Reader, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without comments and here-documents."""
    number, document, end = 1, list[str](), ""
    for raw in re.sub(r"\\\n", "\x00", text).split("\n"):
        line, number = number, number + 1 + raw.count("\x00")
        bare = raw.replace("\x00", " ").strip()
        if end:
            document.append(bare)
            if bare == end:
                reader.script.written.append((line - len(document), "\n".join(document)))
                document, end = [], ""
        elif not bare.startswith("#"):
            if begun := re.search(r"<<\s*['\"]?(\w+)['\"]?\s*$", bare):
                bare, end = bare[: begun.start()], begun[1]
            yield line, bare


def _read_dockerfile(reader: Reader, text: str) -> None:
    """Read what an image sets for all programs in it: the ``ENV`` lines of its last stage."""
    for match in _INSTRUCTION.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        verb, rest = match["verb"].upper(), match["rest"]
        if verb == "FROM":
            reader.exported.clear()
        if verb != "ENV":
            reader.script.others.append(line)
            continue
        if not ASSIGNMENT.match(rest):
            name, _, value = rest.partition(" ")
            rest = f"{name}={shlex.quote(value.strip())}"
        reader.read_shell(f"export {rest}", line)
    reader.handed_on()


def _read_lua(reader: Reader, text: str) -> None:
    """Read a module file of Lmod: the calls that set variables; others are passed over."""
    calls = {text.count("\n", 0, m.start("verb")) + 1: m for m in _LUA.finditer(text)}
    begun = list[int]()
    for number, line in enumerate(text.split("\n"), 1):
        match = calls.get(number)
        if re.match(r"[ \t]*(?:if|for|while)\b(?!.*\bend\b)", line):
            begun.append(number)
        elif re.match(r"[ \t]*end\b", line) and begun:
            begun.pop()
        if match is None:
            if line.strip() and not line.lstrip().startswith("--"):
                reader.script.others.append(number)
            continue
        words = [_lua_word(each) for each in _LUA_WORD.finditer(match["words"])]
        call = partial(reader.command, [Word(match["verb"]), *words], number)
        if begun:
            reader.under_condition(call, begun[-1])
        else:
            call()


def _lua_word(match: re.Match[str]) -> Word:
    if match["other"] is None:
        return Word(match["double"] if match["double"] is not None else match["single"])
    text = match["other"].strip()
    return Word(text) if re.fullmatch(r"[\d.]+", text) else Word(GAP, text[:40])


def _listed(text: str) -> list[tuple[Assigned, bool]] | None:
    """Return the variables of a list of ``NAME=value`` lines; None if it is a script.

    Each comes with whether a shell would end its value at a ``;`` without quotes.

    Shells read such a list, and so do programs that know nothing of quotes: where a line is more
    than an assignment to a shell, all that follows the sign is the value.
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            if line.startswith("#!") or _DIRECTIVE.match(line):
                return None
            continue
        match = _LIST.fullmatch(line)
        if match is None or re.search(r"[$`\\]|&&|\|\||;\s*\w+=|\s[a-z./]", match["value"]):
            return None
        value = _plain(match["value"])
        is_cut = f"={value}" in line and ";" in value.rstrip(";")
        found.append((Assigned(match["name"], value, number), is_cut))
    return found or None


def _plain(value: str) -> str:
    try:
        words = shlex.split(value, comments=True, posix=True)
    except ValueError:
        return value
    return words[0] if len(words) == 1 else "" if not words else value
