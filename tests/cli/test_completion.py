"""Completion, by the protocol that the shells' scripts speak, and in the shells that are here."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from colltune import process
from colltune.cli import completion
from colltune.cli.app import VERBS
from colltune.domain import Collective
from colltune.models.learners import LEARNERS
from colltune.mpi import LIBRARIES
from colltune.mpi.formats import FORMATS
from tests.cli.verb_examples import commands

# what `import colltune.cli` may not be slowed down by
HEAVY = ("numpy", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib", "pydantic", "fastapi")
RUN = """
import json, sys
from colltune.cli import main
sys.argv = ["colltune"]
try:
    main()
finally:
    print(json.dumps(sorted(set(map(str, sys.modules)))), file=sys.stderr)
"""
SHOWN = "from colltune.cli import main; import sys; sys.argv = ['colltune', *sys.argv[1:]]; main()"
Complete = Callable[..., list[str]]


def variables(shell: str, line: str) -> dict[str, str]:
    """Return what a shell's script sets for the words up to the cursor."""
    if shell == "bash":
        words = line.split(" ")
        told = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        told = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {"_COLLTUNE_COMPLETE": f"complete_{shell}", **told}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Return a function that returns what is offered for a line; nothing else is printed."""

    def offered(line: str, shell: str = "bash", **more: str) -> list[str]:
        for name, value in {**variables(shell, line), **more}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            completion.answer()
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.split()

    return offered


def test_verbs_are_offered(complete: Complete) -> None:
    """All verbs that begin so, and nothing else."""
    for begun in ("", "s", "what"):
        found = complete(f"colltune {begun}")
        assert sorted(found) == sorted(verb for verb in VERBS if verb.startswith(begun))


OFFERED: tuple[tuple[str, list[str]], ...] = (
    ("colltune fit --lea", ["--learner"]),
    ("colltune fit --learner ", [*LEARNERS, "auto"]),
    ("colltune fit data --learner g", ["gam"]),
    ("colltune fit --backend ", ["joblib", "dask"]),
    ("colltune measure --backend ", ["native", "replay", "reprompi", "smpi"]),
    ("colltune measure --strategy f", ["full_grid"]),
    ("colltune select --collective ", list(Collective)),
    ("colltune select --format open", [one for one in ("openmpi", *FORMATS) if "open" in one]),
    ("colltune rules lint --format ", list(FORMATS)),
    ("colltune rules lint --release 4.1", ["4.1.4", "4.1.8", "4.1.3"]),
    ("colltune rules lint --release mpich@5", ["mpich@5.0.2"]),
    ("colltune rules catalog intel", ["intelmpi"]),
    ("colltune rules catalog openmpi@6", ["openmpi@6.0.0"]),
    ("colltune rules catalog openmpi@6.0.0 barr", ["barrier"]),
    ("colltune evaluate data --split leave-n", ["leave-nodes-out"]),
    (
        "colltune site ",
        ["init", "check", "status", "upgrade", "retrain", "slurm", "bundles", "token"],
    ),
    ("colltune site bundles pro", ["promote"]),
    ("colltune rules explain --communicator l", ["leaders"]),
    (
        "colltune site slurm hooks --library ",
        [f"{name}/{one}" for name, mpi in LIBRARIES.items() for one in mpi.releases],
    ),
    # a file is what the shell itself completes
    ("colltune rules lint ru", []),
)


def test_values_are_offered(complete: Complete) -> None:
    """What an option or argument takes, of the registry that has it."""
    for line, offered in OFFERED:
        assert complete(line) == offered, line


def test_other_shells_get_the_same(complete: Complete) -> None:
    """Zsh and fish put the words elsewhere; they get verbs, each with what it does, and values."""
    for shell in ("zsh", "fish"):
        verbs = " ".join(complete("colltune f", shell))
        assert "fit" in verbs, shell
        assert "Fit a runtime model" in verbs, shell
        assert [re.sub(r"\W", "", one) for one in complete("colltune fit --learner kn", shell)][
            -1
        ] == "knn", shell


def test_words_that_bash_breaks_are_put_together() -> None:
    """Bash ends words at @; what it will leave as it is must not be in the answer."""
    for words, joined, cut in (
        ("colltune rules catalog openmpi @ 6", "colltune rules catalog openmpi@6", "openmpi@"),
        ("colltune rules catalog openmpi @", "colltune rules catalog openmpi@", "openmpi@"),
        ("colltune fit --learner kn", "colltune fit --learner kn", ""),
        ("colltune rules catalog openmpi@6", "colltune rules catalog openmpi@6", ""),
    ):
        given = words.split()
        corrected, found = completion.join_words(
            {"COMP_WORDS": "\n".join(given), "COMP_CWORD": f"{len(given) - 1}"}
        )
        assert (" ".join(corrected["COMP_WORDS"].split("\n")), found) == (joined, cut)
        assert int(corrected["COMP_CWORD"]) == len(joined.split()) - 1


def test_nothing_is_said_in_the_middle_of_a_line() -> None:
    """Whatever the shell hands over, no message and no traceback gets into the user's line."""
    for broken in (
        {},
        {"COMP_WORDS": ""},
        {"COMP_WORDS": "colltune", "COMP_CWORD": "7"},
        {"COMP_WORDS": "colltune\nfit", "COMP_CWORD": "-1"},
        {"COMP_WORDS": 'colltune\nfit\n"', "COMP_CWORD": "2"},
        {"COMP_WORDS": "colltune\nfit\n--learner\n'é", "COMP_CWORD": "3"},
        {"COMP_WORDS": "colltune\nbundles\nshow\n--registry\n/no/such\n", "COMP_CWORD": "5"},
    ):
        told = {"_COLLTUNE_COMPLETE": "complete_bash", **broken}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COMP_")} | told
        outcome = process.run([sys.executable, "-c", SHOWN], env=environment, timeout_s=60)
        assert outcome.stderr == "", broken


