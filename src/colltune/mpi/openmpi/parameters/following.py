"""The files that parameters name: rules of coll/tuned and coll/han, and further parameter files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from colltune.errors import LibraryError
from colltune.mpi.file_format import Fault, Finding, Format, ParsedFile, Severity
from colltune.mpi.openmpi import setup
from colltune.mpi.openmpi.parameters import reading
from colltune.mpi.openmpi.parameters.reading import Setting

PARAMETER_FILES = ("mca_base_param_files", "mca_base_envar_file_prefix")
RULES = {setup.RULES_FILE: "tuned", setup.HAN_RULES_FILE: "han"}
_MOST_FILES = 100


@dataclass
class Followed:
    """What is in effect at last.

    Parameters
    ----------
    settings
        Those of the file and of the parameter files that it names, the weakest first.
    own
        Those of the file itself.
    parsed
        The rules files, by ``tuned`` and ``han``.
    findings
        What is wrong with the files that are named, at the line where they are.
    """

    settings: list[Setting] = field(default_factory=list)
    own: list[Setting] = field(default_factory=list)
    parsed: dict[str, ParsedFile] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def follow(settings: list[Setting], source: str, release: str) -> Followed:
    """Return what `settings` of the file `source` name, taken from the folder of that file."""
    followed = Followed(own=settings)
    walker = _Walker(followed, release)
    walker.parameters(settings, Path(source), 0)
    last = {setting.name: setting for setting in followed.settings}
    for name, which in RULES.items():
        if name in last and last[name].value:
            walker.rules(which, last[name], Path(source))
    return followed


class _Walker:
    def __init__(self, followed: Followed, release: str) -> None:
        self.followed, self.release = followed, release
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
            message = f"{name} names itself, by way of the files that it names"
            self._found(line, Fault.MALFORMED, message, "remove one of the names")
            return
        self.files += 1
        if self.files > _MOST_FILES:
            if self.files == _MOST_FILES + 1:
                message = f"more than {_MOST_FILES} parameter files are named"
                self._found(line, Fault.MALFORMED, message, "put the parameters into one file")
            return
        text = self._text(path, line)
        if text is not None:
            self.parameters(reading.read(text).found, path, line)

    def rules(self, which: str, setting: Setting, source: Path) -> None:
        """Parse a rules file."""
        line = setting.line if setting in self.followed.own else 0
        path = source.parent / setting.value
        text = self._text(path, line)
        if text is None:
            return
        known = next((f for f in self._formats(which, text)), None)
        if known is None:
            message = f"{setting.value} is no rules file of coll/{which} that is known"
            self._found(line, Fault.FILE_DROPPED, message, "name a rules file")
            return
        parsed = known.parse(text, str(path), self.release)
        self.followed.parsed[which] = parsed
        for finding in parsed.findings:
            if finding.severity is not Severity.NOTE:
                message = f"{setting.value}:{finding.line}: {finding.message}"
                found = Finding(line, finding.fault, message, finding.mend)
                self.followed.findings.append(found)

    def _formats(self, which: str, text: str) -> Iterator[Format]:
        from colltune.mpi.formats import FORMATS  # noqa: PLC0415 (which holds this format too)

        names = ("openmpi-han",) if which == "han" else ("openmpi-json", "openmpi-classic")
        known = [FORMATS[name] for name in names if name in FORMATS]
        yield from (f for f in known if f.recognises(text))
        yield from (f for f in known if f.name in ("openmpi-classic", "openmpi-han"))

    def _text(self, path: Path, line: int) -> str | None:
        from colltune.mpi.formats import read_text  # noqa: PLC0415 (see above)

        try:
            return read_text(path)
        except (LibraryError, ValueError) as error:
            message = f"{error}; the library ignores it without a word"
            self._found(line, Fault.FILE_DROPPED, message[:1000], "name a file that can be read")
            return None

    def _found(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.followed.findings.append(Finding(line, fault, message, mend))


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()
