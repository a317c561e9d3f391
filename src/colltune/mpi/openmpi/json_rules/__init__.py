"""Open MPI's JSON rules."""
