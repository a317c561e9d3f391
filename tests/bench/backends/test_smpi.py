"""The SMPI backend without SimGrid: planning, endings, and what a killed launch leaves."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from colltune.bench.backends import Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.backends.smpi import SimGrid, SmpiBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Mpirun
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.bench.simulated import Simulation
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.errors import CampaignError, ProgramError
from colltune.mpi.installation import Installation
from tests.refusals import refused

SHAPE = Shape(2, 2)
DEFAULT = Configuration.default("smpi", Collective.BCAST)
CHAIN = Configuration("smpi", Collective.BCAST, "NTSL")
TREE = Configuration("smpi", Collective.BCAST, "binomial_tree")
BEGIN = "colltune-raw 2\n"
# a smpirun that writes what TEXTS has for the algorithm, and ends as it says
FAKE = """#!{python}
import json, sys, time
from pathlib import Path
words = sys.argv[1:]
chosen = [w for w in words if w.startswith("--cfg=smpi/bcast:")][-1].rpartition(":")[2]
text, status = json.loads(Path({texts!r}).read_text())[chosen]
Path(words[words.index("bcast") - 1]).write_text(text)
Path({log!r}).open("a").write(chosen + chr(10))
if status is None:
    time.sleep(60)
sys.exit(status)
"""


def planned(campaign: Campaign) -> SmpiBackend:
    """Return a backend for planning."""
    nowhere = Path("mpirun")
    imagined = Installation("openmpi", "5.0.11", nowhere, nowhere, nowhere, "")
    return SmpiBackend.made_for(
        campaign, Means(lambda: imagined, lambda _: Mpirun(nowhere), imagined=True)
    )


def cell(configuration: Configuration, msize_bytes: int) -> Cell:
    """Return a cell on the shape."""
    return Cell(configuration, Instance(Collective.BCAST, SHAPE, msize_bytes))


CELLS = tuple(cell(c, m) for c in (DEFAULT, CHAIN, TREE) for m in (64, 8))
GOOD = {
    "ompi": [BEGIN + "s 1\nr 1 1 1e-6\ne 1\ns 0\nr 0 1 2e-6\ne 0\nend plan 3e-6 8\n", 0],
    "NTSL": [BEGIN + "s 3\nr 3 1 3e-6\ne 3\ns 2\nx 2 wrong_result a\ne 2\nend plan 3e-6 8\n", 0],
    "binomial_tree": [BEGIN + "s 5\nr 5 1 5e-6\ne 5\ns 4\nr 4 1 4e-6\ne 4\nend plan 9e-6 8\n", 0],
}


class Fake:
    """A SimGrid whose simulations end as a test wants them to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts, self.log = folder / "texts.json", folder / "log"
        program = folder / "smpirun"
        program.write_text(
            FAKE.format(python=sys.executable, texts=str(self.texts), log=str(self.log))
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(SimGrid, "program", lambda *_args, **_options: Path("simbench"))
        self.installed = SimGrid(program, program, "3.32")

    def run(
        self, texts: object, folder: Path, limit_s: float = 30.0, budget_s: float = 30.0
    ) -> tuple[SmpiBackend, LaunchResult]:
        """Return a backend, and the result of a launch of all cells."""
        self.texts.write_text(json.dumps(texts))
        backend = SmpiBackend(Simulation(limit_s=limit_s), self.installed)
        steps = tuple(ScheduleStep(i, 20, 1.0) for _ in range(2) for i in range(len(CELLS)))
        plan = LaunchPlan(SHAPE, CELLS, steps, budget_s)
        return backend, backend.run(plan, "l", folder, lambda _: None)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Return a SimGrid that does as it is told."""
    return Fake(tmp_path, monkeypatch)


def found(result: LaunchResult) -> dict[Cell, RunStatus | float]:
    """Return the time of each cell that has one, the status of the others."""
    return {
        Cell(m.configuration, m.instance): m.times_s[0] if m.times_s else m.status
        for m in result.measurements
    }


def test_one_start_for_each_configuration(fake: Fake, tmp_path: Path) -> None:
    """Sizes come smallest first; what was wrong is told, the rest timed once."""
    _, result = fake.run(GOOD, tmp_path)
    assert result.ending is Ending.PLAN
    assert fake.log.read_text().split() == ["ompi", "NTSL", "binomial_tree"]
    wrong = RunStatus.WRONG_RESULT
    assert [found(result)[c] for c in CELLS] == [2e-6, 1e-6, wrong, 3e-6, 4e-6, 5e-6]


def test_what_is_known_is_not_simulated_again(fake: Fake, tmp_path: Path) -> None:
    """A second visit gives the same times at once, and asks only for what failed."""
    backend, first = fake.run(GOOD, tmp_path)
    fake.log.write_text("")
    steps = tuple(ScheduleStep(i, 20, 1.0) for i in (0, 5))
    again = backend.run(LaunchPlan(SHAPE, CELLS, steps, 9.0), "m", tmp_path, lambda _: None)
    assert fake.log.read_text() == ""
    assert found(again) == {c: found(first)[c] for c in (CELLS[0], CELLS[5])}


def test_a_crash_costs_the_configuration_alone(fake: Fake, tmp_path: Path) -> None:
    """Where a simulation is aborted its open cell is to blame, and all others go on."""
    texts = GOOD | {"NTSL": [BEGIN + "s 3\nr 3 1 3e-6\ne 3\ns 2\n", 134]}
    _, result = fake.run(texts, tmp_path)
    assert (result.ending, result.suspect) == (Ending.PLAN, None)
    assert found(result)[CELLS[2]] is RunStatus.CRASH
    assert len(found(result)) == 6


def test_a_configuration_over_its_limit_is_stopped(fake: Fake, tmp_path: Path) -> None:
    """The cell under way timed out, larger ones would too; smaller ones keep their times."""
    texts = GOOD | {"NTSL": [BEGIN + "s 3\n", None]}
    _, result = fake.run(texts, tmp_path, limit_s=1.0)
    assert result.ending is Ending.PLAN
    assert found(result)[CELLS[3]] is RunStatus.TIMEOUT
    assert found(result)[CELLS[2]] is RunStatus.SKIPPED
    assert found(result)[CELLS[4]] == 4e-6


def test_the_end_of_the_budget_blames_nobody(fake: Fake, tmp_path: Path) -> None:
    """What the launch's own budget cuts off is neither slow nor wrong."""
    texts = GOOD | {"NTSL": [BEGIN + "s 3\nr 3 1 3e-6\ne 3\ns 2\n", None]}
    _, result = fake.run(texts, tmp_path, budget_s=2.0)
    assert result.ending is Ending.BUDGET
    assert found(result) == {CELLS[0]: 2e-6, CELLS[1]: 1e-6, CELLS[3]: 3e-6}


def test_a_default_that_does_not_start_is_an_error(fake: Fake, tmp_path: Path) -> None:
    """Then something is wrong with SimGrid or the platform, and its own words are shown."""
    with refused("did-not-start", ProgramError, what="the simulation"):
        fake.run(GOOD | {"ompi": ["", 1]}, tmp_path)


def test_a_killed_launch_is_salvaged(fake: Fake, tmp_path: Path) -> None:
    """Times and problems of all simulations that wrote any are found; a cut line is not read."""
    fake.run(GOOD | {"binomial_tree": [BEGIN + "s 5\nr 5 1 5e-6\ne 5\ns 4\nr 4 1 4e", 0]}, tmp_path)
    backend = SmpiBackend(Simulation(), None)
    kept = {Cell(m.configuration, m.instance): m.status for m in backend.salvage(tmp_path)}
    assert set(kept) == set(CELLS) - {CELLS[4]}
    assert kept[CELLS[2]] is RunStatus.WRONG_RESULT


def test_a_campaign_must_fit_the_platform() -> None:
    """Too few simulated hosts are told before anything runs."""
    small = Simulation(topology="torus", parameters="2,2")
    campaign = Campaign((Collective.BCAST,), (8,), nodes=(2, 8), ppn=(1,), smpi=small)
    with refused("few-hosts", CampaignError, hosts="4 hosts", nodes=8):
        planned(campaign)


def test_only_what_simgrid_can_choose_is_offered() -> None:
    """A collective without a choice, an empty message, and too much memory are left out."""
    campaign = Campaign((Collective.SCAN,), (8,), nodes=(2,), ppn=(2,))
    backend = planned(campaign)
    scan = backend.portfolio(campaign, Collective.SCAN)
    assert scan.configurations == (Configuration.default("smpi", Collective.SCAN),)
    refused = [
        Cell(scan.default, Instance(Collective.SCAN, SHAPE, 8)),
        cell(TREE, 0),
        cell(TREE, 1 << 30),
    ]
    assert not any(map(backend.feasible, refused))
    assert backend.feasible(cell(TREE, 8))


def test_missing_simgrid_is_told_with_the_mend(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever has no SimGrid learns what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("program-missing", ProgramError, program="smpirun"):
        SimGrid.find()
