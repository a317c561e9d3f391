"""``/v1/config`` and ``/v1/job``."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.domain import Shape
from colltune.models.bundle import load
from colltune.mpi.programs import Programs
from colltune.selector.configuration import Target, render, selector_for

CONFIG = "/v1/config/openmpi/4.1.4"
JOB = "/v1/job/openmpi/4.1.4"
SHAPE = {"nodes": 8, "ppn": 4}


@pytest.fixture(scope="module")
def rules(bundle_path: Path) -> str:
    """Return the rules file that the bundle gives for `SHAPE`."""
    target = Target.named("openmpi", "4.1.4")
    selector = selector_for(load(bundle_path), target)
    return render(selector, Shape(8, 4), target).written.texts[""]


def test_the_file_is_the_one_that_select_writes(client: TestClient, rules: str) -> None:
    """The answer is the library's own file, first computed and then kept ready."""
    cold, warm = (client.get(CONFIG, params=SHAPE) for _ in range(2))
    assert cold.status_code == warm.status_code == 200
    assert cold.text == warm.text == rules
    assert cold.headers["content-type"].startswith("text/plain")
    assert dict(cold.headers) == dict(warm.headers)
    assert cold.headers["x-colltune-replaced"]


def test_the_tag_covers_all_that_the_text_hangs_on(client: TestClient, bundle_path: Path) -> None:
    """Tags name bundle and shape, and differ with whatever else makes another text."""
    asked = [
        SHAPE,
        {**SHAPE, "nodes": 16},
        {**SHAPE, "format": "openmpi-parameters"},
        {**SHAPE, "part": ".params", "folder": "/a"},
        {**SHAPE, "part": ".params", "folder": "/b"},
    ]
    tags = [client.get(CONFIG, params=one).headers["etag"] for one in asked]
    assert tags[0].startswith(f'"{load(bundle_path).id}-8x4-')
    other = client.get("/v1/config/openmpi/4.1.6", params=SHAPE).headers["etag"]
    assert len({*tags, other}) == len(asked) + 1


@pytest.mark.parametrize("nodes", [9, 10])
def test_what_the_client_has_is_not_sent_again(client: TestClient, nodes: int) -> None:
    """A tag that is still right gives 304 without a body, warm or not; a wrong one the file."""
    asked = {**SHAPE, "nodes": nodes}
    tag = client.get(CONFIG, params=asked).headers["etag"]
    for sent in (tag, f'"x", W/{tag}', "*"):
        answer = client.get(CONFIG, params=asked, headers={"If-None-Match": sent})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    other = client.get(CONFIG, params=asked, headers={"If-None-Match": '"x"'})
    assert other.status_code == 200


def test_a_cold_shape_is_compared_with_its_tag_too(client: TestClient) -> None:
    """A client whose tag is right gets 304 even if the answer had to be computed."""
    first = {**SHAPE, "nodes": 11}
    tag = client.get(CONFIG, params=first).headers["etag"]
    reordered = {"ppn": 4, "nodes": 11}
    answer = client.get(CONFIG, params=reordered, headers={"If-None-Match": tag})
    assert answer.status_code == 304


def test_head_gives_the_headers_alone(client: TestClient) -> None:
    """HEAD has the headers of GET and no body, cold and warm."""
    asked = {**SHAPE, "nodes": 12}
    cold, got, warm = (client.request(m, CONFIG, params=asked) for m in ("HEAD", "GET", "HEAD"))
    assert cold.content == warm.content == b""
    assert dict(cold.headers) == dict(got.headers) == dict(warm.headers)


def test_the_parameter_file_names_the_rules(client: TestClient) -> None:
    """The file beside the main one puts it into effect where the client says it will lie."""
    asked = {**SHAPE, "part": ".params", "folder": "/shared/job 1".replace(" ", "-")}
    text = client.get(CONFIG, params=asked).text
    assert "coll_tuned_dynamic_rules_filename /shared/job-1/8x4/rules" in text


