"""Slurm: the hooks for a site, and the folder in which a job finds what it is told.

A job's folder holds, for each MPI library and release that was asked for, ``openmpi-4.1.4/`` with
the bundle's id (``bundle``), the user's deciding variables (``deciding``, ``harmless``) and a
folder per shape, ``4x8/``, with the files that MPI reads and the lines ``NAME=value`` that put
them into effect (``exports``). The hooks (``prolog.sh``) and `colltune env` write the same; nothing
in it is changed afterwards, since ranks that read different things wait for each other for ever.
"""
