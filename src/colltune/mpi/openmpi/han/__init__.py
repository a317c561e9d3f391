"""The format ``openmpi-han``: which component serves a collective across nodes."""
