"""`colltune what-if`."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.dataset import read
from colltune.models.fitting import fit
from tests.cli.conftest import Verb

ASKED = ("--collective", "bcast", "--nodes", 32, "--ppn", 4, "--msize", "32K")


@pytest.fixture(scope="session")
def cost_bundle(measurements_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle whose learner is a cost model."""
    path = tmp_path_factory.mktemp("fitted") / "costs"
    return fit(read([measurements_csv]), "cost_model").save(path)


def test_more_nodes(colltune: Verb, bundle_path: Path) -> None:
    """Now is the nearest measured shape; what lies outside the data is said."""
    answer = colltune("what-if", bundle_path, *ASKED)
    assert answer.status == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("MPI_Bcast of 32 KiB; hydra, openmpi 4.1.4; for programs that name")
    table = {line[:18].strip(): line[19:] for line in lines[3:12]}
    assert table["job"].split() == ["16", "nodes", "x", "4", "32", "nodes", "x", "4"]
    assert table["rails per node"].split() == ["1", "1"]
    assert table["chosen"].split() == ["binomial", "binomial"]
    assert table["extrapolated"].split() == ["no", "yes"]
    assert (
        "outside the measured range, then: 32 nodes, measured 2 to 16; 128 processes, measured 2 to"
        " 64"
    ) in lines
    assert "cost terms" not in answer.out


def test_more_rails(colltune: Verb, bundle_path: Path, measurements_csv: Path) -> None:
    """Rails scale times by a cost model fitted to --data; the notes tell what is assumed."""
    words = (*ASKED, "--now", "16x4", "--rails", 4, "--data", measurements_csv, "--json")
    found = colltune("what-if", bundle_path, *words).json
    rails = [found[when]["situation"]["rails"] for when in ("now", "then")]
    assert rails == [{"adapters": n, "use": "sharing"} for n in (1, 4)]
    assert found["cost_model"] == f"a cost model fitted to {measurements_csv}"
    for when in ("now", "then"):
        assert sum(term["share"] for term in found[when]["chosen_terms"]) == pytest.approx(1.0)
    plain = colltune("what-if", bundle_path, *words[:-5], "--json").json
    assert plain["notes"] == [
        "the interval comes from errors at measured shapes; outside of them it may be too narrow"
    ]
    before, after = (each["then"]["selection"]["prediction"] for each in (plain, found))
    assert after["time_s"] < before["time_s"]
    assert after["upper_s"] == before["upper_s"]
    assert [note.split(";")[0] for note in found["notes"][1:]] == [
        "the data do not say how many adapters the measured nodes have",
        "times with other rails are the models' predictions, scaled by the cost model",
        "the algorithm behind the default is unknown",
    ]
    told = colltune("what-if", bundle_path, *words, "--now-rails", 2).json
    assert not any("take" in note for note in told["notes"])
    assert told["then"]["selection"]["prediction"]["time_s"] > after["time_s"]


def test_a_bundle_with_a_cost_model(colltune: Verb, cost_bundle: Path) -> None:
    """A bundle of the learner cost_model needs no --data, and shows its terms as tables."""
    answer = colltune("what-if", cost_bundle, *ASKED, "--rails", 2)
    assert answer.status == 0
    assert "from the bundle's cost model:" in answer.out
    assert "latency between nodes" in answer.out
    assert "2, sharing" in answer.out
    assert "generic model" in answer.out
    assert "hierarchical pipelined" in answer.out
    found = colltune("what-if", cost_bundle, *ASKED, "--rails", 2, "--json").json
    assert [d["name"] for d in found["then"]["designs"]][:1] == ["hierarchical linear"]


def test_rails_without_a_cost_model(colltune: Verb, bundle_path: Path) -> None:
    """Nothing is invented about rails where no cost model is at hand."""
    answer = colltune("what-if", bundle_path, *ASKED, "--rails", 2)
    assert answer.status == 3
    assert "the effect of 2 rails" in answer.err
    assert "--data" in answer.err


def test_measurements_of_another_machine(
    colltune: Verb, bundle_path: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """A cost model of another machine says nothing about this one."""
    other = tmp_path / "other.csv"
    other.write_text(measurements_csv.read_text().replace("hydra", "lumi"))
    answer = colltune("what-if", bundle_path, *ASKED, "--rails", 2, "--data", other)
    assert answer.status == 3
    assert answer.code == "data-of-another-context"


def test_a_library_without_cost_formulas(
    colltune: Verb, measurements_csv: Path, tmp_path: Path
) -> None:
    """Where no algorithm's rounds are known, other rails are refused; shapes still are answered."""
    strange = tmp_path / "strange.csv"
    text = measurements_csv.read_text().replace("openmpi,", "acme,")
    for number, name in enumerate((",binomial,", ",chain,", ",pipeline,")):
        text = text.replace(name, f",secret{number},")
    strange.write_text(text)
    bundle = fit(read([strange]), "knn").save(tmp_path / "bundle")
    assert colltune("what-if", bundle, *ASKED).status == 0
    answer = colltune("what-if", bundle, *ASKED, "--rails", 2, "--data", strange)
    assert (answer.status, "the effect of 2 rails" in answer.err) == (3, True)


def test_wrong_questions(colltune: Verb, cost_bundle: Path) -> None:
    """Numbers that cannot be are one clear error."""
    for words, status, code in (
        (("--nodes", 0, "--ppn", 1, "--msize", 1), 2, ""),
        (("--nodes", 2, "--ppn", 1, "--msize", 1, "--rails", 0), 2, ""),
        (("--nodes", 2, "--msize", 1), 2, "missing"),
        (("--now", "2*3", "--msize", 1), 3, "malformed value=2*3"),
        (("--now", "٢x٣", "--msize", 1), 3, "malformed value=٢x٣"),
        (("--now", "0x3", "--msize", 1), 3, "impossible-shape"),
        (("--nodes", 2, "--ppn", 1, "--msize", "lots"), 2, ""),
        (("--nodes", 2, "--ppn", 1, "--msize", "9000000000G"), 3, "impossible-size"),
        (("--nodes", 2**70, "--ppn", 2**70, "--msize", 1), 3, "impossible-shape"),
        (("--nodes", 2, "--ppn", 1, "--msize", 1, "--rails", 65), 3, "impossible-rails"),
        (("--nodes", 2, "--ppn", 1, "--msize", 1, "--now-rails", 2**70), 3, "impossible-rails"),
        (("--nodes", 2, "--ppn", 1, "--msize", 1, "--where", "a=b"), 2, "works-only-with"),
    ):
        answer = colltune("what-if", cost_bundle, "--collective", "bcast", *words)
        assert answer.status == status, words
        assert answer.says(code), (words, answer.code, answer.err)


def test_far_away_and_unknown(colltune: Verb, cost_bundle: Path, tmp_path: Path) -> None:
    """2^40 bytes on a million processes per node leave the default, and say why; others fail."""
    far = ("--nodes", 2, "--ppn", 10**6, "--msize", "1024G", "--json")
    found = colltune("what-if", cost_bundle, "--collective", "bcast", *far).json
    then = found["then"]["selection"]
    assert then["configuration"] == "openmpi.bcast.default"
    assert "far from what was measured" in then["reason"]
    assert colltune("what-if", cost_bundle, "--collective", "scan", *far).status == 7
    assert colltune("what-if", cost_bundle, "--collective", "frobnicate", *far).status == 3
    assert colltune("what-if", tmp_path, "--collective", "bcast", *far).status == 7
