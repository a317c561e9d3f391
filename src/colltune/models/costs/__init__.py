"""Costs of the point-to-point algorithms, one file per family; numpy only."""
