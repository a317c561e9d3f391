"""A registry of bundles: which there are, which is in force, and which was when.

A registry is a folder, often on NFS, or a prefix of an object store:

``bundles/<id>/``
    A bundle, content-addressed: the folder's name is the bundle's id, and every load checks that
    the content fits it.
``history/<8-digit number>.json``
    One event a file, in the order in which they happened. The history is the truth; times in it
    are for people, numbers decide.
``current/<slot>``
    For people: a symbolic link to the bundle in force (in an object store its id).
``reports/<kind>/<8-digit number>.json``
    What retraining, drift detection and verification found.
``work/``
    Who is using or removing a bundle at this moment; empty otherwise.

A slot is an MPI release, ``openmpi-4.1.4``; each has its own bundle in force.

How writers agree without locks is told in `colltune.registry.store` (local file
systems and NFS) and `colltune.registry.object_store` (S3).
"""

from colltune.registry.events import Action, Event
from colltune.registry.names import slot_of
from colltune.registry.registry import Registry, RegistryEntry

__all__ = ["Action", "Event", "Registry", "RegistryEntry", "slot_of"]
