"""The figures that colltune promises of itself: ``make figure NAME=…`` measures one.

Each module has a function ``run() -> Figure``; `figures.__main__` registers it. Both sides of a
ratio are measured in the same run.
"""
