"""The documentation is built as `make docs` builds it, and holds all that the code offers."""

from __future__ import annotations

import ast
import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune import process
from colltune.bench.backends import BACKENDS
from colltune.bench.launchers import LAUNCHERS
from colltune.bench.strategies import STRATEGIES
from colltune.cli.app import VERBS
from colltune.dataset.importers import IMPORTERS
from colltune.errors import EXIT_STATUSES
from colltune.features import FEATURE_SETS
from colltune.models.learners import LEARNERS
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import load
from colltune.mpi.formats import FORMATS
from colltune.server.service import Service
from colltune.server.settings import PREFIX, ServiceSettings
from docs._ext import stored_formats
from docs._ext.http_interface import description
from docs._ext.verbs import Verb, command_line
from tests.docs import links

ROOT = Path(__file__).parents[2]
_TAG = re.compile(r"<[^>]+>")
_BUILD_S = 600.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build all pages; a warning, or a reference that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("docs")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q"]
    outcome = process.run(
        [*words, "-d", folder / "doctrees", ROOT / "docs", folder / "html"],
        timeout_s=_BUILD_S,
        env=environment,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr == ""
    return folder / "html"


def text_of(page: Path) -> str:
    """Return a page as people read it, with single blanks."""
    article = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    return " ".join(html.unescape(_TAG.sub("", article)).split())


def verbs(parent: Verb) -> Iterator[Verb]:
    """Yield all verbs below `parent`."""
    for part in parent.parts:
        yield part
        yield from verbs(part)


def test_every_verb_has_its_page_with_all_options(built: Path) -> None:
    """Each verb, sub-verb, option and example of the command line is in the reference."""
    pages = {name: text_of(built / f"reference/cli/{name}.html") for name in VERBS}
    overview = text_of(built / "reference/cli/index.html")
    for verb in verbs(command_line()):
        top = verb.name.split()[1]
        assert f"colltune {top}" in overview
        assert verb.usage in pages[top], verb.name
        assert all(option.form in pages[top] for option in verb.options), verb.name
        joined = pages[top].replace("\\ ", "")
        assert all(" ".join(line.split()) in joined for line in verb.examples), verb.name


def test_every_endpoint_has_its_parameters_answers_and_an_example(built: Path) -> None:
    """The page of the interface says what the service's own description says."""
    page = text_of(built / "reference/http.html")
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            section = page.partition(f"{method.upper()} {path}¶")[2].partition("¶")[0]
            assert section, path
            assert all(p["name"] in section for p in operation.get("parameters", ())), path
            assert all(status in section for status in operation["responses"]), path
            # a page, or what is made for it alone, is no example that reads well
            kinds = {k for s, r in operation["responses"].items() if s < "3" for k in r["content"]}
            is_of_page = kinds == {"text/html"} or path.startswith("/v1/view")
            assert "Example (20" in section or is_of_page, path


def test_every_metric_is_there(built: Path, tmp_path: Path) -> None:
    """What a service without bundles says at /metrics is explained, label by label."""
    page = text_of(built / "reference/metrics.html")
    service = Service(ServiceSettings(registry=str(tmp_path / "registry")))
    told = service.metrics_text().decode()
    names = set(re.findall(r"^# TYPE (\S+) ", told, re.MULTILINE))
    assert len(names) > 15
    assert {name for name in names if not name.endswith("_created") and name not in page} == set()
    assert "route, method, status" in page


def test_every_exit_status_and_setting_is_there(built: Path) -> None:
    """Each status has its meaning, and each variable of the service its name."""
    page = text_of(built / "reference/exit-statuses.html")
    assert all(f"{status} {meaning}" in page for status, meaning in EXIT_STATUSES.items())
    page = text_of(built / "reference/environment.html")
    assert [n for n in ServiceSettings.model_fields if f"{PREFIX}{n.upper()}" not in page] == []


def test_every_variable_that_the_code_reads_is_there(built: Path) -> None:
    """No COLLTUNE_… variable of the sources is missing on the page of variables."""
    page = text_of(built / "reference/environment.html")
    files = (f for folder in ("src", "libcolltune/src") for f in (ROOT / folder).rglob("*"))
    sources = (f for f in files if f.suffix in (".py", ".sh", ".c", ".lua"))
    names = {
        name
        for file in sources
        for name in re.findall(r"(?<![\w])COLLTUNE_[A-Z][A-Z_]*[A-Z]\b", file.read_text("utf-8"))
    }
    assert "COLLTUNE_CACHE" in names
    # names of numbers for those who write rules in C
    labels = ROOT / "libcolltune/include/colltune_rules.h"
    names -= set(re.findall(r"^    (COLLTUNE_[A-Z_]+)\b", labels.read_text("utf-8"), re.MULTILINE))
    assert {name for name in names if name not in page} == set()


def test_every_name_of_a_registry_is_there(built: Path) -> None:
    """Learners, feature sets, strategies, backends, launchers and importers are all listed."""
    page = text_of(built / "reference/registries.html")
    for known in (LEARNERS, FEATURE_SETS, STRATEGIES, BACKENDS, LAUNCHERS, IMPORTERS):
        assert [name for name in known if f" {name} " not in page] == []


def test_every_format_and_catalogue_is_there(built: Path) -> None:
    """Formats of MPI libraries and of colltune, and each algorithm of each series, are listed."""
    page = text_of(built / "reference/configuration-files.html")
    assert [name for name in FORMATS if name not in page] == []
    page = text_of(built / "reference/file-formats.html")
    assert [s.title for s in stored_formats.STORED if f"{s.title}¶" not in page] == []
    for library, mpi in LIBRARIES.items():
        page = text_of(built / f"reference/catalogues/{library}.html")
        for series in mpi.series:
            for collective, entry in load(library, series).collectives.items():
                section = page.partition(f"{library} {series}: {collective}¶")[2].partition("¶")[0]
                missing = [
                    a.name for a in entry.algorithms if f"{a.number} {a.name}" not in section
                ]
                assert missing == [], f"{library} {series} {collective}"


def functions_that_draw(module: Path) -> Iterator[str]:
    """Yield the public functions of a module that return a figure."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        if isinstance(node.returns, ast.Name) and node.returns.id == "Figure":
            yield node.name


def test_every_picture_that_can_be_drawn_is_there(built: Path) -> None:
    """Each public function of plots that returns a figure is on the page of pictures."""
    page = (built / "reference/api/plots.html").read_text(encoding="utf-8")
    functions = [
        f"colltune.plots.{file.stem}.{name}"
        for file in (ROOT / "src/colltune/plots").glob("*.py")
        for name in functions_that_draw(file)
    ]
    assert len(functions) > 5
    assert [name for name in functions if f'id="{name}"' not in page] == []


def test_all_links_of_the_built_pages_lead_somewhere(built: Path) -> None:
    """Files, places within pages, styles, scripts and pictures are all there."""
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > 50
    assert links.broken(pages, built) == []


def test_the_built_pages_load_nothing_from_elsewhere(built: Path) -> None:
    """No script, style, font or picture of another host: the pages are read offline."""
    assert links.external_resources(built) == []


def test_the_built_pages_know_nothing_of_the_machine(built: Path) -> None:
    """No page names the folders of whoever built it."""
    paths = {str(p) for p in (ROOT, Path(sys.prefix), Path.home(), built.parent)} - {"/"}
    for page in sorted(built.rglob("*.html")):
        content = page.read_text(encoding="utf-8")
        assert [path for path in paths if f"{path}/" in content] == [], page.name