def test_what_cannot_be_answered_is_one_clear_problem(
    client: TestClient, subtests: pytest.Subtests
) -> None:
    """An unknown or malformed part is named in a problem of the right status."""
    for path, status, told in (
        ("/v1/config/openmpi/3.1.6", 404, "openmpi-4.1.4"),
        ("/v1/config/mpich/4.1.4", 404, "openmpi-4.1.4"),
        ("/v1/config/nompi/1", 404, "openmpi-4.1.4"),
        ("/v1/config/OPENMPI/4.1.4", 422, "library"),
        ("/v1/config/openmpi/4.1.4?format=mpich-json", 422, "openmpi-classic"),
        ("/v1/config/openmpi/4.1.4?format=nix", 422, "nix"),
        ("/v1/config/openmpi/4.1.4?format=openmpi-json", 422, "6.0"),
        ("/v1/config/openmpi/4.1.4?part=.dispatch", 404, ".params"),
        ("/v1/config/openmpi/4.1.4?part=.params", 422, "folder"),
        ("/v1/config/openmpi/4.1.4?bundle=0123", 404, "0123"),
        ("/v1/config/openmpi/4.1.4?bundle=xyz", 422, "bundle"),
        ("/v1/config/openmpi/4.1.4?msize=1", 422, "msize"),
        ("/v1/config/openmpi/4.1.4?nodes=9", 422, "twice"),
        ("/v1/config/openmpi/..%2f..%2fetc", 404, ""),
        ("/v1/config/..%2f..%2fetc/passwd", 404, ""),
        ("/v1/config/openmpi/4.1.4%00", 422, "release"),
        ("/v1/job/openmpi/4.1.4", 422, "folder"),
        ("/v1/job/openmpi/4.1.4?folder=a/b", 422, "folder"),
        ("/v1/job/openmpi/4.1.4?folder=/a/../b", 422, "folder"),
        ("/v1/job/openmpi/4.1.4?folder=/a%0ab", 422, "folder"),
        ("/v1/job/openmpi/4.1.4?folder=/a%0a", 422, "folder"),
        ("/v1/job/openmpi/4.1.4?folder=/a%20b", 422, "folder"),
        ("/v1/job/openmpi/4.1.4?folder=/%24(x)", 422, "folder"),
    ):
        with subtests.test(path=path, status=status, told=told):
            joint = "&" if "?" in path else "?"
            answer = client.get(f"{path}{joint}nodes=8&ppn=4")
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"
            assert told in answer.json()["detail"]


def test_the_job_file_is_whole(client: TestClient, rules: str) -> None:
    """A section per shape holds the file verbatim and the variables that name it."""
    asked = [("nodes", "8"), ("ppn", "4"), ("ppn", "1"), ("folder", "/shared/77/")]
    answer = client.get(JOB, params=asked)
    lines = answer.text.split("\n")
    assert lines[0] == "colltune-job 1"
    assert lines[1] == f"bundle {answer.headers['x-colltune-bundle']}"
    assert lines[2] == "library openmpi 4.1.4"
    assert "user OMPI_MCA_coll_tuned_*" in lines
    assert "harmless *_verbose" in lines
    assert [line for line in lines if line.startswith("shape ")] == ["shape 8x4", "shape 8x1"]
    at = lines.index(f"file 8x4/rules {rules.count(chr(10))}")
    assert "\n".join(lines[at + 1 :]).startswith(rules)
    name = "set OMPI_MCA_coll_tuned_dynamic_rules_filename=/shared/77/8x4/rules"
    assert lines.index(name) < lines.index("shape 8x1")
    assert lines[-2:] == ["end", ""]


def test_a_shape_that_is_left_to_the_library_gets_nothing(client: TestClient) -> None:
    """One process calls no collective worth deciding on: no file, no variables."""
    text = client.get(JOB, params={"nodes": 1, "ppn": 1, "folder": "/f"}).text
    assert text.endswith("shape 1x1\nend\n")


def test_an_answer_is_for_the_programs_that_a_job_names(client: TestClient) -> None:
    """Without a promise it is for any legal program; each has an answer and a tag of its own."""
    answers = {
        promise: client.get(CONFIG, params={**SHAPE, **asked})
        for promise, asked in (
            ("any-legal", {}),
            ("same-types", {"programs": "same-types"}),
            ("builtin-operations", {"programs": "builtin-operations"}),
            ("any-legal,results=same-bits", {"results": "same-bits"}),
        )
    }
    for promise, answer in answers.items():
        assert answer.status_code == 200
        assert answer.headers["X-Colltune-Programs"] == promise
        assert Programs.parse(promise).phrase in answer.text
    assert len({answer.headers["ETag"] for answer in answers.values()}) == len(answers)
    assert client.get(CONFIG, params={**SHAPE, "programs": "mine"}).status_code == 422
    assert client.get(CONFIG, params={**SHAPE, "results": "exact"}).status_code == 422
