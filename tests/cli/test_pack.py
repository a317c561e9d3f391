"""`colltune app pack`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from colltune.mpi.formats import format_for
from tests.cli.conftest import Verb
from tests.cli.test_profile import ROWS, profiles
from tests.dataset.profiles import profile_text, row

__all__ = ["profiles"]
JOB = ("--nodes", 8, "--ppn", 4)


def test_a_folder_for_one_application(
    colltune: Verb, profiles: Path, bundle_path: Path, tmp_path: Path
) -> None:
    """The folder holds rules for what is used, variables, a manifest, and how to start."""
    out = tmp_path / "packed"
    answer = colltune(
        "app", "pack", "--profile", profiles, "--bundle", bundle_path, *JOB, "--out", out
    )
    assert answer.status == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert {(c["collective"], c["nprocs"]) for c in manifest["chosen"]} == {
        ("bcast", 32),
        ("bcast", 8),
    }
    (main, *_) = manifest["files"]
    assert sorted(p.name for p in out.iterdir()) == sorted(
        [*manifest["files"], "README.txt", "manifest.json"]
    )
    form = format_for(manifest["configuration_format"], "4.1.4")
    parsed = form.parse((out / main).read_text(), main, "4.1.4")
    assert not parsed.dropped
    readme = (out / "README.txt").read_text()
    assert f". {out}/env.sh" in readme
    assert "expected to save" in readme
    printed = subprocess.run(
        ["sh", "-c", f'. "{out}/env.sh" && env'], capture_output=True, text=True, check=True
    ).stdout
    for name, value in manifest["environment"].items():
        assert f"{name}={value}\n" in printed
    assert str(out / main) in printed


def test_json_is_the_manifest(
    colltune: Verb, profiles: Path, bundle_path: Path, tmp_path: Path
) -> None:
    """What is printed for machines is what the folder says."""
    out = tmp_path / "packed"
    words = ("pack", "--profile", profiles, "--bundle", bundle_path, *JOB, "--out", out)
    assert colltune(*words, "--json").json == json.loads((out / "manifest.json").read_text())


def test_another_shape_and_nothing_to_gain_are_told(
    colltune: Verb, bundle_path: Path, tmp_path: Path
) -> None:
    """A job of a shape that was not recorded gets a note; nothing chosen is an empty setting."""
    (tmp_path / "one.profile").write_bytes(profile_text([row("allreduce", "8x4", 8, 1, 1e-3)]))
    out = tmp_path / "packed"
    words = ("--profile", tmp_path, "--bundle", bundle_path, "--nodes", 4, "--ppn", 4)
    answer = colltune("app", "pack", *words, "--out", out)
    assert answer.status == 0
    assert "was not recorded on 4x4 but on 8x4" in answer.err
    assert "all collectives are left to the library" in answer.err
    assert json.loads((out / "manifest.json").read_text())["chosen"] == []


def test_what_does_not_fit_is_refused(colltune: Verb, bundle_path: Path, tmp_path: Path) -> None:
    """Profile, bundle and format must be of one library; nothing is written otherwise."""
    for head, words, status, message in (
        ({"library": "mpich 4.0.2"}, (), 8, "measured with openmpi"),
        ({}, ("--format", "mpich", "--release", "4.0.2"), 3, "ran with openmpi"),
        ({}, ("--program", "other"), 3, "no profile of other"),
    ):
        (tmp_path / "one.profile").write_bytes(profile_text(ROWS, **head))
        given = ("--profile", tmp_path, "--bundle", bundle_path, *JOB, "--out", tmp_path / "packed")
        answer = colltune("app", "pack", *given, *words)
        assert (answer.status, message in answer.err) == (status, True), answer.err
        assert not (tmp_path / "packed").exists(), head
