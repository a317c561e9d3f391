"""The figures of `colltune report`: what a bundle decides and why, and how that was measured."""
