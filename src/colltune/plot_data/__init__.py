"""What pictures, the report and the service's page show, as numbers.

Each module reads its numbers off a bundle or a dataset; `colltune.plots` draws them.
"""
