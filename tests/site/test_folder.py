"""`colltune site init` and `upgrade`: files that follow from the site file, and edited ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import pty
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from colltune.bench import campaign_file
from colltune.domain import Shape, Synchronisation
from colltune.errors import ProgramError
from colltune.files import write_text
from colltune.mpi.programs import SAME_TYPES
from colltune.process import run
from colltune.retraining.site_file import load
from colltune.selector.demand import DemandLog
from colltune.site import folder as stage
from tests.cli.conftest import Verb
from tests.site.conftest import Init, options

COLLTUNE = (sys.executable, "-m", "colltune.cli")
SERVICE = ("--service", "http://head:8765")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text(errors="replace")
        for p in folder.rglob("*")
        if p.is_file()
    }


def test_everything_follows_from_the_answers(colltune: Verb, site: Path) -> None:
    """Campaign, hooks, unit and site file say what was answered, and the table names each."""
    told = colltune("site", "init", site, *options(*SERVICE), "--json").json
    campaign = campaign_file.load(site / "campaigns/openmpi-4.1.4.toml")
    assert (campaign.machine, campaign.release, campaign.total_s) == ("hydra", "4.1.4", 1800)
    assert (campaign.nodes, campaign.ppn) == ((2, 4), (1, 2))
    asked = '. "$0"; echo "$COLLTUNE_SITE_URL $COLLTUNE_SITE_FOLDER $COLLTUNE_SITE_PARTITIONS"'
    shell = run(["sh", "-c", asked, site / "slurm/site.sh"], timeout_s=10)
    assert shell.stdout == f"http://head:8765 {site}/jobs batch\n"
    unit = (site / "systemd/colltune.service").read_text()
    assert f"COLLTUNE_SERVER_REGISTRY={site}/registry\n" in unit
    assert "--host 0.0.0.0 --port 8765" in unit
    assert "adapt" not in unit
    assert load(site / "site.toml").registry == str(site / "registry")
    written = {file["file"] for file in told["files"]}
    for place in told["places"]:
        pattern = place["file"].replace("*", "[^/]*") + (".*" * place["file"].endswith("/"))
        generated = any(re.fullmatch(pattern, name) for name in written)
        assert generated or place["file"] in ("site.toml", "jobs"), place


def test_it_is_for_the_programs_that_are_named(
    colltune: Verb, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise goes into site file, campaigns and unit; the variable tells of a new site."""
    monkeypatch.setenv("COLLTUNE_PROGRAMS", "builtin-operations")
    colltune("site", "init", site, *options(*SERVICE), "--programs", "same-types")
    assert load(site / "site.toml").programs == SAME_TYPES
    assert campaign_file.load(site / "campaigns/openmpi-4.1.4.toml").programs == SAME_TYPES
    assert "PROGRAMS=same-types\n" in (site / "systemd/colltune.service").read_text()
    assert colltune("site", "init", site, "--yes").status == 0
    other = colltune("site", "init", site, "--yes", "--programs", "any-legal")
    assert (other.status, "site.programs" in other.err) == (2, True)
    fresh = site.with_name("other")
    colltune("site", "init", fresh, *options(*SERVICE))
    assert str(load(fresh / "site.toml").programs) == "builtin-operations"


def test_it_says_when_measuring_pays(init: Init, colltune: Verb, site: Path) -> None:
    """Measuring costs at most half an hour on four nodes; jobs that asked count as well."""
    assert "it pays once tuned jobs took" in init().out
    told = ("site", "init", site, *options(), "--node-hours-per-month", "1000", "--json")
    found = colltune(*told).json["payback"]
    assert found["cost_node_hours"] == pytest.approx(2)
    assert found["saving_node_hours_per_month"]["expected"] > 0
    log = DemandLog(site / "demand")
    log.note("openmpi", "9.9.9", Shape(2, 2))
    log.flush()
    assert "does not pay" in colltune("site", "init", site, *options()).out


def test_what_can_be_run_is_plain_shell(init: Init, site: Path) -> None:
    """The scripts parse in each shell that is here, and everybody can run them."""
    init(*SERVICE)
    for name in ("install", "measure", *(f"slurm/{n}.sh" for n in ("prolog", "task_prolog"))):
        assert (site / name).stat().st_mode & 0o777 == 0o755
        for shell in filter(shutil.which, ("dash", "bash")):
            assert run([shell, "-n", site / name], timeout_s=10).ok


