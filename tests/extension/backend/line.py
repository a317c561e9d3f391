"""Registers the backend, as its line in ``BACKENDS`` of ``bench/backends/__init__.py`` would."""

from colltune.bench.backends import BACKENDS
from tests.extension.backend.osu import OsuBackend

BACKENDS["osu"] = OsuBackend
