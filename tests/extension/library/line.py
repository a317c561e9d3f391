"""Registers the library, as its line in ``LIBRARIES`` of ``mpi/__init__.py`` would."""

from colltune.mpi import LIBRARIES
from tests.extension.library.mvapich2 import Mvapich2

LIBRARIES["mvapich2"] = Mvapich2()
