"""The job file, all that a job is told about one release of an MPI library, and the job's folder.

The service writes it; `colltune env` and the hooks (``job_file.awk``, which checks the same) read
it. A shell can split it.

Format history
--------------
1. Lines of a word and a rest: ``colltune-job 1`` first; ``bundle ID``; ``library NAME RELEASE``;
   ``user PATTERN`` for the variables by which users decide themselves, ``harmless PATTERN`` for
   those among them that decide nothing (patterns of a shell's ``case``); then for each shape a
   ``shape NODESxPPN`` with ``file PATH LINES`` (path below the job's folder, then so many lines
   verbatim) and ``set NAME=VALUE``, or nothing where all is left to the library; ``end`` last,
   without which the file is not whole.
2. As 1, with a line ``arm tuned|candidate|control`` after that of the bundle, where the request
   named a job. For ``control`` nothing is set for any shape.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path, PurePath
from typing import NamedTuple

from colltune.domain import Shape
from colltune.errors import ColltuneError, ProgramError, say
from colltune.files import writing
from colltune.files.temporary import sweep, temporary_name
from colltune.mpi import UserPatterns
from colltune.production.arms import Arm
from colltune.selector.configuration import Rendered

VERSION = 2
MAIN = "rules"
"""What the main file of a shape is called."""
LARGEST_BYTES = 4_000_000
VARIABLES = "variables.txt"
"""The file that names what a job may be told, next to the hooks."""
ANY_NUMBER = "#"
_LONGEST_VALUE, _MOST_SET = 4096, 65536
_FIRST = "colltune-job 1"
_WITH_ARM = f"colltune-job {VERSION}"
_ID = re.compile(r"[0-9a-f]{64}")
_PATTERN = re.compile(r"[A-Za-z0-9_*?]+")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NUMBER = re.compile(r"[0-9]{1,9}")
_COUNT = re.compile(r"[0-9]{1,6}")
_VALUE = re.compile(r"[A-Za-z0-9_.,:;@+=/-]*")
_PLAIN = re.compile(r"/[A-Za-z0-9_./+@~%=-]*")
_UNPRINTABLE = re.compile(r"[^\t -~]")


class Settable(NamedTuple):
    """What a job file may set a variable to: the name of a file of its own, or one of `values`.

    ``values`` are those of each part between semicolons, up to its colon; ``#`` is any number.
    """

    names_file: bool
    values: tuple[str, ...] = ()

    def allows(self, value: str) -> bool:
        """Tell whether a variable that names no file may have this value."""
        parts = [part.partition(":")[0] for part in value.split(";")]
        if self.values == (ANY_NUMBER,):
            return all(_NUMBER.fullmatch(part) for part in parts)
        return set(parts) <= set(self.values)


@cache
def settable(library: str) -> Mapping[str, Settable]:
    """Return the variables that a job file may set, and to what."""
    text = (resources.files(__package__) / VARIABLES).read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {
        name: Settable(kind == "file", tuple(values[0].split("|")) if values else ())
        for of, kind, name, *values in lines
        if of == library
    }


class AnswerError(ProgramError):
    """An answer of the service that is not to be used; ``status`` is 0 where there was none."""

    @property
    def status(self) -> int:
        return int(self.values.get("status", 0))


@dataclass(frozen=True)
class JobSection:
    """A job of one shape: its files' texts by name, and the variables that put them into effect."""

    shape: Shape
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobDecisions:
    """The decisions of one bundle for one release of a library; ``arm``: of the job that asked."""

    bundle_id: str
    library: str
    release: str
    patterns: UserPatterns
    sections: tuple[JobSection, ...]
    arm: Arm | None = None


def main_file(folder: str, shape: Shape) -> str:
    """Return the absolute path of the main file of a shape, below a release's folder."""
    return f"{folder.rstrip('/')}/{shape}/{MAIN}"


