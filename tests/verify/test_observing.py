"""What libraries say by themselves."""

from __future__ import annotations

from pathlib import Path

from colltune import process
from colltune.verify.canary import read_run
from colltune.verify.observing import said

FILE = Path("/home/me/my.json")


def _said(stdout: str) -> list[str]:
    outcome = process.ProcessResult(("mpirun",), 0, stdout, "", 1.0)
    return list(said(read_run(outcome, []), FILE))


def test_mpich_tells_which_file_it_took() -> None:
    """The summary of MPICH 5 names the user's file, or what it has in its place."""
    head = "==== collective selection ====\nMPIR_CVAR_DEVICE_COLLECTIVES: percoll\n"
    assert _said(f"{head}MPIR: {FILE}\nMPID: MPIDI_coll_generic_json\n") == [
        "MPICH itself reports that it used my.json"
    ]
    assert _said(f"{head}MPIR: MPII_coll_generic_json\n") == [
        "MPICH itself reports that its selection comes from MPII_coll_generic_json"
    ]
    assert _said("nothing\n") == []


def test_intel_mpi_tells_what_it_refuses() -> None:
    """Its warnings of a preset that does not exist are handed on, once."""
    warning = "Incorrect algorithm: BCAST=99, will be ignored"
    assert _said(f"[0] {warning}\n[0] {warning}\n") == [f"the library says: {warning}"]
