"""Benchmarks of the figures colltune promises: ``make bench NAME=…``.

Each module has a function ``run() -> Figure``; `benchmarks.__main__` registers it. Both sides of a
ratio are measured in the same run.
"""
