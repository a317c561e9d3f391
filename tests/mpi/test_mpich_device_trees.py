"""Trees of MPICH's device layer: read, checked, explained and converted as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.formats import FORMATS
from colltune.mpi.mpich.environment import DEVICE, DEVICE_FILE, POSIX_FILE
from colltune.mpi.rules import Call, Fault

TREES = FORMATS["mpich-json"]
C = Collective
ONE = """{"collective=bcast":
  {"comm_type=intra":
    {"avg_msg_size<=100": {"composition=MPIDI_Bcast_intra_composition_alpha": {}},
     "avg_msg_size=any": {"composition=MPIDI_Bcast_intra_composition_gamma": {}}}}}
"""
POSIX = """{"collective=barrier": {"comm_type=intra": {"is_multi_threaded=no":
  {"algorithm=MPIDI_POSIX_mpi_barrier_release_gather": {}}}}}
"""


@pytest.mark.parametrize("release", ["4.0.2", "4.1.2", "4.3.2", "5.0.2"])
@pytest.mark.parametrize("text", [ONE, POSIX])
def test_they_need_not_be_whole(text: str, release: str) -> None:
    """What is left out is the selection tree's; nothing ends a program."""
    assert TREES.recognises(text)
    assert TREES.lint(TREES.parse(text, "f", release)) == ()


def test_what_a_release_does_not_have_is_told(tmp_path: Path) -> None:
    """By the lint, and by a conversion, which leaves it out."""
    text = ONE.replace("bcast", "alltoall").replace("Bcast", "Alltoall").replace("gamma", "beta")
    assert TREES.lint(TREES.parse(text, "f", "5.0.2")) == ()
    faults = {finding.fault for finding in TREES.lint(TREES.parse(text, "f", "4.0.2"))}
    assert faults == {Fault.ENDS_PROGRAM}
    written = TREES.convert(TREES.parse(ONE, "f", "5.0.2"), "4.0.2")
    assert TREES.lint(TREES.parse(written.text, "g", "4.0.2")) == ()
    lost = TREES.convert(TREES.parse(text, "f", "5.0.2"), "4.0.2")
    assert len(lost.notes) == 1
    assert "Alltoall_intra_composition_beta" in lost.notes[0]


def test_a_call_is_explained_by_the_composition() -> None:
    """The component is the device's; what it hands on is the library's own decision."""
    parsed = TREES.parse(ONE, "f", "5.0.2")
    small, large = (parsed.decide(Call(C.BCAST, 8, m, 2)) for m in (8, 1000))
    assert small.component == "ch4 Bcast_intra_composition_alpha"
    assert large.component == "ch4 Bcast_intra_composition_gamma"
    other = parsed.decide(Call(C.REDUCE, 8, 8, 2))
    assert (other.component, other.rule) == ("", None)
    off = {DEVICE_FILE: "/f", DEVICE: "none"}
    assert parsed.decide(Call(C.BCAST, 8, 8, 2), off).component == ""


def test_each_layer_has_its_own_variable(tmp_path: Path) -> None:
    """That of ch4, and that of its shared memory."""
    for text, variable in ((ONE, DEVICE_FILE), (POSIX, POSIX_FILE)):
        path = tmp_path / "tree.json"
        path.write_text(text)
        assert TREES.activation("5.0.2", {"": str(path)}) == {variable: str(path)}


def test_what_colltune_writes_for_the_device_is_sound() -> None:
    """The file beside the selection tree is one of these trees."""
    chosen = Interval(0, None, Configuration.parse("mpich.bcast.binomial"))
    table = DecisionTable("mpich", Shape(2, 2), {(C.BCAST, 4): (chosen,)})
    written = TREES.write(table, "5.0.2")
    text = written.texts[".ch4"]
    assert TREES.lint(TREES.parse(text, "f", "5.0.2")) == ()
