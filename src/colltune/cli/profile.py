"""`colltune app profile`: where an application's time goes, and what a bundle would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, Verbatim, output
from colltune.cli.options import Caution, Json, ProgramNames, Quiet, programs_of
from colltune.cli.progress import progress
from colltune.text import counted, printable, range_text, time_text

if TYPE_CHECKING:
    from colltune.dataset.profile import Profile, Use
    from colltune.selector.profiled import CallSaving, Outlook, Saving


@dataclass(frozen=True)
class ShownProfile:
    """What `app profile` prints."""

    profile: Profile
    """where the time goes"""
    outlook: Outlook | None
    """what the bundle would change, with --bundle"""


@dataclass(frozen=True)
class WhatIsSent:
    """What `app profile --what-is-sent` prints."""

    bytes: int
    """length of the text"""
    text: str
    """what a job's epilog would send"""


def profile(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Profiles written by libcolltune, files or folders.", metavar="PATH…"),
    ],
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Bundle folder: also show what the bundle would change for the application."
        ),
    ] = None,
    program: ProgramNames = None,
    top: Annotated[int, typer.Option(help="Number of lines to show, 0 for all.", min=0)] = 20,
    what_is_sent: Annotated[
        bool,
        typer.Option(
            "--what-is-sent",
            help="Print the text that a job's epilog would send to the site's service with these "
            "profiles, and nothing else. What only Slurm knows is - or 0.",
        ),
    ] = False,
    caution: Caution = 1.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show the time that an application spends in collectives, by communicator and message size.

    Profiles are written by jobs that run with libcolltune (`colltune app interpose`) and
    COLLTUNE_PROFILE=FOLDER. Several profiles are added up.

    Examples: where the time goes; what a bundle would change.

    colltune app profile profiles

    colltune app profile profiles --program solver --bundle bundle
    """
    from colltune.dataset.profile import read_profiles

    if what_is_sent:
        _show_what_is_sent(paths, json=json)
        return
    with progress("reading", quiet=quiet or json) as shown:
        found = read_profiles(paths, program or ())
        foreseen = None
        if bundle is not None:
            shown.phase("predicting")
            foreseen = _outlook(found, bundle, caution)
    output(ShownProfile(found, foreseen), _lines(found, foreseen, top), json=json)


def _show_what_is_sent(paths: Sequence[Path], *, json: bool) -> None:
    from colltune.dataset.profile import parse_profile, profile_files
    from colltune.production.summary import text_without_slurm

    files = profile_files(paths)
    jobs = [parse_profile(content, str(file))[0] for file, content in files.items()]
    text = text_without_slurm(files.values()).decode("utf-8", "replace")
    facts = WhatIsSent(len(text.encode()), text)
    told = [_SENT, *([_NAMED] if any(job.host != "-" for job in jobs) else [])]
    output(facts, [Verbatim(text.removesuffix("\n"))], json=json, warnings=told)


def _outlook(profile: Profile, bundle: Path, caution: float) -> Outlook:
    from colltune.models.bundle import load
    from colltune.models.guard import Guard
    from colltune.selector.argmin import legal_selector
    from colltune.selector.profiled import outlook

    selector = legal_selector(load(bundle), programs_of(None), guard=Guard(caution=caution))
    return outlook(profile, selector)


_SENT = (
    "the text has the job's number, its nodes and times, the arms and bundles that it was given, "
    "and for each MPI run what the profile says: library, a hash of the program's path, and calls "
    "and their times by collective, communicator and message size. It has no arguments, no "
    "environment and no data, no name of a user, and no names of hosts or programs unless the site "
    "keeps them."
)
_NAMED = (
    "these profiles are a user's own (COLLTUNE_PROFILE), with names of hosts and programs. What a "
    "site records (COLLTUNE_RECORD) has a hash in place of them."
)
_TITLES = (
    "collective",
    "processes",
    "message size",
    "calls",
    "time",
    "of them",
    "of the run",
    "per call",
)
_FORESEEN = ("the bundle would choose", "saves of the run")
_DROP = ("95th percentile", "per call", "calls", "time", "of them", "of the run")
_UNSURE = "~"


def _lines(profile: Profile, foreseen: Outlook | None, top: int) -> Iterator[str | TextTable]:
    yield from _head(profile)
    uses = profile.uses[: top or None]
    if not uses:
        yield "the profiles contain no calls of collectives"
        return
    yield ""
    rows = [_row(profile, use) for use in uses]
    titles: Sequence[str] = _TITLES
    if any(use.times for use in uses):
        titles = (*titles, "median", "95th percentile")
        rows = [[*r, *_quantiles(use)] for r, use in zip(rows, uses, strict=True)]
    if foreseen is not None:
        titles = (*titles, *_FORESEEN)
        rows = [[*r, *_foreseen(profile, c)] for r, c in zip(rows, foreseen.rows, strict=False)]
    yield TextTable(titles, rows, (_FORESEEN[0], "processes"), _DROP)
    left = profile.uses[len(uses) :]
    if left:
        share = sum(use.process_s for use in left) / max(profile.collectives_s, 1e-300)
        yield (
            f"and {counted(len(left), 'more line')}, {share:.1%} of the time in collectives "
            "(--top 0 shows all)"
        )
    if foreseen is not None:
        yield from _verdict(profile, foreseen)


def _head(profile: Profile) -> Iterator[str]:
    jobs = profile.jobs
    worlds = dict.fromkeys(str(job.shape or f"{job.nprocs} processes") for job in jobs)
    yield printable(
        f"{', '.join(profile.programs)}: {counted(len(jobs), 'run')} on {', '.join(worlds)},"
        f" {profile.library} {profile.release}"
    )
    share = profile.collectives_s / max(profile.process_s, 1e-300)
    wall_s = sum(job.wall_s for job in jobs)
    inside_s = profile.collectives_s / sum(job.nprocs for job in jobs) * len(jobs)
    yield (
        f"{time_text(wall_s)} from MPI_Init to MPI_Finalize; a process spends "
        f"{time_text(inside_s)} of it ({share:.1%}) in collectives, including the wait for "
        "other processes"
    )
    lost = sum(job.lost_calls for job in jobs)
    if lost:
        yield f"{counted(lost, 'call')} not recorded, because the record was full"


def _row(profile: Profile, use: Use) -> list[object]:
    kind = use.kind
    return [
        kind.collective,
        f"{kind.nprocs} ({kind.shape or 'layout unknown'})",
        range_text(use.least_bytes, use.most_bytes),
        f"{use.operations:.0f}",
        time_text(use.process_s / sum(job.nprocs for job in profile.jobs)),
        f"{use.process_s / max(profile.collectives_s, 1e-300):.1%}",
        f"{use.process_s / max(profile.process_s, 1e-300):.1%}",
        time_text(use.call_s),
    ]


def _quantiles(use: Use) -> list[str]:
    return ["" if s is None else time_text(s) for s in (use.median_s, use.percentile_95_s)]


def _foreseen(profile: Profile, changed: CallSaving) -> list[str]:
    selection, saving = changed.selection, changed.saving
    if saving is None:
        return [f"unknown: {changed.unknown}", ""]
    assert selection is not None
    unsure = _UNSURE if selection.extrapolated else ""
    name = unsure + selection.configuration.short
    return [name, "" if selection.configuration.is_default else _saved(profile, saving)]


def _saved(profile: Profile, saving: Saving) -> str:
    expected, least, most = (s / max(profile.process_s, 1e-300) for s in saving)
    return f"{expected:.1%} ({least:.1%} .. {most:.1%})"


def _verdict(profile: Profile, foreseen: Outlook) -> Iterator[str]:
    saving = foreseen.saving
    if saving.expected_s > 0:
        yield f"\nin total the bundle would save {_saved(profile, saving)} of the run"
    else:
        yield "\nthe bundle would save nothing"
    unknown = foreseen.unknown_s / max(profile.collectives_s, 1e-300)
    if unknown > 0:
        yield f"unknown for {unknown:.1%} of the time in collectives"
    if any(row.selection and row.selection.extrapolated for row in foreseen.rows):
        yield f"{_UNSURE}: outside the measured range"
