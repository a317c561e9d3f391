"""Compiles our C programs with the target MPI's own mpicc, once per MPI and source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from colltune import process
from colltune.errors import ColltuneError, say
from colltune.files import cache_folder
from colltune.files.ownership import danger, insist_preloadable, made_once
from colltune.mpi import installation, libcolltune
from colltune.mpi.installation import Installation

_VARIABLE = "COLLTUNE_INTERPOSED"
_C11 = ("-std=c11", "-D_POSIX_C_SOURCE=200809L")
# loaded when a process starts: thread-local variables need no look-up; exceptions may pass through
_SHARED = ("-shared", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fexceptions")
_COMPILE_TIMEOUT_S = 120.0
_EXPORTED = "exported.map"
"""Tells the linker what a library shows to others."""
_ENDINGS = (".c", ".h", _EXPORTED)
_COLLECTIVES = ("collectives.c", "collectives.h")
_NUMBERS = ("numbers.c", "numbers.h")
_VARIABLES = ("bound.h", "cvar.c", "cvar.h", "why.h")
_LEGAL = (
    "legal.c",
    "legal.h",
    "legal_bits.c",
    "legal_data.c",
    "legal_large.c",
    "legal_moves.c",
    "legal_reductions.c",
)


class _Product(NamedTuple):
    """What the compiler makes: with which flags, what it is linked to, how its name ends."""

    flags: tuple[str, ...]
    linked: tuple[str, ...]
    ending: str = ""


_PROGRAM = _Product(("-O3", *_C11), ("-ldl", "-lm"))
# what it defines takes the place of what libraries call
_YIELDING = _PROGRAM._replace(linked=(*_PROGRAM.linked, "-rdynamic"))
_LIBRARY = _Product(
    ("-O2", *_C11, "-pthread", *_SHARED, "-DCT_LATE", "-Wl,--as-needed"),
    ("-ldl", "-lm", "-lrt"),
    ".so",
)
_UNLINKED = _LIBRARY._replace(flags=(*_LIBRARY.flags, "-DCT_UNLINKED"))
_SIMULATED = _Product(("-O2", *_C11, "-pthread"), ("-Wl,-Bsymbolic", "-lm", "-lrt"))


def native_benchmark(mpi: Installation, cache: Path | None = None) -> Path:
    texts = _sources("colltune.bench") | _libcolltune(*_VARIABLES)
    return _for("collbench", _PROGRAM, texts, mpi, cache)


def canary(mpi: Installation, cache: Path | None = None) -> Path:
    """Return the compiled canary, which shares its collectives and numbers with the benchmark."""
    texts = _sources("colltune.verify", "canary.c")
    texts |= _sources("colltune.bench", *_COLLECTIVES, *_NUMBERS)
    return _for("canary", _PROGRAM, texts, mpi, cache)


def legal_program(mpi: Installation) -> Path:
    """Return the compiled conformance program, which writes variables as the benchmark does."""
    texts = _sources("colltune.verify", *_LEGAL)
    texts |= _sources("colltune.bench", *_COLLECTIVES, *_NUMBERS)
    texts |= _libcolltune(*_VARIABLES)
    return _for("legal", _YIELDING, texts, mpi)


def interposed_library(mpi: Installation, cache: Path | None = None) -> Path:
    """Return libcolltune. It is not linked to MPI, but finds what a program loads."""
    return _for("libcolltune", _LIBRARY, _libcolltune(), mpi, cache)


def unlinked_library(mpi: Installation, cache: Path | None = None) -> Path:
    """Return libcolltune for whole steps of a site's jobs: it says nothing unless it is asked to.

    A step starts programs of other MPIs as well, whose users did not ask for it.
    """
    return _for("libcolltune-unlinked", _UNLINKED, _libcolltune(), mpi, cache)


def library_for(library: str, release: str, mpi: str | None = None) -> Path:
    """Return libcolltune for a release: the one that COLLTUNE_INTERPOSED names, or compiled."""
    named = os.environ.get(_VARIABLE)
    if named:
        path = insist_preloadable(Path(named))
        if not path.is_file():
            raise say("file-does-not-exist", named=named)
        # whoever named it trusts its owner
        if why := danger(path, trusted=path.stat().st_uid):
            raise say("loaded-by-all", named=named, why=why)
        return path
    found = installation.find(mpi, library)
    if found.release != release:
        there = f"{library} {found.release}"
        raise say("mpirun-of-another-mpi", mpirun=found.mpirun, mpi=there, wanted=release)
    return interposed_library(found)


def library_or_note(library: str, release: str) -> tuple[Path | None, tuple[str, ...]]:
    """Return libcolltune for a release, or None and a note that tells how to get it."""
    try:
        return library_for(library, release), ()
    except ColltuneError as error:
        first = str(error).partition("\n")[0]
        return None, (
            f"libcolltune is not compiled ({first}). Run colltune app interpose where this "
            "MPI and a C compiler are installed, and set LD_PRELOAD to the path that it "
            "prints.",
        )


def simulated_benchmark(
    smpicc: Path, identity: str, cache: Path | None = None, *, own: bool
) -> Path:
    texts = _sources("colltune.bench.simulated") | _sources("colltune.bench", *_COLLECTIVES)
    stand_ins = texts.pop("stand_ins.c")
    if own:
        texts |= _libcolltune()
        for missing in ("cvar.c", "launcher.c", "steer.c", _EXPORTED):
            del texts[missing]
        texts["stand_ins.c"] = stand_ins
    return _compiled("simbench", _SIMULATED, texts, smpicc, identity, cache, {})


def _sources(package: str, *names: str) -> dict[str, bytes]:
    """Return the C files of a package, all or those of these names."""
    return _read((resources.files(package) / "native").iterdir(), names)


def _libcolltune(*names: str) -> dict[str, bytes]:
    """Return libcolltune's sources and what it exports, or the files of these names."""
    return _read((f for d in ("include", "src") for f in (libcolltune.NATIVE / d).iterdir()), names)


