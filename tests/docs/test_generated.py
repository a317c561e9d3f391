"""Pieces of Markdown that the reference is made of, and the help they are made from."""

from __future__ import annotations

import shlex

import click
import pytest
from markdown_it import MarkdownIt

from colltune.features import FeatureSet
from colltune.models.learners import Learner
from docs._ext import docstrings, generated, markdown, verbs


def rendered(text: str) -> str:
    """Return Markdown as HTML."""
    return str(MarkdownIt().enable("table").render(text)).strip()


def test_plain_text_reads_as_it_is() -> None:
    """No character of a help text or catalogue is taken for Markdown."""
    for plain in ("*.bcast.*", "a_b_c", "<PATH>", "[x>=1]", "a | b", "1 & 2", "#1"):
        page = rendered(markdown.text(plain))
        escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert page == f"<p>{escaped}</p>", plain


def test_code_in_text_stays_code() -> None:
    """Single and double backticks, of Markdown and of docstrings, both mean code."""
    page = rendered(markdown.text("``a_b`` and `c*d*`"))
    assert page == "<p><code>a_b</code> and <code>c*d*</code></p>"


def test_a_table_has_no_empty_columns_and_keeps_bars_in_cells() -> None:
    """A column in which nothing stands is left out, and a bar in a cell parts nothing."""
    page = rendered(markdown.table(("a", "b", "c"), [(markdown.code("x|y"), "", "1")]))
    assert "<th>b</th>" not in page
    assert "<td><code>x|y</code></td>" in page
    assert "<td>1</td>" in page


def test_a_block_may_hold_fences() -> None:
    """Code that holds a fence itself does not end its block."""
    page = rendered(markdown.fenced("```\nx\n```", "text"))
    assert page.count("<pre>") == 1
    assert "```\nx\n```" in page


def test_blocks_of_pages_are_replaced_and_the_rest_is_kept() -> None:
    """A page's own text stays around what is generated; other code blocks stay, too."""
    page = "# T\n\n```{generated} exit-statuses\n```\n\n```text\nx\n```\n"
    found = generated.expanded(page)
    assert found.startswith("# T\n\n| status | meaning |\n")
    assert found.endswith("```text\nx\n```\n")


def test_a_generator_or_verb_that_is_not_there_stops_the_build() -> None:
    """A page that asks for what does not exist is no empty page."""
    with pytest.raises(LookupError, match="nothing"):
        generated.expanded("```{generated} nothing\n```")
    with pytest.raises(LookupError, match="'nothing'"):
        generated.expanded("```{generated} verb nothing\n```")


def test_examples_are_told_from_what_a_verb_does() -> None:
    """All ways in which help texts give examples are understood."""
    texts = "Do it.\n\nMore\nof it. Example:\n\ncolltune a\n--b\n\nExample, in a job: colltune c"
    found = verbs.verb_of(click.Command("a", help=texts), "colltune a", None)
    assert found.about == ("Do it.", "More of it.")
    assert found.examples == ("colltune a --b", "colltune c")
    texts = "Do it.\n\nExamples: one; two.\n\ncolltune a\n\ncolltune b"
    found = verbs.verb_of(click.Command("a", help=texts), "colltune a", None)
    assert (found.about, found.told) == (("Do it.",), "one; two.")
    assert found.examples == ("colltune a", "colltune b")


def test_long_examples_are_parted_at_options() -> None:
    """No line is too long, and to a shell it is the same command; short ones stay as they are."""
    example = "colltune data import a.out --out data --set machine=hydra -- --qos=low"
    parted = verbs.broken(example, 40)
    assert parted == (
        "colltune data import a.out --out data \\\n    --set machine=hydra -- --qos=low"
    )
    assert max(map(len, parted.splitlines())) <= 40
    assert shlex.split(parted.replace("\\\n", "")) == shlex.split(example)
    assert verbs.broken(example, 80) == example


def test_imported_classes_are_left_out_unless_a_package_offers_them() -> None:
    """A module's imports are not described as its own; what ``__all__`` names is."""
    assert docstrings.is_imported(Learner, "colltune.models.learners.knn")
    assert not docstrings.is_imported(Learner, "colltune.models.learners")
    assert not docstrings.is_imported(FeatureSet, "colltune.features")


def test_every_help_text_begins_with_a_sentence_and_shows_how() -> None:
    """No verb or option is without a word on what it does, and each has an example."""

    def checked(verb: verbs.Verb) -> None:
        assert verb.about, verb.name
        assert all(option.what for option in verb.options), verb.name
        assert verb.parts or verb.examples, verb.name
        for part in verb.parts:
            checked(part)

    for verb in verbs.command_line().parts:
        checked(verb)
