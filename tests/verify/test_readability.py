"""The canary of a user's launcher."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from colltune.bench import build
from colltune.mpi import toolchain
from colltune.mpi.installation import Installation
from colltune.mpi.programs import Programs
from colltune.verify import canary as seen
from colltune.verify.canary import VerifyRequest, canary_of

NOWHERE = Path("/nowhere/bin/mpirun")


@pytest.mark.parametrize(("euid", "value"), [(0, "1"), (1000, None)])
def test_the_users_launcher_serves_root_as_all_of_ours_do(
    monkeypatch: pytest.MonkeyPatch, euid: int, value: str | None
) -> None:
    """As root the line gets what Open MPI wants to see, and nothing else that the user lacks."""
    for name in toolchain.root_allowance(0):
        monkeypatch.delenv(name, raising=False)
    found = Installation("openmpi", "5.0.11", NOWHERE, NOWHERE, NOWHERE, "")
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    monkeypatch.setattr(seen, "installation_of", lambda *_: found)
    monkeypatch.setattr(build, "canary", lambda *_: NOWHERE)
    request = VerifyRequest(
        NOWHERE, ("true",), None, None, None, NOWHERE, 60.0, 60.0, measure=False
    )
    canary, _ = canary_of(request)
    assert canary.line.user.get("OMPI_ALLOW_RUN_AS_ROOT") == value
    own = {n: v for n, v in canary.line.user.items() if n not in toolchain.root_allowance(0)}
    assert own == dict(os.environ)


@pytest.mark.parametrize(
    ("programs", "reduces"),
    [
        ("any-legal,results=same-bits", ("products", "own")),
        ("builtin-operations,results=same-bits", ("products",)),
        ("any-legal", ()),
    ],
)
def test_what_is_promised_is_tried(programs: str, reduces: tuple[str, ...]) -> None:
    """Products and a program's own operations, where their bits were promised."""
    request = VerifyRequest(
        NOWHERE, (), None, None, None, NOWHERE, 60.0, 60.0, measure=False,
        programs=Programs.parse(programs),
    )  # fmt: skip
    assert request.reduces == reduces