def test_systemd_accepts_the_units(init: Init, site: Path) -> None:
    """`systemd-analyze verify` finds nothing wrong in them, and each writes its own folders."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    init(*SERVICE, "--nightly", "systemd")
    units = sorted((site / "systemd").iterdir())
    assert len(units) == 3
    outcome = run(["systemd-analyze", "verify", "--man=no", *units], timeout_s=30.0)
    assert not [line for line in outcome.stderr.splitlines() if "colltune" in line], outcome.stderr
    nightly = (site / "systemd/colltune-retrain.service").read_text()
    assert f"\nReadWritePaths={site}/registry {site}/measurements " in nightly


def test_the_scrontab_runs_this_colltune(init: Init, site: Path) -> None:
    """Its command names the site file, and its lines can be told from those of others."""
    init("--nightly", "scrontab")
    lines = (site / "scrontab").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("# colltune: begin", "# colltune: end")
    assert f" {stage.program()} site retrain --config {site}/site.toml --jobs 2;" in lines[-2]
    assert f"#SCRON --output={site}/log/retrain-%j.log" in lines


def test_a_tcl_module_sets_path_and_service(init: Init, site: Path) -> None:
    """The module file for Environment Modules is Tcl, and says whom `colltune env` asks."""
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.skip("no tclsh to read the module file with")
    init(*SERVICE)
    stubs = "proc module-whatis {args} {}\n"
    stubs += "".join(f"proc {n} {{args}} {{puts $args}}\n" for n in ("prepend-path", "setenv"))
    program = site.parent / "program.tcl"
    program.write_text(stubs + (site / "modulefiles/colltune").read_text())
    said = run([tclsh, program], timeout_s=10).stdout
    assert said == f"PATH {stage.program().parent}\nCOLLTUNE_URL http://head:8765\n"


def test_the_same_answers_change_nothing(init: Init, colltune: Verb, site: Path) -> None:
    """Run again, with the options or without, no file is touched."""
    init(*SERVICE)
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    assert init(*SERVICE).status == colltune("site", "init", site).status == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_other_answers_name_the_file_to_edit(init: Init, colltune: Verb, site: Path) -> None:
    """An option that contradicts the site file changes nothing; the edited file does."""
    init()
    before = contents(site)
    refused = colltune("site", "init", site, "--nodes", "2,8")
    assert refused.status == 2
    assert f"{site}/site.toml: key cluster.nodes is [2, 4], not [2, 8]" in refused.err
    assert contents(site) == before
    text = (site / "site.toml").read_text().replace("nodes = [2, 4]", "nodes = [2, 8]")
    (site / "site.toml").write_text(text)
    colltune("site", "init", site)
    assert campaign_file.load(site / "campaigns/openmpi-4.1.4.toml").nodes == (2, 8)


def test_an_edited_file_is_kept_and_the_difference_shown(
    init: Init, colltune: Verb, site: Path
) -> None:
    """What somebody wrote stays; other files follow the site file; a restored one does again."""
    init()
    written = (site / "measure").read_text()
    (site / "measure").write_text(written + "# ours\n")
    (site / "site.toml").write_text(
        (site / "site.toml").read_text().replace("[2, 4]", "[3]").replace("#tasks = 1", "tasks = 7")
    )
    answer = colltune("site", "init", site)
    assert "measure was edited and is kept" in answer.out
    assert "-# ours" in answer.out
    assert "+tasks=1" not in answer.out
    assert (site / "measure").read_text() == written + "# ours\n"
    assert campaign_file.load(site / "campaigns/openmpi-4.1.4.toml").nodes == (3,)
    (site / "measure").write_text(written)
    colltune("site", "init", site)
    assert "\ntasks=7\n" in (site / "measure").read_text()


def test_files_that_nothing_stands_for_are_removed_unless_edited(
    init: Init, colltune: Verb, site: Path
) -> None:
    """Without a service there are no hooks; one that was edited stays."""
    init(*SERVICE)
    (site / "slurm/site.sh").write_text("# ours\n")
    text = (site / "site.toml").read_text().replace('"http://head:8765"', '""')
    (site / "site.toml").write_text(text)
    colltune("site", "init", site)
    assert [path.name for path in (site / "slurm").iterdir()] == ["site.sh"]
    assert "COLLTUNE_REGISTRY" in (site / "modulefiles/colltune.lua").read_text()


def test_whoever_is_killed_midway_has_edited_nothing(
    init: Init, colltune: Verb, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after any number of files, the next run ends as one that was not."""
    init(*SERVICE)
    original = contents(site)
    text = (site / "site.toml").read_text().replace('"batch"', '"gpu"')
    for survivors in range(4):
        (site / "site.toml").write_text(text)
        monkeypatch.setattr(stage, "write_text", _killed_after(survivors, write_text))
        with pytest.raises(StopIteration):
            stage.write(site, stage.files_of(stage.site_of(site), site))
        monkeypatch.setattr(stage, "write_text", write_text)
        # the answers of before, once more
        (site / "site.toml").write_text(original["site.toml"])
        answer = colltune("site", "init", site, "--json")
        assert {file["state"] for file in answer.json["files"]} <= {"unchanged", "changed"}
        assert contents(site) == original


