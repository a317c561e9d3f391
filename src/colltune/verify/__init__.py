"""Proves in a user's own job that the MPI library obeys a configuration file, and what it brings.

A canary, a small MPI program, is started by the user's own launcher under his own environment.
"""
