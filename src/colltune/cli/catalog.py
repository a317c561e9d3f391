"""`colltune catalog`: what is known of the MPI libraries, and whether the one here agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.options import Json

if TYPE_CHECKING:
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
    json: Json = False,
) -> None:
    """Print what is known of an MPI library's algorithms.

    Examples: all libraries, all collectives of a release, one collective, the MPI installed here.

    colltune catalog

    colltune catalog openmpi@5.0.8

    colltune catalog openmpi@5.0.8 bcast
    """
    from colltune.cli import catalog_text
    from colltune.cli.console import show, show_json
    from colltune.errors import LibraryError
    from colltune.mpi.reference import REFERENCES, collective_named

    if library is None:
        references = tuple(REFERENCES.values())
        if json:
            show_json(catalog_text.libraries_json(references))
        else:
            show(catalog_text.libraries(references))
        return
    name, at, asked = library.partition("@")
    reference = _named(name)
    if at and not asked:
        raise LibraryError(f"{library} names no release; one is {name}@{reference.series[-1]}")
    release, found = reference.at(asked or None)
    shown = asked or found.series
    wanted = [collective_named(collective)] if collective else list(found.collectives)
    facts = [reference.facts(release, each) for each in wanted]
    if json:
        show_json(catalog_text.release_json(reference, release, found, facts))
    elif collective:
        show(catalog_text.collective(reference, shown, found, facts[0]))
    else:
        show(catalog_text.release(reference, shown, found, facts))


def _named(name: str) -> Reference:
    from colltune.errors import LibraryError
    from colltune.mpi.reference import REFERENCES, similar

    if name not in REFERENCES:
        known = ", ".join(REFERENCES)
        raise LibraryError(
            f"no catalogue of the MPI library {name!r}{similar(name, REFERENCES)}; known: {known}"
        )
    return REFERENCES[name]
