"""What pictures show, as numbers: maps of choices, runtimes over message size, and regrets.

Each module reads its numbers off a bundle or a dataset; `colltune.plots` draws them.
"""
