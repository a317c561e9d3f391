"""Reads the job file that the service answers with, and trusts nothing in it.

The same checks as in ``job_file.awk``, which the hooks use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import PurePath

from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi import UserPatterns
from colltune.server.slurm.job_part import JobPart, Section

LARGEST_BYTES = 4_000_000
_FIRST = "colltune-job 1"
_ID = re.compile(r"[0-9a-f]{64}")
_PATTERN = re.compile(r"[A-Za-z0-9_*?]+")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COUNT = re.compile(r"[0-9]{1,6}")
_VARIABLE = re.compile(r"(?:OMPI_MCA_coll_|MPIR_CVAR_|I_MPI_ADJUST_|I_MPI_TUNING)[A-Za-z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_.,:;@+=/-]*")
_UNPRINTABLE = re.compile(r"[^\t -~]")


class AnswerError(ProgramError):
    """An answer of the service that is not to be used."""


def parse(
    answer: bytes, library: str, release: str, shapes: Collection[Shape], folder: PurePath
) -> JobPart:
    """Return what the service says for a release of a library."""
    if len(answer) > LARGEST_BYTES:
        raise AnswerError("the service's answer: more than 4 MB")
    try:
        text = answer.decode("ascii")
    except UnicodeDecodeError:
        raise AnswerError("the service's answer: no plain text") from None
    return _Reading(text, library, {str(shape): shape for shape in shapes}, folder).part(release)


class _Reading:
    """One answer, line by line."""

    def __init__(self, text: str, library: str, asked: dict[str, Shape], folder: PurePath) -> None:
        self._lines = text.removesuffix("\n").split("\n")
        self._library, self._asked, self._folder = library, asked, folder
        self._number = 0
        self._bundle_id = ""
        self._named = self._ended = False
        self._patterns: dict[str, list[str]] = {"user": [], "harmless": []}
        self._files: dict[str, dict[str, str]] = {}
        self._variables: dict[str, dict[str, str]] = {}
        self._shape = ""

    def part(self, release: str) -> JobPart:
        """Return what the answer says, all of it."""
        lines = self._numbered()
        if next(lines, "") != _FIRST:
            raise self._refused("this is no job file of version 1")
        for line in lines:
            self._take(line, lines)
        if not (self._ended and self._named and self._bundle_id):
            raise self._refused("it is not complete")
        sections = tuple(
            Section(self._asked[name], self._files[name], self._variables[name])
            for name in self._files
        )
        patterns = UserPatterns(tuple(self._patterns["user"]), tuple(self._patterns["harmless"]))
        return JobPart(self._bundle_id, self._library, release, patterns, sections)

    def _numbered(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, 1):
            self._number = number
            if _UNPRINTABLE.search(line):
                raise self._refused("no plain text")
            if self._ended:
                raise self._refused("text after the end")
            yield line

    def _take(self, line: str, following: Iterator[str]) -> None:
        match line.split():
            case ["bundle", name] if _ID.fullmatch(name) and not self._bundle_id:
                self._bundle_id = name
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
        good = _VARIABLE.fullmatch(name) and _VALUE.fullmatch(value) and ".." not in value
        if not equals or not good or name in variables:
            raise self._refused("a setting of an unexpected form")
        here = f"{self._folder / self._shape}/"
        if "/" in value and value not in {f"{here}{file}" for file in self._files[self._shape]}:
            raise self._refused("a setting that names another file")
        variables[name] = value

    def _refused(self, why: str) -> AnswerError:
        return AnswerError(f"the service's answer: line {self._number}: {why}")
