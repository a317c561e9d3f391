"""Open MPI's parameters, in files of all kinds."""