def _killed_after(survivors: int, write: Callable[..., None]) -> Callable[..., None]:
    turns = iter(range(survivors))

    def killed(*words: object) -> None:
        next(turns)
        write(*words)

    return killed


def _init(site: Path, name: str) -> None:
    os.environ["PYTHONPATH"] = ""
    words = [
        sys.executable,
        "-m",
        "colltune.cli",
        "site",
        "init",
        str(site),
        *options("--name", name),
    ]
    subprocess.run(words, check=False, capture_output=True)


def test_of_two_at_once_one_comes_first(colltune: Verb, site: Path) -> None:
    """Whoever is second is refused, or finds the same; all files are of one of them."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_init, [(site, "one"), (site, "two")])
    machine = tomllib.loads((site / "site.toml").read_text())["site"]["machine"]
    assert machine in ("one", "two")
    answer = colltune("site", "init", site, "--json").json
    assert {file["state"] for file in answer["files"]} == {"unchanged"}


BAD = {
    "no such folder name": (("--name", "x"), "a b", "'/"),
    "nodes": (("--nodes", "two"), "site", "2,4,8"),
    "no nodes": (("--nodes", "0"), "site", "key cluster.nodes"),
    "partition": (("--partition", "a;id"), "site", "key cluster.partitions"),
    "library": (("--mpi", "lam/7.1"), "site", "lam"),
    "default": (("--default-mpi", "mpich/4.1"), "site", "key cluster.default_mpi"),
    "service": (("--service", "head"), "site", "key cluster.service"),
    "collective": (("--collectives", "bcats"), "site", "bcats"),
    "budget": (("--budget", "soon"), "site", "wall time"),
    "nightly": (("--nightly", "cron"), "site", "key cluster.nightly"),
    "no text": (("--name", "a\udcffb"), "site", "UTF-8"),
}


@pytest.mark.parametrize(("changes", "name", "said"), BAD.values(), ids=BAD)
def test_bad_answers_write_nothing(
    changes: tuple[str, ...], name: str, said: str, colltune: Verb, entered: Path
) -> None:
    """An answer that makes no sense is named, and no folder is made."""
    answer = colltune("site", "init", entered / name, *options(*changes))
    assert answer.status == 2 or "lam" in said
    assert said in answer.err
    assert not (entered / name).exists()


DAMAGED = {
    "no TOML": ("x = [", "not valid TOML"),
    "no cluster": ("", "key site.machine is missing"),
    "only for retraining": (
        '[site]\nmachine = "m"\nregistry = "r"\n[data]\ndatasets = ["d"]\n',
        "table [cluster] is missing",
    ),
}


@pytest.mark.parametrize(("text", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_site_file_that_makes_no_sense_is_named(
    text: str, said: str, colltune: Verb, site: Path
) -> None:
    """Nothing is written from it, by no verb."""
    site.mkdir()
    site.chmod(0o755)
    (site / "site.toml").write_text(text)
    for verb in ("init", "upgrade"):
        answer = colltune("site", verb, site)
        assert answer.status == 2
        assert f"{site}/site.toml" in answer.err
        assert said in answer.err
    assert {path.name for path in site.iterdir()} <= {"site.toml", ".lock"}


def test_a_file_is_no_folder(init: Init, site: Path) -> None:
    """It stays as it is."""
    site.write_text("mine")
    answer = init()
    assert answer.status == 9
    assert f"cannot write {site}" in answer.err
    assert site.read_text() == "mine"


def test_any_text_can_name_a_machine(init: Init, site: Path) -> None:
    """Quotes, backslashes and other alphabets reach the campaign as they are."""
    name = 'Großer "Rechner" \\ № 1 # 計算機'
    init("--name", name)
    assert campaign_file.load(site / "campaigns/openmpi-4.1.4.toml").machine == name
    assert load(site / "site.toml").machine == name


def test_folders_that_others_can_write_are_refused(init: Init, site: Path) -> None:
    """Slurm runs what lies there."""
    site.mkdir()
    site.chmod(0o777)
    answer = init()
    assert answer.status == 9
    assert "is writable by others" in answer.err


@pytest.mark.parametrize("text", ["{", '{"format": 2, "files": {}}', "[]"])
def test_a_damaged_stamp_names_its_mend(text: str, init: Init, site: Path) -> None:
    """No file is overwritten on the word of a stamp that cannot be read."""
    init()
    (site / stage.STAMP).write_text(text)
    answer = init()
    assert answer.status == 2
    assert str(site / stage.STAMP) in answer.err


def test_what_slurm_says_is_taken(colltune: Verb, site: Path, slurm: object) -> None:
    """Cluster, default partition, nodes, cores and the controller's host, without being asked."""
    colltune("site", "init", site, "--yes", "--mpi", "openmpi/4.1.4", "--nightly", "none")
    said = tomllib.loads((site / "site.toml").read_text())
    assert said["site"]["machine"] == "hydra"
    cluster = said["cluster"]
    assert cluster["partitions"] == ["batch"]
    assert (cluster["nodes"], cluster["ppn"]) == ([2, 3, 4, 6, 8], [1, 8, 16])
    assert (cluster["service"], cluster["default_mpi"]) == ("http://head:8765", "openmpi/4.1.4")


