"""A job's configuration as texts."""

from __future__ import annotations

import pytest

from colltune.domain import DecisionTable, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi.formats import FORMATS, readers
from colltune.selector.configuration import Target, render, rendered, selector_for
from tests.models.machines import measured

ALONE = Shape(1, 1)
FOR_OPENMPI = ("openmpi-classic", "openmpi-han", "openmpi-parameters", "openmpi-json")


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle for Open MPI."""
    return fit(measured(), "knn")


@pytest.mark.parametrize("name", FOR_OPENMPI)
def test_a_job_of_one_process_gets_an_empty_configuration(bundle: Bundle, name: str) -> None:
    """A single process talks to nobody: nothing is decided, and the file is whole all the same."""
    target = Target.named(name, readers(FORMATS[name])[-1])
    found = render(selector_for(bundle, target), ALONE, target)
    assert found.table.rules == {}
    assert found.table.by_layout == {}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_say_that_nothing_is_decided(name: str) -> None:
    """A table without rules is written by all formats, and read back as it is meant."""
    form = FORMATS[name]
    release = readers(form)[-1]
    found = rendered(Target.named(name, release), DecisionTable(form.library, ALONE, {}))
    parsed = form.parse(found.written.text, "written", release)
    assert not parsed.dropped
    assert "everything is left to the library" in found.written.notes[-1]
    assert ("as a whole or not at all" in found.written.notes[-1]) != form.leaves_parts
    named = [rule.configuration for rule in parsed.rules]
    assert all(one is not None and one.is_default for one in named)
