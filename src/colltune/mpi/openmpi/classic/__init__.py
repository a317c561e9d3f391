"""Open MPI's classic rules file."""
