"""Open MPI's dynamic rules for coll/han."""
