"""Lets bundles of made-up machines choose all their algorithms, whatever was measured of them."""

from __future__ import annotations

from tests.mpi.conftest import catalogue_alone

__all__ = ["catalogue_alone"]
