"""Settings out of Open MPI's parameter files, ``--tune`` files and listings of an environment.

The library's lexer (``keyval_lex.l``) takes ``name = value`` up to the end of the line, and ``--mca
name value`` and ``-x NAME=VALUE``, several to a line, with a value up to the next blank unless it
is quoted; of three values of a line in equal quotes the first one swallows the second. Comments
begin a line with ``#`` or ``//``, or stand between ``/*`` and ``*/``. The files that parameters
name are followed: rules of coll/tuned and coll/han, and further parameter files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from colltune.errors import ColltuneError, LibraryError, say
from colltune.mpi.file_format import Format
from colltune.mpi.formats import FORMATS, read_text
from colltune.mpi.job_files import read_script
from colltune.mpi.job_variables import is_script, notes_on
from colltune.mpi.openmpi.mca import HAN_RULES_FILE, PARAMETER_FILES, PREFIX, RULES_FILE
from colltune.mpi.rules import Fault, Finding, Rules, Severity
from colltune.mpi.shell import Script


class Kind(StrEnum):
    """How a setting is written."""

    ASSIGNED = "name = value"
    OPTION = "--mca name value"
    SINGLE_DASH = "-mca name value"
    EXPORTED = "-x NAME=VALUE"
    VARIABLE = "export OMPI_MCA_name=value"


@dataclass(frozen=True)
class Setting:
    """A parameter, by its name without prefix, with its value and line.

    ``rest`` is what stands behind a value and is not part of it. A variable that is no parameter
    is ``foreign``, and has no name.
    """

    name: str
    value: str
    line: int
    kind: Kind
    rest: str = ""
    foreign: str = ""

    @property
    def variable(self) -> str:
        """The variable of the environment that sets it."""
        return self.foreign or f"{PREFIX}{self.name}"

    @property
    def text(self) -> str:
        return f"{self.name}={self.value}"


@dataclass
class Settings:
    """All settings of a file in their order, and the lines that are none.

    Those of a ``script`` are the ones that the programs find that it starts.
    """

    found: list[Setting] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)
    script: Script | None = None


_BLOCK_COMMENT = re.compile(r"^[ \t]*/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE)
_ASSIGNED = re.compile(r"([A-Za-z0-9_.\-\[\]/\\\"~+]+)[ \t]*=[ \t]*(.*)")
_OPTION = re.compile(
    r"[ \t]*(?:(?P<dash>--?)o?mca[ \t]+(?P<name>[^ \t=]+)[ \t]+"
    # a quotation goes on to the last mark of its kind that another option follows
    r"(?P<value>'.*'(?=[ \t]+-)|\".*\"(?=[ \t]+-)|'[^']*'|\"[^\"]*\"|[^ \t]+)"
    r"|--?x[ \t]+(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?:[ \t]*=[ \t]*(?P<exported>[^ \t]*))?)"
)
_LONGEST_LINE = 100_000


def read(text: str) -> Settings:
    """Return what a parameter file or a job script sets."""
    if not is_script(text):
        return read_parameters(text)
    script = read_script(text)
    found = [
        Setting(each.name.removeprefix(PREFIX), each.value, each.line, Kind.VARIABLE)
        for each in script.known
        if each.name.startswith(PREFIX)
    ]
    return Settings(found, script=script)


def read_parameters(text: str) -> Settings:
    """Return what Open MPI's own reader of parameter files finds."""
    settings = Settings()
    plain = _BLOCK_COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text.removeprefix("\ufeff"))
    for number, line in enumerate(plain.split("\n"), start=1):
        stripped = line.strip(" \t\f\v")
        if not stripped.strip() or stripped.startswith(("#", "//")):
            continue
        found = list(_of_line(stripped[:_LONGEST_LINE], number))
        settings.found += found
        if not found:
            settings.others.append((number, stripped))
    return settings


def _of_line(line: str, number: int) -> Iterator[Setting]:
    if line.startswith("-"):
        yield from _options(line, number)
        return
    assigned = _ASSIGNED.fullmatch(line)
    if assigned is not None:
        yield Setting(assigned[1], assigned[2], number, Kind.ASSIGNED)


