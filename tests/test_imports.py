"""Modules import downwards only, also within functions and for types alone."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Whoever reads a module can read what it imports first."""
    graph = grimp.build_graph("colltune", cache_dir=None)
    assert len(graph.modules) > 100
    imported = {m: graph.find_modules_directly_imported_by(m) - {m} for m in graph.modules}
    assert list(TopologicalSorter(imported).static_order())
