"""What the command line says of a library that can be measured only, and of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.cli.campaigns import campaign_of, installation_of
from colltune.errors import LibraryError, ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from tests.cli.conftest import Verb

HERE = Path("/opt/mpi/bin/mpirun")


@pytest.mark.parametrize("library", ["mpich", "intelmpi"])
def test_nothing_is_written_for_another_library_than_the_measured_one(
    library: str, colltune: Verb, bundle_path: Path, tmp_path: Path
) -> None:
    """No algorithm of one library is taken for one of another, nor a release of one looked up."""
    shape = ("--bundle", bundle_path, "--nodes", 2, "--ppn", 2)
    answer = colltune("select", *shape, "--format", library, "--out", tmp_path / "rules")
    assert answer.status == LibraryError.exit_status
    wanted = f"the bundle was measured with openmpi, so it says nothing about {library}"
    assert wanted in " ".join(answer.err.split())
    assert not list(tmp_path.iterdir())


def test_the_library_of_the_campaign_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named MPI must be of the campaign's library, unless the campaign names none."""
    asked: list[tuple[str | None, str | None]] = []

    def find(
        named: str | None = None, library: str | None = None, started_by: str | None = None
    ) -> Installation:
        asked.append((named, library))
        if named and library:
            raise ProgramError("not of MPICH")
        return Installation(library or "mpich", "4.0.2", HERE, HERE, HERE, "cc")

    monkeypatch.setattr(installation, "find", find)
    file = tmp_path / "c.toml"
    file.write_text(
        '[library]\nname = "mpich"\n[space]\ncollectives = ["bcast"]\nnodes = [1]\n'
        "ppn = [2]\nmsizes_bytes = [64]\n"
    )
    nothing = (None, None, None, None, None)
    campaign, laptop = campaign_of(file, *nothing), campaign_of(None, *nothing)
    assert installation_of(campaign, None).library == "mpich"
    assert installation_of(laptop, str(HERE)).library == "mpich"
    with pytest.raises(ProgramError, match="not of MPICH"):
        installation_of(campaign, str(HERE))
    assert asked == [(None, "mpich"), (str(HERE), None), (str(HERE), "mpich")]
