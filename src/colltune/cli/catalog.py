"""`colltune catalog`: what is known of the MPI libraries, and whether the one here agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import progress, show, show_json
from colltune.cli.options import Json, Mpi, Quiet
from colltune.errors import LibraryError

if TYPE_CHECKING:
    from colltune.mpi.installed import Check
    from colltune.mpi.reference import Reference


def catalog(
    library: Annotated[
        str | None,
        typer.Argument(
            metavar="LIBRARY[@RELEASE]",
            help="openmpi@5.0.8, mpich@4.3, intelmpi; without a release: the newest.",
        ),
    ] = None,
    collective: Annotated[
        str | None, typer.Argument(metavar="COLLECTIVE", help="bcast, MPI_Allreduce, …")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the MPI installed here; 1 if it differs.")
    ] = False,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Print what is known of an MPI library's algorithms, or compare it with an installed one.

    With --check the exit status is 0 where catalogue and installation agree, 1 where they differ.
    The installed release's catalogue is taken unless a release is named.

    Examples: all libraries, all collectives of a release, one collective, the MPI installed here.

    colltune catalog

    colltune catalog openmpi@5.0.8

    colltune catalog openmpi@5.0.8 bcast

    colltune catalog --check --mpi /opt/openmpi
    """
    if check:
        with progress("looking at the MPI installed here", quiet=quiet or json):
            found = _checked(library, collective, mpi)
        return _show_check(found, json)
    if mpi is not None:
        raise typer.BadParameter("--mpi goes with --check")
    _show(library, collective, json)
    return 0


def _show(library: str | None, collective: str | None, as_json: bool) -> None:
    from colltune.cli import catalog_text
    from colltune.mpi.reference import REFERENCES, collective_named

    if library is None:
        references = tuple(REFERENCES.values())
        if as_json:
            show_json(catalog_text.libraries_json(references))
        else:
            show(catalog_text.libraries(references))
        return
    reference, asked = _named(library)
    release, found = reference.at(asked)
    shown = asked or found.series
    wanted = [collective_named(collective)] if collective is not None else list(found.collectives)
    facts = [reference.facts(release, each) for each in wanted]
    if as_json:
        show_json(catalog_text.release_json(reference, release, found, facts))
    elif collective is not None:
        show(catalog_text.collective(reference, shown, found, facts[0]))
    else:
        show(catalog_text.release(reference, shown, found, facts, reference.formats(release)))


def _named(library: str) -> tuple[Reference, str | None]:
    """Return the library and release of ``openmpi@5.0.8``."""
    from colltune.mpi.derivatives import check_no_derivative
    from colltune.mpi.reference import REFERENCES, similar

    name, at, release = library.partition("@")
    if name not in REFERENCES:
        check_no_derivative(name)
        raise LibraryError(
            f"no catalogue of the MPI library {name!r}{similar(name, REFERENCES)};"
            f" known: {', '.join(REFERENCES)}"
        )
    reference = REFERENCES[name]
    if at and not release:
        raise LibraryError(f"{library} names no release; one is {name}@{reference.series[-1]}")
    return reference, release or None


def _checked(library: str | None, collective: str | None, mpi: str | None) -> Check:
    from colltune.mpi import installed

    if collective is not None:
        raise typer.BadParameter("--check compares all collectives; leave COLLECTIVE out")
    reference, release = _named(library) if library else (None, None)
    return installed.check(mpi, None if reference is None else reference.library, release)


def _show_check(found: Check, as_json: bool) -> int:
    from colltune.cli import catalog_text

    if as_json:
        show_json(catalog_text.check_json(found))
    else:
        show(catalog_text.check(found))
    return 1 if found.differences else 0
