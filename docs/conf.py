"""How Sphinx builds the documentation: offline, from the Markdown files and from the code."""

from __future__ import annotations

import sys
from pathlib import Path

from colltune import __version__

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "colltune"
author = "The colltune authors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs._ext.docstrings",
    "docs._ext.generated",
]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_ext"]
myst_heading_anchors = 3
toc_object_entries = False
# quotes stay as they are typed
smartquotes_action = "D"

autodoc_default_options = {"members": True, "member-order": "bysource", "no-value": True}
autodoc_class_signature = "mixed"
# there are none, and looking for them takes a while
autodoc_use_type_comments = False
napoleon_google_docstring = False
# names in docstrings lead to what they name where the reference has it
default_role = "py:obj"
# types in signatures are mypy's to check; most are those of other packages
nitpick_ignore_regex = [("py:(obj|class|exc)", ".*")]

html_theme = "furo"
html_title = f"colltune {release}"
html_static_path = ["_static"]
html_css_files = ["colltune.css"]
html_copy_source = False
html_show_sphinx = False
