"""The recipes for Spack and EasyBuild follow pyproject.toml; they cannot be left behind."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from colltune import __version__
from tests.packaging.distributions import ROOT
from tests.packaging.spack_recipes import Recipe, read

PACKAGING = ROOT / "packaging"
REPOSITORY = PACKAGING / "spack" / "spack_repo" / "colltune"
RECIPES = sorted((REPOSITORY / "packages").iterdir())
CONFIGS = sorted((PACKAGING / "easybuild").glob("*.eb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements" / "all.lock").read_text()
# no users need them, Spack has something of its own for them, or they are older names
NOT_VARIANTS = {"docs", "dev", "openmpi", "server"}
# what EasyBuild's modules have, by its easyconfigs of the toolchain
IN_MODULES = {
    *("click", "joblib", "numpy", "pandas", "pyarrow", "rich", "scikit-learn", "scipy"),
    "threadpoolctl",
}


def spec(requirement: str) -> str:
    """Return a requirement as Spack writes it: click>=8.1,<9 is py-click@8.1:8."""
    found = Requirement(requirement)
    floor = ceiling = ""
    for one in found.specifier:
        if one.operator == ">=":
            floor = one.version
        else:
            assert one.operator == "<"
            *major, last = Version(one.version).release
            ceiling = ".".join(map(str, (*major, last - 1)))
    name = found.name.removesuffix("-cpu")
    return f"py-{name}@{floor}:{ceiling}"


def easyconfig(text: str) -> dict[str, Any]:
    """Return what an easyconfig assigns; of names, only its own and no template constants."""
    found: dict[str, Any] = {}
    for node in ast.parse(text).body:
        assert isinstance(node, ast.Assign)
        (target,) = node.targets
        assert isinstance(target, ast.Name)
        code = compile(ast.Expression(node.value), "easyconfig", "eval")
        found[target.id] = eval(code, {"__builtins__": {}}, dict(found))
    return found


@pytest.fixture(scope="module")
def ours() -> Recipe:
    """Return Spack's recipe of colltune."""
    return read(REPOSITORY / "packages" / "py_colltune")


@pytest.mark.parametrize("folder", RECIPES, ids=lambda folder: folder.name)
def test_a_recipe_is_one(folder: Any) -> None:
    """Its directives are Spack's; a class of the folder's name; a license; sources by hash."""
    recipe = read(folder)
    assert recipe.versions
    assert any(need.startswith("python@") for need in recipe.needs)
    if folder.name == "py_colltune":
        return
    for number, digest in recipe.versions.items():
        assert re.fullmatch("[0-9a-f]{64}", str(digest))
        assert number in recipe.attributes["pypi"]


def test_the_repository_is_one() -> None:
    """Its folders are named as Spack's package API 2 wants them."""
    told = yaml.safe_load((REPOSITORY / "repo.yaml").read_text())["repo"]
    assert told == {"namespace": REPOSITORY.name, "api": "v2.0"}
    assert REPOSITORY.parent.name == "spack_repo"
    assert all(folder.name.isidentifier() for folder in RECIPES)


def test_spack_builds_this_version(ours: Recipe) -> None:
    """The only version is colltune's, from a folder, and the backend is the one that is needed."""
    assert ours.versions == {__version__: None}
    assert {spec(one) for one in PROJECT["build-system"]["requires"]} == ours.build_needs
    assert f"python@{PROJECT['project']['requires-python'].removeprefix('>=')}:" in ours.needs


def test_spack_asks_for_what_the_wheel_asks_for(ours: Recipe) -> None:
    """Dependencies and their limits are those of pyproject.toml, with Arrow as it is needed."""
    asked = {spec(one) for one in PROJECT["project"]["dependencies"]}
    found = {need for need, variants in ours.needs.items() if "" in variants}
    assert found - {"python@3.11:"} == asked | {"arrow+parquet+python+snappy+zstd"}


def test_each_extra_is_a_variant(ours: Recipe) -> None:
    """Variants are the extras for users, each with the same packages; an MPI is the site's."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert ours.variants == {*extras, "mpi"} - NOT_VARIANTS
    assert ours.needs["mpi"] == {"+mpi"}
    for name in ours.variants - {"mpi"}:
        found = {need for need, variants in ours.needs.items() if f"+{name}" in variants}
        assert found == {spec(one) for one in extras[name]}


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_easybuild_installs_this_version(file: Any) -> None:
    """Name, version and toolchain are those of the file's name; the wheel is what is built."""
    found = easyconfig(file.read_text())
    toolchain = found["toolchain"]
    assert file.stem == f"colltune-{__version__}-{toolchain['name']}-{toolchain['version']}"
    assert (found["name"], found["version"]) == ("colltune", __version__)
    *_, (name, number, how) = found["exts_list"]
    assert (name, number) == ("colltune", __version__)
    wheel = f"colltune-{__version__}-py3-none-any.whl"
    assert how["source_tmpl"].replace("%(version)s", number) == wheel


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_easybuild_has_what_the_wheel_asks_for(file: Any) -> None:
    """What the modules lack is installed with colltune, in a locked version, by a locked hash."""
    found = easyconfig(file.read_text())
    with_it = {name: (number, how) for name, number, how in found["exts_list"][:-1]}
    asked = [Requirement(one) for one in PROJECT["project"]["dependencies"]]
    here = [one for one in asked if one.marker is None or "==" in str(one.marker)]
    assert {one.name for one in here} - IN_MODULES <= set(with_it)
    for one in here:
        if one.name in with_it:
            assert Version(with_it[one.name][0]) in one.specifier
    for name, (number, how) in with_it.items():
        assert f"\n{name}=={number} " in LOCK
        (digest,) = how["checksums"]
        assert digest in LOCK


def test_there_is_a_config() -> None:
    """EasyBuild's file is there, and the README names both, and this version."""
    text = (PACKAGING / "README.md").read_text()
    assert len(CONFIGS) == 1
    assert CONFIGS[0].name in text
    assert f"py-colltune@{__version__}" in text
