"""``python -m colltune.cli``: the command line, by the Python that it is installed for."""

from colltune.cli import main

main()