def _options(line: str, number: int) -> Iterator[Setting]:
    """Yield the options of a line; what follows the last one is its rest."""
    at, found = 0, list[Setting]()
    while match := _OPTION.match(line, at):
        at = match.end()
        if match["name"]:
            kind = Kind.OPTION if match["dash"] == "--" else Kind.SINGLE_DASH
            found.append(Setting(match["name"], _unquoted(match["value"]), number, kind))
        elif match["variable"].startswith(PREFIX) and match["exported"] is not None:
            name = match["variable"].removeprefix(PREFIX)
            found.append(Setting(name, match["exported"], number, Kind.EXPORTED))
        else:
            value, foreign = match["exported"], match["variable"]
            known = foreign if value is not None else ""
            found.append(Setting("", value or foreign, number, Kind.EXPORTED, foreign=known))
    rest = line[at:].strip()
    if found and rest:
        last = found.pop()
        found.append(Setting(last.name, last.value, number, last.kind, rest))
    yield from found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def read_variables(text: str, source: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables that a job script or a parameter file sets, and what it does not tell.

    A script may be one of a shell, of csh or of modules, or a list of ``NAME=value`` lines.
    Parameters get the prefix ``OMPI_MCA_``. The last of equal names counts.

    Raises
    ------
    LibraryError
        If a line of a parameter file sets nothing, or no line of a script does anything.
    """
    if not is_script(text):
        settings = read_parameters(text)
        if settings.others:
            raise _sets_nothing(source, *settings.others[0])
        own = (each for each in settings.found if each.foreign or each.name)
        return {each.variable: each.value for each in own}, ()
    script = read_script(text)
    if not script.sets and not text.startswith("#!"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                raise _sets_nothing(source, number, line)
    notes = tuple(f"{source}:{line}: {note}" for line, note in notes_on(script))
    return {each.name: each.value for each in script.known}, notes


def _sets_nothing(source: str, number: int, line: str) -> ColltuneError:
    return say("sets-nothing", file=source, line=number, told=line.strip()[:60])


RULES = {RULES_FILE: "tuned", HAN_RULES_FILE: "han"}
_MOST_FILES = 100


@dataclass
class Followed:
    """What is in effect at last.

    ``settings`` are those of the file and of the parameter files that it names, the weakest first;
    ``own`` those of the file itself; ``parsed`` the rules files, by ``tuned`` and ``han``;
    ``findings`` tell what is wrong with the files that are named, at the line where they are.
    """

    settings: list[Setting] = field(default_factory=list)
    own: list[Setting] = field(default_factory=list)
    parsed: dict[str, Rules] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def follow(settings: list[Setting], source: str, release: str) -> Followed:
    """Return what `settings` of the file `source` name, taken from the folder of that file."""
    followed = Followed(own=settings)
    walker = _Walker(followed)
    walker.parameters(settings, Path(source), 0)
    last = {setting.name: setting for setting in followed.settings}
    for name, which in RULES.items():
        setting = last.get(name)
        if setting is not None and setting.value:
            line = setting.line if setting in settings else 0
            path = Path(source).parent / setting.value
            text = walker.text(path, line)
            if text is not None:
                known = _rules_format(which, text)
                followed.parsed[which] = parsed = known.parse(text, str(path), release)
                followed.findings += (
                    Finding(line, f.fault, f"{setting.value}:{f.line}: {f.message}", f.mend)
                    for f in known.lint(parsed)
                    if f.severity is not Severity.NOTE
                )
    return followed


class _Walker:
    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.open: list[Path] = []
        self.files = 0

    def parameters(self, settings: list[Setting], source: Path, at: int) -> None:
        """Add what `settings` name, then themselves, which go before; `at` is the line to blame."""
        self.open.append(_real(source))
        for setting in settings:
            if setting.name in PARAMETER_FILES:
                for name in filter(None, (n.strip() for n in setting.value.split(","))):
                    self._include(name, source, at or setting.line)
        self.open.pop()
        self.followed.settings += settings

    def _include(self, name: str, source: Path, line: int) -> None:
        path = source.parent / name
        if _real(path) in self.open:
            message = f"{name} names itself, through the files that it names"
            self._malformed(line, message, "remove one of the names")
            return
        self.files += 1
        if self.files == _MOST_FILES + 1:
            message = f"more than {_MOST_FILES} parameter files are named"
            self._malformed(line, message, "put the parameters into one file")
        text = self.text(path, line) if self.files <= _MOST_FILES else None
        if text is not None:
            self.parameters(read_parameters(text).found, path, line)

    def text(self, path: Path, line: int) -> str | None:
        try:
            return read_text(path)
        except (LibraryError, ValueError) as error:
            message = f"{error}; the library ignores it without a message"[:1000]
            mend = "name a file that can be read"
            self.followed.findings.append(Finding(line, Fault.FILE_DROPPED, message, mend))
            return None

    def _malformed(self, line: int, message: str, mend: str) -> None:
        self.followed.findings.append(Finding(line, Fault.MALFORMED, message, mend))


def _rules_format(which: str, text: str) -> Format:
    if which == "han":
        return FORMATS["openmpi-han"]
    json = FORMATS["openmpi-json"]
    return json if json.recognises(text) else FORMATS["openmpi-classic"]


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()