def test_nothing_heavy_is_imported() -> None:
    """An answer needs no numpy, nothing that learns or draws, and no web framework."""
    for shell, line in (
        ("bash", "colltune "),
        ("bash", "colltune fit --learner "),
        ("zsh", "colltune evaluate --split "),
        ("fish", "colltune rules catalog openmpi@"),
    ):
        environment = {**os.environ, **variables(shell, line)}
        outcome = process.run([sys.executable, "-c", RUN], env=environment, timeout_s=60)
        assert outcome.stdout.strip(), shell
        loaded = json.loads(outcome.stderr)
        assert "colltune.cli.app" in loaded, shell
        assert not [name for name in HEAVY if name in loaded], shell
        if "fit" in line:
            assert "colltune.cli.evaluate" not in loaded, shell


def test_every_entry_is_of_an_option() -> None:
    """No entry of the table outlives the option that it was made for."""
    known = {
        name
        for words, leaf in commands()
        for parameter in leaf.params
        for one in (*parameter.opts, getattr(parameter, "metavar", None))
        for name in (one, *(f"{word} {one}" for word in words.split()))
    }
    assert set(completion.VALUES) <= known


REGISTRIES = (
    ("models.learners", "LEARNERS"),
    ("models.workers", "BACKENDS"),
    ("bench.backends", "BACKENDS"),
    ("bench.strategies", "STRATEGIES"),
    ("dataset.importers", "IMPORTERS"),
    ("dataset.tidy_csv", "TIME_UNITS"),
    ("evaluation.request", "SPLITS"),
    ("evaluation.request", "SUITES"),
    ("retraining.site_file", "DEPLOY_FILES"),
    ("site.folder", "EXAMPLES"),
    ("domain", "Collective"),
    ("dataset.objective", "Objective"),
    ("server.auth.token_file", "Scope"),
)


def test_what_is_read_is_what_is_registered() -> None:
    """Names read from the source are those that the imported registry has, in its order."""
    for module, name in REGISTRIES:
        imported = importlib.import_module(f"colltune.{module}")
        is_package = hasattr(imported, "__path__")
        file = module.replace(".", "/") + ("/__init__.py" if is_package else ".py")
        assert completion.registered(file, name) == list(map(str, getattr(imported, name))), file


def test_a_registry_that_is_no_literal_is_noticed() -> None:
    """There is no silent empty list for a name that is gone, or that is computed."""
    for file, name in (("domain.py", "Nothing"), ("domain.py", "LARGEST_NUMBER")):
        with pytest.raises(KeyError):
            completion.registered(file, name)