def section_of(rendered: Rendered, folder: str, libcolltune: str | None = None) -> JobSection:
    """Return what is rendered for files below `folder`; `libcolltune`'s path is for its tables."""
    shape = rendered.table.shape
    variables = rendered.environment(main_file(folder, shape), libcolltune)
    if not variables:
        return JobSection(shape)
    texts = rendered.written.texts.items()
    return JobSection(shape, {f"{MAIN}{end}": text for end, text in texts}, variables)


def text_of(job: JobDecisions) -> str:
    lines = [_WITH_ARM if job.arm else _FIRST, f"bundle {job.bundle_id}"]
    lines += [f"arm {job.arm}"] if job.arm else []
    lines += [f"library {job.library} {job.release}"]
    lines += [f"user {pattern}" for pattern in job.patterns.deciding]
    lines += [f"harmless {pattern}" for pattern in job.patterns.harmless]
    for section in job.sections:
        lines.append(f"shape {section.shape}")
        for name, text in section.files.items():
            content = text.removesuffix("\n").split("\n") if text else []
            lines += [f"file {section.shape}/{name} {len(content)}", *content]
        lines += [f"set {name}={value}" for name, value in section.variables.items()]
    return "\n".join([*lines, "end"]) + "\n"


def parse(
    answer: bytes, library: str, release: str, shapes: Collection[Shape], folder: PurePath
) -> JobDecisions:
    """Return what an answer says for a release, if it says what was asked for and nothing else.

    Nothing in it is trusted; `folder` is the one below which the files will lie, as the service
    was told. Otherwise `AnswerError` names the line.
    """
    if len(answer) > LARGEST_BYTES:
        raise say("wrong-answer", AnswerError, why="more than 4 MB")
    try:
        text = answer.decode("ascii")
    except UnicodeDecodeError:
        raise say("wrong-answer", AnswerError, why="not plain text") from None
    return _JobFileReader(text, library, {str(s): s for s in shapes}, folder).job(release)


