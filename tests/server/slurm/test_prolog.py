"""The prolog and epilog: what a site's folder holds after them, whatever comes from the network."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.server.slurm.fake_service import BAD, BUNDLE, RULES, Asked, FakeService, good
from tests.server.slurm.site import Site

JOB = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_CPUS_PER_NODE": "8(x4)"}


def contents(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def shapes(site: Site) -> set[str]:
    """Return the shapes that job 17 is prepared for."""
    return {path.parent.name for path in site.jobs.glob("17/*/*/exports")}


def test_a_job_is_prepared_for_all_likely_shapes(site: Site, service: FakeService) -> None:
    """One request; per shape the files and the settings, beside them the bundle and the users'."""
    site.run("prolog.sh", JOB)
    here = site.jobs / "17/openmpi-4.1.4"
    prepared = contents(here)
    for shape in ("4x8", "4x4", "4x2", "4x1"):
        assert prepared.pop(f"{shape}/rules") == RULES
        assert prepared.pop(f"{shape}/exports") == (
            "OMPI_MCA_coll_tuned_use_dynamic_rules=1\n"
            f"OMPI_MCA_coll_tuned_dynamic_rules_filename={here}/{shape}/rules\n"
        )
    assert prepared == {
        "bundle": f"{BUNDLE}\n",
        "deciding": "OMPI_MCA_coll OMPI_MCA_coll_tuned_* OMPI_MCA_coll_han_*\n",
        "harmless": "*_verbose\n",
    }
    assert len(service.asked) == 1
    assert site.logged() == []
    assert [path.name for path in site.jobs.iterdir()] == ["17"]


def test_the_hook_shows_that_it_asks_for_a_job(site: Site, service: FakeService) -> None:
    """By the site's token, where there is one, since anybody else may ask, too."""
    site.run("prolog.sh", JOB)
    (site.hooks / "summaries.header").write_text("Authorization: Bearer colltune_x\n")
    site.run("prolog.sh", {**JOB, "SLURM_JOB_ID": "18"})
    assert [asked.authorization for asked in service.asked] == ["", "Bearer colltune_x"]


@pytest.mark.parametrize(
    ("comment", "programs", "results"),
    [
        ("", "", ""),
        ("colltune:programs=same-types", "same-types", ""),
        (
            "mine; colltune:programs=same-types,builtin-operations; more",
            "same-types,builtin-operations",
            "",
        ),
        ("colltune:programs=same-types&nodes=1", "same-types", ""),
        ("colltune:results=same-bits", "", "same-bits"),
        ("colltune:programs=same-types; colltune:results=any&nodes=1", "same-types", "any"),
    ],
)
def test_a_job_says_which_programs_it_has(
    site: Site, service: FakeService, comment: str, programs: str, results: str
) -> None:
    """What its comment promises goes with the request, and nothing else of it."""
    site.run("prolog.sh", {**JOB, "SLURM_JOB_COMMENT": comment})
    assert (service.asked[-1].programs, service.asked[-1].results) == (programs, results)


@pytest.mark.parametrize(
    ("told", "prepared"),
    [
        ({"SLURM_JOB_NTASKS": "24"}, {"4x6"}),
        ({"SLURM_JOB_NTASKS": "25"}, {"4x8", "4x4", "4x2", "4x1"}),
        ({"SLURM_JOB_CPUS_PER_NODE": "16,12(x3)"}, {"4x12", "4x6", "4x3", "4x1"}),
        ({"SLURM_JOB_CPUS_PER_NODE": "6", "SLURM_JOB_NUM_NODES": "1"}, {"1x6", "1x3"}),
        ({"SLURM_JOB_CPUS_PER_NODE": "1", "SLURM_JOB_NUM_NODES": "1"}, set()),
        ({"SLURM_HET_JOB_ID": "17", "SLURM_HET_JOB_OFFSET": "0"}, set()),
        ({"SLURM_JOB_COMMENT": "mine, colltune:off"}, set()),
    ],
)
def test_the_shapes_follow_from_what_slurm_tells(
    site: Site, told: dict[str, str], prepared: set[str]
) -> None:
    """The job's own processes per node where they are known, else parts of its processors."""
    site.run("prolog.sh", JOB | told)
    assert shapes(site) == prepared
    assert site.logged() == []


@pytest.mark.parametrize(
    ("named", "partition", "asks"),
    [("", "gpu", True), ("batch long", "long", True), ("batch", "gpu", False)],
)
def test_jobs_of_other_partitions_are_left_alone(
    site: Site, service: FakeService, named: str, partition: str, asks: bool
) -> None:
    """A site may name the partitions whose nodes it measured; all others keep the default."""
    site.configure(PARTITIONS=named)
    site.run("prolog.sh", JOB | {"SLURM_JOB_PARTITION": partition})
    assert bool(shapes(site)) == bool(service.asked) == asks
    assert site.logged() == []


def test_a_site_with_several_libraries(site: Site, service: FakeService) -> None:
    """Each is asked for by itself; one that fails does not spoil the others."""

    def answer(asked: Asked) -> bytes:
        return b"no" if asked.library == "mpich" else good(asked)

    service.answer = answer
    site.configure(LIBRARIES="openmpi/4.1.4 mpich/4.0.2 openmpi/5.0.11 ../etc x/y/z")
    site.run("prolog.sh", JOB)
    there = {path.name for path in (site.jobs / "17").iterdir()}
    assert there == {"job", "openmpi-4.1.4", "openmpi-5.0.11"}
    (line,) = site.logged()
    assert "mpich/4.0.2: line 1: this is not a job file of version 1 to 2" in line


