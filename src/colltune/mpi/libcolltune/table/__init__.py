"""Decision tables of libcolltune: written, read, linted and put into effect.

docs/reference/formats.md tells the grammar; ``native/table.c`` is the reader that counts.
"""
