"""Reads a Dockerfile into its stages, as far as ours uses the language."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Instruction:
    """One instruction: its upper-case word, its options (``--name=value``) and the rest."""

    word: str
    options: dict[str, str]
    text: str

    @property
    def exec_form(self) -> list[str] | None:
        """The words of a JSON array; None where a shell would be started."""
        if not self.text.startswith("["):
            return None
        words: list[str] = json.loads(self.text)
        return words

    @property
    def assignments(self) -> dict[str, str]:
        """What an ENV, LABEL or ARG sets."""
        return dict(word.split("=", 1) for word in shlex.split(self.text) if "=" in word)


@dataclass(frozen=True)
class Stage:
    """``base`` is another stage's name or an image; ``instructions`` what is done to it."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def all(self, word: str) -> list[Instruction]:
        """Return its instructions of one kind."""
        return [i for i in self.instructions if i.word == word]


def stages(file: Path) -> dict[str, Stage]:
    """Return the stages of a Dockerfile by their names, in their order."""
    found: dict[str, Stage] = {}
    for word, rest in _lines(file.read_text(encoding="utf-8")):
        if word == "FROM":
            base, name = _from(rest)
            found[name] = Stage(name, base, ())
            continue
        last = list(found.values())[-1]
        instruction = _instruction(word, rest)
        found[last.name] = Stage(last.name, last.base, (*last.instructions, instruction))
    return found


def ignored(patterns: Sequence[str], path: PurePosixPath) -> bool:
    """Tell whether a .dockerignore's lines keep `path` out of the build; the last match counts."""
    out = False
    for line in patterns:
        pattern = line.removeprefix("!")
        if any(_matches(pattern, part) for part in (path, *path.parents)):
            out = not line.startswith("!")
    return out


def _matches(pattern: str, path: PurePosixPath) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(path.name, pattern[3:])
    parts = pattern.split("/")
    same = len(parts) == len(path.parts)
    return same and all(map(fnmatch.fnmatchcase, path.parts, parts))


def _from(rest: str) -> tuple[str, str]:
    words = rest.split()
    if len(words) == 3 and words[1].upper() == "AS":
        return words[0], words[2]
    raise ValueError(f"FROM {rest}: a stage without a name")


def _instruction(word: str, rest: str) -> Instruction:
    options = {}
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        name, _, value = option.removeprefix("--").partition("=")
        options[name] = value
        rest = rest.lstrip()
    return Instruction(word, options, rest)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction's word and the rest, continuation lines joined."""
    joined = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        joined += line.removesuffix("\\")
        if not line.endswith("\\"):
            word, _, rest = joined.strip().partition(" ")
            yield word.upper(), rest.strip()
            joined = ""