@pytest.mark.parametrize("what", BAD)
def test_a_bad_service_is_no_obstacle(site: Site, service: FakeService, what: str) -> None:
    """The hook ends well, without an answer that does not come, and logs one line."""
    service.answer = BAD[what]
    site.configure(LIMIT_S="1")
    site.run("prolog.sh", JOB)
    assert contents(site.jobs / "17") == {"job": "17\n"}
    assert len(site.logged()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"FOLDER": "/nowhere/at/all"},
        {"FOLDER": "relative"},
        {"FOLDER": "/tmp/a b;c"},
    ],
)
def test_a_wrong_site_file_is_no_obstacle(site: Site, settings: dict[str, str]) -> None:
    """The hook ends well and logs one line."""
    site.configure(**settings)
    site.run("prolog.sh", JOB)
    assert len(site.logged()) == 1
    assert shapes(site) == set()


@pytest.mark.parametrize("text", ["(((", "exit 7", "COLLTUNE_SITE_FOLDER="])
def test_a_broken_site_file_is_no_obstacle(site: Site, text: str) -> None:
    """Each hook ends with status 0, also where the site file cannot be read by a shell."""
    (site.hooks / "site.sh").write_text(text)
    for script in ("prolog.sh", "task_prolog.sh", "epilog.sh"):
        assert site.run(script, JOB).stdout == ""


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_JOB_CPUS_PER_NODE"])
@pytest.mark.parametrize("value", ["", "x", "-1", "../17", "9" * 30, "1;id"])
def test_what_slurm_does_not_say_is_no_obstacle(site: Site, name: str, value: str) -> None:
    """The hook ends well, and writes nowhere but into a folder of a number."""
    site.run("prolog.sh", JOB | {name: value})
    assert {p.name for p in site.jobs.iterdir()} <= {"17", "9" * 30}


def test_the_first_decision_stays(site: Site, service: FakeService) -> None:
    """A job that is started again keeps its folder, whatever the service says by then."""
    site.run("prolog.sh", JOB)
    before = contents(site.jobs)
    service.answer = partial(good, rules="# others\n")
    site.run("prolog.sh", JOB)
    assert contents(site.jobs) == before


def on_a_node(name: str) -> Mapping[str, str]:
    """Return what a Prolog sees on one of the job's nodes."""
    return JOB | {"SLURMD_NODENAME": name, "SLURM_NODELIST": "n[3-5,9]", "SLURM_JOB_NTASKS": "32"}


def test_of_all_nodes_one_asks(site: Site, service: FakeService) -> None:
    """As a Prolog on four nodes at once, one request is made, and all leave it settled."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(site.run, "prolog.sh"), map(on_a_node, ("n3", "n4", "n5", "n9"))))
    assert len(service.asked) == 1
    assert shapes(site) in ({"4x8"}, set())


def test_nodes_do_not_wait_for_ever_for_the_first_one(site: Site, service: FakeService) -> None:
    """Where the first node says nothing, it is settled that there is nothing: all agree on that."""
    site.run("prolog.sh", on_a_node("n9"))
    assert contents(site.jobs) == {"17/job": "17\n"}
    site.run("prolog.sh", on_a_node("n3"))
    assert contents(site.jobs) == {"17/job": "17\n"}
    assert service.asked == []
    assert len(site.logged()) == 1


def test_a_folder_that_others_can_write_is_not_used(site: Site) -> None:
    """What others could put there would be told to tasks."""
    site.jobs.chmod(0o775)
    site.run("prolog.sh", JOB)
    assert shapes(site) == set()
    assert "others can write it" in site.logged()[0]


def test_the_epilog_removes_the_job_and_what_is_old(site: Site) -> None:
    """The job's folder, folders older than any job, and what killed prologs left."""
    site.configure(DAYS="30")
    site.run("prolog.sh", JOB)
    for name, age_days in (("15", 31), ("16", 29), (".14.abcdef", 1), ("kept", 99)):
        (site.jobs / name / "openmpi-4.1.4").mkdir(parents=True)
        then = time.time() - age_days * 86400
        os.utime(site.jobs / name, (then, then))
    site.run("epilog.sh", JOB)
    assert {path.name for path in site.jobs.iterdir()} == {".swept", "16", "kept"}


@pytest.mark.parametrize("job", ["", "..", "17/../18", "*"])
def test_the_epilog_removes_nothing_else(site: Site, job: str) -> None:
    """Without a number of a job nothing is removed."""
    site.run("prolog.sh", JOB)
    site.run("epilog.sh", JOB | {"SLURM_JOB_ID": job})
    assert shapes(site)


def test_an_epilog_on_each_node_removes_once(site: Site) -> None:
    """A node that is not the job's first leaves the folder to the first one."""
    site.run("prolog.sh", JOB)
    site.run("epilog.sh", on_a_node("n4"))
    assert shapes(site)
    site.run("epilog.sh", on_a_node("n3"))
    assert not shapes(site)


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
@pytest.mark.parametrize("way", ["plain", "along a link"])
def test_folders_above_the_jobs_folder_count(site: Site, script: str, way: str) -> None:
    """Who can write one of them could put another folder, or a link, in the place of the site's."""
    above = site.jobs.parent / "shared"
    folder = above / "jobs"
    (folder / "17").mkdir(parents=True)
    above.chmod(0o777)
    if way == "along a link":
        (site.jobs / "link").symlink_to(folder)
    site.configure(FOLDER=str(folder if way == "plain" else site.jobs / "link"))
    for job in ("17", "18"):
        site.run(script, JOB | {"SLURM_JOB_ID": job})
    assert [path.name for path in folder.iterdir()] == ["17"]
    above.chmod(0o1777)
    for job in ("17", "18"):
        site.run(script, JOB | {"SLURM_JOB_ID": job})
    names = {path.name for path in folder.iterdir()}
    assert names == ({"17", "18"} if script == "prolog.sh" else {".swept"})
