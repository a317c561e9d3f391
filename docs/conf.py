"""How Sphinx builds the documentation: offline, from the Markdown files and from the code."""

from __future__ import annotations

from colltune import __version__

project = "colltune"
author = "The colltune authors"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_click"]
root_doc = "index"
# numpydoc loads autosummary, which wants the latter, and writes nothing here
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
autosummary_generate = False
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "member-order": "bysource", "no-value": True}
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
# names in docstrings lead to what they name where the reference has it
default_role = "py:obj"
# types in signatures are mypy's to check; most are those of other packages
nitpick_ignore_regex = [("py:(obj|class)", ".*")]

html_theme = "furo"
html_title = f"colltune {release}"
html_copy_source = False
html_show_sphinx = False