def _read(files: Iterable[Traversable], names: Collection[str]) -> dict[str, bytes]:
    chosen = [f for f in files if f.name in names or (not names and f.name.endswith(_ENDINGS))]
    return {file.name: file.read_bytes() for file in chosen}


def _for(
    name: str,
    product: _Product,
    texts: Mapping[str, bytes],
    mpi: Installation,
    cache: Path | None = None,
) -> Path:
    facts = (mpi.mpicc, mpi.compile_line)
    return _compiled(name, product, texts, *facts, cache, mpi.launch_environment())


def _compiled(
    name: str,
    product: _Product,
    texts: Mapping[str, bytes],
    mpicc: Path,
    identity: str,
    cache: Path | None,
    environment: Mapping[str, str],
) -> Path:
    digest = hashlib.sha256(repr((str(mpicc), identity, product.flags)).encode())
    for _, text in sorted(texts.items()):
        digest.update(text)

    def compiled(work: Path) -> Path:
        program = work / "program"
        for file, text in texts.items():
            (work / file).write_bytes(text)
        sources = [work / file for file in sorted(texts) if file.endswith(".c")]
        exported = [f"-Wl,--version-script={work / _EXPORTED}"] if _EXPORTED in texts else []
        outcome = process.run(
            [mpicc, *product.flags, *exported, "-o", program, *sources, *product.linked],
            timeout_s=_COMPILE_TIMEOUT_S,
            env=dict(os.environ) | dict(environment),
        )
        process.check(outcome, f"compiling {name} (a C compiler is needed)")
        return program

    if product.ending:
        insist_preloadable(cache or cache_folder())
    full_name = f"{name}-{digest.hexdigest()[:16]}{product.ending}"
    return made_once(cache or cache_folder(), full_name, compiled)
