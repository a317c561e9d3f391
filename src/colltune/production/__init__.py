"""What production jobs report, what it proves, and what follows from it.

A job tells what its collectives cost when it ends. The store keeps that, the judgement compares
jobs that were tuned with those of a control group, and consequences withdraw what did harm.
"""
