"""`colltune rules convert`: a configuration file in another format, or for another release."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import activation_lines, output, warn
from colltune.cli.options import ForEverybody, FormatName, Json, programs_of, writable_file
from colltune.errors import LibraryError, say
from colltune.text import printable

if TYPE_CHECKING:
    from colltune.mpi.file_format import Format, Written
    from colltune.mpi.opened_file import OpenFile
    from colltune.mpi.programs import Programs


@dataclass(frozen=True)
class ConvertedFiles:
    """What `rules convert` prints."""

    written: Written
    """what was converted"""
    files: Mapping[str, str]
    """files that were written, by ending"""
    activation: Mapping[str, str]
    """variables that put them into effect"""


def convert(
    file: Annotated[Path, typer.Argument(help="Configuration file; - reads standard input.")],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="Format to write.")],
    release: Annotated[
        str | None,
        typer.Option(
            help="Release to write for; default: the current release that reads the format."
        ),
    ] = None,
    from_release: Annotated[
        str | None,
        typer.Option(
            help="Release that the file was written for; default: the current release that reads "
            "it."
        ),
    ] = None,
    format_: FormatName = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; default: print it.", callback=writable_file)
    ] = None,
    programs: ForEverybody = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="If any rule would be lost, or breaks programs, write nothing and exit with"
            " status 1.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Convert a configuration file to another format, or for another release.

    Rules that cannot be converted are listed on standard error with their line. So are those of the
    result that break programs for which it is meant; they are kept.

    Examples: to another format, to another release.

    colltune rules convert rules.conf --to openmpi-json --from-release 5.0.8 --release 6.0.0 --out
    r.json

    colltune rules convert site.json --to mpich-json --from-release 4.0.2 --release mpich@5.0.2
    """
    from colltune.mpi.programs import ANY_LEGAL

    opened, target, target_release = _both(file, format_, from_release, to, release)
    if opened.assumed:
        warn(f"read as a file for {opened.reader}. Name another release with --from-release.")
    written = _converted(opened, target, target_release)
    for note in written.notes:
        warn(printable(f"not converted: {note}"))
    harmful = _harmful(target, written, programs_of(programs, otherwise=ANY_LEGAL))
    for line in harmful:
        warn(printable(line))
    if strict and (written.notes or harmful):
        what = "would be lost" if written.notes else "break programs"
        warn(f"nothing was written, because rules {what} (--strict)")
        return 1
    _deliver(target, written, out, as_json=json)
    return 0


def _converted(opened: OpenFile, target: Format, release: str) -> Written:
    """Return the file in another format; the notes name each setting that is lost."""
    from colltune.mpi.file_format import not_converted

    parsed = opened.parse()
    written = target.convert(parsed, release)
    if target.name == opened.format.name:
        return written
    again = target.parse(written.text, target.name, release)
    listed = opened.format.listed(parsed)
    lost = not_converted(listed, again.rules, written.notes)
    return replace(written, notes=(*written.notes, *lost))


def _harmful(target: Format, written: Written, programs: Programs) -> list[str]:
    """Return which lines of what was written break some of `programs`."""
    parsed = target.parse(written.text, written.format, written.release)
    told = (f for f in target.lint(parsed) if f.promise and not programs.keep(f.promise))
    return [f"line {f.line} of the result: {f.message}; {f.mend}" for f in told]


def _both(
    file: Path, format_name: str | None, from_release: str | None, to: str, release: str | None
) -> tuple[OpenFile, Format, str]:
    """Return the file, the format to be written, and for which release."""
    from colltune.mpi.formats import format_of, likely_reader
    from colltune.mpi.opened_file import library_and_release, open_file

    library, number = library_and_release(release)
    target = format_of("", "--to", to, library)
    target_release = number or likely_reader(target)
    if why := target.unreadable_by(target_release):
        raise say("format-not-read", format=target.name, why=why)
    opened = open_file(file, from_release, format_name)
    if opened.format.library != target.library:
        both = f"{opened.format.library} of {opened.source}, {target.library} of {target.name}"
        raise say("libraries-differ", LibraryError, what="files", done="converted", libraries=both)
    return opened, target, target_release


def _deliver(target: Format, written: Written, out: Path | None, *, as_json: bool) -> None:
    """Write the files, or print the only one."""
    from colltune.files import whole
    from colltune.mpi import library

    if out is None and len(written.texts) > 1 and not as_json:
        what = f"the place of {len(written.texts)} files"
        raise say("missing", what=what, give="the first one with --out")
    paths = {}
    for end, text in written.texts.items():
        if out is None:
            break
        path = out.absolute().with_name(out.name + end)
        with whole(path) as temporary:
            temporary.write_bytes(_content(text))
        paths[end] = str(path)
    activation = target.activation(written.release, paths) if paths else {}
    if out is None and not as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(_content(written.text))
        return
    facts = ConvertedFiles(written, paths, activation)
    head = f"{written.format} for {library(target.library).title} {written.release}:"
    lines = [head, *(f"  {path}" for path in paths.values()), *activation_lines(activation)]
    output(facts, lines, json=as_json)


def _content(text: str) -> bytes:
    """Return the bytes of a file; those that are no UTF-8 as they were read."""
    return text.encode("utf-8", "surrogateescape")