class _JobFileReader:
    """One answer, line by line."""

    def __init__(self, text: str, library: str, asked: dict[str, Shape], folder: PurePath) -> None:
        self._lines = text.removesuffix("\n").split("\n")
        self._library, self._asked, self._folder = library, asked, folder
        self._number = 0
        self._bundle_id = ""
        self._arm: Arm | None = None
        self._named = self._ended = False
        self._patterns: dict[str, list[str]] = {"user": [], "harmless": []}
        self._files: dict[str, dict[str, str]] = {}
        self._variables: dict[str, dict[str, str]] = {}
        self._shape = ""

    def job(self, release: str) -> JobDecisions:
        lines = self._numbered()
        first = next(lines, "")
        if first not in (_FIRST, _WITH_ARM):
            raise self._refused(f"this is not a job file of version 1 to {VERSION}")
        for line in lines:
            self._take(line, lines)
        has_arm = self._arm is not None
        if not (self._ended and self._named and self._bundle_id) or has_arm != (first != _FIRST):
            raise self._refused("it is not complete")
        sections = tuple(
            JobSection(self._asked[name], self._files[name], self._variables[name])
            for name in self._files
        )
        patterns = UserPatterns(tuple(self._patterns["user"]), tuple(self._patterns["harmless"]))
        return JobDecisions(self._bundle_id, self._library, release, patterns, sections, self._arm)

    def _numbered(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            self._number = number
            if _UNPRINTABLE.search(line):
                raise self._refused("not plain text")
            if self._ended:
                raise self._refused("text after the end")
            yield line

    def _take(self, line: str, following: Iterator[str]) -> None:
        match line.split():
            case ["bundle", name] if _ID.fullmatch(name) and not self._bundle_id:
                self._bundle_id = name
            case ["arm", arm] if arm in tuple(Arm) and not (self._arm or self._shape):
                self._arm = Arm(arm)
            case ["library", self._library, _] if not self._named:
                self._named = True
            case [("user" | "harmless") as kind, pattern] if (
                _PATTERN.fullmatch(pattern) and not self._shape
            ):
                self._patterns[kind].append(pattern)
            case ["shape", name] if name in self._asked and name not in self._files:
                self._shape = name
                self._files[name], self._variables[name] = {}, {}
            case ["file", name, count] if self._shape:
                self._take_file(name, count, following)
            case ["set", setting] if self._shape:
                self._take_setting(setting)
            case ["end"] if line == "end":
                self._ended = True
            case _:
                raise self._refused("unexpected")

    def _take_file(self, path: str, count: str, following: Iterator[str]) -> None:
        shape, _, name = path.partition("/")
        files = self._files[self._shape]
        good = shape == self._shape and _FILE.fullmatch(name) and ".." not in name
        if not good or name in (*files, "exports") or not _COUNT.fullmatch(count):
            raise self._refused("a file with an unexpected name or length")
        lines = [next(following, None) for _ in range(int(count))]
        if None in lines:
            raise self._refused("it is not complete")
        files[name] = "".join(f"{line}\n" for line in lines)

    def _take_setting(self, setting: str) -> None:
        name, equals, value = setting.partition("=")
        variables = self._variables[self._shape]
        good = _VALUE.fullmatch(value) and ".." not in value and len(value) <= _LONGEST_VALUE
        if not equals or not good or name in variables or self._arm is Arm.CONTROL:
            raise self._refused("a setting of an unexpected form")
        known = settable(self._library).get(name)
        if known is None:
            raise self._refused("a variable that chooses no algorithms")
        here = f"{self._folder / self._shape}/"
        its_files = {f"{here}{file}" for file in self._files[self._shape]}
        if (known.names_file or "/" in value) and value not in its_files:
            raise self._refused("a setting that names another file")
        if not (known.names_file or known.allows(value)):
            raise self._refused("a value that no release is told")
        variables[name] = value
        if sum(len(n) + len(v) + 2 for n, v in variables.items()) > _MOST_SET:
            raise self._refused("more settings than a job's environment should hold")

    def _refused(self, why: str) -> ColltuneError:
        return say("wrong-answer", AnswerError, why=f"line {self._number}: {why}")


def part_name(library: str, release: str) -> str:
    """Return the name of the folder for a release, ``openmpi-4.1.4``."""
    return f"{library}-{release}"


def check_plain(folder: PurePath) -> None:
    """Insist on a path that a shell and MPI libraries take as it is, in variables and lists."""
    if not _PLAIN.fullmatch(str(folder)):
        raise say("not-a-plain-path", path=folder)


def write(part: JobDecisions, job_folder: Path) -> None:
    """Write `part` into a job's folder; what is there already, and the same, stays."""
    check_plain(job_folder)
    folder = job_folder / part_name(part.library, part.release)
    with writing(folder, "Name a writable folder that all nodes see with --folder."):
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        for name, content in (
            ("bundle", part.bundle_id),
            ("deciding", " ".join(part.patterns.deciding or ("*",))),
            ("harmless", " ".join(part.patterns.harmless)),
            *([("arm", part.arm)] if part.arm else []),
        ):
            _put_file(folder / name, f"{content}\n")
        for section in part.sections:
            _put_section(folder / str(section.shape), section)


def _put_file(path: Path, content: str) -> None:
    temporary = temporary_name(path)
    try:
        _write(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            if path.read_text(encoding="utf-8") != content:
                raise _other(path.parent) from None
    finally:
        temporary.unlink(missing_ok=True)


def _put_section(path: Path, section: JobSection) -> None:
    contents = dict(section.files)
    contents["exports"] = "".join(f"{name}={value}\n" for name, value in section.variables.items())
    temporary = temporary_name(path)
    try:
        temporary.mkdir()
        for name, content in contents.items():
            _write(temporary / name, content)
        temporary.rename(path)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        if {file.name: file.read_text(encoding="utf-8") for file in path.iterdir()} != contents:
            raise _other(path) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(path: Path, content: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _other(path: Path) -> ColltuneError:
    return say("another-decision", path=path)
