"""Compiles our C programs with the target MPI's own mpicc, once per MPI and source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from colltune import process
from colltune.files import cache_folder
from colltune.files.ownership import made_once
from colltune.mpi.installation import Installation

_KINDS = (".c", ".h")
_C11 = ("-std=c11", "-D_POSIX_C_SOURCE=200809L")
# loaded when a process starts: thread-local variables need no look-up; exceptions may pass through
_SHARED = ("-shared", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fexceptions")
_COMPILE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class _Product:
    """What the compiler makes: with which flags, what it is linked to, how its name ends."""

    flags: tuple[str, ...]
    linked: tuple[str, ...]
    ending: str = ""


_PROGRAM = _Product(("-O3", *_C11), ("-ldl", "-lm"))
_LIBRARY = _Product(("-O2", *_C11, "-pthread", *_SHARED), ("-ldl", "-lm", "-lrt"), ".so")
_SIMULATED = _Product(("-O2", *_C11, "-pthread"), ("-Wl,-Bsymbolic", "-lm", "-lrt"))


def native_benchmark(mpi: Installation, cache: Path | None = None) -> Path:
    """Return the compiled benchmark, in the folder `cache` or the user's."""
    return _for(
        "collbench", _PROGRAM, _sources("colltune.bench") | _control_variables(), mpi, cache
    )


def canary(mpi: Installation, cache: Path | None = None) -> Path:
    """Return the compiled canary, which shares its collectives with the benchmark."""
    file = resources.files("colltune.verify") / "native" / "canary.c"
    return _for("canary", _PROGRAM, {file.name: file.read_bytes()} | _collectives(), mpi, cache)


def interposed_library(mpi: Installation, cache: Path | None = None) -> Path:
    """Return the compiled ``libcolltune``, to be preloaded in all processes of a job."""
    return _for("libcolltune", _LIBRARY, _sources("colltune.mpi.libcolltune"), mpi, cache)


def simulated_benchmark(
    smpicc: Path, identity: str, cache: Path | None = None, *, own: bool
) -> Path:
    """Return the compiled benchmark for SimGrid's compiler wrapper `smpicc`."""
    texts = _sources("colltune.bench.simulated") | _collectives()
    stand_ins = texts.pop("stand_ins.c")
    if own:
        texts |= _sources("colltune.mpi.libcolltune")
        for missing in ("cvar.c", "launcher.c", "roll.c", "steer.c"):
            del texts[missing]
        texts["stand_ins.c"] = stand_ins
    return _compiled("simbench", _SIMULATED, texts, smpicc, identity, cache, None)


def _sources(package: str) -> dict[str, bytes]:
    folder = resources.files(package) / "native"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name[-2:] in _KINDS}


def _collectives() -> dict[str, bytes]:
    folder = resources.files("colltune.bench") / "native"
    return {name: (folder / name).read_bytes() for name in ("collectives.c", "collectives.h")}


def _control_variables() -> dict[str, bytes]:
    folder = resources.files("colltune.mpi.libcolltune") / "native"
    return {name: (folder / name).read_bytes() for name in ("cvar.c", "cvar.h", "why.h")}


def _for(
    name: str,
    product: _Product,
    texts: Mapping[str, bytes],
    mpi: Installation,
    cache: Path | None,
) -> Path:
    where = mpi.mpicc, mpi.compile_line
    return _compiled(name, product, texts, *where, cache, mpi.launch_environment())


def _compiled(
    name: str,
    product: _Product,
    texts: Mapping[str, bytes],
    mpicc: Path,
    identity: str,
    cache: Path | None,
    environment: Mapping[str, str] | None,
) -> Path:
    digest = hashlib.sha256(repr((str(mpicc), identity, product.flags)).encode())
    for _, text in sorted(texts.items()):
        digest.update(text)

    def compiled(work: Path) -> Path:
        program = work / "program"
        for file, text in texts.items():
            (work / file).write_bytes(text)
        sources = [work / file for file in sorted(texts) if file.endswith(".c")]
        outcome = process.run(
            [mpicc, *product.flags, "-o", program, *sources, *product.linked],
            timeout_s=_COMPILE_TIMEOUT_S,
            env=dict(os.environ) | dict(environment or {}),
        )
        process.check(outcome, f"compiling {name} (a C compiler is needed)")
        return program

    full_name = f"{name}-{digest.hexdigest()[:16]}{product.ending}"
    return made_once(cache or cache_folder(), full_name, compiled)