def test_bundles_of_a_registry_are_offered(complete: Complete, tmp_path: Path) -> None:
    """Slots, and beginnings of ids as long as people write them, of the folder that was named."""
    ids = ("a" * 63 + "0", "b" * 64)
    for name in (*ids, ".a.0123456789ab.tmp"):
        (tmp_path / "bundles" / name).mkdir(parents=True)
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / "openmpi-4.1.4").touch()
    line = f"colltune site bundles show --registry {tmp_path} "
    assert complete(line) == ["a" * 12, "b" * 12, "openmpi-4.1.4"]
    assert complete(f"{line}bbb") == ["b" * 12]
    assert complete(line + ids[0][:20]) == [ids[0][:20]]
    assert complete("colltune site bundles show ", COLLTUNE_REGISTRY=str(tmp_path))[0] == "a" * 12
    assert complete(f"colltune site bundles show --registry {tmp_path}/none ") == []


def script(shell: str, folder: Path) -> Path:
    """Return the file of a shell's script, and put colltune of this tree beside it."""
    command = folder / "colltune"
    command.write_text(f"#!{sys.executable}\n{SHOWN}\n")
    command.chmod(0o755)
    environment = {**os.environ, "_COLLTUNE_COMPLETE": f"source_{shell}"}
    outcome = process.run([command], env=environment, timeout_s=60)
    file = folder / f"colltune.{shell}"
    file.write_text(process.check(outcome, "the script").stdout)
    return file


def in_shell(shell: str, folder: Path, words: list[str]) -> process.ProcessResult:
    """Run a shell with colltune of this tree on its PATH."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return process.run([found, *words], env=environment, cwd=folder, timeout_s=60)


def test_in_a_real_bash(tmp_path: Path) -> None:
    """The script for bash fills COMPREPLY: with a verb, a value, and behind an @ of a word."""
    file = script("bash", tmp_path)
    lines = [["colltune", "r"], ["colltune", "fit", "--learner", "kn"]]
    lines += [["colltune", "rules", "catalog", "openmpi", "@", "6"]]
    lines += [["colltune", "rules", "lint", "x"], ["colltune", "rules", "c"]]
    program = f". {file}; complete -p colltune; "
    for words in lines:
        program += (
            f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; COMPREPLY=();"
            ' _colltune_completion colltune; echo "[${COMPREPLY[*]}]"; '
        )
    outcome = process.check(in_shell("bash", tmp_path, ["--norc", "-c", program]), "bash")
    assert outcome.stderr == ""
    shown, *offered = outcome.stdout.splitlines()
    assert shown == "complete -o default -F _colltune_completion colltune"
    assert offered == ["[report rules]", "[knn]", "[6.0.0]", "[]", "[convert catalog]"]


def test_in_a_real_fish(tmp_path: Path) -> None:
    """The script for fish is one that fish completes with."""
    file = script("fish", tmp_path)
    program = f"source {file}; complete -C 'colltune fit --learner kn'"
    outcome = process.check(in_shell("fish", tmp_path, ["--no-config", "-c", program]), "fish")
    assert outcome.stdout.split() == ["knn"]


def test_in_a_real_zsh(tmp_path: Path) -> None:
    """The script for zsh calls for what was typed so far, and hands the values to _arguments."""
    file = script("zsh", tmp_path)
    program = (
        "compdef() { : }; _arguments() { print -r -- $* }; _files() { print files }; "
        f"source {file}; words=(colltune fit --learner kn); CURRENT=4; _colltune_completion"
    )
    outcome = process.check(in_shell("zsh", tmp_path, ["-f", "-c", program]), "zsh")
    assert outcome.stdout.strip() == '*: :(("knn"))'


def test_it_is_installed_for_the_shell_at_hand(tmp_path: Path) -> None:
    """--install-completion writes a script below the home folder, and says where."""
    home = tmp_path / "home"
    script("bash", tmp_path)
    environment = {
        **os.environ,
        "HOME": str(home),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    outcome = process.run(
        [tmp_path / "colltune", "--install-completion", "bash"], env=environment, timeout_s=60
    )
    written = home / ".bash_completions" / "colltune.sh"
    assert str(written) in process.check(outcome, "installing").stdout.replace("\n", "")
    assert "complete -o default" in written.read_text()
    assert str(written) in (home / ".bashrc").read_text()
