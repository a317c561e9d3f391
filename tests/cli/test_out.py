"""What `--out` names is tried before the work begins, by every verb."""

from __future__ import annotations

import re
from pathlib import Path

from colltune.errors import OutputError
from tests.cli.conftest import Verb
from tests.cli.verb_examples import commands, has

# they write at once, or where a batch job will
AT_ONCE = {"site slurm hooks", "submit"}
VERBS = sorted(name for name, command in commands() if has(command, "--out"))


def test_a_place_that_cannot_be_written_ends_a_verb_before_its_work(
    colltune: Verb, tmp_path: Path
) -> None:
    """It is refused before inputs are even read: none of those that are named is there."""
    file = tmp_path / "file"
    file.write_text("")
    out = file / "below" / "out.png"
    for verb in sorted({*VERBS} - AT_ONCE):
        inputs = () if verb in {"tune", "app interpose"} else ("NO-SUCH-INPUT",)
        answer = colltune(*verb.split(), "--out", out, *inputs)
        assert re.search(f"cannot write .*{out}.*Not a directory. Name a", answer.err), verb
        assert answer.status == OutputError.exit_status, verb


def test_a_folder_of_something_else_is_refused_before_a_fit(colltune: Verb, tmp_path: Path) -> None:
    """`fit` replaces bundles only, which it knows before it reads any data."""
    (tmp_path / "thesis.tex").write_text("work of years")
    answer = colltune("fit", "no-such-data.csv", "--out", tmp_path)
    assert "this folder is not a bundle (it has thesis.tex)" in answer.err
