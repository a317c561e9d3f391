"""Our own library, ``libcolltune``: preloaded, it runs collectives over any MPI library."""
