"""Readers of other programs' measurements."""
