"""From predicted runtimes to decisions that do no harm: argmin, guard, decision tables."""
