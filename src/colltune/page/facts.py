"""What facts on one bundle have in common."""

from __future__ import annotations

from dataclasses import dataclass

from colltune.domain import Context
from colltune.json_text import DescribedRecord


@dataclass(frozen=True)
class BundleFacts(DescribedRecord):
    """What facts on one bundle begin with."""

    slot: str
    """the MPI release that it is for"""
    bundle: str
    """its id, a SHA-256"""


def slot_name(context: Context) -> str:
    """Return the slot of bundles of `context`, whatever its library is called."""
    return f"{context.library}-{context.library_version}"
