"""MPICH: `library` answers for it; the rest are its files, and what it makes of them."""