def test_without_any_mpi_it_says_what_to_name(
    colltune: Verb, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head node may have none."""
    monkeypatch.setattr(stage, "find_launcher", _nothing)
    answer = colltune("site", "init", site, "--yes")
    assert answer.status == 2
    assert "--mpi openmpi/4.1.6" in answer.err
    assert not site.exists()


def _nothing(_named: str | None) -> None:
    raise ProgramError("no mpirun")


def test_it_asks_on_a_terminal(site: Path, slurm: object) -> None:
    """Enter takes the default; a wrong answer is asked again; none means none."""
    answers = {
        "Name": "hydra",
        "Node counts": "two",
        "is not numbers": "2 4",
        "MPIs of jobs": "openmpi/4.1.4",
        "URL of the service": "none",
        "Every night": "none",
    }
    said = _on_terminal([*COLLTUNE, "site", "init", str(site)], answers)
    assert "Wall time to measure each MPI (4h)" in said
    found = tomllib.loads((site / "site.toml").read_text())["cluster"]
    assert (found["nodes"], found["service"]) == ([2, 4], "")


def _on_terminal(command: list[str], answers: dict[str, str]) -> str:
    """Run `command` on a terminal; answer each prompt that begins like a key, else by Enter."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "dumb"
        os.execv(command[0], command)
    said = since = ""
    try:
        while data := os.read(terminal, 1024).decode(errors="replace"):
            said, since = said + data, since + data
            if since.endswith(": "):
                answer = next((a for begin, a in reversed(answers.items()) if begin in since), "")
                since = ""
                os.write(terminal, f"{answer}\n".encode())
    except OSError:  # its end
        pass
    os.waitpid(process, 0)
    return said


def test_another_release_upgrades_and_goes_back(
    init: Init, colltune: Verb, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`init` points to `upgrade`; that shows, then writes; edited files stay; and back again."""
    init(*SERVICE)
    before = contents(site)
    (site / "README").write_text("ours\n")
    _newer(monkeypatch)
    assert "colltune site upgrade" in colltune("site", "init", site).err
    shown = colltune("site", "upgrade", site, "--check", "--json").json
    assert (shown["from_release"], shown["to_release"], shown["written"]) == (
        "0.1.0",
        "9.9.9",
        False,
    )
    states = {file["file"]: file["state"] for file in shown["files"]}
    assert (states["measure"], states["README"]) == ("changed", "edited")
    assert (site / "measure").read_text() == before["measure"]
    assert colltune("site", "upgrade", site).status == 0
    assert (site / "measure").read_text() == before["measure"] + "# 9.9.9\n"
    monkeypatch.undo()
    assert colltune("site", "upgrade", site).status == 0
    assert contents(site) == before | {"README": "ours\n"}


def test_an_upgrade_that_cannot_read_what_is_in_force_changes_nothing(
    init: Init, colltune: Verb, site: Path, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle of a format that this release does not know stops it, and is named."""
    init()
    registry = ("--registry", site / "registry")
    colltune("site", "bundles", "add", bundle_path, *registry)
    found = colltune("site", "bundles", "list", *registry, "--json").json["bundles"][0]["id"]
    colltune("site", "bundles", "promote", found, *registry)
    manifest = next((site / "registry/bundles" / found).glob("*.json"))
    facts = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(facts | {"format_version": 99}))
    before = contents(site)
    _newer(monkeypatch)
    answer = colltune("site", "upgrade", site)
    assert answer.status == 1
    assert "openmpi-4.1.4" in answer.out
    assert "nothing was written" in answer.out
    assert contents(site) == before


def _newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a release that writes another `measure`."""
    script: Callable[[str], str] = stage._script
    monkeypatch.setattr(stage, "_script", lambda n: script(n) + "# 9.9.9\n" * (n == "measure.sh"))
    monkeypatch.setattr("colltune.__version__", "9.9.9")
    monkeypatch.setattr(stage, "__version__", "9.9.9")


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077], ids=oct)
def test_no_umask_lets_others_write_or_shuts_users_out(
    colltune: Verb, entered: Path, mask: int
) -> None:
    """All can read each file and enter each folder, new ones above, too; only its user writes."""
    site = entered / "new" / "er" / "site"
    old = os.umask(mask)
    try:
        colltune("site", "init", site, *options(*SERVICE, "--nightly", "systemd"))
    finally:
        os.umask(old)
    (site / ".lock").unlink()
    for path in (site.parent.parent, site.parent, site, *site.rglob("*")):
        mode = path.stat().st_mode & 0o777
        assert mode in ((0o755,) if path.is_dir() else (0o644, 0o755)), path
    assert (site / "site.toml").exists()


OPENED: dict[str, Callable[[Path], None]] = {
    "the folder": lambda site: site.chmod(0o775),
    "one above": lambda site: site.parent.chmod(0o777),
    "the library's": lambda site: (site / "lib").chmod(0o775),
    "a library": lambda site: (site / "lib/openmpi-4.1.4/libcolltune.so").chmod(0o664),
    "a hook": lambda site: (site / "slurm/rank.sh").chmod(0o757),
    "a link": lambda site: moved(site / "slurm/site.sh"),
}


def moved(path: Path) -> None:
    """Leave a link in the place of a file."""
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


@pytest.mark.parametrize("open_it", OPENED.values(), ids=OPENED)
def test_install_refuses_what_others_can_change(
    init: Init, site: Path, slurm: object, open_it: Callable[[Path], None]
) -> None:
    """It names what that is before it does anything; without it is shown what would be done."""
    init(*SERVICE)
    library = site / "lib/openmpi-4.1.4/libcolltune.so"
    library.parent.mkdir(parents=True)
    library.touch()
    for path in (library, library.parent, library.parent.parent):
        path.chmod(0o755)
    good = run(["sh", site / "install", "--print"], timeout_s=20)
    assert good.ok, good.stderr
    assert f"chown -R root {site}/lib" in good.stdout
    open_it(site)
    refused = run(["sh", site / "install", "--print"], timeout_s=20)
    assert not refused.ok
    assert "others than root can change this" in refused.stderr
    assert refused.stdout == ""


def test_reprompi_measures_where_it_is_chosen(init: Init, site: Path) -> None:
    """Its campaigns ask for windows, and allow barriers where none can be kept."""
    assert init("--backend", "reprompi").err == ""
    (path,) = (site / "campaigns").glob("*.toml")
    campaign = campaign_file.load(path)
    assert campaign.backend == "reprompi"
    assert campaign.synchronisation == (Synchronisation.WINDOW, Synchronisation.BARRIER)
