"""colltune: picks the fastest algorithm of every MPI collective for a job's shape."""

__version__ = "0.1.0"
