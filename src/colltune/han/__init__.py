"""HAN's task-based tuner: times the tasks of coll/han's collectives and composes runtimes of them.

From X. Luo et al., "HAN: a Hierarchical AutotuNed Collective Communication Framework", CLUSTER
2020, sec. III.
"""
