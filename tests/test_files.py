"""Writing files whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.errors import OutputError
from colltune.files import whole


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until the end readers see the old content, then the new; nothing else is left."""
    path = tmp_path / "new" / "file"
    with whole(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    with whole(path) as temporary:
        temporary.write_text("two")
        assert path.read_text() == "one"
    assert path.read_text() == "two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    """Whatever goes wrong while writing, the old content stays and no part of the new one does."""
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(TypeError), whole(path) as temporary, temporary.open("w") as stream:
        stream.writelines(["half", 1])  # type: ignore[list-item]
    with pytest.raises(OutputError, match=r"cannot write .*file: No space"), whole(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A parent that is a file is an error that names the path and the mend."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match=r"file/x.*name a writable place"),
        whole(tmp_path / "file" / "x"),
    ):
        pass
