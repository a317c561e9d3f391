"""What the Dockerfile promises, as far as it can be read off it; see tests/integration/image.py."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from colltune.cli.app import VERBS
from tests.dockerfile import Stage, ignored, stages

ROOT = Path(__file__).parents[1]
STAGES = stages(ROOT / "Dockerfile")
SERVICE = STAGES["service"]
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=list(STAGES))


def lineage(stage: Stage) -> list[Stage]:
    """Return a stage and those that it is made from."""
    below = STAGES.get(stage.base)
    return [stage, *(lineage(below) if below else [])]


def installed_packages(stage: Stage) -> set[str]:
    """Return the distribution's packages that a stage and those below it install."""
    found = set()
    for one in lineage(stage):
        for step in one.all("RUN"):
            for command in re.findall(r"apt-get install ([^&]*)", step.text):
                found |= {word for word in command.split() if not word.startswith("-")}
    return found


@every_stage
def test_every_stage_keeps_to_what_can_be_checked(stage: Stage) -> None:
    """No ADD, no URL, no secret; packages come by lock files with hashes, and lists are removed."""
    assert not stage.all("ADD")
    for step in stage.instructions:
        assert "://" not in step.text
        assert not re.search(r"(?i)passw(or)?d=|token=|secret", step.text)
    for step in stage.all("RUN"):
        for command in re.findall(r"pip .*?install (.*?)(?:&&|$)", step.text):
            assert "--require-hashes" in command or "--no-index" in command
        if "apt-get install" in step.text:
            assert "--no-install-recommends --yes" in step.text
            assert "apt-get update" in step.text
            assert "rm -rf /var/lib/apt/lists/*" in step.text


@pytest.mark.parametrize("name", ["service", "measure"])
def test_programs_are_started_without_a_shell(name: str) -> None:
    """ENTRYPOINT and CMD are arrays, so that a SIGTERM reaches colltune itself."""
    for word in ("ENTRYPOINT", "CMD"):
        (only,) = STAGES[name].all(word)
        assert only.exec_form
    (entrypoint,) = STAGES[name].all("ENTRYPOINT")
    assert (entrypoint.exec_form or [])[0] == "colltune"
    assert set((entrypoint.exec_form or [])[1:2]) <= set(VERBS)


def test_the_service_runs_as_a_fixed_user_that_is_not_root() -> None:
    """Its numbers are fixed, so that folders can be made for it, and no step follows as root."""
    (user,) = SERVICE.all("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user.text)
    words = [step.word for step in SERVICE.instructions]
    assert "RUN" not in words[words.index("USER") :]
    assert "COPY" not in words[words.index("USER") :]


def test_the_service_has_no_compiler_mpi_or_r() -> None:
    """Of the distribution it has Python; the compiled packages come from the build's stage."""
    assert installed_packages(SERVICE) == {"python3"}
    assert [step.options for step in SERVICE.all("COPY")] == [{"from": "build"}]
    assert {"gcc", "make"} <= installed_packages(STAGES["measure"])


def test_only_what_is_copied_is_sent_to_a_build() -> None:
    """Nothing that lies about in the folder, a token or a result, can get into an image."""
    wanted = {
        source
        for stage in STAGES.values()
        for step in stage.all("COPY")
        if "from" not in step.options
        for source in step.text.split()[:-1]
    }
    sent = {p.name for p in ROOT.iterdir() if not ignored(IGNORED, PurePosixPath(p.name))}
    assert sent == wanted
